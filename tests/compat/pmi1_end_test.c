/*
 * tests/compat/pmi1_end_test.c: tasks that end, before, in and behind MPI, and abort; who waits for them is told.
 */
#include "cm.h"

#include <string.h>
#include <sys/socket.h>

#include "pmi1_hosts.h"

HOSTS_TEST(who_waits_for_one_that_has_left_is_told, 1)
{
    int *fds = hosts[0].fds;

    for (int task = 0; task < 2; task++)
        ask(fds[task], INIT, INIT_DONE);
    say(fds[0], "cmd=barrier_in\n");
    hang_up(0, 2); /* it never said a word */
    settle();
    hears(fds[0], ""); /* its process may speak again, on another connection */
    assert_int_equal(hosts[0].stranded, 0);
    mu_pmi1_task_ended(hosts[0].server, 2);
    mu_pmi1_look(hosts[0].server);
    hears(fds[0], "cmd=barrier_out rc=-1 msg=task_2_has_ended_without_MPI_Init\n");
    assert_int_equal(hosts[0].stranded, 2); /* and who has begun: it may wait elsewhere */
    ask(fds[1], "cmd=barrier_in\n", "cmd=barrier_out rc=-1 msg=task_2_has_ended_without_MPI_Init\n");
}

/* As MPICH 5's tasks do, in memory that they share. */
HOSTS_TEST(who_waits_without_a_word_is_told_too, 1)
{
    int *fds = hosts[0].fds;

    ask(fds[0], INIT, INIT_DONE);
    mu_pmi1_look(hosts[0].server);
    assert_int_equal(hosts[0].stranded, 0);
    assert_int_equal(mu_pmi1_task_ended(hosts[0].server, 1), MU_PMI1_NEVER);
    mu_pmi1_look(hosts[0].server);
    assert_int_equal(hosts[0].stranded, 1);
    assert_string_equal(hosts[0].why, "task 1 has ended without MPI_Init");
    ask(fds[0], "cmd=finalize\n", "cmd=finalize_ack rc=0\n");
    mu_pmi1_look(hosts[0].server);
    assert_int_equal(hosts[0].stranded, 1); /* who is out waits for nobody */
    hosts[0].why[0] = 0;
    ask(fds[2], INIT, INIT_DONE); /* who begins later learns it then */
    assert_int_equal(hosts[0].stranded, 2);
    assert_string_equal(hosts[0].why, "task 1 has ended without MPI_Init");
}

/* Who had begun, and has ended, was one of those for whom nobody waits any more. */
HOSTS_TEST(who_has_been_in_and_out_is_not_missed, 1)
{
    int *fds = hosts[0].fds;

    for (int task = 0; task < TASKS; task++)
        ask(fds[task], INIT, INIT_DONE);
    ask(fds[2], "cmd=finalize\n", "cmd=finalize_ack rc=0\n");
    hang_up(0, 2);
    assert_int_equal(mu_pmi1_task_ended(hosts[0].server, 2), MU_PMI1_FINALIZED);
    mu_pmi1_look(hosts[0].server);
    assert_int_equal(hosts[0].stranded, 0);
}

HOSTS_TEST(an_end_is_what_was_said_before_it, 1)
{
    struct mu_pmi1 *server = hosts[0].server;
    int *fds = hosts[0].fds;

    assert_int_equal(mu_pmi1_task_ended(server, 0), MU_PMI1_NEVER);
    send(fds[1], INIT, strlen(INIT), MSG_NOSIGNAL); /* not heard yet when it ends */
    hang_up(0, 1);
    assert_int_equal(mu_pmi1_task_ended(server, 1), MU_PMI1_OPEN);
    say(fds[2], INIT "cmd=finalize\n");
    hang_up(0, 2);
    settle();
    assert_int_equal(mu_pmi1_task_ended(server, 2), MU_PMI1_FINALIZED);
    assert_int_equal(hosts[0].aborted, -1);
}

HOSTS_TEST(an_abort_has_a_code_and_perhaps_a_reason, 1)
{
    say(hosts[0].fds[1], INIT "cmd=abort exitcode=7\ncmd=abort exitcode=8\n");
    assert_int_equal(hosts[0].aborted, 1);
    assert_int_equal(hosts[0].code, 7);
    assert_string_equal(hosts[0].message, "");
    assert_int_equal(mu_pmi1_task_ended(hosts[0].server, 1), MU_PMI1_ABORTED);
    say(hosts[0].fds[2], "cmd=abort exit_code=9 error_msg=no_good\n");
    assert_int_equal(hosts[0].aborted, 2);
    assert_int_equal(hosts[0].code, 9);
    assert_string_equal(hosts[0].message, "no_good");
}
