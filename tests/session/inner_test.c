/*
 * tests/session/inner_test.c: muster's own kernels as executors: calls and their answers, in a loop, without a session.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "kernel/graph.pb-c.h"
#include "session/inner.h"

static uv_loop_t loop;
static uv_async_t alive; /* a loop with nothing of its own does not turn; an agent's has */
static struct mu_inner *inner;
static struct mu_executor *one, *two;
static bool is_stopped;

/* ---- graphs of int32 --------------------------------------------------------------------------------------------- */

struct text {
    Mu__Graph__GraphDef graph;
    Mu__Graph__NodeDef *nodes[16], node[16];
    Mu__Graph__AttrEntry *entries[16][8], entry[16][8];
    Mu__Graph__AttrValue value[16][8];
    char *inputs[16][2];
};

static Mu__Graph__AttrValue *attr(struct text *t, const char *key)
{
    size_t n = t->graph.n_node - 1;
    Mu__Graph__NodeDef *node = &t->node[n];
    Mu__Graph__AttrEntry *entry = &t->entry[n][node->n_attr];
    Mu__Graph__AttrValue *value = &t->value[n][node->n_attr];

    mu__graph__attr_entry__init(entry);
    mu__graph__attr_value__init(value);
    entry->key = (char *)(uintptr_t)key;
    entry->value = value;
    t->entries[n][node->n_attr++] = entry;
    return value;
}

static void attr_type(struct text *t, const char *key)
{
    Mu__Graph__AttrValue *value = attr(t, key);

    value->value_case = MU__GRAPH__ATTR_VALUE__VALUE_TYPE;
    value->type = MU__GRAPH__DATA_TYPE__DT_INT32;
}

