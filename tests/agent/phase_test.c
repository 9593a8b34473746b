/*
 * tests/agent/phase_test.c: the table of a job's life, walked for every (phase, event) against a second one; and that
 * an event that does not belong to a phase is refused, and said.
 */
#include "cm.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/private.h"

enum { N = MU_PHASE_NEW, M, O, R, E, K, P, T, S, U, D, _ = -1 }; /* in the order of enum mu_agent_phase; no row */

/* Begin, met, not met, opened, not opened, not started, end, kill, ended, parted, stopped, swept, over. */
static const int after[MU_PHASE_COUNT][MU_ON_COUNT] = {
    [N] = {M, _, _, _, P, _, _, _, _, _, _, _, _}, [M] = {_, O, P, _, _, _, M, M, _, _, _, _, _},
    [O] = {_, _, _, R, P, E, _, _, _, _, _, _, D}, [R] = {_, _, _, _, _, _, E, K, P, _, _, _, _},
    [E] = {_, _, _, _, _, _, E, K, P, _, _, _, _}, [K] = {_, _, _, _, _, _, K, K, P, _, _, _, _},
    [P] = {_, _, _, _, _, _, P, P, _, T, _, _, _}, [T] = {_, _, _, _, _, _, T, T, _, _, S, _, _},
    [S] = {_, _, _, _, _, _, S, S, _, _, _, U, _}, [U] = {M, _, _, _, _, _, D, D, _, _, _, _, D},
    [D] = {_, _, _, _, _, _, _, _, _, _, _, _, _},
};

TEST(every_phase_and_event_has_its_outcome)
{
    for (int phase = 0; phase < MU_PHASE_COUNT; phase++)
        for (int event = 0; event < MU_ON_COUNT; event++) {
            const struct mu_phase_row *row = mu_phase_row((enum mu_agent_phase)phase, (enum mu_agent_event)event);

            if ((row ? (int)row->next : _) != after[phase][event])
                fail_msg("in %s: %s", mu_agent_phase_name((enum mu_agent_phase)phase),
                         mu_agent_event_words((enum mu_agent_event)event));
        }
}

/* From wherever a job is, it ends: by the events that its phases wait for, and when it is told to at every step. */
TEST(every_phase_leads_to_the_end)
{
    static const enum mu_agent_event awaited[MU_PHASE_COUNT] = {
        [N] = MU_ON_NOT_OPENED, [M] = MU_ON_NOT_MET, [O] = MU_ON_NOT_OPENED, [R] = MU_ON_ENDED, [E] = MU_ON_ENDED,
        [K] = MU_ON_ENDED,      [P] = MU_ON_PARTED,  [T] = MU_ON_STOPPED,    [S] = MU_ON_SWEPT, [U] = MU_ON_OVER};

    for (int told = 0; told < 2; told++)
        for (int first = 0; first < MU_PHASE_DONE; first++) {
            enum mu_agent_phase phase = (enum mu_agent_phase)first;
            int steps = 0;

            while (phase != MU_PHASE_DONE && steps++ < MU_PHASE_COUNT) {
                const struct mu_phase_row *end = told ? mu_phase_row(phase, MU_ON_END) : NULL;

                phase = end ? end->next : phase;
                if (phase != MU_PHASE_DONE)
                    phase = mu_phase_row(phase, awaited[phase])->next;
            }
            assert_int_equal(phase, MU_PHASE_DONE);
        }
}

TEST(every_name_is_there_and_its_own)
{
    for (int i = 0; i < MU_PHASE_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(mu_agent_phase_name((enum mu_agent_phase)i),
                                    mu_agent_phase_name((enum mu_agent_phase)j));
    for (int i = 0; i < MU_ON_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(mu_agent_event_words((enum mu_agent_event)i),
                                    mu_agent_event_words((enum mu_agent_event)j));
}

/* What was not set up is taken down all the same, through the same phases. */
TEST(an_event_that_does_not_belong_there_is_refused_loudly)
{
    static const struct mu_agent_app app = {.num_tasks = 1};
    static const struct mu_agent_options options = {.apps = &app, .num_apps = 1, .num_tasks = 1};
    struct mu_agent agent;
    char text[512] = "";
    int stderr_fd = dup(2);
    FILE *heard = tmpfile();

    assert_non_null(heard);
    dup2(fileno(heard), 2);
    assert_int_equal(mu_agent_init(&agent, &options, mu_components), 0);
    agent.broken = 1;
    mu_agent_post(&agent, MU_ON_SWEPT);
    mu_agent_live(&agent, MU_ON_NOT_OPENED);
    assert_int_equal(agent.phase, MU_PHASE_DONE);
    assert_int_equal(mu_agent_exit_status(&agent), MU_AGENT_EXIT_FAILED);
    mu_agent_tear_down(&agent);
    dup2(stderr_fd, 2);
    close(stderr_fd);
    rewind(heard);
    assert_true(fread(text, 1, sizeof text - 1, heard) > 0);
    fclose(heard);
    assert_non_null(
        strstr(text, "this is a fault of muster, please report it: 'nothing is left behind' in the phase "));
    assert_null(strchr(strchr(text, '\n') + 1, '\n')); /* and nothing else */
}
