/*
 * tests/crash/ops_ps.c: pushes to tensors.
 *
 * Before each, the victim and the peer have two tensors open: `dense`, two numbers, in rounds of as many pushers as the
 * operation's size says, and a table, of which the peer has pushed the row of key 7.
 */
#include <stdio.h>
#include <string.h>

#include "ops_kv.h"
#include "muster/ps.h"

static struct muster_ps *dense[2], *table[2];
static bool there;

static void note(int who, enum muster_status status)
{
    board->outcome[who] = (struct outcome){status, 0, 0};
}

static void ps_make(uint32_t pushers)
{
    struct muster_ps_config c = {.num_dims = 1, .dims = {2}, .pushers = pushers}, t = c;

    t.rows = 3;
    t.pushers = 0;
    for (int i = VICTIM; i <= PEER; i++)
        if (muster_ps_create(world.m[i], "dense", &c, NULL, &dense[i]) ||
            muster_ps_create(world.m[i], "table", &t, NULL, &table[i]))
            return crash_bad("setup of a tensor: %s", muster_last_error());
    if (muster_ps_rows_push(table[PEER], (uint64_t[]){7}, 1, (float[]){5, 5}, NULL))
        return crash_bad("setup of a row: %s", muster_last_error());
    there = true;
}

void ps_setup(const struct op *op)
{
    ps_make(op->size);
}

void ps_setup_pushed(const struct op *op)
{
    ps_make(op->size);
    if (muster_ps_push(dense[PEER], (float[]){10, 10}, 0, NULL))
        crash_bad("setup of a push: %s", muster_last_error());
}

void ps_push(const struct op *op)
{
    (void)op;
    note(VICTIM, muster_ps_push(dense[VICTIM], (float[]){1, 1}, 0, NULL));
}

void ps_rows(const struct op *op)
{
    (void)op;
    note(VICTIM, muster_ps_rows_push(table[VICTIM], (uint64_t[]){7, 8}, 2, (float[]){1, 1, 2, 2}, NULL));
}

void ps_create(const struct op *op)
{
    struct muster_ps_config c = {.num_dims = 1, .dims = {1}};
    struct muster_ps *ps;

    (void)op;
    note(VICTIM, muster_ps_create(world.m[VICTIM], "another", &c, NULL, &ps));
}

void ps_in_push(const struct op *op)
{
    (void)op;
    note(1, muster_ps_push(dense[PEER], (float[]){20, 20}, 0, NULL));
}

void ps_in_rows(const struct op *op)
{
    (void)op;
    note(1, muster_ps_rows_push(table[PEER], (uint64_t[]){7}, 1, (float[]){20, 20}, NULL));
}

/* As the peer sees them. */
void crash_see_tensors(char *text, size_t size)
{
    struct muster_ps_info info;
    float d[2] = {0}, rows[4] = {0};
    unsigned char is[2] = {0};

    *text = 0;
    if (!there)
        return;
    if (muster_ps_pull(dense[PEER], d, NULL) || muster_ps_info(dense[PEER], &info) ||
        muster_ps_rows_pull(table[PEER], (uint64_t[]){7, 8}, 2, rows, is))
        return crash_bad("cannot pull: %s", muster_last_error());
    if (d[0] != d[1] || rows[0] != rows[1] || rows[2] != rows[3])
        crash_bad("a tensor is torn");
    snprintf(text, size, "tensor %g, version %llu, %u kept; rows %d %g, %d %g\n", (double)d[0],
             (unsigned long long)info.version, info.kept, is[0], (double)rows[0], is[1], (double)rows[2]);
}

/* The peer goes on: pushes, and a row more than the dead one can have left. */
void ps_after(const struct op *op)
{
    struct muster_ps_config c = {.num_dims = 1, .dims = {1}};
    struct muster_ps *ps;
    float row[2] = {0};

    (void)op;
    if (muster_ps_set(dense[PEER], (float[]){4, 4}, NULL))
        crash_bad("the peer cannot set: %s", muster_last_error());
    for (uint64_t key = 7; key < 10; key++)
        if (muster_ps_rows_push(table[PEER], &key, 1, (float[]){1, 1}, NULL))
            crash_bad("the peer cannot push key %d: %s", (int)key, muster_last_error());
    if (muster_ps_rows_pull(table[PEER], (uint64_t[]){9}, 1, row, NULL) || row[0] != 1 || row[1] != 1)
        crash_bad("the peer's row is not there");
    if (muster_ps_create(world.m[PEER], "another", &c, NULL, &ps))
        return crash_bad("the name is taken by the dead: %s", muster_last_error());
    muster_ps_close(ps);
}
