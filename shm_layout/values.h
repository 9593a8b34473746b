/*
 * shm_layout/values.h: what the entries of muster's own table hold: named barriers, groups, liveness queries.
 * Plain private copies, read and replaced as a whole like any value; the signature covers them as it does layout.h.
 */
#ifndef MU_SHM_VALUES_H
#define MU_SHM_VALUES_H

#include "shm_layout/layout.h"

#define MU_BARRIER_HISTORY 16u

/* A named barrier: this; ids[num] (unless all) and marks[num] follow, then the text. */
struct mu_barrier_head {
    uint64_t counter;  /* current instance */
    uint64_t deadline; /* CLOCK_MONOTONIC ns; UINT64_MAX: none */
    uint64_t since;    /* first arrival */
    uint64_t opened;   /* version of the job's state at the first arrival */
    uint64_t version;  /* of the job's state, up to which no participant's failure is left to be acted upon */
    uint32_t passed;   /* it has ended, with `code` */
    uint32_t code;
    uint32_t first; /* task that came first */
    uint32_t num;   /* participants; 0: not known yet (cancelled before anybody came) */
    uint32_t all;   /* every task of the job */
    uint32_t text_len;
    uint8_t history[MU_BARRIER_HISTORY]; /* results of instances, at counter modulo its length */
};

/*
 * A participant's mark: arrived 1 | attempt 15 | untold 1 | calls 15: of which attempt the arrival is, and of which
 * call. Untold: that call's own deadline ended it; the task has not been told how its instance ended. The calls of a
 * call with a name (barrier/named_steps.h) are its name 11 | the instance modulo 16.
 */
#define MU_MARK_ARRIVED          0x80000000u
#define MU_MARK(attempt, calls)  (((uint32_t)(attempt)&0x7fffu) << 16 | ((calls)&0x7fffu))
#define MU_MARK_UNTOLD           0x8000u
#define MU_MARK_OF(mark, record) (((mark) >> 16 & 0x7fffu) == ((record)->attempt & 0x7fffu))

/*
 * A group: head, then one of these a member; reference i is member i's area. Where members are on several hosts there
 * is one more reference, last: the proxy, an area that stands for the other hosts.
 */
struct mu_group_head {
    uint32_t size;
    uint32_t data_bytes;
};
struct mu_group_member {
    uint32_t task;
    uint32_t flags; /* MU_MEMBER_* */
    uint64_t incarnation;
};
#define MU_MEMBER_THERE 1u
#define MU_MEMBER_LEFT  2u
/*
 * Of a member on another host, in the leader's entry: above them, the call by which it came: its slot 14, its number's
 * low 15, 1. So a call that is sent again is known. In a follower's entry: the registration (attempt) that came, so
 * that a record which is not told yet is not taken for that of a lost one.
 */
#define MU_MEMBER_CALL(slot, number) ((((uint32_t)(slot)&0x3fffu) << 16) | (((uint32_t)(number)&0x7fffu) << 1) | 1u)
#define MU_MEMBER_FLAGS_OF(call)     ((uint32_t)(call) << 2)
#define MU_MEMBER_CALL_OF(flags)     ((uint32_t)(flags) >> 2)

/* A liveness query of a set: this, then two rows of `count`: called (the instance each last called for), and the
 * answer. */
struct mu_alive_head {
    uint64_t instance; /* being gathered; answers are for instance - 1 */
    uint64_t count;
};
struct mu_alive_row {
    uint64_t called;      /* name of the call + 1, or 0, in 16 bits | instance + 1 */
    uint64_t incarnation; /* in the answer; 0: not alive then */
};
#define MU_ALIVE_NAME_SHIFT     48
#define MU_ALIVE_NAME(called)   ((called) >> MU_ALIVE_NAME_SHIFT)
#define MU_ALIVE_CALLED(called) ((called) & ((UINT64_C(1) << MU_ALIVE_NAME_SHIFT) - 1))

#endif
