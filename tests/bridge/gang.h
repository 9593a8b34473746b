/*
 * tests/bridge/gang.h: what members of groups that span hosts do in tests, and must see. Each knows what every other
 * gives: it is drawn from (seed, instance, rank), so each checks the whole answer by itself. Members and test share a
 * board, where each writes what it has seen; what a killed one wrote counts, too.
 */
#ifndef TEST_GANG_H
#define TEST_GANG_H

#include <stdatomic.h>

#include <muster/muster.h>

#include "hosts.h"

enum { GANG_MAX = 64 };
enum { GANG_BARRIER, GANG_BROADCAST, GANG_ALLGATHER, GANG_ALLREDUCE, GANG_ANY };

struct gang_place {
    _Atomic uint64_t at;      /* the instance that it is about to enter */
    _Atomic uint64_t last_ok; /* the last one that returned MUSTER_OK */
    _Atomic uint64_t failed;  /* the one that failed; 0: none */
    _Atomic uint32_t status;  /* how */
    _Atomic uint32_t made;    /* how the group's making ended, + 1 */
    _Atomic uint32_t wrong;   /* answers that were not what they must be */
    char text[512];
};
struct gang_board {
    struct gang_place places[GANG_MAX];
    _Atomic uint32_t go;   /* the test lets them go on */
    _Atomic uint32_t told; /* how many know how it ended */
};
extern struct gang_board *gang;
void gang_wipe(void);

struct gang_work {
    char name[64];
    int32_t tasks[GANG_MAX];
    uint32_t count;
    uint64_t data_bytes, seed;
    uint64_t rounds;                  /* 0: until one fails */
    uint64_t patience_ns, patient_at; /* of this instance, of later ones less and less; 0: a minute */
    uint32_t kind, max_len;
    bool twice; /* afterwards all meet under the same name again, and once more */
};
/* For hosts_task(): the whole life of a member. 0: nothing that it saw was wrong. */
int gang_member(struct muster *m, void *gang_work);
/* The instances of a group that is there; how the last one ended. */
enum muster_status gang_run(struct muster_group *g, const struct gang_work *w, struct gang_place *place);

/* All who returned, and know: one failed instance, one status; nobody passed it, nobody missed one before. Else it says
 * what is odd. */
bool gang_one_outcome(uint32_t members, const bool *returned);

/* What its launcher does when a member is killed; else a member of its host finds it. */
void gang_find_the_dead(struct hosts *h, uint32_t host, pid_t pid);

/* Until all have made the group (what happens before that fails its making), and a member is at this instance. */
void gang_let_run(struct hosts *h, const struct gang_work *w, uint32_t rank, uint64_t instance);

#endif
