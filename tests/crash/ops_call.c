/*
 * tests/crash/ops_call.c: operations on calls of functions.
 *
 * Before each, the peer has exported `one` and `two`, functions of so many results; both have an object, `open_one` of
 * the victim's is not sealed, and the peer has a call that waits for it; the peer serves a place. After the death, the
 * peer and a third run what there is to run, and every result that the peer holds has come.
 */
#include <stdio.h>
#include <string.h>

#include <muster/schedule.h>

#include "ops_kv.h"
#include "schedule/private.h"

static muster_function one, two;
static muster_object open_one, theirs, place, served, results[4];
static struct muster_call *taken;

static void note(enum muster_status status)
{
    board->outcome[0] = (struct outcome){status, 0, 0};
}

static void must(enum muster_status status, const char *what)
{
    if (status)
        crash_bad("%s: %s", what, muster_last_error());
}

static muster_function export_by(int who, const char *name, uint32_t count)
{
    muster_function function = 0;
    struct muster_function_text text = {.name = name,
                                        .kind = MUSTER_FUNCTION_OWN,
                                        .num_results = count,
                                        .max_retries = 1,
                                        .code = "code",
                                        .code_len = 4};

    must(muster_function_export(world.m[who], &text, &function), "setup of a function");
    return function;
}

static muster_object submit_by(int who, muster_object argument, muster_object at)
{
    struct muster_argument a[2] = {{.data = "inline", .len = 6}, {.object = argument}};
    struct muster_submit_options options = {.max_retries = -1, .place = at};
    muster_object result = 0;

    must(muster_submit(world.m[who], one, a, argument ? 2 : 1, &options, &result), "setup of a call");
    return result;
}

void call_setup(const struct op *op)
{
    struct muster_object_room room;

    (void)op;
    one = export_by(PEER, "one", 1);
    two = export_by(PEER, "two", 2);
    must(muster_object_create(world.m[VICTIM], 40, 0, 0, &open_one, &room), "setup of an object");
    crash_fill(room.data, 40, 5);
    must(muster_object_put(world.m[PEER], "twenty bytes", 12, NULL, 0, 0, &theirs), "setup of an object");
    must(muster_place_open(world.m[PEER], &place), "setup of a place");
    memset(results, 0, sizeof results);
    results[0] = submit_by(PEER, open_one, 0);
}

/* The victim is about to run a call of the peer's. */
void call_setup_taken(const struct op *op)
{
    call_setup(op);
    results[1] = submit_by(PEER, theirs, 0);
    must(muster_worker_next(world.m[VICTIM], 0, 0, &taken), "setup: take a call");
}

void call_setup_taken_two(const struct op *op)
{
    struct muster_argument a = {.object = theirs};

    call_setup(op);
    must(muster_submit(world.m[PEER], two, &a, 1, NULL, &results[1]), "setup of a call");
    must(muster_worker_next(world.m[VICTIM], 0, 0, &taken), "setup: take a call");
}

void call_setup_queued(const struct op *op)
{
    call_setup(op);
    results[1] = submit_by(PEER, theirs, 0);
}

/* Two calls want what one alone can have. */
void call_setup_asking(const struct op *op)
{
    struct muster_resource tape = {"tape", 1};
    struct muster_submit_options options = {.max_retries = -1, .resources = &tape, .num_resources = 1};

    call_setup(op);
    must(muster_resource_offer(world.m[PEER], "tape", 1, NULL), "setup of a resource");
    for (int i = 1; i < 3; i++)
        must(muster_submit(world.m[PEER], one, NULL, 0, &options, &results[i]), "setup of a call");
}

/* The victim runs the first of them, and the other is parked. */
void call_setup_lent(const struct op *op)
{
    struct muster_call *call;

    call_setup_asking(op);
    must(muster_worker_next(world.m[VICTIM], 0, 0, &taken), "setup: take a call");
    if (muster_worker_next(world.m[PEER], 0, 0, &call) != MUSTER_DEADLINE_EXCEEDED)
        crash_bad("setup: two calls have the same: %s", muster_last_error());
}

/* The victim serves a place, where calls wait. */
void call_setup_place(const struct op *op)
{
    call_setup(op);
    must(muster_place_open(world.m[VICTIM], &served), "setup of a place");
    results[1] = submit_by(PEER, theirs, served);
    results[2] = submit_by(PEER, 0, served);
}

void call_submit(const struct op *op)
{
    struct muster_argument a[2] = {{.data = "inline", .len = 6}, {.object = theirs}};
    muster_object mine[2];

    note(muster_submit(world.m[VICTIM], op->size == 2 ? two : one, a, op->size, NULL, mine));
}

void call_submit_large(const struct op *op)
{
    static uint8_t large[5000];
    struct muster_argument a = {.data = large, .len = sizeof large};
    muster_object mine;

    (void)op;
    note(muster_submit(world.m[VICTIM], one, &a, 1, NULL, &mine));
}

void call_submit_waiting(const struct op *op)
{
    struct muster_argument a[2] = {{.object = open_one}, {.object = theirs}};
    muster_object mine;

    (void)op;
    note(muster_submit(world.m[VICTIM], one, a, 2, NULL, &mine));
}

void call_submit_placed(const struct op *op)
{
    struct muster_argument a = {.object = theirs};
    struct muster_submit_options options = {.max_retries = -1, .place = place};
    muster_object mine;

    (void)op;
    note(muster_submit(world.m[VICTIM], one, &a, 1, &options, &mine));
}

