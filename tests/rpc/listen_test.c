/*
 * tests/rpc/listen_test.c: where a server listens: what is refused, and in which words.
 */
#include "cm.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "rpc/listen.h"

static char folder[64];

static void refuse(enum muster_status status, const char *address, bool may_leave, const char *words)
{
    struct mu_listen l;

    assert_status(status, mu_listen_open(address, may_leave, &l));
    assert_says(words);
}

TEST(addresses_that_are_none_are_refused)
{
    char longer[300];

    refuse(MUSTER_INVALID_ARGUMENT, "", true, "is no address");
    refuse(MUSTER_INVALID_ARGUMENT, "host", true, "is no address");
    refuse(MUSTER_INVALID_ARGUMENT, "host", true, "or unix:PATH");
    refuse(MUSTER_INVALID_ARGUMENT, "127.0.0.1:65536", true, "is no address");
    refuse(MUSTER_INVALID_ARGUMENT, "::1:1", true, "put IPv6 in brackets");
    refuse(MUSTER_INVALID_ARGUMENT, "no such host.invalid:1", true, "no such host.invalid:1");
    refuse(MUSTER_INVALID_ARGUMENT, "unix:", true, "1 to 107 bytes");
    memset(longer, 'x', sizeof longer);
    memcpy(longer, "unix:/", 6);
    longer[299] = 0;
    refuse(MUSTER_INVALID_ARGUMENT, longer, true, "1 to 107 bytes");
    refuse(MUSTER_UNAVAILABLE, "unix:/no such folder/socket", true, "No such file or directory");
    refuse(MUSTER_UNAVAILABLE, "192.0.2.1:0", true, "this machine has no such address");
}

TEST(other_machines_are_let_in_only_where_that_is_said)
{
    static const char *const open_to_all[] = {"*:0", "[::]:0", "0.0.0.0:0"};
    struct mu_listen l;

    for (size_t i = 0; i < 3; i++) {
        refuse(MUSTER_FAILED_PRECONDITION, open_to_all[i], false, "can be reached from other machines");
        assert_says("--grpc-insecure");
        assert_ok(mu_listen_open(open_to_all[i], true, &l));
        assert_false(l.is_loopback);
        assert_int_equal(l.count, 1);
        mu_listen_close(&l);
    }
}

static unsigned short port_of(int fd)
{
    struct sockaddr_in6 name;
    socklen_t size = sizeof name;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &size), 0);
    return ntohs(name.sin6_port); /* in both families it is there */
}

TEST(loopback_is_one_port_of_both_families)
{
    struct mu_listen l, other;
    char again[200];

    assert_ok(mu_listen_open(":0", false, &l));
    assert_true(l.is_loopback && !l.is_unix && l.count >= 1);
    if (l.count == 2)
        assert_int_equal(port_of(l.fds[0]), port_of(l.fds[1]));
    else
        print_message("there is no IPv6 here\n");
    snprintf(again, sizeof again, "127.0.0.1:%u", port_of(l.fds[0]));
    assert_string_equal(l.address, again);
    refuse(MUSTER_ALREADY_EXISTS, again, false, "another program listens there");
    snprintf(again, sizeof again, "localhost:%u", port_of(l.fds[0]));
    assert_status(MUSTER_ALREADY_EXISTS, mu_listen_open(again, false, &other));
    mu_listen_close(&l);
}

