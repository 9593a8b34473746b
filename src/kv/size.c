/*
 * kv/size.c: how much the store holds, for people that look at a job.
 *
 * muster_kv_count() answers for one instant, and so may have to count again and again while keys come and go. A screen
 * wants its number at once: one pass. A bucket that changes faster than it can be read is left out.
 */
#include "kv/size.h"

#include "kv/key.h"
#include "segment/handle.h"
#include "segment/table.h"

struct sum {
    uint64_t keys, bytes;
};

static bool size_wants(void *arg, const char *key, uint32_t key_len)
{
    (void)arg;
    (void)key_len;
    return !mu_kv_is_own(key);
}

static enum muster_status entry_add(void *arg, const struct mu_item *item)
{
    struct sum *sum = arg;

    sum->keys++;
    sum->bytes += item->len;
    return MUSTER_OK;
}

enum muster_status mu_kv_size(struct muster *muster, uint64_t *ret_keys, uint64_t *ret_bytes)
{
    struct sum sum = {0, 0};
    struct mu_walk w = {.wants = size_wants, .visit = entry_add, .arg = &sum, .lengths_only = true};
    struct mu_table t;
    enum muster_status status = mu_enter_read(muster);

    if (status)
        return status;
    t = mu_table_kv(muster->seg);
    for (uint32_t i = 0; i <= t.mask && !status; i++) {
        struct mu_bucket_info info;

        status = mu_table_walk(&t, NULL, i, &w, &info);
        if (status == MUSTER_ABORTED)
            status = MUSTER_OK;
    }
    mu_exit_read();
    if (status)
        return status;
    *ret_keys = sum.keys;
    *ret_bytes = sum.bytes;
    return MUSTER_OK;
}
