/*
 * tests/session/direct_test.c: steps past gRPC: the master's end of the channel, against a peer that says what it
 * likes.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernel/graph.pb-c.h"
#include "session/direct.h"

#define DEVICE    "/job:ps/replica:0/task:0/device:CPU:0"
#define KEY(name) DEVICE ";0000000000000001;" DEVICE ";" name ";0:0"
#define LONG      (24u << 20)

static uv_loop_t loop;
static uv_async_t alive;
static struct mu_direct *direct;
static struct mu_direct_way *way;
static int peer;
static uint8_t *long_tensor;
static size_t long_len;

struct answer {
    unsigned count;
    enum muster_status status;
    bool is_lost, is_clean;
    char text[200], key[200];
    float number;
    size_t len;
};

static void on_done(void *arg, const struct mu_executor_answer *is)
{
    struct answer *a = arg;

    a->count++;
    a->status = is->status;
    a->is_lost = is->is_lost;
    a->is_clean = is->is_clean;
    snprintf(a->text, sizeof a->text, "%s", is->text);
    if (is->num_tensors) {
        Mu__Graph__TensorProto *t =
            mu__graph__tensor_proto__unpack(NULL, is->tensors[0].tensor.len, is->tensors[0].tensor.at);

        assert_non_null(t);
        assert_int_equal(t->dtype, MU__GRAPH__DATA_TYPE__DT_FLOAT);
        assert_int_equal(t->tensor_shape->n_dim, 1);
        assert_int_equal(t->tensor_shape->dim[0]->size * 4, t->tensor_content.len);
        snprintf(a->key, sizeof a->key, "%s", is->tensors[0].key);
        a->len = t->tensor_content.len;
        memcpy(&a->number, t->tensor_content.data, sizeof a->number);
        mu__graph__tensor_proto__free_unpacked(t, NULL);
    }
}

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void await_answer(const unsigned *count)
{
    for (int i = 0; i < 5000 && !*count; i++) {
        turn();
        usleep(1000); /* sleep: the loop is not turned all the time */
    }
    assert_true(*count > 0);
}

/* ---- a part of a graph: y = x + x, and an order that nothing waits for ------------------------------------------- */

static Mu__Graph__AttrEntry *attr(const char *key, int kind, const char *text, int number)
{
    Mu__Graph__AttrEntry *e = calloc(1, sizeof *e);

    mu__graph__attr_entry__init(e);
    e->key = strdup(key);
    e->value = calloc(1, sizeof *e->value);
    mu__graph__attr_value__init(e->value);
    e->value->value_case = (Mu__Graph__AttrValue__ValueCase)kind;
    if (text)
        e->value->s = (ProtobufCBinaryData){strlen(text), (uint8_t *)strdup(text)};
    else if (kind == MU__GRAPH__ATTR_VALUE__VALUE_B)
        e->value->b = number;
    else
        e->value->type = (Mu__Graph__DataType)number;
    return e;
}

static Mu__Graph__NodeDef *node(Mu__Graph__GraphDef *def, const char *name, const char *op, const char *a,
                                const char *b)
{
    Mu__Graph__NodeDef *n = calloc(1, sizeof *n);

    mu__graph__node_def__init(n);
    n->name = strdup(name);
    n->op = strdup(op);
    n->device = strdup(DEVICE);
    n->input = calloc(2, sizeof *n->input);
    n->attr = calloc(4, sizeof *n->attr);
    if (a)
        n->input[n->n_input++] = strdup(a);
    if (b)
        n->input[n->n_input++] = strdup(b);
    n->attr[n->n_attr++] =
        attr(strcmp(op, "_Recv") == 0 ? "tensor_type" : "T", MU__GRAPH__ATTR_VALUE__VALUE_TYPE, NULL, 1);
    def->node[def->n_node++] = n;
    return n;
}

static void edge(Mu__Graph__GraphDef *def, const char *name, const char *tensor, const char *from)
{
    Mu__Graph__NodeDef *n = node(def, name, from ? "_Send" : "_Recv", from, NULL);

    n->attr[n->n_attr++] = attr("tensor_name", MU__GRAPH__ATTR_VALUE__VALUE_S, tensor, 0);
    n->attr[n->n_attr++] = attr("client_terminated", MU__GRAPH__ATTR_VALUE__VALUE_B, NULL, 1);
}

static void *part_make(size_t *ret_len)
{
    Mu__Graph__GraphDef *def = calloc(1, sizeof *def);
    void *bytes;

    mu__graph__graph_def__init(def);
    def->node = calloc(8, sizeof(Mu__Graph__NodeDef *));
    edge(def, "_recv_x_0", "x:0", NULL);
    node(def, "sum", "AddV2", "_recv_x_0", "_recv_x_0:0");
    edge(def, "_send_sum_0", "sum:0", "sum");
    node(def, "order", "NoOp", "^_recv_x_0", "^sum");
    *ret_len = mu__graph__graph_def__get_packed_size(def);
    bytes = malloc(*ret_len);
    mu__graph__graph_def__pack(def, bytes);
    mu__graph__graph_def__free_unpacked(def, NULL);
    return bytes;
}

