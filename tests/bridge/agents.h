/* tests/bridge/agents.h: what hosts.c and agents.c share of the hosts of a test. */
#ifndef TEST_AGENTS_H
#define TEST_AGENTS_H

#include <pthread.h>

#include "hosts.h"

enum what { FRAME, UP, DOWN, LOST };
struct message {
    struct message *next;
    enum what what;
    uint32_t peer;       /* from whom, or whose connection */
    uint64_t connection; /* a frame's; 0: of none in particular */
    uint8_t type;
    size_t len;
    uint8_t bytes[];
};

struct agent {
    struct hosts *h;
    uint32_t host;
    char name[128];
    struct muster_segment *seg; /* the test's own, for the bell and the audit */
    pthread_mutex_t core_lock;
    struct mu_core core;
    struct muster *m;
    pthread_t thread;
    /* under h->lock */
    bool lives, dying, paused;
    uint32_t steps_left; /* before it dies by itself; 0: it does not */
    struct message *first, **end;
    size_t queued;
    uint64_t frames[256];
    size_t besides;            /* the most that a blob of a message of its had, and the message not */
    uint64_t knows[HOSTS_MAX]; /* by follower: the connection that its core believes it speaks on; its own */
};

/* Of the follower with this index. */
struct connection {
    uint64_t number; /* 0: down */
    uint32_t frames_left, limited;
};

struct hosts {
    uint32_t count;
    bool stepped, apart;
    size_t queue_bytes;
    uint64_t timeout, passed, connections;
    bool latency, shortcuts;
    uint32_t tasks[HOSTS_MAX], first_task[HOSTS_MAX + 1];
    pthread_rwlock_t quiet; /* held while a process is forked; hosts_calls() */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct agent agents[HOSTS_MAX];
    struct connection connection[HOSTS_MAX];
    char dropped[700];
};

void hosts_give_up(const char *what) __attribute__((noreturn));
/* With h->lock held. */
void agent_push(struct agent *a, enum what what, uint32_t peer, uint64_t connection, uint8_t type, const void *payload,
                size_t len);
void agent_discard(struct agent *a);
/* One thing: a message, or a turn. True: it did something. *dead: it died instead. */
bool agent_step(struct agent *a, bool *dead);
void agent_die(struct agent *a);

#endif
