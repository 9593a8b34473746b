/*
 * bridge/core/records.h: task records as they travel (PROTOCOL.md, RECORDS).
 *
 * Neighbours that are alike but for what no two tasks share go as a run: its head is said once, and of each record what
 * is its own, numbers as differences to the one before. Of 8,192 tasks that have joined that leaves a third of what the
 * records are.
 */
#ifndef MU_BRIDGE_CORE_RECORDS_H
#define MU_BRIDGE_CORE_RECORDS_H

#include "base/pack.h"
#include "segment/cluster.h"

/* What one RECORDS frame says of one task. */
struct mu_said {
    uint64_t version, incarnation, age; /* age: ns; microseconds travel */
    uint32_t task, state, cause, code, flags, pid, attempt;
    const char *text; /* not terminated; NULL when it has no bytes */
    size_t text_len;
    bool contested; /* it says "connected"; here that registration is in error */
};

struct mu_records_out {
    struct mu_pack *to;
    size_t count_at; /* of the run's count there; 0: none has begun */
    uint32_t end;
    struct mu_said last;
    char text[MU_TEXT_MAX];
};
void mu_records_begin(struct mu_records_out *out, struct mu_pack *to);
/* In ascending order of tasks. `end`: no run of this one goes beyond the task before that. */
void mu_records_add(struct mu_records_out *out, const struct mu_said *said, uint32_t end);

struct mu_records_in {
    struct mu_unpack u;
    uint32_t left; /* of the run */
    struct mu_said now;
};
static inline struct mu_records_in mu_records_of(const struct mu_unpack *u)
{
    return (struct mu_records_in){.u = *u};
}
/* The next into in->now. False: no more, or, with in->u.failed, not one that can be. */
bool mu_records_next(struct mu_records_in *in);

#endif