static uint8_t *tensor_make(uint32_t floats, float first, size_t *ret_len)
{
    Mu__Graph__TensorProto t = MU__GRAPH__TENSOR_PROTO__INIT;
    Mu__Graph__TensorShapeProto shape = MU__GRAPH__TENSOR_SHAPE_PROTO__INIT;
    Mu__Graph__Dim dim = MU__GRAPH__DIM__INIT, *dims = &dim;
    float *content = calloc(floats, sizeof *content);
    uint8_t *bytes;

    for (uint32_t i = 0; i < floats; i++)
        content[i] = first + (float)(i % 1024);
    dim.has_size = true;
    dim.size = floats;
    shape.n_dim = 1;
    shape.dim = &dims;
    t.has_dtype = t.has_tensor_content = true;
    t.dtype = MU__GRAPH__DATA_TYPE__DT_FLOAT;
    t.tensor_shape = &shape;
    t.tensor_content = (ProtobufCBinaryData){floats * sizeof *content, (uint8_t *)content};
    *ret_len = mu__graph__tensor_proto__get_packed_size(&t);
    bytes = malloc(*ret_len);
    mu__graph__tensor_proto__pack(&t, bytes);
    free(content);
    return bytes;
}

/* ---- the other end ----------------------------------------------------------------------------------------------- */

static void peer_read(void *to, size_t len)
{
    for (int i = 0; len > 0 && i < 100000; i++) {
        ssize_t n = recv(peer, to, len, MSG_DONTWAIT);

        turn();
        if (n <= 0) {
            usleep(100); /* sleep: likewise */
            continue;
        }
        to = (uint8_t *)to + n;
        len -= (size_t)n;
    }
    assert_int_equal(len, 0);
}

