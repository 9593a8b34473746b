/*
 * tests/rpc/codec_test.c: the dialects byte by byte: requests and answers as protoc writes them, in all forms that a
 * reader must take; what no reader may take; and the container of an error's payloads.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/tsl_coordination.pb-c.h"
#include "rpc/codec.h"
#include "rpc/xla_coordination.pb-c.h"

#define A(name)      mu__xla_coordination__##name##__descriptor
#define B(name)      mu__tsl_coordination__##name##__descriptor
#define TASK         0x1111111111111111u
#define SERVICE      0x2222222222222222u
#define INCARNATIONS "0a12111111111111111111192222222222222222"

static const char *const names[] = {"value", "devices", NULL};

static size_t unhex(const char *hex, uint8_t *ret_bytes)
{
    size_t len = strlen(hex) / 2;

    for (size_t i = 0; i < len; i++) {
        unsigned byte;

        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        ret_bytes[i] = (uint8_t)byte;
    }
    return len;
}

static void assert_bytes(const char *hex, const void *bytes, size_t len)
{
    uint8_t expected[2048];

    assert_int_equal(unhex(hex, expected), len);
    assert_memory_equal(expected, bytes, len);
}

/* The message is written so, and what is read of that is written so again. */
static void assert_vector(const char *hex, const ProtobufCMessage *message)
{
    uint8_t bytes[1024], again[1024];
    ProtobufCMessage *got;
    size_t len = protobuf_c_message_get_packed_size(message);

    assert_true(len <= sizeof bytes);
    assert_int_equal(protobuf_c_message_pack(message, bytes), len);
    assert_bytes(hex, bytes, len);
    assert_ok(mu_codec_read(message->descriptor, names, bytes, len, &got));
    assert_int_equal(protobuf_c_message_get_packed_size(got), len);
    protobuf_c_message_pack(got, again);
    assert_memory_equal(bytes, again, len);
    mu_codec_free(got);
}

static void *read_hex(const ProtobufCMessageDescriptor *kind, const char *hex)
{
    uint8_t bytes[2048];
    size_t len = unhex(hex, bytes);
    ProtobufCMessage *got = NULL;

    assert_ok(mu_codec_read(kind, names, bytes, len, &got));
    return got;
}

static ProtobufCBinaryData text(const char *s)
{
    return (ProtobufCBinaryData){strlen(s), (uint8_t *)(uintptr_t)s};
}

static Mu__XlaCoordination__Incarnations incarnations = {PROTOBUF_C_MESSAGE_INIT(&A(incarnations)),
                                                         .task_incarnation = TASK, .service_incarnation = SERVICE};

TEST(xla_registers_and_beats_in_these_bytes)
{
    Mu__XlaCoordination__RegisterTaskRequest q = MU__XLA_COORDINATION__REGISTER_TASK_REQUEST__INIT;
    Mu__XlaCoordination__RegisterTaskResponse r = MU__XLA_COORDINATION__REGISTER_TASK_RESPONSE__INIT;
    Mu__XlaCoordination__HeartbeatRequest beat = MU__XLA_COORDINATION__HEARTBEAT_REQUEST__INIT;
    Mu__XlaCoordination__ServiceMismatchError mismatch = MU__XLA_COORDINATION__SERVICE_MISMATCH_ERROR__INIT;

    q.incarnation = TASK;
    assert_vector("191111111111111111", &q.base);
    q.source_task_id = 3;
    assert_vector("1911111111111111112803", &q.base);
    r.service_incarnation = SERVICE;
    assert_vector("092222222222222222", &r.base);
    r.service_incarnation = 0x0102030405060708u; /* which tells the order of bytes */
    assert_vector("090807060504030201", &r.base);
    beat.incarnations = &incarnations;
    beat.incarnation = TASK;
    beat.source_task_id = 3;
    assert_vector(INCARNATIONS "111111111111111111"
                               "1803",
                  &beat.base);
    mismatch.service_incarnation = SERVICE;
    assert_vector("092222222222222222", &mismatch.base);
}

