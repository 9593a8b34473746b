/* bridge/bridge_private.h: what bridge.c, bridge_threads.c, bridge_meet.c (the hosts that come, and the shape) and
 * bridge_look.c (the looks beside the threads) share. */
#ifndef MU_BRIDGE_BRIDGE_PRIVATE_H
#define MU_BRIDGE_BRIDGE_PRIVATE_H

#include <pthread.h>

#include "bridge/bridge.h"

#define MU_SHAPE_BYTES_MAX   (64u << 20) /* of the owner's part of a welcome */
#define MU_BRIDGE_RECHECK_NS 100000000u  /* the hosts' rows; a bell that a dead or stopped ringer did not ring */

/* The leader's: a host's place in the job. */
struct mu_bridge_seat {
    bool is_taken;
    uint32_t connection; /* while it waits for the others; 0: it is up, or not there */
    uint32_t pid;
    uint64_t incarnation[2];
};

struct mu_bridge {
    struct mu_bridge_options options;
    struct mu_link *link;
    struct mu_bridge_shape shape;
    uint32_t *tasks;
    char (*names)[64];
    uint8_t *welcome; /* a follower's copy */
    struct mu_bridge_seat *seats;
    uint32_t num_missing;
    uint32_t *ups;  /* by host: how often its connection has come up */
    bool *is_up;    /* by host */
    bool is_met;    /* all hosts were welcomed, or we were */
    bool is_failed; /* meeting: for `why` */
    char why[1024];

    struct mu_pack early; /* frames of before the start */
    struct mu_core core;
    bool has_core;
    uint64_t now;

    pthread_mutex_t lock; /* recursive: the agent may say something from within what it is told */
    pthread_cond_t rest;  /* the bell's thread, while the other polls */
    pthread_t threads[2];
    unsigned num_threads;
    bool is_stopping, is_polling;
    bool is_looked_after;  /* bridge_look.c */
    bool worked;           /* since should_poll() last asked */
    uint64_t sleeps_until; /* the first thread; 0: it is awake */
    uint64_t bell_until;   /* the second; likewise */
    uint64_t poll_until;
    uint64_t told_at; /* when the hosts' rows were last written */
};

/* bridge_threads.c. The first sleeps in epoll, the second on the segment's bell, once there is a core. */
enum muster_status mu_bridge_begin_first(struct mu_bridge *b);
enum muster_status mu_bridge_begin_second(struct mu_bridge *b);
void mu_bridge_end_threads(struct mu_bridge *b);
/* With the lock held; true: there was something. All that the core has to do; the same, for the thread that the bell
 * woke. */
bool mu_bridge_drive_core(struct mu_bridge *b);
bool mu_bridge_answer_bell(struct mu_bridge *b);

/* bridge_look.c: write the hosts' rows; when they are to be written though nothing happens. With the lock held. */
void mu_bridge_tell_hosts(struct mu_bridge *b);
uint64_t mu_bridge_rows_at(const struct mu_bridge *b);

/* bridge_meet.c */
enum muster_status mu_bridge_begin_meeting(struct mu_bridge *b);
enum mu_join_verdict mu_bridge_seat_join(struct mu_bridge *b, uint32_t connection, const struct mu_join *join,
                                         uint32_t *ret_host, struct mu_pack *welcome, char *refusal, size_t size);
void mu_bridge_seat_gone(struct mu_bridge *b, uint32_t connection);
/* Leader: nobody is to wait any longer. */
void mu_bridge_dismiss_all(struct mu_bridge *b, const char *why);
/* Until all are here, and told so; or until the time is up, the leader refuses, or *stop. */
enum muster_status mu_bridge_await_all(struct mu_bridge *b, const _Atomic int *stop);
/* Follower: false, with the sentence in mu_fail(), when it is not well formed, or not that of the first time. */
bool mu_bridge_take_welcome(struct mu_bridge *b, const void *bytes, size_t len);
void mu_bridge_end_meeting(struct mu_bridge *b);
/* Resumed: what all had been welcomed with, as the segment has it. False: no memory. */
bool mu_bridge_recall_shape(struct mu_bridge *b, const struct muster_segment *seg);

#endif
