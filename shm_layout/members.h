/* shm_layout/members.h: the part of the format that is the membership. */
#ifndef MU_SHM_MEMBERS_H
#define MU_SHM_MEMBERS_H

#include <stdint.h>

/*
 * Data of the membership's block, which one commit replaces as a whole; a row a task of the job follows, member or not.
 * `next` counts in the change that is pending. Ranks are of a role.
 */
#define MU_ROLES_MAX      8u
#define MU_ROLE_NAME_MAX  16u
#define MU_MEMBERS_MAX    4096u
#define MU_MEMBERS_TEXT   448u
#define MU_MEMBERS_SHRINK 1u /* a member that is lost leaves by itself, as long as `least` are left */
#define MU_MEMBERS_ANEW   2u /* the launcher begins each epoch anew, with other processes, in another segment */
#define MU_MEMBERS_WANTED 16 /* from this bit on: members that a pending change of such a job asks for */
struct mu_members {
    uint64_t epoch;                             /* 0: from 1 on */
    uint64_t change;                            /* 8: number of the change that is pending, or was the last */
    uint64_t deadline;                          /* 16: of the pending one, CLOCK_MONOTONIC ns */
    uint64_t since;                             /* 24: of the phase, likewise */
    uint32_t phase;                             /* 32: enum muster_phase */
    uint32_t outcome;                           /* 36: of the last change that has ended: enum muster_outcome */
    uint32_t count;                             /* 40: rows */
    uint32_t least;                             /* 44: members, and */
    uint32_t most;                              /* 48 */
    uint32_t flags;                             /* 52: MU_MEMBERS_*; from bit 16 on a number */
    char roles[MU_ROLES_MAX][MU_ROLE_NAME_MAX]; /* 56 */
    char text[MU_MEMBERS_TEXT];                 /* 184: why the last change was rolled back, or a member was lost */
};
struct mu_member_row {
    uint16_t rank;    /* 0 */
    uint16_t next;    /* 2 */
    uint8_t role;     /* 4 */
    uint8_t flags;    /* 5: MU_IS_* */
    uint16_t attempt; /* 6: low bits of the registration that said it was ready; 0: none yet */
};
#define MU_IS_MEMBER 1u
#define MU_IS_NEXT   2u /* it is one when the pending change is committed */
#define MU_IS_READY  4u
#define MU_IS_DONE   8u

#endif
