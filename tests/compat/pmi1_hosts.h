/* tests/compat/pmi1_hosts.h: a server of PMI-1 on each of one host or two, and the tasks' ends of their sockets. */
#ifndef TESTS_COMPAT_PMI1_HOSTS_H
#define TESTS_COMPAT_PMI1_HOSTS_H

#include "cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "compat/pmi1.h"

enum { TASKS = 3 };

/* A host of the job: its server, the tasks' ends of their sockets, and what was heard of it. */
struct host {
    struct mu_pmi1 *server;
    int fds[TASKS];
    char gift[4096]; /* what it has given to the exchange; gift_len 0: nothing that waits */
    size_t gift_len;
    int aborted, code, stranded, said;
    char message[200], why[200], waits[200];
};

static uv_loop_t loop;
static struct host hosts[2];
static int num_hosts;

/* Once all hosts have given, all get. */
static inline void exchange(void *arg, const void *bytes, size_t len)
{
    struct host *host = arg;
    struct iovec parts[2];
    char copies[2][sizeof host->gift];

    assert_true(len <= sizeof host->gift);
    memcpy(host->gift, bytes, len);
    host->gift_len = len;
    for (int i = 0; i < num_hosts; i++)
        if (!hosts[i].gift_len)
            return;
    for (int i = 0; i < num_hosts; i++) {
        memcpy(copies[i], hosts[i].gift, hosts[i].gift_len);
        parts[i] = (struct iovec){copies[i], hosts[i].gift_len};
        hosts[i].gift_len = 0;
    }
    for (int i = 0; i < num_hosts; i++)
        mu_pmi1_exchanged(hosts[i].server, MUSTER_OK, (uint32_t)num_hosts, parts, "");
}

static inline void tell(void *arg, const void *bytes, size_t len)
{
    for (int i = 0; i < num_hosts; i++)
        if (&hosts[i] != (struct host *)arg)
            mu_pmi1_told(hosts[i].server, bytes, len);
}

static inline void waits(void *arg)
{
    struct host *host = arg;

    mu_pmi1_describe(host->server, host->waits, sizeof host->waits);
}

static inline void aborted(void *arg, uint32_t task, int code, const char *message)
{
    struct host *host = arg;

    host->aborted = (int)task;
    host->code = code;
    snprintf(host->message, sizeof host->message, "%s", message);
}

static inline void stranded(void *arg, uint32_t task, const char *why)
{
    struct host *host = arg;

    (void)task;
    host->stranded++;
    snprintf(host->why, sizeof host->why, "%s", why);
}

static inline void said(void *arg, const char *sentence)
{
    struct host *host = arg;

    host->said++;
    snprintf(host->why, sizeof host->why, "%s", sentence);
}

static inline void start(int count, bool port)
{
    uv_loop_init(&loop);
    num_hosts = count;
    for (int i = 0; i < count; i++) {
        struct mu_pmi1_options options = {
            .loop = &loop,
            .num_tasks = (uint32_t)count * TASKS,
            .first_task = (uint32_t)i * TASKS,
            .local_tasks = TASKS,
            .has_others = count > 1,
            .kvsname = "kvs-7",
            .mapping = "(vector,(0,1,3))",
            .port = port,
            .arg = &hosts[i],
            .exchange = exchange,
            .tell = tell,
            .waits = waits,
            .aborted = aborted,
            .stranded = stranded,
            .said = said,
        };

        hosts[i] = (struct host){.aborted = -1};
        assert_int_equal(mu_pmi1_start(&options, &hosts[i].server), MUSTER_OK);
        for (int task = 0; task < TASKS && !port; task++) {
            int pair[2];

            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
            assert_int_equal(mu_pmi1_take(hosts[i].server, (uint32_t)(i * TASKS + task), pair[0]), MUSTER_OK);
            hosts[i].fds[task] = pair[1];
        }
    }
}

static inline void hang_up(int host, int task)
{
    if (hosts[host].fds[task] > 0)
        close(hosts[host].fds[task]);
    hosts[host].fds[task] = 0;
}

static inline int stop(void)
{
    for (int i = 0; i < num_hosts; i++) {
        mu_pmi1_stop(hosts[i].server);
        for (int task = 0; task < TASKS; task++)
            hang_up(i, task);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    return 0;
}

/* The server has heard all that lies in its sockets: nothing there takes time. */
static inline void settle(void)
{
    for (int i = 0; i < 8; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
}

static inline void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    settle();
}

static inline void hears(int fd, const char *wanted)
{
    char got[8192];
    ssize_t n = recv(fd, got, sizeof got - 1, MSG_DONTWAIT);

    if (!*wanted) {
        assert_true(n < 0 && errno == EAGAIN);
        return;
    }
    assert_true(n > 0);
    got[n] = 0;
    assert_string_equal(got, wanted);
}

static inline void ask(int fd, const char *text, const char *wanted)
{
    say(fd, text);
    hears(fd, wanted);
}

#define INIT      "cmd=init pmi_version=1 pmi_subversion=1\n"
#define INIT_DONE "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"

/* A test with so many hosts; tasks have a socket pair each, or come by the port. */
#define HOSTS_TEST(name, count) HOSTS_TEST_BY(name, count, false)
#define PORT_TEST(name, count)  HOSTS_TEST_BY(name, count, true)
#define HOSTS_TEST_BY(name, count, port)                                                                               \
    static int start_##name(void)                                                                                      \
    {                                                                                                                  \
        start((count), (port));                                                                                        \
        return 0;                                                                                                      \
    }                                                                                                                  \
    TEST_WITH(name, start_##name, stop)

#endif