TEST(a_socket_file_is_for_its_owner_alone)
{
    char address[100];
    struct mu_listen l;
    struct stat st;

    snprintf(address, sizeof address, "unix:%s/a", folder);
    assert_ok(mu_listen_open(address, false, &l));
    assert_string_equal(l.address, address);
    assert_true(l.is_loopback && l.is_unix);
    assert_int_equal(stat(address + 5, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    refuse(MUSTER_ALREADY_EXISTS, address, false, "another server listens there");
    mu_listen_close(&l);
    assert_int_equal(stat(address + 5, &st), -1);
}

/* As a server leaves it that was killed. What is no socket is never removed. */
TEST(what_a_dead_server_left_is_replaced)
{
    char address[100];
    struct mu_listen l;
    FILE *file;

    snprintf(address, sizeof address, "unix:%s/b", folder);
    assert_ok(mu_listen_open(address, false, &l));
    close(l.fds[0]);
    assert_ok(mu_listen_open(address, false, &l));
    mu_listen_close(&l);
    file = fopen(address + 5, "w");
    assert_non_null(file);
    fclose(file);
    refuse(MUSTER_ALREADY_EXISTS, address, false, "it is no socket");
    assert_int_equal(unlink(address + 5), 0);
}

/* Whoever was replaced leaves the file of its successor alone. */
TEST(a_socket_file_of_another_is_not_removed)
{
    struct mu_listen dead, l;
    char address[100];
    struct stat st;

    snprintf(address, sizeof address, "unix:%s/c", folder);
    assert_ok(mu_listen_open(address, false, &dead));
    shutdown(dead.fds[0], SHUT_RDWR); /* it takes nobody any more */
    assert_ok(mu_listen_open(address, false, &l));
    mu_listen_close(&dead);
    assert_int_equal(stat(address + 5, &st), 0);
    refuse(MUSTER_ALREADY_EXISTS, address, false, "another server listens there");
    mu_listen_close(&l);
    assert_int_equal(stat(address + 5, &st), -1);
}

enum { ROUNDS = 300 };
static pthread_barrier_t both;
static char contested[100];

static void *listens(void *arg)
{
    struct mu_listen *l = arg;

    memset(l, 0, sizeof *l);
    pthread_barrier_wait(&both);
    mu_listen_open(contested, false, l);
    return NULL;
}

/* One of them has it, and is found there. */
TEST(two_who_replace_a_dead_server_are_not_both_there)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};

    snprintf(contested, sizeof contested, "unix:%s/d", folder);
    snprintf(where.sun_path, sizeof where.sun_path, "%s", contested + 5);
    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < ROUNDS; i++) {
        struct mu_listen dead, l[2];
        pthread_t threads[2];
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);

        assert_ok(mu_listen_open(contested, false, &dead));
        close(dead.fds[0]);
        for (int k = 0; k < 2; k++)
            assert_int_equal(pthread_create(&threads[k], NULL, listens, &l[k]), 0);
        for (int k = 0; k < 2; k++)
            pthread_join(threads[k], NULL);
        if (l[0].count + l[1].count != 1 || connect(fd, (struct sockaddr *)&where, sizeof where))
            fail_msg("round %d: %u listen there, and the file is %s", i, l[0].count + l[1].count, strerror(errno));
        close(fd);
        for (int k = 0; k < 2; k++)
            mu_listen_close(&l[k]);
    }
    pthread_barrier_destroy(&both);
}

static atomic_int is_over;

static void *makes_files(void *arg)
{
    char path[100];
    struct stat st;
    long wrong = 0;

    (void)arg;
    snprintf(path, sizeof path, "%s/file", folder);
    while (!atomic_load(&is_over)) { /* acquire: pairs with the test's store */
        int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);

        wrong += fd < 0 || fstat(fd, &st) || (st.st_mode & 0777) != 0666;
        close(fd);
        unlink(path);
    }
    return (void *)wrong;
}

/* The umask is the process's: files that others make meanwhile have theirs. */
TEST(the_umask_is_left_alone)
{
    mode_t before = umask(0);
    struct mu_listen l;
    char address[100];
    pthread_t thread;
    struct stat st;
    void *wrong;

    snprintf(address, sizeof address, "unix:%s/e", folder);
    atomic_store(&is_over, 0); /* release: nobody is there yet */
    assert_int_equal(pthread_create(&thread, NULL, makes_files, NULL), 0);
    for (int i = 0; i < 10 * ROUNDS; i++) {
        assert_ok(mu_listen_open(address, false, &l));
        assert_int_equal(stat(address + 5, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        mu_listen_close(&l);
    }
    atomic_store(&is_over, 1); /* release: pairs with makes_files() */
    pthread_join(thread, &wrong);
    umask(before);
    assert_int_equal((long)wrong, 0);
}

int main(void)
{
    int failed;

    snprintf(folder, sizeof folder, "%.40s/listen.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(folder))
        return 1;
    failed = test_run(NULL, NULL);
    rmdir(folder);
    return failed;
}
