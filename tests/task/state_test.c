/*
 * tests/task/state_test.c: the state machine's table, walked for every (state, event), against the rules written out
 * here a second time, cell by cell; and its names.
 */
#include "stage.h"

#include <string.h>

#include "task/state.h"

enum { D = MUSTER_TASK_DISCONNECTED, C = MUSTER_TASK_CONNECTED, E = MUSTER_TASK_ERROR, NO = -1 };

static const struct {
    int state;
    int recoverable;
    int after[MU_EVENTS]; /* register, unregister, reset, report, death, silence, conflict */
} table[] = {
    {D, 0, {C, NO, NO, NO, NO, NO, NO}}, {D, 1, {C, NO, NO, NO, NO, NO, NO}}, {C, 0, {NO, D, D, E, E, E, E}},
    {C, 1, {NO, D, D, E, E, E, E}},      {E, 0, {NO, NO, D, NO, NO, NO, NO}}, {E, 1, {C, NO, D, NO, NO, NO, NO}},
};

TEST(every_state_and_event_has_its_outcome)
{
    int cells = 0;

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (int e = 0; e < MU_EVENTS; e++, cells++)
            if (mu_task_next((enum muster_task_state)table[i].state, (enum mu_task_event)e, table[i].recoverable) !=
                table[i].after[e])
                fail_msg("%s, %s task that %s", mu_task_state_name((enum muster_task_state)table[i].state),
                         table[i].recoverable ? "a recoverable" : "a", mu_task_event_name((enum mu_task_event)e));
    assert_int_equal(cells, 3 * 2 * MU_EVENTS);
}

TEST(an_unknown_state_or_event_leads_nowhere)
{
    assert_int_equal(mu_task_next((enum muster_task_state)3, MU_EVENT_REGISTER, 1), -1);
    assert_int_equal(mu_task_next(MUSTER_TASK_CONNECTED, MU_EVENTS, 1), -1);
    assert_int_equal(mu_task_next((enum muster_task_state) - 1, (enum mu_task_event) - 1, 0), -1);
}

TEST(an_error_is_left_only_by_reset_or_a_recoverable_restart)
{
    for (int e = 0; e < MU_EVENTS; e++)
        for (int recoverable = 0; recoverable < 2; recoverable++)
            if (mu_task_next(MUSTER_TASK_ERROR, (enum mu_task_event)e, recoverable) >= 0)
                assert_true(e == MU_EVENT_RESET || (e == MU_EVENT_REGISTER && recoverable));
}

TEST(every_name_is_there_and_its_own)
{
    const char *names[3 + MU_EVENTS + 6];
    size_t n = 0;

    for (int s = 0; s < 3; s++)
        names[n++] = mu_task_state_name((enum muster_task_state)s);
    for (int e = 0; e < MU_EVENTS; e++)
        names[n++] = mu_task_event_name((enum mu_task_event)e);
    for (int c = 0; c <= MUSTER_CAUSE_EXITED; c++)
        names[n++] = mu_task_cause_name((enum muster_cause)c);
    for (size_t i = 0; i < n; i++) {
        assert_string_not_equal(names[i], "?");
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(names[i], names[k]);
    }
    assert_string_equal(mu_task_state_name((enum muster_task_state)3), "?");
    assert_string_equal(mu_task_event_name(MU_EVENTS), "?");
    assert_string_equal(mu_task_cause_name((enum muster_cause)99), "?");
}
