/*
 * tests/sim/full.c: a heap that is too small.
 *
 * Oracle: an operation is done or refused with RESOURCE_EXHAUSTED, and then changed nothing; values are whole; and
 * however it was left, deletes succeed once nobody else is at it, and make room again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lin.h"
#include "sim.h"

enum { KEYS = 10, KEYS_MAX = 500, LARGE = 60000, BUFFER = 1 << 17 };

static uint32_t ops_each, keys;
static bool brim; /* filled to the last block before the tasks begin */

static void name(char key[8], uint32_t k)
{
    snprintf(key, 8, "key-%03u", k % 1000);
}

/* A value says how it goes on: its first word is the seed of the others. */
static void make(uint64_t *words, uint32_t len)
{
    words[0] = sim_random(UINT64_MAX / 1024) * 1024 + len / 8 % 1024;
    for (uint32_t i = 1; i < len / 8; i++)
        words[i] = lin_word(words[0], i);
}

static uint32_t fill(uint64_t *words)
{
    static const uint32_t lengths[] = {LARGE, LARGE / 2, 66000, 4000, 8, 2000, 600, 160};
    uint32_t len = lengths[brim ? 3 + sim_random(5) : sim_random(5)] / 8 * 8;

    make(words, len);
    return len;
}

static void verify(const uint64_t *words, size_t len)
{
    SIM_CHECK(len && len % 8 == 0 && words[0] % 1024 == len / 8 % 1024, "a value of %zu bytes", len);
    for (uint32_t i = 1; i < len / 8; i++)
        SIM_CHECK(words[i] == lin_word(words[0], i), "word %u of %zu is not of this value", i, len / 8);
}

static void look(struct sim_task *t, const char *key, uint64_t *buffer)
{
    size_t len = 0;
    uint64_t version;
    enum muster_status status;

    if (sim_self())
        sim_begin("get %s", key);
    status = muster_kv_try_get(&t->handle, key, MUSTER_NTS, buffer, BUFFER, &len, &version);
    if (sim_self())
        sim_end(status);
    SIM_CHECK(!status || status == MUSTER_NOT_FOUND, "get: %s", muster_last_error());
    if (!status)
        verify(buffer, len);
}

static void client(struct sim_task *t)
{
    uint64_t *buffer = malloc(BUFFER);

    sim_handle(t, -1);
    for (uint32_t i = 0; i < ops_each; i++) {
        uint64_t what = sim_random(8);
        enum muster_status status;
        char key[8];

        name(key, (uint32_t)sim_random(keys));
        if (what == 0) {
            look(t, key, buffer);
            continue;
        }
        if (what == 1 || (brim && what < 5)) {
            sim_begin("delete %s", key);
            status = muster_kv_delete(&t->handle, key, MUSTER_NTS, NULL);
        } else {
            uint32_t len = fill(buffer);

            sim_begin("set %s to %u bytes", key, len);
            status = muster_kv_set(&t->handle, key, MUSTER_NTS, buffer, len, NULL);
        }
        sim_end(status);
        SIM_CHECK(!status || status == MUSTER_RESOURCE_EXHAUSTED, "%s", muster_last_error());
    }
    free(buffer);
}

static void start_tasks(void)
{
    uint64_t tasks = 1 + sim_random(3);

    ops_each = 3 + (uint32_t)sim_random(8);
    while (tasks--)
        sim_add(client, -1, NULL);
}

static void start(void)
{
    brim = false;
    keys = KEYS;
    start_tasks();
}

/* From the largest values to the smallest, each until there is no room for one more. */
static void start_at_brim(void)
{
    static const uint32_t lengths[] = {LARGE, 8000, 4000, 2000, 600, 160, 8};
    struct sim_task self;
    uint64_t *buffer = malloc(BUFFER);

    brim = true;
    keys = 0;
    sim_handle(&self, -1);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        enum muster_status status = MUSTER_OK;

        while (!status && keys < KEYS_MAX) {
            char key[8];

            name(key, keys);
            make(buffer, lengths[i]);
            status = muster_kv_set(&self.handle, key, MUSTER_NTS, buffer, lengths[i], NULL);
            SIM_CHECK(!status || status == MUSTER_RESOURCE_EXHAUSTED, "%s", muster_last_error());
            keys += !status;
        }
    }
    mu_handle_detach_thread(&self.handle);
    free(buffer);
    start_tasks();
}

static void finish(void)
{
    struct sim_task self;
    uint64_t *buffer = malloc(BUFFER);
    size_t count = 0;
    char key[8];
    uint32_t len;

    sim_handle(&self, -1);
    for (uint32_t k = 0; k < keys; k++) {
        name(key, k);
        look(&self, key, buffer);
    }
    for (uint32_t k = 0; k < keys; k++) {
        name(key, k);
        SIM_CHECK(!muster_kv_delete(&self.handle, key, MUSTER_NTS, NULL), "a full store cannot be emptied: %s",
                  muster_last_error());
    }
    SIM_CHECK(!muster_kv_count(&self.handle, "", 0, &count) && !count, "%zu keys are left", count);
    len = fill(buffer);
    SIM_CHECK(!muster_kv_set(&self.handle, "key-000", 7, buffer, len, NULL), "an empty store is full: %s",
              muster_last_error());
    mu_handle_detach_thread(&self.handle);
    free(buffer);
}

const struct sim_workload sim_full = {
    .name = "full", .config = {.heap_bytes = 1u << 20}, .start = start, .finish = finish};
const struct sim_workload sim_brim = {
    .name = "brim", .config = {.heap_bytes = 1u << 20, .num_buckets = 16}, .start = start_at_brim, .finish = finish};