static void attr_text(struct text *t, const char *key, const char *text)
{
    Mu__Graph__AttrValue *value = attr(t, key);

    value->value_case = MU__GRAPH__ATTR_VALUE__VALUE_S;
    value->s = (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

static void node(struct text *t, const char *name, const char *op, const char *a, const char *b)
{
    size_t n = t->graph.n_node++;

    mu__graph__node_def__init(&t->node[n]);
    t->nodes[n] = &t->node[n];
    t->node[n].name = (char *)(uintptr_t)name;
    t->node[n].op = (char *)(uintptr_t)op;
    t->node[n].attr = t->entries[n];
    t->node[n].input = t->inputs[n];
    t->inputs[n][0] = (char *)(uintptr_t)a;
    t->inputs[n][1] = (char *)(uintptr_t)b;
    t->node[n].n_input = (a != NULL) + (b != NULL);
    t->graph.node = t->nodes;
}

static void edge(struct text *t, const char *name, const char *from)
{
    node(t, name, from ? "_Send" : "_Recv", from, NULL);
    attr_type(t, from ? "T" : "tensor_type");
    attr_text(t, "tensor_name", name);
    attr_text(t, "send_device", "D");
    attr_text(t, "recv_device", "D");
    attr(t, "send_device_incarnation")->value_case = MU__GRAPH__ATTR_VALUE__VALUE_I;
}

#define KEY(name) "D;0000000000000000;D;" name ";0:0"

/* ---- calls ------------------------------------------------------------------------------------------------------- */

struct answer {
    unsigned count;
    enum muster_status status;
    char text[300], graph[32];
    int32_t numbers[4]; /* the first element of each tensor */
    uint32_t num_tensors;
};

static void on_done(void *arg, const struct mu_executor_answer *is)
{
    struct answer *answer = arg;

    answer->count++;
    answer->status = is->status;
    snprintf(answer->text, sizeof answer->text, "%s", is->text);
    snprintf(answer->graph, sizeof answer->graph, "%s", is->graph ? is->graph : "");
    answer->num_tensors = is->num_tensors;
    for (uint32_t k = 0; k < is->num_tensors && k < 4; k++) {
        Mu__Graph__TensorProto *t =
            mu__graph__tensor_proto__unpack(NULL, is->tensors[k].tensor.len, is->tensors[k].tensor.at);

        memcpy(&answer->numbers[k], t->tensor_content.data, sizeof answer->numbers[k]);
        mu__graph__tensor_proto__free_unpacked(t, NULL);
    }
}

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void await_answer(struct answer *answer)
{
    assert_int_equal(answer->count, 0); /* never before the call has returned */
    await_by(turn(), answer->count == 1, "an answer");
}

static void session_make(struct mu_executor *executor, const char *name)
{
    struct mu_executor_session session = {.session = name};
    struct answer answer = {0};

    executor->kind->create_session(executor, &session, on_done, &answer);
    await_answer(&answer);
    assert_int_equal(answer.status, MUSTER_OK);
}

static void graph_make(struct mu_executor *executor, struct text *t, char handle[32])
{
    uint8_t bytes[4096];
    struct mu_executor_graph graph = {.session = "s"};
    struct answer answer = {0};

    graph.graph = (struct mu_executor_bytes){bytes, mu__graph__graph_def__pack(&t->graph, bytes)};
    executor->kind->register_graph(executor, &graph, on_done, &answer);
    await_answer(&answer);
    assert_string_equal(answer.text, "");
    memcpy(handle, answer.graph, 32);
}

static struct mu_executor_call *run(struct mu_executor *executor, const char *graph, int64_t step, const char *send,
                                    int32_t number, const char *recv, bool is_partial, struct answer *answer)
{
    uint8_t tensor[] = {8, 3, 18, 0, 34, 4, 0, 0, 0, 0};
    struct mu_executor_tensor sent = {send, {tensor, sizeof tensor}};
    struct mu_executor_run what = {.session = "s",
                                   .graph = graph,
                                   .step = step,
                                   .send = &sent,
                                   .num_send = send != NULL,
                                   .recv = &recv,
                                   .num_recv = recv != NULL,
                                   .is_partial = is_partial};

    memcpy(tensor + 6, &number, 4);
    *answer = (struct answer){0};
    return executor->kind->run(executor, &what, on_done, answer);
}

static int executors_open(void)
{
    is_stopped = false;
    uv_loop_init(&loop);
    uv_async_init(&loop, &alive, NULL);
    inner = mu_inner_new(&loop, 1 << 28);
    one = mu_inner_executor(inner, "ps", 0);
    two = mu_inner_executor(inner, "worker", 1);
    session_make(one, "s");
    session_make(two, "s");
    return 0;
}

static void on_stopped(void *arg)
{
    *(bool *)arg = true;
}

static int executors_close(void)
{
    mu_inner_free(inner, on_stopped, &is_stopped);
    await_by(turn(), is_stopped, "the executors' end");
    uv_close((uv_handle_t *)&alive, NULL);
    turn();
    return uv_loop_close(&loop);
}

#define INNER_TEST(name) TEST_WITH(name, executors_open, executors_close)

/* x from outside; y = x + x; y goes out. */
static void doubles(struct text *t)
{
    mu__graph__graph_def__init(&t->graph);
    edge(t, "x", NULL);
    node(t, "sum", "AddV2", "x", "x");
    attr_type(t, "T");
    edge(t, "y", "sum");
}

INNER_TEST(a_step_takes_what_is_fed_and_gives_what_is_fetched)
{
    struct text t = {0};
    struct answer answer = {0};
    char graph[32];

    doubles(&t);
    graph_make(one, &t, graph);
    for (int step = 1; step < 4; step++) {
        run(one, graph, step, KEY("x"), 21 * step, KEY("y"), false, &answer);
        await_answer(&answer);
        assert_string_equal(answer.text, "");
        assert_int_equal(answer.num_tensors, 1);
        assert_int_equal(answer.numbers[0], 42 * step);
        one->kind->cleanup(one, step);
    }
    run(one, "no", 9, NULL, 0, NULL, false, &answer);
    await_answer(&answer);
    assert_int_equal(answer.status, MUSTER_ABORTED);
    assert_string_equal(answer.text, "Graph handle is not found: no");
    one->kind->deregister_graph(one, "s", graph, NULL);
}

INNER_TEST(a_device_and_ops_are_told)
{
    struct mu_executor_bytes ops, kernels;
    struct answer answer = {0};

    assert_true(one->kind->lists(one, &ops, &kernels));
    assert_true(ops.len > 1000 && kernels.len > 1000);
    one->kind->devices(one, on_done, &answer);
    await_answer(&answer);
    assert_int_equal(answer.status, MUSTER_OK);
}

/* Products of so many numbers that take minutes. */
INNER_TEST(a_kernel_in_another_thread_ends_with_its_step)
{
    static const int32_t sides[2] = {4000, 4000};
    Mu__Graph__TensorProto dims = MU__GRAPH__TENSOR_PROTO__INIT;
    Mu__Graph__TensorShapeProto shape = MU__GRAPH__TENSOR_SHAPE_PROTO__INIT;
    Mu__Graph__Dim dim = MU__GRAPH__DIM__INIT, *all = &dim;
    Mu__Graph__AttrValue *value;
    struct text t = {0};
    struct answer answer = {0};
    char graph[32];

    dim.has_size = true;
    dim.size = 2;
    shape.n_dim = 1;
    shape.dim = &all;
    dims.has_dtype = dims.has_tensor_content = true;
    dims.dtype = MU__GRAPH__DATA_TYPE__DT_INT32;
    dims.tensor_shape = &shape;
    dims.tensor_content = (ProtobufCBinaryData){sizeof sides, (uint8_t *)(uintptr_t)sides};
    mu__graph__graph_def__init(&t.graph);
    edge(&t, "x", NULL);
    node(&t, "dims", "Const", NULL, NULL);
    attr_type(&t, "dtype");
    value = attr(&t, "value");
    value->value_case = MU__GRAPH__ATTR_VALUE__VALUE_TENSOR;
    value->tensor = &dims;
    node(&t, "fill", "Fill", "dims", "x");
    attr_type(&t, "T");
    attr_type(&t, "index_type");
    node(&t, "size", "Size", "fill", NULL);
    attr_type(&t, "T");
    attr_type(&t, "out_type");
    edge(&t, "y", "size");
    node(&t, "product", "MatMul", "fill", "fill");
    attr_type(&t, "T");
    attr(&t, "transpose_b")->value_case = MU__GRAPH__ATTR_VALUE__VALUE_B;
    t.value[t.graph.n_node - 1][1].b = true;
    graph_make(one, &t, graph);
    run(one, graph, 1, KEY("x"), 1, KEY("y"), true, &answer);
    await_answer(&answer);
    assert_int_equal(answer.numbers[0], 16000000);
    for (int k = 0; k < 9; k++)
        turn(); /* the product has begun, or soon would */
    one->kind->cleanup(one, 1);
}

/* Each step has work for several turns, and all together for many looks at clients. */
INNER_TEST(the_loop_looks_at_its_clients_between_the_turns_of_many_steps)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"};
    static const int32_t sides[1] = {1000000};
    Mu__Graph__TensorProto dims = MU__GRAPH__TENSOR_PROTO__INIT;
    Mu__Graph__TensorShapeProto shape = MU__GRAPH__TENSOR_SHAPE_PROTO__INIT;
    Mu__Graph__Dim dim = MU__GRAPH__DIM__INIT, *all = &dim;
    Mu__Graph__AttrValue *value;
    struct answer answers[16] = {0};
    struct text t = {0};
    unsigned count = 0;
    char graph[32];

    dim.has_size = true;
    dim.size = 1;
    shape.n_dim = 1;
    shape.dim = &all;
    dims.has_dtype = dims.has_tensor_content = true;
    dims.dtype = MU__GRAPH__DATA_TYPE__DT_INT32;
    dims.tensor_shape = &shape;
    dims.tensor_content = (ProtobufCBinaryData){sizeof sides, (uint8_t *)(uintptr_t)sides};
    mu__graph__graph_def__init(&t.graph);
    doubles(&t); /* y goes out early */
    node(&t, "dims", "Const", NULL, NULL);
    attr_type(&t, "dtype");
    value = attr(&t, "value");
    value->value_case = MU__GRAPH__ATTR_VALUE__VALUE_TENSOR;
    value->tensor = &dims;
    node(&t, names[0], "Fill", "dims", "sum");
    attr_type(&t, "T");
    attr_type(&t, "index_type");
    for (size_t k = 1; k < sizeof names / sizeof names[0]; k++) {
        node(&t, names[k], "AddV2", names[k - 1], names[k - 1]);
        attr_type(&t, "T");
    }
    graph_make(one, &t, graph);
    for (int k = 0; k < 16; k++)
        run(one, graph, k + 1, KEY("x"), 1, KEY("y"), true, &answers[k]);
    turn();
    for (int k = 0; k < 16; k++)
        count += answers[k].count;
    assert_true(count < 16); /* not all have had a turn */
    for (int k = 0; k < 16; k++) {
        await_by(turn(), answers[k].count == 1, "an answer");
        assert_int_equal(answers[k].numbers[0], 2);
        one->kind->cleanup(one, k + 1);
    }
}

INNER_TEST(executors_give_each_other_tensors)
{
    struct text t = {0}, u = {0};
    struct answer first = {0}, second = {0};
    char graph[32], other[32];

    doubles(&t);
    graph_make(one, &t, graph);
    mu__graph__graph_def__init(&u.graph);
    edge(&u, "y", NULL);
    node(&u, "neg", "Neg", "y", NULL);
    attr_type(&u, "T");
    edge(&u, "z", "neg");
    graph_make(two, &u, other);
    run(two, other, 5, NULL, 0, KEY("z"), false, &second);
    turn();
    assert_int_equal(second.count, 0);
    run(one, graph, 5, KEY("x"), 4, NULL, false, &first);
    await_answer(&first);
    await_by(turn(), second.count == 1, "the other part");
    assert_string_equal(second.text, "");
    assert_int_equal(second.numbers[0], -8);
    one->kind->cleanup(one, 5);
    two->kind->cleanup(two, 5);
}

INNER_TEST(a_step_comes_in_parts)
{
    struct text t = {0};
    struct answer answer = {0};
    char graph[32];

    doubles(&t);
    edge(&t, "a", NULL);
    node(&t, "more", "Mul", "sum", "a");
    attr_type(&t, "T");
    edge(&t, "b", "more");
    graph_make(one, &t, graph);
    run(one, graph, 6, KEY("x"), 3, KEY("y"), true, &answer);
    await_answer(&answer);
    assert_int_equal(answer.numbers[0], 6);
    run(one, graph, 6, KEY("a"), 7, KEY("b"), true, &answer);
    await_answer(&answer);
    assert_int_equal(answer.numbers[0], 42);
    one->kind->cleanup(one, 6);
}

INNER_TEST(what_waits_can_be_cancelled_and_is_told_of_the_end)
{
    struct text t = {0};
    struct answer answer = {0}, closed = {0}, cleaned = {0};
    char graph[32];

    doubles(&t);
    graph_make(one, &t, graph);
    one->kind->cancel(run(one, graph, 7, NULL, 0, KEY("y"), false, &answer));
    one->kind->cleanup(one, 7);
    run(one, graph, 8, NULL, 0, KEY("y"), false, &cleaned);
    one->kind->cleanup(one, 8);
    await_answer(&cleaned);
    assert_int_equal(cleaned.status, MUSTER_CANCELLED);
    run(one, graph, 9, NULL, 0, KEY("y"), false, &closed);
    turn();
    one->kind->delete_session(one, "s");
    await_answer(&closed);
    assert_int_equal(closed.status, MUSTER_CANCELLED);
    assert_int_equal(answer.count, 0);
    one->kind->cleanup(one, 9);
}

/* A product of a thousand by a thousand runs in another thread: the loop turns; and its step may be given up meanwhile.
 */
INNER_TEST(a_long_kernel_does_not_hold_the_loop)
{
    struct text t = {0};
    struct answer answer = {0}, gone = {0};
    Mu__Graph__TensorProto value = MU__GRAPH__TENSOR_PROTO__INIT, shape = MU__GRAPH__TENSOR_PROTO__INIT;
    Mu__Graph__TensorShapeProto scalar = MU__GRAPH__TENSOR_SHAPE_PROTO__INIT,
                                pair = MU__GRAPH__TENSOR_SHAPE_PROTO__INIT;
    Mu__Graph__Dim dim = MU__GRAPH__DIM__INIT, *dims = &dim;
    int32_t ones[] = {1}, size[] = {1100};
    Mu__Graph__AttrValue *v;
    char graph[32];

    mu__graph__graph_def__init(&t.graph);
    value.has_dtype = shape.has_dtype = dim.has_size = true;
    value.dtype = shape.dtype = MU__GRAPH__DATA_TYPE__DT_INT32;
    value.n_int_val = shape.n_int_val = 1;
    value.int_val = ones;
    shape.int_val = size;
    dim.size = 2;
    pair.n_dim = 1;
    pair.dim = &dims;
    value.tensor_shape = &scalar;
    shape.tensor_shape = &pair;
    node(&t, "one", "Const", NULL, NULL);
    attr_type(&t, "dtype");
    v = attr(&t, "value");
    v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_TENSOR;
    v->tensor = &value;
    node(&t, "shape", "Const", NULL, NULL);
    attr_type(&t, "dtype");
    v = attr(&t, "value");
    v->value_case = MU__GRAPH__ATTR_VALUE__VALUE_TENSOR;
    v->tensor = &shape;
    node(&t, "m", "Fill", "shape", "one");
    attr_type(&t, "T");
    node(&t, "p", "MatMul", "m", "m");
    attr_type(&t, "T");
    edge(&t, "y", "p");
    graph_make(one, &t, graph);
    run(one, graph, 1, NULL, 0, KEY("y"), false, &answer);
    run(one, graph, 2, NULL, 0, KEY("y"), false, &gone);
    turn();
    turn();
    one->kind->cleanup(one, 2);
    await_answer(&gone);
    assert_int_equal(gone.status, MUSTER_CANCELLED);
    assert_int_equal(answer.count, 0); /* the loop has turned, and the product is not done */
    await_answer(&answer);
    assert_string_equal(answer.text, "");
    assert_int_equal(answer.numbers[0], 1100);
    one->kind->cleanup(one, 1);
    run(one, graph, 3, NULL, 0, NULL, false, &answer);
    turn();
    turn(); /* it ends while the kernel runs: executors_close() waits for it */
}