TEST(xla_keys_have_these_bytes)
{
    Mu__XlaCoordination__KeyValueEntry kv = MU__XLA_COORDINATION__KEY_VALUE_ENTRY__INIT;
    Mu__XlaCoordination__InsertKeyValueRequest insert = MU__XLA_COORDINATION__INSERT_KEY_VALUE_REQUEST__INIT;
    Mu__XlaCoordination__GetKeyValueRequest get = MU__XLA_COORDINATION__GET_KEY_VALUE_REQUEST__INIT;
    Mu__XlaCoordination__IncrementKeyValueRequest up = MU__XLA_COORDINATION__INCREMENT_KEY_VALUE_REQUEST__INIT;

    kv.key = text("k");
    kv.value = text("v");
    insert.incarnations = get.incarnations = up.incarnations = &incarnations;
    insert.kv = &kv;
    insert.allow_overwrite = 1;
    assert_vector(INCARNATIONS "12060a016b120176"
                               "1801",
                  &insert.base);
    get.key = up.key = text("k");
    assert_vector(INCARNATIONS "12016b", &get.base);
    up.increment = -1;
    assert_vector(INCARNATIONS "12016b18ffffffffffffffffff01", &up.base);
}

TEST(xla_barriers_and_lists_have_these_bytes)
{
    Mu__XlaCoordination__BarrierRequest barrier = MU__XLA_COORDINATION__BARRIER_REQUEST__INIT;
    Mu__XlaCoordination__GetAliveTasksResponse alive = MU__XLA_COORDINATION__GET_ALIVE_TASKS_RESPONSE__INIT;
    Mu__XlaCoordination__WatchTasksRequest watch = MU__XLA_COORDINATION__WATCH_TASKS_REQUEST__INIT;
    Mu__XlaCoordination__BarrierError error = MU__XLA_COORDINATION__BARRIER_ERROR__INIT;
    int32_t tasks[] = {0, 1};
    uint64_t of_tasks[] = {TASK, 0x3333333333333333u};

    barrier.incarnations = watch.incarnations = &incarnations;
    barrier.barrier_id = text("b");
    barrier.barrier_timeout_in_ms = 5000;
    barrier.n_task_ids = 2;
    barrier.task_ids = tasks;
    barrier.source_task_id = 1;
    barrier.counter = 2;
    assert_vector(INCARNATIONS "120162188827220200012801"
                               "3002",
                  &barrier.base);
    alive.n_alive_task_ids = alive.n_incarnations = 2;
    alive.alive_task_ids = tasks;
    alive.incarnations = of_tasks;
    assert_vector("0a020001121011111111111111113333333333333333", &alive.base);
    watch.version_number = -1;
    assert_vector(INCARNATIONS "10ffffffffffffffffff01", &watch.base);
    error.barrier_id = text("b");
    error.counter = 2;
    assert_vector("0a01621002", &error.base);
}

TEST(tsl_requests_have_these_bytes)
{
    Mu__TslCoordination__CoordinatedTask zero = MU__TSL_COORDINATION__COORDINATED_TASK__INIT, task = zero;
    Mu__TslCoordination__CoordinatedTask one = zero, *tasks[] = {&zero, &one};
    Mu__TslCoordination__RegisterTaskRequest q = MU__TSL_COORDINATION__REGISTER_TASK_REQUEST__INIT;
    Mu__TslCoordination__HeartbeatRequest beat = MU__TSL_COORDINATION__HEARTBEAT_REQUEST__INIT;
    Mu__TslCoordination__BarrierRequest barrier = MU__TSL_COORDINATION__BARRIER_REQUEST__INIT;
    Mu__TslCoordination__InsertKeyValueRequest insert = MU__TSL_COORDINATION__INSERT_KEY_VALUE_REQUEST__INIT;
    Mu__TslCoordination__KeyValueEntry kv = MU__TSL_COORDINATION__KEY_VALUE_ENTRY__INIT;

    q.incarnation = beat.incarnation = TASK;
    q.source_task = beat.source_task = &task;
    assert_vector("1911111111111111112a00", &q.base); /* of a client without names */
    task.job_name = zero.job_name = one.job_name = text("jax_worker");
    assert_vector("1911111111111111112a0c0a0a6a61785f776f726b6572", &q.base);
    task.task_id = 3;
    assert_vector("1911111111111111112a0e0a0a6a61785f776f726b65721003", &q.base);
    assert_vector("191111111111111111220e0a0a6a61785f776f726b65721003", &beat.base);
    one.task_id = 1;
    barrier.barrier_id = text("b");
    barrier.barrier_timeout_in_ms = 5000;
    barrier.n_tasks = 2;
    barrier.tasks = tasks;
    barrier.source_task = &one;
    barrier.counter = 2;
    assert_vector("0a01621088271a0c0a0a6a61785f776f726b65721a0e0a0a6a61785f776f726b6572"
                  "1001220e0a0a6a61785f776f726b657210012802",
                  &barrier.base);
    kv.key = text("k");
    kv.value = text("v");
    insert.kv = &kv;
    assert_vector("0a060a016b120176", &insert.base);
}

