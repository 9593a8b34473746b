/*
 * tests/rpc/accept_test.c: clients that wait where none can be accepted: the loop sleeps meanwhile, and takes them when
 * it can.
 *
 * accept4() here is ours: it fails as it is told to.
 */
#include "cm.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <uv.h>

#include "rpc/server.h"

static int failure;
static unsigned asked;

/* In place of libc's. */
int accept4(int fd, struct sockaddr *restrict name, socklen_t *restrict size, int flags)
{
    asked++;
    if (!failure)
        return (int)syscall(SYS_accept4, fd, name, size, flags);
    errno = failure;
    return -1;
}

static uv_loop_t loop;
static uv_timer_t clock_hand;
static unsigned sentences, looks;
static char last[400];

static void on_said(void *arg, const char *sentence)
{
    (void)arg;
    sentences++;
    snprintf(last, sizeof last, "%s", sentence);
}

static void on_look(uv_timer_t *timer)
{
    (void)timer;
    looks++;
}

static void begin(struct mu_rpc_call *call, const void *body, size_t len)
{
    mu_rpc_answer(call, body, len);
}

static const struct mu_rpc_method methods[] = {{.path = "/mu.test.Test/Echo", .begin = begin}, {.path = NULL}};

static int client_of(const struct mu_rpc *rpc)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const char greeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0"; /* and no settings */
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    name.sin_port = htons((uint16_t)strtoul(strrchr(mu_rpc_address(rpc), ':') + 1, NULL, 10));
    assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(send(fd, greeting, sizeof greeting, 0), sizeof greeting);
    return fd;
}

/* The server's SETTINGS come, when it has taken the client. */
static bool is_greeted(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    return poll(&one, 1, 0) == 1;
}

static void waits(int error, const char *words)
{
    struct mu_rpc_options options = {.loop = &loop, .address = "127.0.0.1:0", .methods = methods, .said = on_said};
    struct mu_rpc *rpc;
    unsigned rounds = 0;
    int fd;

    sentences = asked = looks = 0;
    assert_ok(mu_rpc_start(&options, &rpc));
    failure = error;
    fd = client_of(rpc);
    while (looks < 30) { /* of 50 ms each: three of the server's, or more where time is short */
        uv_run(&loop, UV_RUN_ONCE);
        rounds++;
    }
    assert_int_equal(sentences, 1);
    assert_non_null(strstr(last, words));
    if (asked > 100 || asked < 2 || rounds > 1000)
        fail_msg("%s: %u tries in %u rounds of the loop", strerror(error), asked, rounds);
    failure = 0;
    for (int i = 0; i < 1200 && !is_greeted(fd); i++)
        uv_run(&loop, UV_RUN_ONCE);
    assert_true(is_greeted(fd));
    assert_int_equal(sentences, 2);
    assert_non_null(strstr(last, "clients are taken again"));
    close(fd);
    mu_rpc_stop(rpc, 0, NULL);
    for (int i = 0; i < 20; i++)
        uv_run(&loop, UV_RUN_ONCE);
}

TEST(without_memory_clients_wait_and_the_loop_sleeps)
{
    waits(ENOMEM, "clients have to wait: Cannot allocate memory");
    waits(ENOBUFS, "clients have to wait: No buffer space available");
}

TEST(without_any_descriptor_likewise)
{
    waits(ENFILE, "clients have to wait: Too many open files in system");
    waits(EMFILE, "clients have to wait: Too many open files");
}

int main(void)
{
    int failed;

    uv_loop_init(&loop);
    uv_timer_init(&loop, &clock_hand);
    uv_timer_start(&clock_hand, on_look, 50, 50);
    failed = test_run(NULL, NULL);
    uv_close((uv_handle_t *)&clock_hand, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    return failed | uv_loop_close(&loop);
}
