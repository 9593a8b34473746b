/*
 * tests/tcpstore/door_test.c: who comes when no descriptor is left, and whose a client is that has gone again already.
 */
#include "wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rpc/peer.h"

static void is_served(struct client *c)
{
    say(c, SET, "ss", "/served", "v");
    say(c, GET, "s", "/served");
    hear(c, "s", "v");
}

/* All descriptors below the limit are taken: how many more that took. */
static int take_all_descriptors(int *taken, int room)
{
    int n = 0;

    while (n < room && (taken[n] = dup(STDERR_FILENO)) >= 0)
        n++;
    assert_int_equal(errno, EMFILE);
    return n;
}

/* No descriptor of that number, or above it, is given any more. */
static void descriptors_end_at(int first, struct rlimit *ret_before)
{
    struct rlimit low;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, ret_before), 0);
    low = *ret_before;
    low.rlim_cur = (rlim_t)first;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
}

WIRE_TEST(without_a_descriptor_who_comes_is_refused_in_words)
{
    enum { ROOM = 256 };
    static int taken[ROOM];
    struct client *c, *late;
    struct rlimit before;
    int n;

    wire_open();
    c = client_of('B');
    is_served(c);
    late = client_new();
    descriptors_end_at(late->fd + 1, &before);
    n = take_all_descriptors(taken, ROOM);
    counter_await(wire_stats().refused >= 1, "the stranger is refused");
    is_served(c);
    while (n-- > 0)
        close(taken[n]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    hear_the_end(late);
    assert_non_null(strstr(wire_said, "no file descriptor is left (ulimit -n)"));
    is_served(client_of('B'));
    wire_close();
}

/* Where not even the reserved one can be had: they wait, the loop sleeps meanwhile, and they are taken later. */
WIRE_TEST(without_any_descriptor_who_comes_waits)
{
    struct rlimit before;
    struct client *c, *late;

    wire_open();
    c = client_of('B');
    is_served(c);
    late = client_new();
    descriptors_end_at(3, &before);
    counter_await(strstr(wire_said, "clients have to wait: ") != NULL, "it is said");
    is_served(c);
    assert_int_equal(wire_stats().connections, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    late->dialect = 'B';
    say_bytes(late, "\x00\xCE\xF7\x85\x3C", 5);
    is_served(late);
    assert_non_null(strstr(wire_said, "clients are taken again"));
    assert_int_equal(wire_stats().refused, 0);
    wire_close();
}

/* In the child. */
static int come_and_go(const struct sockaddr_in *to)
{
    int fd;

    if (setgid(65534) || setuid(65534))
        return 2;
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, (const struct sockaddr *)to, sizeof *to) || send(fd, "x", 1, MSG_NOSIGNAL) != 1;
}

/* What the kernel says of the socket: 0 also when there is none any more. */
static unsigned user_now(const struct sockaddr_in *local, const struct sockaddr_in *remote)
{
    FILE *f = fopen("/proc/net/tcp", "re");
    char line[400], ports[2][16];
    unsigned user = 0, u;

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%*s %*[^:]:%4s %*[^:]:%4s %*s %*s %*s %*s %u", ports[0], ports[1], &u) == 3 &&
            strtoul(ports[0], NULL, 16) == ntohs(local->sin_port) &&
            strtoul(ports[1], NULL, 16) == ntohs(remote->sin_port))
            user = u;
    if (f)
        fclose(f);
    return user;
}

/* Known as long as the kernel knows it, and never taken for root's. */
WIRE_TEST(whose_a_socket_was_that_is_closed)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, peer;
    struct mu_peers peers, none = {.fd = -1};
    socklen_t size = sizeof own;
    uid_t user = 0;
    int listener, fd, status = 0;
    pid_t child;
    bool is_told;

    if (geteuid() != 0) {
        print_message("skipped: only root can be somebody else\n");
        skip();
    }
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&own, &size), 0);
    assert_int_equal(listen(listener, 1), 0);
    mu_peers_open(&peers);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(come_and_go(&own));
    assert_int_equal(waitpid(child, &status, 0), child);
    fd = accept(listener, (struct sockaddr *)&peer, &size);
    is_told = mu_rpc_peer_user(&peers, (struct sockaddr *)&peer, (struct sockaddr *)&own, &user);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        assert_true(is_told ? user == 65534 : user_now(&peer, &own) == 0);
        is_told = mu_rpc_peer_user(&none, (struct sockaddr *)&peer, (struct sockaddr *)&own, &user);
        assert_true(is_told ? user == 65534 : user_now(&peer, &own) == 0);
    }
    mu_peers_close(&peers);
    close(fd);
    close(listener);
}

/* One line of /proc/net/tcp: user's socket, bound to 127.0.0.1:port and connected to 127.0.0.1:1. */
static void write_table(const char *path, unsigned port, unsigned user)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    fprintf(f, "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n");
    for (unsigned n = 0; n < 3; n++)
        fprintf(f, "%4u: %08X:%04X %08X:0001 01 00000000:00000000 00:00000000 00000000 %5u        0 %u 1 0\n", n,
                htonl(INADDR_LOOPBACK), port + n, htonl(INADDR_LOOPBACK), user, 77 + n);
    fclose(f);
}

/* What was read of the table before, when the first lines told all, is not taken for what it says now. */
WIRE_TEST(a_table_that_is_kept_is_read_anew)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in peer = own;
    struct mu_peers peers = {.fd = -1};
    char path[4096];
    uid_t user = 0;

    snprintf(path, sizeof path, "%s/door-%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    write_table(path, 4096, 1000);
    peers.table = fopen(path, "re");
    assert_non_null(peers.table);
    peer.sin_port = htons(4096);
    assert_true(mu_rpc_peer_user(&peers, (struct sockaddr *)&peer, (struct sockaddr *)&own, &user));
    assert_int_equal(user, 1000);
    write_table(path, 4096, 1001);
    assert_true(mu_rpc_peer_user(&peers, (struct sockaddr *)&peer, (struct sockaddr *)&own, &user));
    assert_int_equal(user, 1001);
    write_table(path, 8192, 1002);
    assert_false(mu_rpc_peer_user(&peers, (struct sockaddr *)&peer, (struct sockaddr *)&own, &user));
    peer.sin_port = htons(8192);
    assert_true(mu_rpc_peer_user(&peers, (struct sockaddr *)&peer, (struct sockaddr *)&own, &user));
    assert_int_equal(user, 1002);
    mu_peers_close(&peers);
    unlink(path);
}
