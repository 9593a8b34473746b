/*
 * tests/kernel/steps_test.c: graphs that are taken or not, steps, variables, queues, tensors on their way.
 */
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

STAGE_TEST(a_graph_that_is_wrong_is_refused)
{
    static const char x[] = "x = f[]:1\n";
    char text[512];
    static const struct {
        const char *rest;
        enum muster_status status;
        const char *words;
    } rows[] = {
        {"z Nonsense x", MUSTER_NOT_FOUND, "Op type not registered 'Nonsense'"},
        {"z Nonsense x", MUSTER_NOT_FOUND, "--libtensorflow\n\t [[{{node z}}]]"},
        {"z Neg x", MUSTER_INVALID_ARGUMENT, "NodeDef missing attr 'T' from Op<name=Neg>"},
        {"z Neg x T=i:1", MUSTER_INVALID_ARGUMENT, "AttrValue of 'T' is not of type 'type'"},
        {"z Neg x T=t:s", MUSTER_INVALID_ARGUMENT, "No OpKernel was registered to support Op 'Neg'"},
        {"z Neg x T=t:i", MUSTER_INVALID_ARGUMENT,
         "Input 0 of node z was passed float from x:0 incompatible with expected int32."},
        {"z Neg q T=t:f", MUSTER_INVALID_ARGUMENT, "Node 'z': Unknown input node 'q'"},
        {"z Neg x:1 T=t:f", MUSTER_INVALID_ARGUMENT,
         "Connecting to invalid output 1 of source node x which has 1 outputs."},
        {"z Neg x:01x T=t:f", MUSTER_INVALID_ARGUMENT, "Unknown input node"},
        {"z Neg x:99999999999999999999 T=t:f", MUSTER_INVALID_ARGUMENT, "Unknown input node"},
        {"z AddV2 x T=t:f", MUSTER_INVALID_ARGUMENT, "Incomplete graph, missing 1 inputs for z"},
        {"z AddV2 ^x T=t:f", MUSTER_INVALID_ARGUMENT, "Incomplete graph, missing 2 inputs for z"},
        {"z Neg x,x T=t:f", MUSTER_INVALID_ARGUMENT, "1 inputs too many for z"},
        {"z Neg ^x,x T=t:f", MUSTER_INVALID_ARGUMENT, "All control inputs must follow all data inputs"},
        {"x NoOp -", MUSTER_INVALID_ARGUMENT, "Node 'x' is not unique"},
        {"a Neg b T=t:f\nb Neg a T=t:f", MUSTER_INVALID_ARGUMENT, "2 nodes in a cycle"},
        {"a NoOp ^a", MUSTER_INVALID_ARGUMENT, "1 nodes in a cycle"},
        {"z AddN - T=t:f N=i:0", MUSTER_INVALID_ARGUMENT, "Value for attr 'N' of 0 must be at least minimum 1"},
        {"z AddN x T=t:f N=i:9223372036854775807", MUSTER_INVALID_ARGUMENT, "too many inputs"},
        {"z Assign x,x T=t:f", MUSTER_INVALID_ARGUMENT,
         "was passed float from x:0 incompatible with expected float_ref."},
        {"z Const - dtype=t:i value=f[]:1", MUSTER_INVALID_ARGUMENT, "has a value of type float"},
        {"z Const - dtype=t:f value=f[4611686018427387904]:1", MUSTER_INVALID_ARGUMENT, "too many elements"},
        {"z Const - dtype=t:f value=f[4294967296,4294967296]:1", MUSTER_INVALID_ARGUMENT,
         "a tensor whose shape is none"},
        {"z Const - dtype=t:f value=f[16777218]:1", MUSTER_RESOURCE_EXHAUSTED,
         "a tensor of shape [16777218] and type float is said by 1 values: a request's tensors may be 64 MiB larger"},
        {"z Const - dtype=t:f value=f[9000000]:1\nw Const - dtype=t:f value=f[9000000]:1", MUSTER_RESOURCE_EXHAUSTED,
         "a tensor of shape [9000000]"},
        {"z Const - dtype=t:s value=s[4194305]:", MUSTER_RESOURCE_EXHAUSTED, "is said by 0 values"},
        {"z Const - dtype=t:s value=s[1400000]:x", MUSTER_RESOURCE_EXHAUSTED, "is said by 1 values"},
        {"z Const - dtype=t:f value=f[1099511627776]:1", MUSTER_RESOURCE_EXHAUSTED, "The op Fill makes such tensors"},
        {"z Const - dtype=t:f value=f[-1]:1", MUSTER_INVALID_ARGUMENT, "a tensor whose shape is none"},
        {"z Const - dtype=t:f value=f[1,1,1,1,1,1,1,1,1]:1", MUSTER_INVALID_ARGUMENT, "more than 8 dimensions"},
    };

    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        snprintf(text, sizeof text, "%s%s", x, rows[k].rest);
        expect_refused(text, rows[k].status, rows[k].words);
    }
}

