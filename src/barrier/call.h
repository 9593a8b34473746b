/* barrier/call.h: one call on a named barrier, shared by named.c (the rules) and failure.c (whose fault it is). */
#ifndef MU_BARRIER_CALL_H
#define MU_BARRIER_CALL_H

#include "barrier/state.h"
#include "segment/handle.h"

struct mu_call {
    struct muster *m;
    struct mu_ctx *ctx;
    const char *id;
    struct mu_key key;
    uint64_t counter; /* MUSTER_BARRIER_NEXT until the first look */
    uint64_t asked;
    uint32_t task;
    uint32_t attempt; /* at which our process registered */
    uint32_t *ids;    /* wanted participants, sorted; NULL: all */
    uint32_t num;
    bool all;
    uint64_t timeout_ns;
    uint32_t number; /* of this task's calls, as marked */
    bool changed;    /* what was open has ended by our catching up */
    uint64_t came;   /* when traced: the time of the call; else 0 */
    /* the answer of an edit */
    bool waiting;
    enum muster_status result;
    char text[MU_BARRIER_TEXT];
    void *value;
    /* for failing it */
    struct mu_task_record *records;
    enum muster_status fail_code;
    char fail_text[MU_BARRIER_TEXT];
};

/* When traced: that it came, at c->came, and that it returns with a status. */
void mu_call_note_entry(struct mu_call *c);
void mu_call_note_exit(struct mu_call *c, enum muster_status status);

/* The first participant in a propagated error; -1: none. Only looks when any task at all is. */
int32_t mu_call_find_failed(const struct mu_call *c, const struct mu_barrier *b, char *name, size_t size, char *why);

/* All task records as of now, into c->records. */
enum muster_status mu_call_read_records(struct mu_call *c, struct mu_cluster *ret_cluster);

/*
 * Whose failure or departure ends the instance? Sets c->fail_*; false when nobody's. c->records were read after *b.
 * *ret_out: a recoverable participant is in error or has left, or a transient one has left: that only takes its
 * arrival back.
 */
bool mu_call_find_fatal(struct mu_call *c, const struct mu_barrier *b, bool *ret_out);

/* Such a participant has not arrived: it may come again. Whether that took any mark back. */
bool mu_call_unmark_failed(const struct mu_call *c, struct mu_barrier *b);

/* Sets c->fail_* for a deadline that has passed: how many came, who was first, who is missing and what they are doing.
 */
void mu_call_compose_timeout(struct mu_call *c, const struct mu_barrier *b);

#endif