void call_seal(const struct op *op)
{
    (void)op;
    note(muster_object_seal(world.m[VICTIM], open_one));
}

void call_take(const struct op *op)
{
    struct muster_call *call;

    (void)op;
    note(muster_worker_next(world.m[VICTIM], 0, 0, &call));
}

void call_take_placed(const struct op *op)
{
    struct muster_call *call;

    (void)op;
    note(muster_worker_next(world.m[VICTIM], served, 0, &call));
}

void call_end(const struct op *op)
{
    struct muster_object_room room;
    enum muster_status status = MUSTER_OK;

    for (uint32_t i = 0; !status && i < op->size; i++) {
        status = muster_call_result(taken, i, 16, 4, &room);
        if (!status)
            crash_fill(room.data, 16, 9);
    }
    note(status ? status : muster_call_done(taken));
}

void call_forward(const struct op *op)
{
    enum muster_status status = muster_call_forward(taken, 0, theirs);

    (void)op;
    note(status ? status : muster_call_done(taken));
}

void call_fail(const struct op *op)
{
    (void)op;
    note(muster_call_fail(taken, MUSTER_ABORTED, "as it must", theirs));
}

void call_cancel(const struct op *op)
{
    (void)op;
    note(muster_call_cancel(world.m[VICTIM], results[op->size]));
}

void call_export(const struct op *op)
{
    muster_function function;
    struct muster_function_text text = {.name = "three", .kind = MUSTER_FUNCTION_OWN, .code = "code", .code_len = 4};

    (void)op;
    note(muster_function_export(world.m[VICTIM], &text, &function));
}

void call_open_place(const struct op *op)
{
    muster_object mine;

    (void)op;
    note(muster_place_open(world.m[VICTIM], &mine));
}

void call_close_place(const struct op *op)
{
    (void)op;
    note(muster_place_close(world.m[VICTIM], served, MUSTER_CANCELLED, "closed"));
}

void call_drop(const struct op *op)
{
    (void)op;
    note(muster_object_drop(world.m[VICTIM], &open_one, 1));
}

/* ---- afterwards ---- */

static void run_all(int who, muster_object at)
{
    struct muster_call *call;
    struct muster_object_room room;
    enum muster_status status = MUSTER_OK;

    while ((status = muster_worker_next(world.m[who], at, 0, &call)) == MUSTER_OK) {
        struct muster_object_view v;
        struct muster_call_info info;

        muster_call_get(call, &info);
        for (uint32_t i = 0; i < info.num_arguments; i++)
            if (muster_call_argument(call, i, &v))
                crash_bad("argument %u cannot be read: %s", i, muster_last_error());
            else if (v.len == 12 && memcmp(v.data, "twenty bytes", 12))
                crash_bad("argument %u is torn", i);
        must(muster_call_result(call, 0, 8, 0, &room), "a result");
        memcpy(room.data, "8 bytes ", 8);
        must(muster_call_done(call), "the end of a call");
    }
    if (status != MUSTER_DEADLINE_EXCEEDED && !at)
        crash_bad("taking calls ends with %s", muster_last_error());
}

static int count_open(void *arg, const struct muster_object_info *info)
{
    *(unsigned *)arg += !info->sealed && info->object != place;
    return 0;
}

void call_after(const struct op *op)
{
    struct muster_function_info info;
    muster_function f;
    unsigned open = 0;

    (void)op;
    if (muster_function_find(world.m[PEER], "one", &f) || f != one || muster_function_info(world.m[PEER], f, &info) ||
        info.num_results != 1)
        crash_bad("a function is lost: %s", muster_last_error());
    run_all(PEER, place);
    run_all(PEER, 0);
    run_all(THIRD, 0);
    for (unsigned i = 0; i < 4; i++) {
        struct muster_object_info o;

        if (results[i] && muster_object_info(world.m[PEER], results[i], &o))
            crash_bad("result %u is lost: %s", i, muster_last_error());
        else if (results[i] && !o.sealed)
            crash_bad("result %u is waited for without end", i);
    }
    muster_object_list(world.m[PEER], count_open, &open);
    if (open)
        crash_bad("%u objects or calls are left open", open);
}

void call_in_take(const struct op *op)
{
    struct muster_call *call;
    struct muster_object_room room;

    (void)op;
    board->outcome[1].status = muster_worker_next(world.m[PEER], 0, 0, &call);
    if (!board->outcome[1].status) {
        must(muster_call_result(call, 0, 8, 0, &room), "a result");
        memcpy(room.data, "8 bytes ", 8);
        board->outcome[1].status = muster_call_done(call);
    } else if (board->outcome[1].status == MUSTER_DEADLINE_EXCEEDED) {
        board->outcome[1].status = 0;
    }
}

void call_in_submit(const struct op *op)
{
    struct muster_argument a[2] = {{.object = open_one}, {.object = theirs}};
    muster_object mine;

    (void)op;
    board->outcome[1].status = muster_submit(world.m[PEER], one, a, 2, NULL, &mine);
    if (!board->outcome[1].status)
        board->outcome[1].status = muster_object_drop(world.m[PEER], &mine, 1);
    else if (board->outcome[1].status == MUSTER_NOT_FOUND)
        board->outcome[1].status = 0;
}

void call_in_cancel(const struct op *op)
{
    (void)op;
    muster_call_cancel(world.m[PEER], results[0]);
    board->outcome[1].status = 0;
}