/* What TF_GetAllOpList would say of an op, field by field. */
STAGE_TEST(ops_are_told_as_lists)
{
    struct mu_kernel_lists lists;
    Mu__Graph__OpList *ops;
    Mu__Graph__KernelList *kernels;

    assert_true(mu_kernel_lists(&lists));
    ops = mu__graph__op_list__unpack(NULL, lists.ops_len, lists.ops);
    kernels = mu__graph__kernel_list__unpack(NULL, lists.kernels_len, lists.kernels);
    assert_non_null(ops);
    assert_non_null(kernels);
    assert_int_equal(ops->n_op, kernels->n_kernel);
    for (size_t k = 0; k < ops->n_op; k++) {
        const Mu__Graph__OpDef *op = ops->op[k];

        if (k > 0) /* they are found by halves */
            assert_true(strcmp(ops->op[k - 1]->name, op->name) < 0);
        assert_string_equal(kernels->kernel[k]->op, op->name);
        if (strcmp(op->name, "QueueDequeueV2") == 0) {
            assert_int_equal(op->input_arg[0]->type, 20);
            assert_string_equal(op->output_arg[0]->type_list_attr, "component_types");
            assert_int_equal(op->attr[0]->minimum, 1);
            assert_int_equal(op->attr[1]->default_value->i, -1);
            assert_true(op->is_stateful);
        } else if (strcmp(op->name, "Assign") == 0) {
            assert_true(op->input_arg[0]->is_ref && op->output_arg[0]->is_ref && !op->input_arg[1]->is_ref);
            assert_true(op->allows_uninitialized_input && op->attr[1]->default_value->b);
        } else if (strcmp(op->name, "Sum") == 0) {
            assert_string_equal(op->attr[1]->name, "Tidx");
            assert_int_equal(op->attr[1]->default_value->type, 3);
            assert_int_equal(kernels->kernel[k]->constraint[0]->allowed_values->list->n_type, 4);
        } else if (strcmp(op->name, "AddN") == 0) {
            assert_string_equal(op->input_arg[0]->number_attr, "N");
        }
    }
    mu__graph__op_list__free_unpacked(ops, NULL);
    mu__graph__kernel_list__free_unpacked(kernels, NULL);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

STAGE_TEST(a_placeholder_must_be_fed)
{
    expect_error(
        "x Placeholder - dtype=t:f shape=h:2,-1", "f x", MUSTER_INVALID_ARGUMENT,
        "You must feed a value for placeholder tensor 'x' with dtype float and shape [2,?]\n\t [[{{node x}}]]");
    expect_error("x Placeholder - dtype=t:s", "s x", MUSTER_INVALID_ARGUMENT, "'x' with dtype string\n");
    expect("v = i[]:3\nx PlaceholderWithDefault v dtype=t:i shape=h:", "i x", "i[]:3");
}

STAGE_TEST(an_assertion_says_what_it_is_given)
{
    expect_error("c = b[]:0\nx = i[4]:1,2,3,4\ny = s[1]:why\nz Assert c,x,y T=T:is", "", MUSTER_INVALID_ARGUMENT,
                 "assertion failed: [1 2 3] [why]\n\t [[{{node z}}]]");
    expect("c = b[]:1\nx = i[]:1\nz Assert c,x T=T:i\ny Identity x,^z T=t:i", "i y", "i[]:1");
}

#define RECV(name, type, key)                                                                                          \
    name " _Recv - tensor_type=t:" type " tensor_name=s:" key                                                          \
         " send_device=s:D send_device_incarnation=i:1 recv_device=s:D"
static const char key_x[] = "D;0000000000000001;D;x;0:0";

STAGE_TEST(a_step_waits_for_what_it_is_sent)
{
    struct mu_kernel_error error = {.status = MUSTER_OK};
    struct mu_tensor *two = tensor_text("i[2]:5,6"), *real = tensor_text("f[]:1");
    struct step s;

    step_begin(&s, RECV("x", "i", "x") "\nc = i[]:1\nz AddV2 x,c T=t:i\nw Neg c T=t:i", "i z,i w");
    assert_int_equal(s.is, MU_STEP_WAITS);
    step_gave(&s, 1, "i[]:-1"); /* what does not need it has run */
    assert_true(mu_rendezvous_put(s.rendezvous, key_x, two, &error));
    assert_int_equal(stage.woken, 1);
    step_go(&s);
    step_gave(&s, 0, "i[2]:6,7");
    step_end(&s);

    step_begin(&s, RECV("x", "i", "x") "\nz Neg x T=t:i", "i z");
    assert_true(mu_rendezvous_put(s.rendezvous, key_x, real, &error));
    step_go(&s);
    step_failed(&s, MUSTER_INTERNAL,
                "Output 0 of type float does not match declared output type int32 for node {{node x}}");
    step_end(&s);

    step_begin(&s, RECV("x", "i", "x"), "i x");
    mu_kernel_step_cancel(s.step, MUSTER_CANCELLED, "it is enough");
    step_go(&s);
    step_failed(&s, MUSTER_CANCELLED, "it is enough");
    step_end(&s);
    mu_tensor_drop(two);
    mu_tensor_drop(real);
}

static struct mu_kernel_work *works[8];
static unsigned num_works;

static bool on_offload(void *arg, struct mu_kernel_work *work)
{
    (void)arg;
    works[num_works++] = work;
    return true;
}

static void on_wake(void *arg)
{
    ++*(unsigned *)arg;
}

STAGE_TEST(what_takes_long_runs_elsewhere)
{
    static const char text[] = "n = i[2]:1024,1024\nv = f[]:0.5\nx Fill n,v T=t:f\ny MatMul x,x T=t:f\na = i[2]:0,1\n"
                               "z Max y,a T=t:f\nw Neg v T=t:f";
    struct mu_kernel_error error = {.status = MUSTER_OK};
    unsigned woken = 0;

    for (int cancels = 0; cancels < 2; cancels++) {
        struct step s = {.rendezvous = mu_rendezvous_new()};
        struct mu_kernel_step_options options = {.wake = on_wake, .offload = on_offload, .arg = &woken};

        options.graph = s.graph = graph_take(text, "f z,f w", &error);
        options.rendezvous = s.rendezvous;
        assert_string_equal(error.text, "");
        s.step = mu_kernel_step_new(&options, &error);
        num_works = woken = 0;
        step_go(&s);
        for (unsigned k = 0; k < num_works; k++) {
            assert_int_equal(s.is, MU_STEP_WAITS);
            assert_false(mu_kernel_step_is_idle(s.step));
            if (cancels)
                mu_kernel_step_cancel(s.step, MUSTER_CANCELLED, "enough");
            mu_kernel_work_run(works[k]);
            mu_kernel_work_end(works[k]);
            assert_int_equal(woken, k + 1);
            step_go(&s);
        }
        assert_int_equal(num_works, cancels ? 1 : 3); /* Fill, MatMul, Max */
        if (cancels) {
            step_failed(&s, MUSTER_CANCELLED, "enough");
        } else {
            step_gave(&s, 0, "f[]:256");
            step_gave(&s, 1, "f[]:-0.5");
        }
        assert_true(mu_kernel_step_is_idle(s.step));
        step_end(&s);
    }
}

/* A chain of nodes, a node at a time. */
STAGE_TEST(a_step_runs_for_its_time_and_goes_on)
{
    struct step s;
    unsigned turns = 0;
    struct mu_kernel_error error = {.status = MUSTER_OK};
    struct mu_kernel_step_options options = {.wake = on_wake, .arg = &turns};
    char text[4096] = "x0 = i[]:0\none = i[]:1\n";

    for (int k = 1; k <= 100; k++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "x%d AddV2 x%d,one T=t:i\n", k, k - 1);
    options.graph = s.graph = graph_take(text, "i x100", &error);
    options.rendezvous = s.rendezvous = mu_rendezvous_new();
    s.step = mu_kernel_step_new(&options, &error);
    while ((s.is = mu_kernel_step_run(s.step, 0)) == MU_STEP_MORE)
        turns++;
    assert_int_equal(turns, 102); /* of 103 nodes */
    step_gave(&s, 0, "i[]:100");
    step_end(&s);
}

/* ---- variables --------------------------------------------------------------------------------------------------- */

#define V      "v VariableV2 - dtype=t:f shape=h:2\n"
#define HANDLE "h VarHandleOp - dtype=t:f shape=h:2 shared_name=s:w\n"

STAGE_TEST(variables_by_reference)
{
    expect_error(V "r Identity v T=t:f", "f r", MUSTER_FAILED_PRECONDITION,
                 "Attempting to use uninitialized value v\n\t [[{{node r}}]]");
    expect(V "z IsVariableInitialized v dtype=t:f", "b z", "b[]:0");
    expect_error(V "x = f[3]:1\na Assign v,x T=t:f", "", MUSTER_INVALID_ARGUMENT,
                 "Assign requires shapes of both tensors to match. lhs shape= [2] rhs shape= [3]");
    expect(V "x = f[2]:1,2\na Assign v,x T=t:f\nr Identity a T=t:f", "f r", "f[2]:1,2");
    expect(V "z IsVariableInitialized v dtype=t:f", "b z", "b[]:1");
    expect(V "x = f[2]:10,20\na AssignAdd v,x T=t:f\nr Identity a T=t:f", "f r", "f[2]:11,22");
    expect(V "x = f[2]:1,1\na AssignSub v,x T=t:f\nr Identity v,^a T=t:f", "f r", "f[2]:10,21");
    expect(V "l = f[]:0.5\nx = f[2]:2,4\na ApplyGradientDescent v,l,x T=t:f\nr Identity v,^a T=t:f", "f r",
           "f[2]:9,19");
    expect_error(V "x = f[]:1\na AssignAdd v,x T=t:f", "", MUSTER_INVALID_ARGUMENT,
                 "has shape [2] and the value has shape []");
    /* What was read before is not changed behind its reader's back. */
    expect(V "r Identity v T=t:f\nx = f[2]:1,1\na AssignAdd v,x,^r T=t:f\nz Identity r,^a T=t:f", "f z", "f[2]:9,19");
    expect(V "x = f[2]:1,2\na Assign v,x T=t:f\nb AssignAdd v,x,^a T=t:f\nz Identity x,^b T=t:f", "f z", "f[2]:1,2");
    expect_error("v VariableV2 - dtype=t:i shape=h:2\nr Identity v T=t:i", "i r", MUSTER_INVALID_ARGUMENT,
                 "of type float");
    assert_int_equal(mu_resources_count(stage.shared), 1);
}

STAGE_TEST(variables_by_handle)
{
    expect_error(
        HANDLE "r ReadVariableOp h dtype=t:f", "f r", MUSTER_FAILED_PRECONDITION,
        "Could not find variable w. This could mean that the variable has been deleted. In TF1, it can also mean the "
        "variable is uninitialized. Debug info: container=local");
    expect(HANDLE "z VarIsInitializedOp h", "b z", "b[]:0");
    expect(HANDLE "x = f[2]:1,2\na AssignVariableOp h,x dtype=t:f\nr ReadVariableOp h,^a dtype=t:f", "f r", "f[2]:1,2");
    expect(HANDLE "z VarIsInitializedOp h", "b z", "b[]:1");
    expect(HANDLE "x = f[2]:1,1\na AssignAddVariableOp h,x dtype=t:f\nr ReadVariableOp h,^a dtype=t:f", "f r",
           "f[2]:2,3");
    expect(HANDLE "x = f[2]:5,5\na AssignSubVariableOp h,x dtype=t:f\nr ReadVariableOp h,^a dtype=t:f", "f r",
           "f[2]:-3,-2");
    expect(HANDLE
           "l = f[]:2\nx = f[2]:1,0\na ResourceApplyGradientDescent h,l,x T=t:f\nr ReadVariableOp h,^a dtype=t:f",
           "f r", "f[2]:-5,-2");
    expect(HANDLE
           "r ReadVariableOp h dtype=t:f\nx = f[2]:1,1\na AssignAddVariableOp h,x,^r dtype=t:f\nz Identity r,^a T=t:f",
           "f z", "f[2]:-5,-2");
    expect_error(HANDLE "x = i[]:1\na AssignVariableOp h,x dtype=t:i", "", MUSTER_INVALID_ARGUMENT,
                 "Expected float got int32");
    expect_error(HANDLE "r ReadVariableOp h dtype=t:i", "i r", MUSTER_INVALID_ARGUMENT, "Expected int32 got float");
    expect(HANDLE "a DestroyResourceOp h\nz VarIsInitializedOp h,^a", "b z", "b[]:0");
    expect_error(HANDLE "a DestroyResourceOp h ignore_lookup_error=b:0", "", MUSTER_NOT_FOUND,
                 "Resource local/w does not exist");
}

STAGE_TEST(a_container_is_forgotten_alone)
{
    static const char other[] = "h VarHandleOp - dtype=t:f shape=h: container=s:other\nz VarIsInitializedOp h";

    expect("x = f[]:1\nh VarHandleOp - dtype=t:f shape=h: container=s:other\na AssignVariableOp h,x dtype=t:f\nz "
           "Identity x,^a T=t:f",
           "f z", "f[]:1");
    mu_resources_clear(stage.shared, "local");
    expect(other, "b z", "b[]:1");
    mu_resources_clear(stage.shared, "other");
    expect(other, "b z", "b[]:0");
}

/* ---- queues ------------------------------------------------------------------------------------------------------ */

#define Q    "q FIFOQueueV2 - component_types=T:if shapes=H:;2; capacity=i:2 shared_name=s:words\n"
#define GIVE Q "a = i[]:%d\nb = f[2]:1,2\ne QueueEnqueueV2 q,a,b Tcomponents=T:if"
#define TAKE Q "d QueueDequeueV2 q component_types=T:if"
#define SIZE Q "z QueueSizeV2 q"

static void give(struct step *s, int number)
{
    char text[512];

    snprintf(text, sizeof text, GIVE, number);
    step_begin(s, text, "");
}

STAGE_TEST(a_queue_hands_on_in_order)
{
    struct step g[4], t[4];

    expect(SIZE, "i z", "i[]:0");
    step_begin(&t[0], TAKE, "i d,f d:1");
    step_begin(&t[1], TAKE, "i d");
    assert_int_equal(t[0].is, MU_STEP_WAITS);
    give(&g[0], 10);
    assert_int_equal(g[0].is, MU_STEP_DONE);
    assert_int_equal(stage.woken, 1);
    step_go(&t[0]);
    step_gave(&t[0], 0, "i[]:10");
    step_gave(&t[0], 1, "f[2]:1,2");
    step_go(&t[1]);
    assert_int_equal(t[1].is, MU_STEP_WAITS);
    mu_kernel_step_cancel(t[1].step, MUSTER_CANCELLED, "enough");
    for (int k = 1; k < 4; k++)
        give(&g[k], 10 * k + 10);
    assert_int_equal(g[2].is, MU_STEP_DONE);
    assert_int_equal(g[3].is, MU_STEP_WAITS); /* two are all that fit */
    expect(SIZE, "i z", "i[]:2");
    for (int k = 2; k < 4; k++) {
        char text[16];

        step_begin(&t[k], TAKE, "i d");
        snprintf(text, sizeof text, "i[]:%d", 10 * k);
        step_gave(&t[k], 0, text);
    }
    step_go(&g[3]);
    assert_int_equal(g[3].is, MU_STEP_DONE);
    expect(TAKE, "i d", "i[]:40");
    for (int k = 0; k < 4; k++) {
        step_end(&g[k]);
        step_end(&t[k]);
    }
}

STAGE_TEST(a_closed_queue_gives_what_it_has)
{
    struct step g[3], t;

    for (int k = 0; k < 3; k++)
        give(&g[k], k);
    expect(Q "c QueueCloseV2 q\nx = i[]:1\nz Identity x,^c T=t:i", "i z", "i[]:1");
    expect(Q "z QueueIsClosedV2 q", "b z", "b[]:1");
    expect_error(Q "a = i[]:1\nb = f[2]:1,2\ne QueueEnqueueV2 q,a,b Tcomponents=T:if", "", MUSTER_CANCELLED,
                 "FIFOQueue 'words' is closed.\n\t [[{{node e}}]]");
    for (int k = 0; k < 3; k++) { /* also the one that waited */
        char text[16];

        snprintf(text, sizeof text, "i[]:%d", k);
        expect(TAKE, "i d", text);
        step_go(&g[k]);
        assert_int_equal(g[k].is, MU_STEP_DONE);
        step_end(&g[k]);
    }
    expect_error(
        TAKE, "i d", MUSTER_OUT_OF_RANGE,
        "FIFOQueue 'words' is closed and has insufficient elements (requested 1, current size 0)\n\t [[{{node d}}]]");
    expect_error(Q "c QueueCloseV2 q", "", MUSTER_CANCELLED, "FIFOQueue 'words' is already closed.");
    /* One that waits learns of the end. */
    mu_resources_clear(stage.shared, "local");
    step_begin(&t, TAKE, "i d");
    expect(Q "c QueueCloseV2 q\nx = i[]:1\nz Identity x,^c T=t:i", "i z", "i[]:1");
    step_go(&t);
    step_failed(&t, MUSTER_OUT_OF_RANGE, "is closed and has insufficient elements");
    step_end(&t);
}

STAGE_TEST(what_waits_for_a_queue_can_be_let_go)
{
    struct step g[3], t;

    for (int k = 0; k < 3; k++)
        give(&g[k], k);
    expect(Q "c QueueCloseV2 q cancel_pending_enqueues=b:1\nx = i[]:1\nz Identity x,^c T=t:i", "i z", "i[]:1");
    step_go(&g[2]);
    step_failed(&g[2], MUSTER_CANCELLED, "Enqueue operation was cancelled\n\t [[{{node e}}]]");
    for (int k = 0; k < 3; k++)
        step_end(&g[k]);
    mu_resources_clear(stage.shared, "local");
    step_begin(&t, TAKE, "i d");
    mu_resources_clear(stage.shared, "local");
    step_go(&t);
    step_failed(&t, MUSTER_CANCELLED, "Dequeue operation was cancelled");
    step_end(&t);
    /* A step that is freed while it waits is in nobody's list. */
    step_begin(&t, TAKE, "i d");
    step_end(&t);
    give(&g[0], 1);
    assert_int_equal(g[0].is, MU_STEP_DONE);
    step_end(&g[0]);
}

STAGE_TEST(a_queue_looks_at_what_it_is_given)
{
    static const char own[] = "q FIFOQueueV2 - component_types=T:i\na = i[]:1\ne QueueEnqueueV2 q,a Tcomponents=T:i\n"
                              "z QueueSizeV2 q,^e";

    expect_error(Q "a = i[]:1\ne QueueEnqueueV2 q,a Tcomponents=T:i", "", MUSTER_INVALID_ARGUMENT,
                 "Expected 2 components, got 1");
    expect_error(Q "a = i[]:1\nb = f[3]:1\ne QueueEnqueueV2 q,a,b Tcomponents=T:if", "", MUSTER_INVALID_ARGUMENT,
                 "Shape mismatch in tuple component 1. Expected [2], got [3]");
    expect_error(Q "a = f[]:1\nb = f[2]:1\ne QueueEnqueueV2 q,a,b Tcomponents=T:ff", "", MUSTER_INVALID_ARGUMENT,
                 "Type mismatch in tuple component 0. Expected int32, got float");
    expect_error(Q "d QueueDequeueV2 q component_types=T:ii", "i d", MUSTER_INVALID_ARGUMENT, "have other types");
    expect_error("q FIFOQueueV2 - component_types=T:if capacity=i:3 shared_name=s:words", "", MUSTER_INVALID_ARGUMENT,
                 "Shared queue 'words' has capacity 2 but requested capacity was 3.");
    expect_error("q FIFOQueueV2 - component_types=T:i capacity=i:2 shared_name=s:words", "", MUSTER_INVALID_ARGUMENT,
                 "Shared queue 'words' has component types");
    expect_error("h VarHandleOp - dtype=t:f shape=h: shared_name=s:words\nx = f[]:1\na AssignVariableOp h,x dtype=t:f",
                 "", MUSTER_INVALID_ARGUMENT, "'words' of container local is a queue, not a variable");
    /* One without a name is its session's. */
    expect(own, "i z", "i[]:1");
    expect(own, "i z", "i[]:2");
    assert_int_equal(mu_resources_count(stage.own), 1);
    assert_int_equal(mu_resources_count(stage.shared), 1);
}

/* ---- tensors as messages ----------------------------------------------------------------------------------------- */

static void encodes(const char *text, const char *hex)
{
    struct mu_tensor *tensor = tensor_text(text), *again;
    struct mu_kernel_error error = {.status = MUSTER_OK};
    char is[512] = "";
    size_t len, spare = 0;
    uint8_t *bytes = mu_tensor_encode(tensor, &len, &error);

    for (size_t k = 0; k < len; k++)
        snprintf(is + 2 * k, 3, "%02x", bytes[k]);
    assert_string_equal(is, hex);
    again = mu_tensor_unpack(&stage.memory, bytes, len, &spare, &error);
    assert_non_null(again);
    assert_int_equal(again->count, tensor->count);
    mu_tensor_drop(again);
    mu_tensor_drop(tensor);
    free(bytes);
}

STAGE_TEST(tensors_go_as_tensorflow_sends_them)
{
    encodes("f[]:7", "080112002204"
                     "0000e040");
    encodes("f[2]:2,3", "08011204120208022208"
                        "0000004000004040");
    encodes("f[0,3]:1", "0801120612001202"
                        "0803");
    encodes("b[2]:1,0", "080a120412020802"
                        "22020100");
    encodes("s[2]:ab,c", "0807120412020802"
                         "22050201616263");
    encodes("l[]:-1", "080912002208"
                      "ffffffffffffffff");
}

STAGE_TEST(each_string_counts_as_what_it_takes)
{
    struct mu_dims shape = {.rank = 1, .dim = {100}};
    struct mu_kernel_error error = {.status = MUSTER_OK};
    struct mu_tensor *tensor = mu_tensor_new(&stage.memory, MU_STRING, &shape, &error);

    for (size_t k = 0; k < 100; k++)
        assert_true(mu_tensor_string_set(tensor, k, "x", 1, &error));
    assert_true(stage.memory.held >= 100 * (sizeof(struct mu_kernel_string) + 32)); /* an allocation each */
    mu_tensor_drop(tensor);
    assert_int_equal(stage.memory.held, 0);
}

static void unpack_fails(const char *hex, enum muster_status status)
{
    struct mu_kernel_error error = {.status = MUSTER_OK};
    uint8_t bytes[256];
    size_t len = strlen(hex) / 2, spare = MU_TENSOR_SPARE;

    for (size_t k = 0; k < len; k++) {
        char pair[3] = {hex[2 * k], hex[2 * k + 1], 0};

        bytes[k] = (uint8_t)strtoul(pair, NULL, 16);
    }
    assert_null(mu_tensor_unpack(&stage.memory, bytes, len, &spare, &error));
    assert_int_equal(error.status, status);
    assert_int_equal(stage.memory.held, 0);
}

STAGE_TEST(hostile_tensors_are_refused)
{
    unpack_fails("0801120412020802"
                 "2204"
                 "0000e040",
                 MUSTER_INVALID_ARGUMENT); /* content of one, shape of two */
    unpack_fails("08011202120022"
                 "04"
                 "0000e040",
                 MUSTER_INVALID_ARGUMENT); /* content, shape of none */
    unpack_fails("0807120412020802"
                 "2203"
                 "020161",
                 MUSTER_INVALID_ARGUMENT); /* strings of 3 bytes, 1 is there */
    unpack_fails("0807120412020802"
                 "2204"
                 "01016162"
                 "80",
                 MUSTER_INVALID_ARGUMENT); /* and what is no message */
    unpack_fails("0807120412020802"
                 "2205"
                 "0101616263",
                 MUSTER_INVALID_ARGUMENT); /* a byte too many */
    unpack_fails("080712041202080122"
                 "0bffffffffffffffffff0161",
                 MUSTER_INVALID_ARGUMENT); /* a length of 2^64 - 1 */
    unpack_fails("0801120c120a08808080808080808040"
                 "2a040000803f",
                 MUSTER_INVALID_ARGUMENT);                                 /* 2^62 of them */
    unpack_fails("08011209120708808080808020", MUSTER_RESOURCE_EXHAUSTED); /* 2^40 of nothing */
    unpack_fails("08001200", MUSTER_INVALID_ARGUMENT);
    unpack_fails("080812002208"
                 "0000000000000000",
                 MUSTER_UNIMPLEMENTED);                            /* complex64 */
    unpack_fails("08141200", MUSTER_INVALID_ARGUMENT);             /* a resource */
    unpack_fails("086512002a040000803f", MUSTER_INVALID_ARGUMENT); /* float_ref */
    unpack_fails("080112021801", MUSTER_INVALID_ARGUMENT);         /* of unknown rank */
}
