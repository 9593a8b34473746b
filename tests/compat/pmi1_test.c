/*
 * tests/compat/pmi1_test.c: each message of PMI-1 over a real socket, with the bytes of its answer; the barrier of one
 * host and of two; clients that send half a line, too much, nothing, or do not listen.
 */
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

#include "pmi1_hosts.h"

HOSTS_TEST(each_message_has_its_answer, 1)
{
    static const struct {
        const char *line, *answer;
    } rows[] = {
        {"cmd=get_maxes\n", "cmd=get_maxes_result rc=-1 msg=init_comes_first\n"},
        {"cmd=init pmi_version=2 pmi_subversion=0\n", "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n"},
        {INIT, INIT_DONE},
        {"cmd=get_maxes\n", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n"},
        {"cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n"},
        {"cmd=get_universe_size\n", "cmd=universe_size rc=0 size=3\n"},
        {"cmd=get_my_kvsname\n", "cmd=my_kvsname rc=0 kvsname=kvs-7\n"},
        {"cmd=get kvsname=kvs-7 key=PMI_process_mapping\n", "cmd=get_result rc=0 value=(vector,(0,1,3))\n"},
        {"cmd=get kvsname=kvs-7 key=universeSize\n", "cmd=get_result rc=0 value=3\n"},
        {"cmd=get kvsname=kvs-7 key=key0\n", "cmd=get_result rc=-1 msg=key_key0_not_found\n"},
        {"cmd=get kvsname=kvs-7\n", "cmd=get_result rc=-1 msg=key__not_found\n"},
        {"cmd=put kvsname=kvs-7 key=hostname[0] value=a b  c=d \n", "cmd=put_result rc=0\n"},
        {"cmd=get kvsname=kvs-7 key=hostname[0]\n", "cmd=get_result rc=0 value=a b  c=d \n"},
        {"cmd=put kvsname=kvs-7 key=hostname[0] value=\n", "cmd=put_result rc=0\n"},
        {"cmd=get kvsname=kvs-7 key=hostname[0]\r\n", "cmd=get_result rc=0 value=\n"},
        {"cmd=put kvsname=kvs-7 value=x\n", "cmd=put_result rc=-1 msg=no_key\n"},
        {"cmd=put kvsname=kvs-7 key=x\n", "cmd=put_result rc=-1 msg=no_value\n"},
        {"cmd=put kvsname=kvs-7 key=PMI_x value=1\n",
         "cmd=put_result rc=-1 msg=keys_that_begin_with_PMI_are_the_launcher's\n"},
        {"cmd=lookup_name service=s\n", "cmd=lookup_result rc=-1 msg=service_not_found\n"},
        {"cmd=publish_name service=s port=tag#0$x$\n", "cmd=publish_result rc=0\n"},
        {"cmd=publish_name service=s port=y\n", "cmd=publish_result rc=-1 msg=it_is_published_already\n"},
        {"cmd=lookup_name service=s\n", "cmd=lookup_result rc=0 port=tag#0$x$\n"},
        {"cmd=unpublish_name service=s\n", "cmd=unpublish_result rc=0\n"},
        {"cmd=unpublish_name service=s\n", "cmd=unpublish_result rc=-1 msg=service_not_found\n"},
        {"cmd=barrier_in group=NODE:1\n", "cmd=barrier_out rc=-1 msg=there_are_no_barriers_of_groups\n"},
        {"cmd=singinit pmi_version=1\n",
         "cmd=singinit_info rc=-1 versionok=no stdio=no kvsname=kvs-7 msg=this_task_is_no_singleton\n"},
        {"cmd=make_tea sugar=2\n", "cmd=make_tea rc=-1 msg=unknown_command\n"},
        {"\n", "cmd=unknown rc=-1 msg=unknown_command\n"},
        {"   cmd=get_appnum  more=1 \n", "cmd=appnum rc=0 appnum=0\n"},
        {"mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=2\nspawnssofar=1\nendcmd\n", ""},
        {"mcmd=spawn\nnprocs=1\nexecname=b\ntotspawns=2\nspawnssofar=2\nargcnt=0\nendcmd\n",
         "cmd=spawn_result rc=-1 msg=a_job_of_muster_has_as_many_tasks_as_it_began_with\n"},
        {"mcmd=spawn\ntotspawns=9223372036854775807\ntotspawns=9223372036854775807\nspawnssofar=1\nendcmd\n",
         "cmd=spawn_result rc=-1 msg=a_job_of_muster_has_as_many_tasks_as_it_began_with\n"},
        {"cmd=finalize\n", "cmd=finalize_ack rc=0\n"},
        {"cmd=get_appnum\n", "cmd=get_appnum_result rc=-1 msg=init_comes_first\n"},
        {INIT, INIT_DONE}, /* MPI_Session */
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ask(hosts[0].fds[1], rows[i].line, rows[i].answer);
}

HOSTS_TEST(keys_and_values_have_their_lengths, 1)
{
    char line[2048];
    int fd = hosts[0].fds[0];

    ask(fd, INIT, INIT_DONE);
    snprintf(line, sizeof line, "cmd=put kvsname=k key=%064d value=%01024d\n", 7, 8);
    ask(fd, line, "cmd=put_result rc=0\n");
    snprintf(line, sizeof line, "cmd=put kvsname=k key=%065d value=1\n", 7);
    ask(fd, line, "cmd=put_result rc=-1 msg=key_too_long\n");
    snprintf(line, sizeof line, "cmd=put kvsname=k key=x value=%01025d\n", 8);
    ask(fd, line, "cmd=put_result rc=-1 msg=value_too_long\n");
    snprintf(line, sizeof line, "cmd=get kvsname=k key=%064d\n", 7);
    say(fd, line);
    snprintf(line, sizeof line, "cmd=get_result rc=0 value=%01024d\n", 8);
    hears(fd, line);
    for (unsigned i = 1; i < MU_PMI1_PUTS_MAX; i++) {
        snprintf(line, sizeof line, "cmd=put kvsname=k key=k%u value=%u\n", i, i * 3);
        ask(fd, line, "cmd=put_result rc=0\n");
    }
    ask(fd, "cmd=put kvsname=k key=one_more value=1\n", "cmd=put_result rc=-1 msg=a_task_puts_at_most_4096_keys\n");
    for (unsigned i = 1; i < MU_PMI1_PUTS_MAX; i += 97) {
        char wanted[80];

        snprintf(line, sizeof line, "cmd=get kvsname=k key=k%u\n", i);
        snprintf(wanted, sizeof wanted, "cmd=get_result rc=0 value=%u\n", i * 3);
        ask(fd, line, wanted);
    }
    ask(hosts[0].fds[1], INIT "cmd=put kvsname=k key=mine value=1\n", INIT_DONE "cmd=put_result rc=0\n");
}

HOSTS_TEST(nobody_leaves_the_barrier_before_all_have_come, 1)
{
    int *fds = hosts[0].fds;

    for (int round = 0; round < 3; round++)
        for (int task = 0; task < TASKS; task++) {
            if (round == 0)
                ask(fds[task], INIT, INIT_DONE);
            for (int other = 0; other < task; other++)
                hears(fds[other], "");
            say(fds[task], "cmd=barrier");
            hears(fds[task], "");
            say(fds[task], "_in\n");
            if (task == TASKS - 1)
                for (int other = 0; other < TASKS; other++)
                    hears(fds[other], "cmd=barrier_out rc=0\n");
        }
    say(fds[0], "cmd=barrier_in\ncmd=get_appnum\ncmd=barrier_in\n"); /* what comes behind it waits with it */
    say(fds[1], "cmd=barrier_in\n");
    hears(fds[0], "");
    say(fds[2], "cmd=barrier_in\n");
    hears(fds[0], "cmd=barrier_out rc=0\ncmd=appnum rc=0 appnum=0\n");
    hears(fds[1], "cmd=barrier_out rc=0\n");
    hears(fds[2], "cmd=barrier_out rc=0\n");
    say(fds[1], "cmd=barrier_in\n");
    hears(fds[0], "");
    say(fds[2], "cmd=barrier_in\n");
    for (int task = 0; task < TASKS; task++)
        hears(fds[task], "cmd=barrier_out rc=0\n");
}

/* Each harms itself, and the others have their answers. */
HOSTS_TEST(hostile_clients_harm_themselves, 1)
{
    static char flood[MU_PMI1_LINE_MAX + 100];
    struct pollfd gone = {.fd = hosts[0].fds[0], .events = POLLIN};
    int *fds = hosts[0].fds;
    char byte;

    ask(fds[2], INIT, INIT_DONE);
    memset(flood, 'x', sizeof flood);
    assert_true(send(fds[0], flood, sizeof flood, MSG_NOSIGNAL | MSG_DONTWAIT) > 0);
    settle();
    assert_int_equal(poll(&gone, 1, 0), 1);
    assert_true(gone.revents & POLLHUP);
    assert_string_equal(hosts[0].why, "task 0 has said a line of more than 8191 bytes: its PMI connection is closed");
    assert_int_equal(send(fds[1], "cmd=in\0it\n", 10, MSG_NOSIGNAL), 10);
    settle();
    assert_int_equal(recv(fds[1], &byte, 1, MSG_DONTWAIT), 0);
    assert_string_equal(hosts[0].why, "task 1 has said a line with a NUL in it: its PMI connection is closed");
    ask(fds[2], "cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n");
}

/* It asks and asks, and takes no answer: it is not read on, and loses none. */
HOSTS_TEST(who_does_not_listen_is_not_heard, 1)
{
    static const char question[] = "cmd=get_my_kvsname\n", answer[] = "cmd=my_kvsname rc=0 kvsname=kvs-7\n";
    int *fds = hosts[0].fds;
    size_t asked = 0, bytes = 0;
    char got[65536];
    ssize_t n;

    ask(fds[0], INIT, INIT_DONE);
    ask(fds[1], INIT, INIT_DONE);
    for (int idle = 0; idle < 50;) {
        if (send(fds[0], question, sizeof question - 1, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof question - 1) {
            asked++;
            idle = 0;
        } else {
            idle++;
        }
        uv_run(&loop, UV_RUN_NOWAIT);
        assert_true(asked < 1000000);
    }
    ask(fds[1], "cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n");
    for (int idle = 0; idle < 50;) {
        settle();
        n = recv(fds[0], got, sizeof got, MSG_DONTWAIT);
        bytes += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
    }
    assert_int_equal(bytes, asked * (sizeof answer - 1));
}

static int connect_to_port(void)
{
    const char *at = mu_pmi1_address(hosts[0].server);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_port = htons((uint16_t)strtoul(strchr(at, ':') + 1, NULL, 10));
    return connect(fd, (struct sockaddr *)&address, sizeof address) ? -1 : fd;
}

#define WELCOME "cmd=initack rc=0\ncmd=set size=3\ncmd=set rank=1\ncmd=set debug=0\n"

PORT_TEST(who_comes_by_the_port_says_which_task_it_is_once, 1)
{
    int fd = connect_to_port(), other = connect_to_port();

    assert_true(fd >= 0 && other >= 0);
    ask(fd, "cmd=initack pmiid=1\n", WELCOME);
    ask(fd, INIT, INIT_DONE);
    ask(other, "cmd=initack pmiid=1\n", "cmd=initack rc=-1 msg=that_task_is_there_already\n");
    ask(fd, "cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n");
    close(fd);
    close(other);
}

/* Its end, for as long as that takes. 0: its connection was closed before it was told anything. */
PORT_TEST(who_is_another_user_is_not_heard_at_the_port, 1)
{
    static const char hello[] = "cmd=initack pmiid=1\n";
    pid_t pid;
    int status = 0, fd;
    char byte;

    if (geteuid() != 0)
        skip();
    pid = fork();
    if (pid == 0) {
        if (setgid(65534) || setuid(65534) || (fd = connect_to_port()) < 0)
            _exit(2);
        send(fd, hello, sizeof hello - 1, MSG_NOSIGNAL);
        _exit(recv(fd, &byte, 1, 0) > 0);
    }
    while (waitpid(pid, &status, WNOHANG) == 0)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(status, 0);
    assert_int_equal(hosts[0].said, 1);
    assert_non_null(strstr(hosts[0].why, "is not known to be this user's"));
    fd = connect_to_port();
    ask(fd, "cmd=initack pmiid=1\n", WELCOME);
    close(fd);
}

HOSTS_TEST(a_name_is_on_other_hosts_at_once, 2)
{
    for (int host = 0; host < 2; host++)
        ask(hosts[host].fds[0], INIT, INIT_DONE);
    ask(hosts[1].fds[0], "cmd=publish_name service=s port=p\n", "cmd=publish_result rc=0\n");
    ask(hosts[0].fds[0], "cmd=lookup_name service=s\n", "cmd=lookup_result rc=0 port=p\n");
    ask(hosts[1].fds[0], "cmd=unpublish_name service=s\n", "cmd=unpublish_result rc=0\n");
    ask(hosts[0].fds[0], "cmd=lookup_name service=s\n", "cmd=lookup_result rc=-1 msg=service_not_found\n");
}

static void all_init(void)
{
    for (int i = 0; i < 2 * TASKS; i++)
        ask(hosts[i / TASKS].fds[i % TASKS], INIT, INIT_DONE);
}

static void all_pass_a_barrier(void)
{
    for (int i = 0; i < 2 * TASKS; i++) {
        hears(hosts[0].fds[0], "");
        say(hosts[i / TASKS].fds[i % TASKS], "cmd=barrier_in\n");
    }
    for (int i = 0; i < 2 * TASKS; i++)
        hears(hosts[i / TASKS].fds[i % TASKS], "cmd=barrier_out rc=0\n");
}

/* Another host's agent that says that it is the last there can be takes no name from others. */
HOSTS_TEST(a_number_that_nobody_reaches_is_not_taken, 2)
{
    static const uint8_t told[] = "n\1\0\0\0s\13\0\0\0\377\377\377\377\377\377\377\377nXX";

    all_init();
    mu_pmi1_told(hosts[0].server, told, sizeof told - 1);
    ask(hosts[0].fds[0], "cmd=publish_name service=s port=p\n", "cmd=publish_result rc=0\n");
    for (int i = 0; i < 2; i++)
        ask(hosts[i].fds[0], "cmd=lookup_name service=s\n", "cmd=lookup_result rc=0 port=p\n");
}

/* The barrier brings all that was told before it once more, host after host: what is newer stays. */
HOSTS_TEST(a_barrier_brings_back_no_name_that_has_gone, 2)
{
    all_init();
    ask(hosts[1].fds[0], "cmd=publish_name service=s port=old\n", "cmd=publish_result rc=0\n");
    ask(hosts[1].fds[0], "cmd=publish_name service=t port=old\n", "cmd=publish_result rc=0\n");
    ask(hosts[0].fds[0], "cmd=unpublish_name service=s\n", "cmd=unpublish_result rc=0\n");
    ask(hosts[0].fds[0], "cmd=unpublish_name service=t\n", "cmd=unpublish_result rc=0\n");
    ask(hosts[0].fds[0], "cmd=publish_name service=s port=new\n", "cmd=publish_result rc=0\n");
    all_pass_a_barrier();
    for (int i = 0; i < 2; i++) {
        ask(hosts[i].fds[0], "cmd=lookup_name service=s\n", "cmd=lookup_result rc=0 port=new\n");
        ask(hosts[i].fds[0], "cmd=lookup_name service=t\n", "cmd=lookup_result rc=-1 msg=service_not_found\n");
    }
}

HOSTS_TEST(who_waits_is_said, 2)
{
    char text[200];

    for (int host = 0; host < 2; host++)
        for (int task = 0; task < TASKS; task++)
            ask(hosts[host].fds[task], INIT, INIT_DONE);
    mu_pmi1_describe(hosts[1].server, text, sizeof text);
    assert_string_equal(text, "");
    say(hosts[1].fds[1], "cmd=barrier_in\n");
    assert_string_equal(hosts[1].waits, "task 4 in MPI's barrier (PMI) for tasks 3,5");
    say(hosts[1].fds[0], "cmd=barrier_in\n");
    assert_string_equal(hosts[1].waits, "tasks 3-4 in MPI's barrier (PMI) for task 5");
    say(hosts[1].fds[2], "cmd=barrier_in\n");
    assert_string_equal(hosts[1].waits, "tasks 3-5 in MPI's barrier (PMI) for other hosts");
    for (int task = 0; task < TASKS; task++)
        say(hosts[0].fds[task], "cmd=barrier_in\n");
    mu_pmi1_describe(hosts[1].server, text, sizeof text);
    assert_string_equal(text, "");
}

HOSTS_TEST(two_hosts_have_one_barrier_and_what_was_put_before_it, 2)
{
    all_init();
    ask(hosts[0].fds[0], "cmd=put kvsname=k key=a value=1\n", "cmd=put_result rc=0\n");
    ask(hosts[1].fds[2], "cmd=put kvsname=k key=b value=2\n", "cmd=put_result rc=0\n");
    ask(hosts[1].fds[0], "cmd=publish_name service=s port=p\n", "cmd=publish_result rc=0\n");
    ask(hosts[1].fds[0], "cmd=get kvsname=k key=a\n", "cmd=get_result rc=-1 msg=key_a_not_found\n");
    all_pass_a_barrier();
    all_pass_a_barrier();
    ask(hosts[1].fds[0], "cmd=get kvsname=k key=a\n", "cmd=get_result rc=0 value=1\n");
    ask(hosts[0].fds[1], "cmd=get kvsname=k key=b\n", "cmd=get_result rc=0 value=2\n");
    ask(hosts[0].fds[1], "cmd=lookup_name service=s\n", "cmd=lookup_result rc=0 port=p\n");
    for (int task = 0; task < TASKS; task++)
        say(hosts[0].fds[task], "cmd=barrier_in\n");
    say(hosts[1].fds[1], "cmd=barrier_in\n");
    hang_up(1, 0);
    settle();
    mu_pmi1_task_ended(hosts[1].server, 3);
    mu_pmi1_look(hosts[1].server);
    settle();
    hears(hosts[0].fds[0], "cmd=barrier_out rc=-1 msg=task_3_has_ended,_or_left_MPI\n");
    hears(hosts[1].fds[1], "cmd=barrier_out rc=-1 msg=task_3_has_ended,_or_left_MPI\n");
    assert_int_equal(hosts[0].stranded, 3);
}
