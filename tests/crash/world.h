/*
 * tests/crash/world.h: a small segment with five slot holders in one process, which its forks may play.
 *
 * The process that builds the world joins several times. A fork made with _Fork() runs no fork handlers, so it may go
 * on as any of the holders: that is how a victim, an interfering peer and the one who cleans up come about, each a
 * process of its own with the private state of the moment of the fork. The kernel does not know of these parts: the
 * kernel's word about a death is written by crash_die(), exactly as exit_robust_list() would.
 *
 * The segment is a memfd mapped at one address. A fork may map it privately there (crash_map): what it then does to it,
 * the others never see; so an image needs no copy to be tried.
 */
#ifndef CRASH_WORLD_H
#define CRASH_WORLD_H

#include <muster/muster.h>
#include <signal.h>
#include <sys/types.h>

#include "barrier/group.h"
#include "segment/handle.h"
#include "segment/segment.h"
#include "segment/table.h"

/* Who is who. Tasks 0 to 2 are joined; task 3 never was. */
enum { VICTIM = 0, PEER = 1, THIRD = 2, SPARE = 3 /* observer */, SECOND = 4 /* the victim's other slot, observer */ };
enum { HOLDERS = 5, TASKS = 4, SLOTS = 12, BUCKETS = 64, EVENTS = 8 };
#define HEAP_BYTES (3u << 20)

struct world {
    struct muster_segment seg;
    struct muster *m[HOLDERS];
    struct mu_ctx *ctx[HOLDERS];
    struct muster_group *g[3];
    uint8_t *base;
    size_t size;
    int fd;           /* the world */
    int alt_fd;       /* a second one, for trials that need two processes */
    uint8_t *alt;     /* where this process sees it */
    int join_fd;      /* what a real muster_join() in this process should open */
    uint64_t version; /* of a key, noted by a setup */
};
extern struct world world;

/* Results and complaints, seen by all processes. */
struct outcome {
    int32_t status;
    uint64_t a, b;
};
struct board {
    uint64_t bad; /* complaints */
    char complaints[4096];
    struct outcome outcome[2]; /* of the operation, of the interference */
    char seen[32768];          /* the last observation */
    uint64_t kill_images, contended_images, nested_images, pause_trials, pause_kill_trials, steps, scavenges;
};
extern struct board *board;

void crash_board(void);
/* Build the world: format, map, join, fill with background keys. Exits when it cannot. */
void crash_build(void);

enum crash_map { MAP_AS_IS, MAP_PRIVATE_MAIN, MAP_PRIVATE_ALT, MAP_SHARED_ALT };
/* Map the world in this (forked) process. */
void crash_map(enum crash_map how);
/* Copy the world into the second one. */
void crash_copy_to_alt(void);
/* Bytes from the start that anybody may have used, judged by the claimed chunks. */
size_t crash_used(const uint8_t *base);
/* This process goes on in a world of its own, a copy of the one it sees. */
void crash_separate(void);

/*
 * Run fn in a fork; its wait status. It gets a minute, so that a hang is seen as one.
 */
int crash_run(enum crash_map how, void (*fn)(void *arg), void *arg);

/* A complaint about what is being tried; printed by whoever knows what that is. */
void crash_bad(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* As the kernel would: every liveness word that `tid` holds, and those of the holders whose bit is set. */
void crash_die(pid_t tid, unsigned holders);
/* The process `tid` goes on as these holders: their liveness words name it, so that it may unlock them. */
void crash_become(pid_t tid, unsigned holders);
/* Slots that are LIVE and dead now. */
unsigned crash_count_dead(void);

/* Audit; complaints go to the board. */
void crash_audit(const char *when);
/* Nothing is owned by anybody, no intent stands, no pin. */
void crash_idle(const char *when);
/* Write everything that users can see into board->seen. */
void crash_observe(struct muster *m, bool with_outcomes);

/* All objects in a line; and how many blocks the living hold ledgers in. */
void crash_see_objects(struct muster *m, char *text, size_t size);
uint32_t crash_ledger_blocks(void);
/* The tensors in a line, as the peer sees them; nothing where there are none. */
void crash_see_tensors(char *text, size_t size);
void crash_see_queues(char *text, size_t size);

/* Background keys, which no operation touches. */
void crash_background(struct muster *m);

#define BIG 70000u
/* Bytes of a value that tells whether it is torn: each word depends on seed, length and place. */
void crash_fill(uint8_t *bytes, size_t len, unsigned seed);

#endif
