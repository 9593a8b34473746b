/*
 * tests/compat/pmi1_door_test.c: the port of the PMI-1 server when no descriptor is left to take anybody.
 */
#include "cm.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

#include "compat/pmi1.h"

enum { LIMIT = 64 };

static uv_loop_t loop;
static struct mu_pmi1 *server;
static int times_said;
static char last_said[200];

static void said(void *arg, const char *sentence)
{
    (void)arg;
    times_said++;
    snprintf(last_said, sizeof last_said, "%s", sentence);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void bytes_go(void *arg, const void *bytes, size_t len)
{
    (void)arg, (void)bytes, (void)len;
}

static int setup(void)
{
    const struct mu_pmi1_options options = {.loop = &loop,
                                            .num_tasks = 3,
                                            .local_tasks = 3,
                                            .kvsname = "kvs",
                                            .mapping = "(vector,(0,1,3))",
                                            .port = true,
                                            .exchange = bytes_go,
                                            .tell = bytes_go,
                                            .waits = nothing,
                                            .said = said};

    times_said = 0;
    return uv_loop_init(&loop) || mu_pmi1_start(&options, &server) != MUSTER_OK ? -1 : 0;
}

static int teardown(void)
{
    mu_pmi1_stop(server);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static int connect_to_port(void)
{
    const char *at = mu_pmi1_address(server);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_port = htons((uint16_t)strtoul(strchr(at, ':') + 1, NULL, 10));
    return connect(fd, (struct sockaddr *)&address, sizeof address) ? -1 : fd;
}

/* Nothing would wake the loop now, but a timer. */
static bool loop_would_sleep(void)
{
    struct pollfd one = {.fd = uv_backend_fd(&loop), .events = POLLIN};

    return poll(&one, 1, 0) == 0;
}

/* Without a descriptor nobody can be taken. Who comes then waits, and the loop sleeps; later it is taken. */
TEST_WITH(who_comes_when_no_descriptor_is_left_waits_for_one, setup, teardown)
{
    static const char hello[] = "cmd=initack pmiid=1\n", welcome[] = "cmd=initack rc=0\n";
    char answer[sizeof welcome] = "";
    struct rlimit before, low;
    int fd = connect_to_port(), held[LIMIT], num_held = 0;
    bool sleeps = false;

    assert_true(fd >= 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = LIMIT;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    while (num_held < LIMIT && (held[num_held] = dup(fd)) >= 0)
        num_held++;
    for (int i = 0; i < 100 && !sleeps; i++) { /* unless it is just looking again */
        for (int turn = 0; turn < 4; turn++)
            uv_run(&loop, UV_RUN_NOWAIT);
        sleeps = loop_would_sleep();
    }
    for (int i = 0; i < 3; i++) /* it looks again, in vain */
        uv_run(&loop, sleeps ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    while (num_held > 0)
        close(held[--num_held]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(sleeps);
    assert_int_equal(times_said, 1);
    assert_non_null(strstr(last_said, "have to wait"));
    assert_int_equal(send(fd, hello, sizeof hello - 1, MSG_NOSIGNAL), (ssize_t)sizeof hello - 1);
    while (recv(fd, answer, sizeof answer - 1, MSG_DONTWAIT) < 0)
        uv_run(&loop, UV_RUN_ONCE);
    assert_string_equal(answer, welcome);
    assert_int_equal(times_said, 1);
    close(fd);
}

/* Another thread, as it were, that wants descriptors: whatever is closed it takes at once. */
static bool takes_all;
static int taken[LIMIT], num_taken;

int close(int fd)
{
    int rc = (int)syscall(SYS_close, fd);

    if (takes_all && rc == 0 && num_taken < LIMIT && (taken[num_taken] = fcntl(STDERR_FILENO, F_DUPFD, 0)) >= 0)
        num_taken++;
    return rc;
}

/* Whoever it is that another thread takes descriptors from, it is not who asks whose a connection is. */
TEST_WITH(what_it_takes_to_ask_is_held, setup, teardown)
{
    static const char hello[] = "cmd=initack pmiid=1\n", welcome[] = "cmd=initack rc=0\n";
    char answer[sizeof welcome] = "";
    struct rlimit before, low;
    int fd = connect_to_port(), held[LIMIT], num_held = 0;

    assert_true(fd >= 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = LIMIT;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    while (num_held < LIMIT && (held[num_held] = dup(fd)) >= 0)
        num_held++;
    close(held[--num_held]); /* for the connection itself */
    takes_all = true;
    uv_run(&loop, UV_RUN_NOWAIT);
    takes_all = false;
    while (num_held > 0)
        close(held[--num_held]);
    while (num_taken > 0)
        close(taken[--num_taken]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(send(fd, hello, sizeof hello - 1, MSG_NOSIGNAL), (ssize_t)sizeof hello - 1);
    while (recv(fd, answer, sizeof answer - 1, MSG_DONTWAIT) < 0)
        uv_run(&loop, UV_RUN_ONCE);
    assert_string_equal(answer, welcome); /* one who is refused would have read the end */
    close(fd);
}