static void peer_write(const void *bytes, size_t len)
{
    assert_int_equal(send(peer, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static struct mu_direct_call *run(const uint8_t *tensor, size_t len, struct answer *answer)
{
    const struct mu_executor_tensor send = {KEY("x:0"), {tensor, len}};
    const char *recv = KEY("sum:0");
    const struct mu_executor_run run = {
        .session = "s", .graph = "g", .way = way, .send = &send, .num_send = 1, .recv = &recv, .num_recv = 1};

    *answer = (struct answer){0};
    return mu_direct_run(way, &run, on_done, answer);
}

static int channel_open(void)
{
    struct mu_executor_graph graph = {.session = "s", .is_whole = true};
    int pair[2];
    size_t len;
    void *part = part_make(&len);

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_async_init(&loop, &alive, NULL);
    peer = pair[1];
    direct = mu_direct_open(&loop, pair[0], "/job:ps/replica:0/task:0");
    assert_non_null(direct);
    graph.graph = (struct mu_executor_bytes){part, len};
    way = mu_direct_way_new(direct, &graph);
    assert_non_null(way);
    free(part);
    long_tensor = tensor_make(4, 1, &long_len);
    return 0;
}

static int channel_close(void)
{
    mu_direct_way_drop(way);
    mu_direct_close(direct);
    close(peer);
    free(long_tensor);
    uv_close((uv_handle_t *)&alive, NULL);
    for (int i = 0; i < 1000 && uv_loop_alive(&loop); i++)
        turn();
    return uv_loop_close(&loop);
}

#define CHANNEL_TEST(name) TEST_WITH(name, channel_open, channel_close)

/* The second step has the graph built. Its GraphDef, for the caller to free. */
static Mu__Graph__GraphDef *built(void)
{
    struct mu_direct_head head;
    struct answer answer;
    Mu__Graph__GraphDef *def;
    uint8_t *words;

    assert_null(run(long_tensor, long_len, &answer));
    assert_int_equal(recv(peer, &head, sizeof head, MSG_DONTWAIT), -1); /* most steps run once */
    assert_null(run(long_tensor, long_len, &answer));
    peer_read(&head, sizeof head);
    assert_int_equal(head.kind, MU_DIRECT_BUILD);
    assert_int_equal(head.count, 1);
    assert_int_equal(head.fetches, 1);
    words = malloc(head.words);
    peer_read(words, head.words);
    def = mu__graph__graph_def__unpack(NULL, head.words - head.config, words + head.config);
    free(words);
    assert_non_null(def);
    assert_null(run(long_tensor, long_len, &answer)); /* not there yet */
    head = (struct mu_direct_head){.kind = MU_DIRECT_BUILT, .id = head.id};
    peer_write(&head, sizeof head);
    for (int i = 0; i < 10; i++)
        turn();
    return def;
}

static void graph_free(Mu__Graph__GraphDef *def)
{
    mu__graph__graph_def__free_unpacked(def, NULL);
}

CHANNEL_TEST(a_part_becomes_a_graph_that_is_fed_fetched_and_run_to_its_end)
{
    Mu__Graph__GraphDef *def = built();

    assert_int_equal(def->n_node, 5);
    assert_string_equal(def->node[0]->name, "muster.in/0");
    assert_string_equal(def->node[0]->op, "Placeholder");
    assert_string_equal(def->node[0]->attr[0]->key, "dtype");
    assert_string_equal(def->node[1]->input[0], "muster.in/0");
    assert_string_equal(def->node[1]->device, "/device:CPU:0");
    assert_string_equal(def->node[2]->name, "muster.out/0");
    assert_string_equal(def->node[2]->op, "Identity");
    assert_string_equal(def->node[2]->input[0], "sum");
    assert_string_equal(def->node[3]->input[0], "^muster.in/0");
    assert_string_equal(def->node[4]->name, "muster.end");
    assert_int_equal(def->node[4]->n_input, 2);
    graph_free(def);
}

/* The peer answers a step with two floats. */
static void two_answer(uint64_t id)
{
    const struct mu_direct_head head = {.kind = MU_DIRECT_DONE, .id = id, .count = 1, .bytes = 8};
    const struct mu_direct_tensor tensor = {.type = 1, .num_dims = 1, .bytes = 8, .dims = {2}};
    const float numbers[2] = {7.5f, 8};

    peer_write(&head, sizeof head);
    turn();
    peer_write(&tensor, 40);
    turn();
    peer_write((const char *)&tensor + 40, sizeof tensor - 40);
    peer_write(numbers, 3);
    turn();
    peer_write((const char *)numbers + 3, 5);
}

CHANNEL_TEST(a_step_is_fed_and_answered_in_pieces)
{
    struct mu_direct_head head;
    struct mu_direct_tensor tensor;
    struct answer answer;
    float fed[4];

    graph_free(built());
    assert_non_null(run(long_tensor, long_len, &answer));
    peer_read(&head, sizeof head);
    peer_read(&tensor, sizeof tensor);
    peer_read(fed, sizeof fed);
    assert_int_equal(head.kind, MU_DIRECT_RUN);
    assert_int_equal(head.bytes, sizeof fed);
    assert_true(mu_direct_tensor_is_well(&tensor) && fed[3] == 4);
    two_answer(head.id);
    await_answer(&answer.count);
    assert_int_equal(answer.status, MUSTER_OK);
    assert_true(answer.is_clean && answer.number == 7.5f && answer.len == 8);
    assert_string_equal(answer.key, KEY("sum:0"));
}

CHANNEL_TEST(an_error_names_the_task_and_not_what_the_executor_calls_itself)
{
    static const char words[] = "From " MU_DIRECT_ITSELF ":\nno room on " MU_DIRECT_ITSELF "/device:CPU:0";
    struct mu_direct_head head;
    struct answer answer;

    graph_free(built());
    assert_non_null(run(long_tensor, long_len, &answer));
    peer_read(&head, sizeof head);
    head = (struct mu_direct_head){.kind = MU_DIRECT_DONE, .id = head.id, .status = 8, .words = sizeof words - 1};
    peer_write(&head, sizeof head);
    peer_write(words, sizeof words - 1);
    await_answer(&answer.count);
    assert_int_equal(answer.status, MUSTER_RESOURCE_EXHAUSTED);
    assert_string_equal(answer.text, "no room on " DEVICE);
    assert_false(answer.is_lost);
}

CHANNEL_TEST(a_cancelled_step_leaves_no_half_frame)
{
    struct mu_direct_head head;
    struct mu_direct_tensor tensor;
    struct answer answer, other;
    size_t len;
    uint8_t *bytes = tensor_make(LONG / 4, 1, &len);
    float *fed = malloc(LONG);
    struct mu_direct_call *call;

    graph_free(built());
    call = run(bytes, len, &answer);
    assert_non_null(call);
    assert_non_null(run(long_tensor, long_len, &other));
    mu_direct_cancel(call);
    memset(bytes, 0xff, len); /* they are the caller's again */
    free(bytes);
    peer_read(&head, sizeof head);
    peer_read(&tensor, sizeof tensor);
    peer_read(fed, LONG);
    for (uint32_t i = 0; i < LONG / 4; i++)
        assert_true(fed[i] == 1 + (float)(i % 1024));
    free(fed);
    two_answer(head.id); /* nobody wants it */
    peer_read(&head, sizeof head);
    two_answer(head.id);
    await_answer(&other.count);
    assert_int_equal(other.status, MUSTER_OK);
    assert_int_equal(answer.count, 0);
}

/* Each is a frame that no executor says, with a step on its way: that ends, and later ones go the other way. */
CHANNEL_TEST(a_graph_that_is_dropped_while_it_is_built_is_dropped_once_more)
{
    struct mu_direct_head head;
    struct answer answer;
    uint8_t *words;
    uint64_t id;

    assert_null(run(long_tensor, long_len, &answer));
    assert_null(run(long_tensor, long_len, &answer));
    peer_read(&head, sizeof head);
    words = malloc(head.words);
    peer_read(words, head.words);
    free(words);
    id = head.id;
    mu_direct_way_drop(way);
    way = NULL;
    peer_read(&head, sizeof head);
    assert_int_equal(head.kind, MU_DIRECT_DROP);
    head = (struct mu_direct_head){.kind = MU_DIRECT_BUILT, .id = id}; /* its thread was slower than the drop's */
    peer_write(&head, sizeof head);
    for (int i = 0; i < 10; i++)
        turn();
    peer_read(&head, sizeof head);
    assert_int_equal(head.kind, MU_DIRECT_DROP);
    assert_int_equal(head.id, id);
}

CHANNEL_TEST(an_answer_before_its_step_is_read_ends_the_channel)
{
    size_t len;
    uint8_t *tensor = tensor_make(16 << 20, 1, &len); /* 64 MiB: more than a socket takes */
    struct mu_direct_head head;
    struct answer answer;

    graph_free(built());
    assert_non_null(run(tensor, len, &answer));
    peer_read(&head, sizeof head);
    two_answer(head.id);
    await_answer(&answer.count);
    assert_int_equal(answer.status, MUSTER_UNAVAILABLE);
    assert_true(answer.is_lost);
    free(tensor);
    for (int i = 0; i < 10; i++)
        turn(); /* nothing of it is sent any more */
}

CHANNEL_TEST(a_wrong_frame_ends_the_channel_and_nothing_else)
{
    static const struct {
        struct mu_direct_head head;
        struct mu_direct_tensor tensor;
    } wrong[] = {
        {{.kind = 99}, {0}},
        {{.kind = MU_DIRECT_RUN}, {0}},
        {{.kind = MU_DIRECT_DONE, .count = MU_DIRECT_TENSORS + 1}, {0}},
        {{.kind = MU_DIRECT_DONE, .words = MU_DIRECT_WORDS + 1}, {0}},
        {{.kind = MU_DIRECT_DONE, .bytes = 1}, {0}},
        {{.kind = MU_DIRECT_DONE, .count = 1, .bytes = 8}, {.type = 7, .num_dims = 1, .bytes = 8, .dims = {2}}},
        {{.kind = MU_DIRECT_DONE, .count = 1, .bytes = 8}, {.type = 1, .num_dims = 9, .bytes = 8}},
        {{.kind = MU_DIRECT_DONE, .count = 1, .bytes = 8}, {.type = 1, .num_dims = 1, .bytes = 8, .dims = {-2}}},
        {{.kind = MU_DIRECT_DONE, .count = 1, .bytes = 8}, {.type = 1, .num_dims = 1, .bytes = 8, .dims = {3}}},
        {{.kind = MU_DIRECT_DONE, .count = 1, .bytes = 4},
         {.type = 1, .num_dims = 2, .bytes = 4, .dims = {1ll << 62, 1ll << 62}}},
        {{.kind = MU_DIRECT_DONE, .count = 1, .bytes = 4}, {.type = 1, .num_dims = 1, .bytes = 8, .dims = {2}}},
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct answer answer;

        if (i > 0) {
            assert_int_equal(channel_close(), 0);
            channel_open();
        }
        graph_free(built());
        assert_non_null(run(long_tensor, long_len, &answer));
        peer_write(&wrong[i].head, sizeof wrong[i].head);
        peer_write(&wrong[i].tensor, sizeof wrong[i].tensor);
        await_answer(&answer.count);
        assert_int_equal(answer.status, MUSTER_UNAVAILABLE);
        assert_true(answer.is_lost);
        assert_null(run(long_tensor, long_len, &answer));
    }
}

CHANNEL_TEST(half_a_frame_and_the_end_are_no_answer)
{
    const struct mu_direct_head head = {.kind = MU_DIRECT_DONE, .count = 1, .bytes = 8};
    struct answer answer;

    graph_free(built());
    assert_non_null(run(long_tensor, long_len, &answer));
    peer_write(&head, sizeof head - 3);
    for (int i = 0; i < 10; i++)
        turn();
    assert_int_equal(answer.count, 0);
    shutdown(peer, SHUT_RDWR);
    await_answer(&answer.count);
    assert_true(answer.is_lost);
}
