/*
 * kv.c: keys, versions, counters, and waiting for a key.
 * run: MUSTER_JOB=example-kv-$$ MUSTER_TASK_ID=0 MUSTER_NUM_TASKS=1 "$EXAMPLE"
 */
#include <err.h>
#include <stdio.h>

#include <muster/muster.h>

static void check(enum muster_status status)
{
    if (status)
        errx(1, "%s: %s", muster_status_name(status), muster_last_error());
}

int main(void)
{
    struct muster *m;
    struct muster_kv_list *list;
    char buffer[64];
    size_t len;
    uint64_t version;
    int64_t sum;

    check(muster_join(NULL, &m));
    check(muster_kv_set(m, "config/model", MUSTER_NTS, "resnet", 6, &version));
    check(muster_kv_try_get(m, "/config//model/", MUSTER_NTS, buffer, sizeof buffer, &len, NULL));
    printf("config/model = %.*s, version %llu\n", (int)len, buffer, (unsigned long long)version);

    /* Replace it only if nobody else did meanwhile. */
    check(muster_kv_compare_and_set(m, "config/model", MUSTER_NTS, version, "vit", 3, &version));
    if (muster_kv_compare_and_set(m, "config/model", MUSTER_NTS, 1, "bert", 4, NULL) != MUSTER_ABORTED)
        errx(1, "an old version was accepted");
    printf("refused, as it must be: %s\n", muster_last_error());

    for (int i = 0; i < 10; i++)
        check(muster_kv_increment(m, "steps", MUSTER_NTS, 5, &sum));
    printf("steps = %lld\n", (long long)sum);

    /* A key that nobody sets: the wait ends at its deadline and says what it waited for. */
    if (muster_kv_get(m, "never", MUSTER_NTS, muster_after_ms(20), buffer, sizeof buffer, &len, NULL) !=
        MUSTER_DEADLINE_EXCEEDED)
        errx(1, "a key appeared from nowhere");
    printf("%s\n", muster_last_error());

    check(muster_kv_get_dir(m, "", 0, &list));
    for (size_t i = 0; i < list->count; i++)
        printf("%s (%zu bytes)\n", list->entries[i].key, list->entries[i].value_len);
    muster_kv_list_free(list);
    check(muster_leave(m));
    return 0;
}