TEST(payloads_have_these_bytes)
{
    Mu__XlaCoordination__CoordinationServiceError service = MU__XLA_COORDINATION__COORDINATION_SERVICE_ERROR__INIT;
    Mu__XlaCoordination__BarrierError barrier = MU__XLA_COORDINATION__BARRIER_ERROR__INIT;
    struct mu_codec_payload payloads[MU_CODEC_PAYLOADS_MAX + 1] = {{"CoordinationServiceError", &service.base},
                                                                   {"BarrierError", &barrier.base}};
    void *bytes;
    size_t size;

    barrier.barrier_id = text("b");
    barrier.counter = 2;
    assert_ok(mu_codec_payloads(payloads, 1, &bytes, &size));
    assert_bytes("0a3b0a37747970652e676f6f676c65617069732e636f6d2f74656e736f72666c6f772e436f6f7264696e6174696f6e53"
                 "6572766963654572726f721200",
                 bytes, size);
    free(bytes);
    assert_ok(mu_codec_payloads(payloads, 2, &bytes, &size));
    assert_bytes("0a3b0a37747970652e676f6f676c65617069732e636f6d2f74656e736f72666c6f772e436f6f7264696e6174696f6e53"
                 "6572766963654572726f7212000a340a2b747970652e676f6f676c65617069732e636f6d2f74656e736f72666c6f772e"
                 "426172726965724572726f7212050a01621002",
                 bytes, size);
    free(bytes);
    assert_status(MUSTER_INTERNAL, mu_codec_payloads(payloads, MU_CODEC_PAYLOADS_MAX + 1, &bytes, &size));
}

TEST(numbers_are_read_packed_or_not_or_both)
{
    static const char *const forms[] = {"22020001", "20002001", "2000220101", "2201002001"};

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        Mu__XlaCoordination__BarrierRequest *q = read_hex(&A(barrier_request), forms[i]);

        assert_int_equal(q->n_task_ids, 2);
        assert_int_equal(q->task_ids[0], 0);
        assert_int_equal(q->task_ids[1], 1);
        mu_codec_free(&q->base);
    }
    for (size_t i = 0; i < 2; i++) { /* fixed64 */
        Mu__XlaCoordination__GetAliveTasksResponse *r =
            read_hex(&A(get_alive_tasks_response), i ? "111111111111111111"
                                                       "112222222222222222"
                                                     : "121011111111111111112222222222222222");

        assert_int_equal(r->n_incarnations, 2);
        assert_true(r->incarnations[0] == TASK && r->incarnations[1] == SERVICE);
        mu_codec_free(&r->base);
    }
}

TEST(a_submessage_that_comes_twice_is_one)
{
    Mu__TslCoordination__RegisterTaskRequest *q;
    Mu__XlaCoordination__InsertKeyValueRequest *insert;
    Mu__XlaCoordination__WatchTasksResponse *watched;
    ProtobufCMessage *refused;
    uint8_t bytes[64];
    size_t len;

    /* the name in the first, the number in the second, then one that is empty */
    q = read_hex(&B(register_task_request), "2a030a01612a021003"
                                            "2a00");
    assert_int_equal(q->source_task->task_id, 3);
    assert_int_equal(q->source_task->job_name.len, 1);
    assert_memory_equal(q->source_task->job_name.data, "a", 1);
    mu_codec_free(&q->base);
    q = read_hex(&B(register_task_request), "2a0210032a021005"); /* the last number counts */
    assert_int_equal(q->source_task->task_id, 5);
    mu_codec_free(&q->base);
    /* in an element of a list, and what follows a merged one stands */
    watched = read_hex(&A(watch_tasks_response), "0a0d08022a0220092a02180122016d1005");
    assert_int_equal(watched->n_task_state, 1);
    assert_int_equal(watched->task_state[0]->task_id, 2);
    assert_int_equal(watched->task_state[0]->error_payload->source_task_id, 9);
    assert_int_equal(watched->task_state[0]->error_payload->is_reported_error, 1);
    assert_int_equal(watched->task_state[0]->error_message.len, 1);
    assert_int_equal(watched->version_number, 5);
    mu_codec_free(&watched->base);
    /* what is no message is none when it is merged either: a number of 64 bits of which there are six bytes */
    len = unhex("2a0210032a00792a0210012a00", bytes);
    assert_status(MUSTER_INVALID_ARGUMENT, mu_codec_read(&B(register_task_request), names, bytes, len, &refused));
    insert = read_hex(&A(insert_key_value_request), "12030a016b1203120176");
    assert_int_equal(insert->kv->key.len, 1);
    assert_int_equal(insert->kv->value.len, 1);
    mu_codec_free(&insert->base);
}

