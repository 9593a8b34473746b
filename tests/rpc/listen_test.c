/*
 * tests/rpc/listen_test.c: where a server listens: what is refused, and in which words.
 */
#include "cm.h"

#include <errno.h>
#include <netinet/in.h>
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

static void addresses_that_are_none_are_refused(void **state)
{
    char longer[300];

    (void)state;
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

static void other_machines_are_let_in_only_where_that_is_said(void **state)
{
    static const char *const open_to_all[] = {"*:0", "[::]:0", "0.0.0.0:0"};
    struct mu_listen l;

    (void)state;
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

static void loopback_is_one_port_of_both_families(void **state)
{
    struct mu_listen l, other;
    char again[200];

    (void)state;
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

static void a_socket_file_is_for_its_owner_alone(void **state)
{
    char address[100];
    struct mu_listen l;
    struct stat st;

    (void)state;
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
static void what_a_dead_server_left_is_replaced(void **state)
{
    char address[100];
    struct mu_listen l;
    FILE *file;

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_that_are_none_are_refused),
        cmocka_unit_test(other_machines_are_let_in_only_where_that_is_said),
        cmocka_unit_test(loopback_is_one_port_of_both_families),
        cmocka_unit_test(a_socket_file_is_for_its_owner_alone),
        cmocka_unit_test(what_a_dead_server_left_is_replaced),
    };
    int failed;

    snprintf(folder, sizeof folder, "%.40s/listen.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(folder))
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
