#include "stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ray/private.h"

struct mu_ray_sched *sched;
static char said[1 << 20];
static size_t said_len;

#define TEXT(s) ((struct mu_ray_text){s, strlen(s)})

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    va_list args;

    if (said_len > sizeof said - 256)
        return;
    if (said_len)
        said_len += (size_t)snprintf(said + said_len, sizeof said - said_len, "; ");
    va_start(args, format);
    said_len += (size_t)vsnprintf(said + said_len, sizeof said - said_len, format, args);
    va_end(args);
}

/* {1: Task {1: name ...}}: short names, in short tasks or long ones. */
static const char *name_in(const struct mu_blob *body, int *ret_len)
{
    size_t at = 1;

    while (body->bytes[at++] & 0x80)
        ;
    *ret_len = body->bytes[at + 1];
    return (const char *)body->bytes + at + 2;
}

static void on_call(void *arg, const struct mu_ray_call *call)
{
    const char *name;
    int len = 0;

    (void)arg;
    switch (call->kind) {
    case MU_RAY_EXECUTE:
        name = name_in(call->body, &len);
        note("execute %u %.*s", call->peer, len, name);
        break;
    case MU_RAY_IMPORT_FUNCTION: note("import %u %.*s", call->peer, (int)call->body->len, call->body->bytes); break;
    case MU_RAY_IMPORT_VARIABLE: note("variable %u %.*s", call->peer, (int)call->body->len, call->body->bytes); break;
    case MU_RAY_DIE: note("die %u%s", call->peer, mu_ray_worker_address(sched, call->peer) ? "" : " nowhere"); break;
    case MU_RAY_DELIVER:
        note("deliver %c %" PRIu64 " from %c", 'a' + (int)call->peer, call->object, 'a' + call->address[7] - '1');
        break;
    case MU_RAY_ALIAS: note("alias %c %" PRIu64 "=%" PRIu64, 'a' + (int)call->peer, call->object, call->target); break;
    case MU_RAY_FREE: note("free %c %" PRIu64, 'a' + (int)call->peer, call->object); break;
    case MU_RAY_KINDS: break;
    }
}

int sched_begin(void)
{
    static const struct mu_ray_options options = {.call = on_call};

    said_len = 0;
    said[0] = 0;
    sched = mu_ray_open(&options);
    return sched ? 0 : -1;
}

int sched_end(void)
{
    mu_ray_close(sched);
    return 0;
}

void assert_said(const char *expected)
{
    assert_string_equal(said, expected);
    said_len = 0;
    said[0] = 0;
}

void stores_begin(uint32_t count)
{
    uint32_t id;

    for (uint32_t i = 0; i < count; i++) {
        char address[32];

        snprintf(address, sizeof address, "10.0.0.%u:20001", i + 1);
        assert_ok(mu_ray_register_store(sched, TEXT(address), &id));
        assert_int_equal(id, i);
    }
}

static uint32_t register_one(uint32_t store, bool is_driver)
{
    struct mu_ray_worker_ids ids;
    char ip[32];

    snprintf(ip, sizeof ip, "10.0.0.%u", store + 1);
    assert_ok(mu_ray_register_worker(sched, TEXT(ip), TEXT(""), is_driver, &ids));
    assert_int_equal(ids.store, store);
    return ids.worker;
}

uint32_t driver_new(uint32_t store)
{
    return register_one(store, true);
}

uint32_t worker_new(uint32_t store)
{
    uint32_t worker = register_one(store, false);

    assert_ok(mu_ray_ready_for_task(sched, worker, NULL));
    return worker;
}

void function_new(uint32_t worker, const char *name, uint64_t returns)
{
    assert_ok(mu_ray_register_function(sched, worker, TEXT(name), returns));
}

static enum muster_status submit_any(uint32_t by, const char *name, const char *arguments, uint64_t *ret_first)
{
    struct mu_ray_value values[64];
    size_t count = 0;
    uint64_t results;
    bool is_registered;
    enum muster_status status;

    for (const char *at = arguments; *at; count++) {
        char *end = (char *)at + 1;

        values[count] = (struct mu_ray_value){.id = 0};
        if (*at == '=')
            values[count].obj = "", values[count].len = 0;
        else
            values[count].id = strtoull(at, &end, 10);
        at = end + (*end == ' ');
    }
    status = mu_ray_submit(sched, by, TEXT(name), values, count, &is_registered, ret_first, &results);
    if (!status)
        assert_true(is_registered);
    return status;
}

uint64_t submit(uint32_t by, const char *name, const char *arguments)
{
    uint64_t first = 0;

    assert_ok(submit_any(by, name, arguments, &first));
    return first;
}

enum muster_status submit_status(uint32_t by, const char *name, const char *arguments)
{
    uint64_t first;

    return submit_any(by, name, arguments, &first);
}

uint64_t put(uint32_t by)
{
    uint64_t object = 0;

    assert_ok(mu_ray_put(sched, by, &object));
    return object;
}

void ready(uint64_t object, uint64_t store)
{
    assert_ok(mu_ray_object_ready(sched, object, store));
}

void increment(uint64_t object)
{
    assert_ok(mu_ray_increment(sched, MU_RAY_NIL, &object, 1));
}

void drop(uint64_t object)
{
    assert_ok(mu_ray_decrement(sched, MU_RAY_NIL, &object, 1));
}

void imported(uint32_t worker, int count)
{
    while (count-- > 0)
        mu_ray_import_done(sched, worker);
}

void ended(uint32_t worker)
{
    assert_ok(mu_ray_ready_for_task(sched, worker, &(struct mu_ray_outcome){true, {"", 0}}));
}

void ended_badly(uint32_t worker, const char *words)
{
    assert_ok(mu_ray_ready_for_task(sched, worker, &(struct mu_ray_outcome){false, TEXT(words)}));
}

uint64_t count_of(uint64_t object)
{
    const struct mu_ray_object *o = mu_ray_object_at(sched, object);

    return o && !o->is_freed ? o->count : UINT64_MAX;
}
