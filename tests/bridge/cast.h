/*
 * tests/bridge/cast.h: tasks on several hosts that do as they are told, one call after the other (hosts.h has the
 * hosts).
 *
 *     cast_open(&(struct hosts_config){.tasks = {2, 2}});
 *     cast_enter_all();
 *     cast_tell(3, &(struct cast_act){.kind = CAST_WAIT, .id = "b"});      task 3 is on host 1
 *     cast_until_arrived("b", 1);
 *     r = cast_do(0, ...);
 *     r = cast_hear(3);
 *     cast_close();                    all leave; every segment is audited
 *
 * The hosts' agents are threads of the test. One cast at a time.
 */
#ifndef TEST_CAST_H
#define TEST_CAST_H

#include "cm.h"
#include "hosts.h"

enum { CAST_MAX = 32 };

enum cast_kind { CAST_WAIT, CAST_CANCEL, CAST_ALIVE, CAST_LEAVE, CAST_DO };
struct cast_act;
struct cast_reply;
/* What the test has a task do; fd: to the test, should there be something to say meanwhile. */
typedef void (*cast_fn)(struct muster *m, const struct cast_act *act, struct cast_reply *reply, int fd);
struct cast_act {
    enum cast_kind kind;
    char id[64];
    uint64_t counter;
    int32_t tasks[CAST_MAX];
    uint32_t count;
    uint64_t timeout_ns, patience_ns; /* patience 0: for ever; 1: it has passed already */
    cast_fn fn;                       /* CAST_DO */
    uint32_t rank, mode;              /* and what it is told besides */
};
struct cast_reply {
    int status;
    char text[900];
    uint32_t count;
    int32_t tasks[CAST_MAX];
    uint64_t incarnations[CAST_MAX];
    uint64_t number; /* CAST_DO */
    char bytes[128];
};

extern struct hosts *cast_hosts;
extern struct muster *cast_leader; /* an observer on the leader's host */

void cast_open(const struct hosts_config *config);
/* A process that joins as this task at its host. */
void cast_enter(uint32_t task, uint32_t flags);
void cast_enter_all(void);
pid_t cast_pid(uint32_t task);
void cast_tell(uint32_t task, const struct cast_act *act);
struct cast_reply cast_hear(uint32_t task);
struct cast_reply cast_do(uint32_t task, const struct cast_act *act);
muster_deadline cast_deadline(const struct cast_act *act);
bool cast_has_answered(uint32_t task);
/* SIGKILL, and gone. */
void cast_kill(uint32_t task);
void cast_kill_pid(uint32_t task, pid_t pid); /* a process that is none of the cast's */
void cast_interrupt(uint32_t task);
/* The leader knows the task as connected, or as not connected any more. */
void cast_until_known(uint32_t task, bool connected);
/* So many have come to the barrier's instance that is open. */
void cast_until_arrived(const char *id, uint32_t arrived);
void cast_close(void);

/* Short forms: of a wait for all tasks. */
struct cast_act cast_wait(const char *id, uint64_t counter);
void cast_tell_wait(uint32_t task, const char *id, uint64_t counter);
struct cast_reply cast_do_wait(uint32_t task, const char *id, uint64_t counter);

#define assert_reply(reply, expected)                                                                                  \
    do {                                                                                                               \
        struct cast_reply got_ = (reply);                                                                              \
        if (got_.status != (int)(expected))                                                                            \
            fail_msg("%s gave %s (%s), not %s", #reply, muster_status_name((enum muster_status)got_.status),           \
                     got_.text, #expected);                                                                            \
    } while (0)
#define assert_in(text, part)                                                                                          \
    do {                                                                                                               \
        if (!strstr(text, part))                                                                                       \
            fail_msg("\"%s\" does not mention \"%s\"", text, part);                                                    \
    } while (0)

#endif
