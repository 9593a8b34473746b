/*
 * tests/bridge/hosts.h: several hosts in one test program.
 *
 * Each host is a segment (JOB, JOB.h1, ...) and an agent: an observer's handle, a core, and what drives them: a thread
 * of its own under the bell (threads), or the test, step by step (stepped). Between agents are queues in memory whose
 * connections can be cut, made anew, or break by themselves after so many frames. An agent can die between any two
 * steps, and another be started on the same segment. Tasks are forked processes that join their host's segment as under
 * a launcher. Nothing outlives hosts_close(), which audits every segment.
 *
 *     struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {2, 2}});
 *     pid_t pid = hosts_task(h, 3, work, NULL);       task 3 is on host 1
 *     hosts_cut(h, 1);
 *     hosts_join(h, 1);
 *     assert_int_equal(hosts_reap(h, pid), 0);
 *     assert_int_equal(hosts_close(h), 0);
 *
 * What cannot be prints why and exits.
 */
#ifndef TEST_HOSTS_H
#define TEST_HOSTS_H

#include "test.h"

#include <sys/types.h>

#include "bridge/core/core.h"
#include "seed.h"

enum { HOSTS_MAX = 64 };

struct hosts_config {
    uint32_t tasks[HOSTS_MAX]; /* of each host; the first 0 after host 1 ends the list, HOSTS_NONE is a host without */
    bool stepped;              /* no threads: the test calls hosts_step() and hosts_await() */
    bool apart;                /* begin without connections */
    bool latency;              /* core.latency */
    bool shortcuts;            /* with it: tasks may send datagrams to each other */
    uint64_t timeout_ns;       /* core.timeout; 0: 10 s */
    size_t queue_bytes;        /* on the way to one agent, most; then the connection breaks; 0: 128 MiB */
    uint64_t heap_elsewhere;   /* of all hosts but the leader's; 0: segment's */
    struct muster_segment_config segment; /* zeros become small values */
};
#define HOSTS_NONE UINT32_MAX

struct hosts;
struct hosts *hosts_open(const struct hosts_config *config);
/* Ends the agents, audits and removes the segments: how many problems there are, each printed. Tasks must be gone. */
unsigned long hosts_close(struct hosts *h);

uint32_t hosts_count(const struct hosts *h);
bool hosts_is_stepped(const struct hosts *h);
const char *hosts_name(const struct hosts *h, uint32_t host); /* of its segment, for muster_join() */
struct muster_segment *hosts_segment(const struct hosts *h, uint32_t host);
/* A handle of this process on that host's segment, for the test to read and write with; the test leaves. */
struct muster *hosts_observer(const struct hosts *h, uint32_t host);

/* ---- faults: each may be called at any time, also with threads ---- */
/* The connection between the host and the leader breaks; what is on its way is lost. */
void hosts_cut(struct hosts *h, uint32_t host);
/* It is there again, when both agents live. */
void hosts_join(struct hosts *h, uint32_t host);
/* It breaks by itself when `frames` more have been sent over it, in either direction: the one after them is lost. */
void hosts_cut_after(struct hosts *h, uint32_t host, uint32_t frames);
/* The host's agent dies between two steps; its connections break. Returns when it is gone. */
void hosts_kill(struct hosts *h, uint32_t host);
/* It dies by itself after so many more steps: a frame taken, a frame sent, a look at its segment is one. */
void hosts_kill_after(struct hosts *h, uint32_t host, uint32_t steps);
bool hosts_lives(struct hosts *h, uint32_t host);
bool hosts_connected(struct hosts *h, uint32_t host); /* with the leader */
/* Another agent on the same segment, when there is none; its connections are made (a leader's: to all who live). */
void hosts_start(struct hosts *h, uint32_t host);
/* The agent gives the other up for good, as after its timeout. */
void hosts_lose(struct hosts *h, uint32_t at, uint32_t host, const char *why);
/* All that may be down or dead comes back. */
void hosts_mend(struct hosts *h);

/* ---- looking ---- */
/* The core, with the agent's lock held (stepped: none). NULL, and no lock: the agent is dead. */
struct mu_core *hosts_lock(struct hosts *h, uint32_t host);
void hosts_unlock(struct hosts *h, uint32_t host);
/* Why a connection was last broken by an agent; "" when none was. */
const char *hosts_dropped(struct hosts *h, char why[700]);
uint64_t hosts_frames(struct hosts *h, uint32_t from, uint8_t type); /* sent so far; type 0: all */
/* Bytes that a message to be sent from where they were read kept from being freed, and did not have, at most so far. */
size_t hosts_besides(struct hosts *h, uint32_t from);
/* A frame of the test's own making, as if that host's agent had sent it to the other. */
void hosts_inject(struct hosts *h, uint32_t from, uint32_t to, uint8_t type, const void *payload, size_t len);
/* An agent that neither sleeps nor acts, as if stopped; and goes on. With threads only. */
void hosts_pause(struct hosts *h, uint32_t host);
void hosts_resume(struct hosts *h, uint32_t host);

/* ---- stepped ---- */
/* One frame taken, or one turn. False: it found nothing to do. */
bool hosts_step(struct hosts *h, uint32_t host);
/* Agents in random order until none finds anything to do. Deadlines of modules that lie ahead are not waited for. */
void hosts_settle(struct hosts *h, struct test_random *random);
/* Move the agents' clock ahead. */
void hosts_pass(struct hosts *h, uint64_t ns);

/* Both: until the condition holds; stepped agents are driven meanwhile: await() of test.h. */
#define hosts_await(h, condition, ...) await_by(hosts_wait(h), condition, __VA_ARGS__)
void hosts_wait(struct hosts *h);

/* ---- tasks ---- */
/* test_fork(), while no thread of the hosts does anything. */
pid_t hosts_fork(struct hosts *h, int (*fn)(void *arg), void *arg);
/* Fork a process that joins as this task at its host's segment, runs fn and exits with what it returns. */
pid_t hosts_task(struct hosts *h, uint32_t task, int (*fn)(struct muster *m, void *arg), void *arg);
/* Around each call of a thread of the test that may call while another one forks. */
void hosts_calls(struct hosts *h, bool begin);
/* The same as an observer on that host. */
pid_t hosts_visitor(struct hosts *h, uint32_t host, int (*fn)(struct muster *m, void *arg), void *arg);
/* Its exit status, or 1000 + the signal; stepped agents are driven meanwhile. It is killed, and 1999, after 60 s. */
int hosts_reap(struct hosts *h, pid_t pid);

#endif
