/*
 * tests/bridge/link_patient_test.c: a link whose owner is stopped leaves it to the kernels whether the other host is
 * there. One packet that is lost behind a long silence is sent again, and does not end the connection; a host that
 * answers nothing does. And one that ends waits asleep until its goodbye has been read.
 *
 * What comes to the leader is dropped by a filter on its socket, as a network would.
 */
#include "cm.h"

#include <errno.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bridge/link/private.h"
#include "ends.h"

#define TIMEOUT_NS 1000000000u

static struct end leader, follower;
static struct end *const all[] = {&leader, &follower};

static int setup(void)
{
    end_init(&leader);
    end_init(&follower);
    leader.options.timeout_ns = follower.options.timeout_ns = TIMEOUT_NS;
    end_listen(&leader);
    end_connect(&follower, &leader, 3);
    ends_await(all, 2, leader.is_up[3] && follower.is_up[0], "both are up");
    return 0;
}

static int teardown(void)
{
    ends_free(all, 2);
    return 0;
}

static struct tcp_info info(void)
{
    struct tcp_info info;
    socklen_t len = sizeof info;

    assert_int_equal(getsockopt(follower.link->peers->fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    return info;
}

static void cut(bool is_cut)
{
    struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {.len = 1, .filter = &drop};
    int fd = leader.link->peers->fd, none = 0;

    if (is_cut)
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
    else
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none), 0);
}

/* Stopped, and silent for longer than a host may be silent that was asked; then something is sent, and lost. */
static void lose_one(void)
{
    int zero = 0;

    /* instead of a timeout so long that the kernels ask seldom */
    for (int i = 0; i < 2; i++)
        assert_int_equal(setsockopt(all[i]->link->peers->fd, SOL_SOCKET, SO_KEEPALIVE, &zero, sizeof zero), 0);
    mu_link_be_patient(leader.link, true, mu_now());
    mu_link_be_patient(follower.link, true, mu_now());
    ends_await(all, 2, info().tcpi_last_ack_recv > 2 * (TIMEOUT_NS / 1000000u) + 100, "the last answer is old");
    cut(true);
    assert_true(mu_link_send(follower.link, 0, 100, "word", 4));
    ends_await(all, 2, follower.downs || info().tcpi_retransmits > 0, "it is sent again");
    assert_int_equal(follower.downs, 0);
}

TEST_WITH(a_packet_that_is_lost_behind_a_silence_is_sent_again, setup, teardown)
{
    lose_one();
    cut(false);
    ends_await(all, 2, follower.downs || leader.frames == 1, "it has come");
    assert_int_equal(follower.downs, 0);
    assert_int_equal(leader.frames, 1);
}

TEST_WITH(a_host_that_answers_nothing_is_out_of_reach, setup, teardown)
{
    lose_one();
    ends_await(all, 2, follower.downs > 0, "its silence is noticed");
    assert_string_equal(follower.why, "its host does not answer what was sent");
}

/* Processor time of this thread: what else runs here does not count. */
static uint64_t used_ns(void)
{
    struct timespec used;

    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used), 0);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* An owner that ends pokes its thread, which may be gone before it reads that. */
TEST_WITH(who_waits_until_its_goodbye_is_read_sleeps, setup, teardown)
{
    uint64_t used;

    cut(true);
    mu_link_poke(follower.link);
    used = used_ns();
    mu_link_free(follower.link);
    follower.link = NULL;
    used = used_ns() - used;
    assert_int_equal(leader.lefts, 0); /* nobody has read it: it has waited as long as it does, a second */
    assert_true(used < 200000000u);
}

/* A child between its clone() and exec() has the descriptors still: what they stand for is not closed with ours. */
TEST_WITH(who_ends_hears_nothing_at_a_listener_that_a_child_keeps, setup, teardown)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *to = NULL;
    char address[64];
    int ends[2], fd;
    uint64_t used;
    pid_t pid;

    snprintf(address, sizeof address, "%s", mu_link_address(leader.link));
    *strrchr(address, ':') = 0;
    assert_int_equal(getaddrinfo(address, strrchr(mu_link_address(leader.link), ':') + 1, &hints, &to), 0);
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        char byte;

        close(ends[1]);
        _exit(read(ends[0], &byte, 1) != 0);
    }
    close(ends[0]);
    fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_true(connect(fd, to->ai_addr, to->ai_addrlen) == 0 || errno == EINPROGRESS);
    freeaddrinfo(to);
    cut(true); /* nobody reads it: it is waited for */
    used = used_ns();
    mu_link_free(leader.link);
    leader.link = NULL;
    used = used_ns() - used;
    assert_true(used < 200000000u);
    close(fd);
    close(ends[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}
