/*
 * tests/kernel/change_test.c: changes of large variables, which run in other threads while the variable is used.
 */
#include "stage.h"

static struct mu_kernel_work *works[16];
static unsigned num_works;

static bool on_offload(void *arg, struct mu_kernel_work *work)
{
    (void)arg;
    works[num_works++] = work;
    return true;
}

static void on_wake(void *arg)
{
    (void)arg;
}

#define V    "v VariableV2 - dtype=t:f shape=h:1024,1024\nn = i[2]:1024,1024\nax = i[2]:0,1\n"
#define ADD  V "one = f[]:1\nx Fill n,one T=t:f\na AssignAdd v,x T=t:f"
#define LOOK V "r Identity v T=t:f\nhigh Max r,ax T=t:f\nlow Min r,ax T=t:f"
#define SET  V "two = f[]:10\nx Fill n,two T=t:f\na Assign v,x T=t:f"

static void step_open(struct step *s, const char *text, const char *fetch)
{
    struct mu_kernel_error error = {.status = MUSTER_OK};
    struct mu_kernel_step_options options = {.wake = on_wake, .offload = on_offload};

    options.graph = s->graph = graph_take(text, fetch, &error);
    assert_string_equal(error.text, "");
    options.rendezvous = s->rendezvous = mu_rendezvous_new();
    s->step = mu_kernel_step_new(&options, &error);
    step_go(s);
}

/* What has been given to another thread at this place is run there, and its step goes on. */
static void work_do(unsigned at, struct step *s)
{
    mu_kernel_work_run(works[at]);
    mu_kernel_work_end(works[at]);
    step_go(s);
}

static void run_all(const char *text)
{
    struct step s;

    num_works = 0;
    step_open(&s, text, "");
    for (unsigned k = 0; k < num_works; k++)
        work_do(k, &s);
    assert_int_equal(s.is, MU_STEP_DONE);
    assert_string_equal(mu_kernel_step_error(s.step)->text, "");
    step_end(&s);
}

static void variable_is(const char *tensor)
{
    struct step s;

    num_works = 0;
    step_open(&s, LOOK, "f high,f low");
    for (unsigned k = 0; k < num_works; k++)
        work_do(k, &s);
    step_gave(&s, 0, tensor);
    step_gave(&s, 1, tensor);
    step_end(&s);
}

STAGE_TEST(a_change_of_a_large_variable_runs_elsewhere)
{
    struct step s;

    run_all(SET);
    num_works = 0;
    step_open(&s, ADD, "");
    work_do(0, &s); /* Fill */
    assert_int_equal(num_works, 2);
    assert_int_equal(s.is, MU_STEP_WAITS);
    mu_kernel_work_run(works[1]);
    mu_kernel_work_end(works[1]);
    step_go(&s);
    assert_int_equal(s.is, MU_STEP_DONE);
    step_end(&s);
    variable_is("f[]:11");
    run_all(V "l = f[]:0.5\none = f[]:2\nx Fill n,one T=t:f\na ApplyGradientDescent v,l,x T=t:f");
    assert_int_equal(num_works, 2);
    variable_is("f[]:10");
}

/* A resource variable, too. */
STAGE_TEST(a_change_by_handle_runs_elsewhere)
{
#define H "h VarHandleOp - dtype=t:f shape=h: shared_name=s:v\nn = i[2]:1024,1024\none = f[]:1\nx Fill n,one T=t:f\n"
    run_all(H "a AssignVariableOp h,x dtype=t:f");
    run_all(H "a AssignSubVariableOp h,x dtype=t:f");
    assert_int_equal(num_works, 2);
    run_all(H "l = f[]:2\na ResourceApplyGradientDescent h,l,x T=t:f");
    assert_int_equal(num_works, 2);
    variable_is("f[]:-2");
}

STAGE_TEST(changes_at_the_same_time_all_count)
{
    struct step s[3];

    run_all(SET);
    num_works = 0;
    for (unsigned k = 0; k < 3; k++) {
        step_open(&s[k], ADD, "");
        work_do(2 * k, &s[k]);
    }
    assert_int_equal(num_works, 6);
    for (unsigned k = 0; k < 3; k++)
        mu_kernel_work_run(works[2 * k + 1]);
    for (unsigned k = 0; k < 3; k++) {
        mu_kernel_work_end(works[2 * k + 1]);
        step_go(&s[k]);
        assert_int_equal(s[k].is, k ? MU_STEP_WAITS : MU_STEP_DONE); /* the first one is what the others did not see */
    }
    assert_int_equal(num_works, 8);
    work_do(6, &s[1]);
    work_do(7, &s[2]); /* it does not see the second either */
    work_do(8, &s[2]);
    for (unsigned k = 0; k < 3; k++) {
        assert_int_equal(s[k].is, MU_STEP_DONE);
        step_end(&s[k]);
    }
    variable_is("f[]:13");
}

STAGE_TEST(an_assignment_during_a_change_comes_before_it)
{
    struct step s;

    run_all(SET);
    run_all(ADD);
    num_works = 0;
    step_open(&s, ADD, "");
    work_do(0, &s);
    mu_kernel_work_run(works[1]);
    {
        struct mu_kernel_work *late = works[1];

        run_all(SET); /* 10 again */
        num_works = 0;
        mu_kernel_work_end(late);
    }
    step_go(&s);
    assert_int_equal(s.is, MU_STEP_WAITS);
    work_do(0, &s);
    assert_int_equal(s.is, MU_STEP_DONE);
    step_end(&s);
    variable_is("f[]:11");
}

STAGE_TEST(a_change_that_is_always_late_is_made_at_once_at_last)
{
    struct step s;

    run_all(SET);
    num_works = 0;
    step_open(&s, ADD, "");
    work_do(0, &s);
    for (unsigned k = 0; k < 20 && s.is == MU_STEP_WAITS; k++) {
        struct mu_kernel_work *late = works[num_works - 1];

        mu_kernel_work_run(late);
        run_all(SET);
        num_works = 0;
        mu_kernel_work_end(late);
        step_go(&s);
    }
    assert_int_equal(s.is, MU_STEP_DONE);
    step_end(&s);
    variable_is("f[]:11");
}

STAGE_TEST(a_change_that_is_cancelled_leaves_the_variable)
{
    for (unsigned runs = 0; runs < 2; runs++) {
        struct step s;

        run_all(SET);
        num_works = 0;
        step_open(&s, ADD, "");
        work_do(0, &s);
        mu_kernel_step_cancel(s.step, MUSTER_CANCELLED, "enough");
        mu_kernel_work_run(works[1]);
        mu_kernel_work_end(works[1]);
        step_go(&s);
        step_failed(&s, MUSTER_CANCELLED, "enough");
        step_end(&s);
        variable_is("f[]:10");
    }
}

STAGE_TEST(a_change_that_does_not_fit_fails_before_it_is_given_away)
{
    struct step s;

    run_all(SET);
    num_works = 0;
    step_open(&s, V "m = i[2]:2048,512\none = f[]:1\nx Fill m,one T=t:f\na AssignAdd v,x T=t:f", "");
    work_do(0, &s);
    assert_int_equal(num_works, 1);
    step_failed(&s, MUSTER_INVALID_ARGUMENT, "v variable has shape [1024,1024] and the value has shape [2048,512]");
    step_end(&s);
}