TEST(what_is_left_out_is_zero_and_what_is_not_known_is_skipped)
{
    Mu__TslCoordination__BarrierRequest *q = read_hex(&B(barrier_request), "");
    Mu__XlaCoordination__HeartbeatRequest *beat;

    assert_null(q->source_task);
    assert_int_equal(q->counter, 0);
    mu_codec_free(&q->base);
    q = read_hex(&B(barrier_request), "2200"); /* task 0 of a client without names */
    assert_non_null(q->source_task);
    assert_int_equal(q->source_task->task_id, 0);
    mu_codec_free(&q->base);
    /* fields 100 (number), 101 (bytes), 102 (fixed32), 103 (fixed64), among known ones */
    beat = read_hex(&A(heartbeat_request), "a00605"
                                           "1803"
                                           "aa0603616263"
                                           "b50601020304"
                                           "b9060102030405060708");
    assert_int_equal(beat->source_task_id, 3);
    mu_codec_free(&beat->base);
    /* minus one in ten bytes, where 32 bits are meant */
    beat = read_hex(&A(heartbeat_request), "18ffffffffffffffffff01");
    assert_int_equal(beat->source_task_id, -1);
    mu_codec_free(&beat->base);
}

TEST(text_is_utf8_and_values_are_anything)
{
    static const char *const bad[] = {"1201ff", "1202c080", "1203eda080", "1201c3", "120461c328ff", "1204f4908080"};
    uint8_t bytes[64];
    ProtobufCMessage *got = NULL;
    Mu__XlaCoordination__GetKeyValueRequest *get;
    Mu__XlaCoordination__InsertKeyValueRequest *insert;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t len = unhex(bad[i], bytes);

        assert_status(MUSTER_INVALID_ARGUMENT, mu_codec_read(&A(get_key_value_request), names, bytes, len, &got));
        assert_string_equal(muster_last_error(), "the GetKeyValueRequest: a key is not UTF-8");
        assert_null(got);
    }
    assert_status(MUSTER_INVALID_ARGUMENT, /* inside */
                  mu_codec_read(&A(insert_key_value_request), names, bytes, unhex("12030a01ff", bytes), &got));
    get = read_hex(&A(get_key_value_request), "12086100c3a4f09f9880"); /* with a NUL, two bytes, four bytes */
    assert_int_equal(get->key.len, 8);
    mu_codec_free(&get->base);
    insert = read_hex(&A(insert_key_value_request), "12080a016b1203ff00fe");
    assert_int_equal(insert->kv->value.len, 3);
    mu_codec_free(&insert->base);
}

TEST(damaged_bytes_are_refused)
{
    static const char *const bad[] = {
        "12",               /* a field without its length */
        "1205616263",       /* cut */
        "12ffffffffffffff", /* a length that does not end */
        "12ffffffff0f61",   /* 4 GiB */
        "13",               /* a group */
        "0a0319ff",         /* cut inside */
        "1001",             /* a number where text is meant */
        "ffffffffffffffffffff01",
    };
    uint8_t bytes[64];
    ProtobufCMessage *got = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t len = unhex(bad[i], bytes);
        uint8_t *exact = malloc(len); /* so that a read beyond the end is seen */

        memcpy(exact, bytes, len);
        assert_status(MUSTER_INVALID_ARGUMENT, mu_codec_read(&A(get_key_value_request), names, exact, len, &got));
        assert_null(got);
        free(exact);
    }
}

/* Two bytes are a task of the list: a message of 8 MiB would be a gigabyte. */
TEST(what_a_message_may_take_is_bounded)
{
    size_t size = 8 << 20;
    uint8_t *bytes = malloc(size);
    ProtobufCMessage *got = NULL;

    assert_non_null(bytes);
    for (size_t i = 0; i < size; i += 2)
        memcpy(bytes + i, "\x1a", 2);
    assert_status(MUSTER_RESOURCE_EXHAUSTED, mu_codec_read(&B(barrier_request), names, bytes, size, &got));
    assert_says("64 MiB");
    assert_null(got);
    size = 200000; /* and of a hundred thousand tasks it is not */
    assert_ok(mu_codec_read(&B(barrier_request), names, bytes, size, &got));
    assert_int_equal(((Mu__TslCoordination__BarrierRequest *)got)->n_tasks, size / 2);
    mu_codec_free(got);
    free(bytes);
}
