/*
 * tests/bridge/crowd.h: what tests of the hosts' members share: an observer on each host, tasks that do nothing, and
 * looking at a task's state on every host until it is there. Hosts are named node0, node1, ...
 */
#ifndef TEST_CROWD_H
#define TEST_CROWD_H

#include "hosts.h"

enum { CROWD_MOST = 4 };
extern struct hosts *h;
extern struct muster *eyes[CROWD_MOST]; /* by host */
extern struct board {                   /* what tasks and the test tell one another */
    _Atomic int go;                     /* sequentially consistent on both sides: a test's */
    struct muster_error error;
    char words[8][512]; /* by task */
    uint64_t numbers[4000];
} * board;

int crowd_begin(void); /* of the group of tests */
void crowd_open(const struct hosts_config *config);
void crowd_close(void);

struct muster_task_info crowd_look(uint32_t host, int32_t task);
/* Until the task is so on that host; on every one. */
void crowd_until(uint32_t host, int32_t task, enum muster_task_state state, uint32_t attempt);
void crowd_until_everywhere(int32_t task, enum muster_task_state state, uint32_t attempt);
uint64_t crowd_version(uint32_t host);

/* A task that stays until the end of all. */
pid_t crowd_start(uint32_t task);
void crowd_end(pid_t pid);
/* Killed, and noticed on its own host as by an agent there. */
void crowd_murder(pid_t pid, uint32_t host);

#endif
