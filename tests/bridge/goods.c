/* tests/bridge/goods.c: see goods.h. */
#include "goods.h"

const struct hosts_config goods_three = {.tasks = {2, 2, 2}, .segment = {.object_bytes = 64u << 20}};

int goods_begin(void)
{
    setenv("MUSTER_RECOVERABLE", "1", 1); /* a task that is killed ends no wait but those for it */
    return crowd_begin();
}

uint64_t number(int i)
{
    return __atomic_load_n(&board->numbers[i], __ATOMIC_SEQ_CST); /* seq_cst: with number_set() and number_add() */
}

void number_set(int i, uint64_t value)
{
    __atomic_store_n(&board->numbers[i], value, __ATOMIC_SEQ_CST); /* seq_cst: with number() */
}

void number_add(int i)
{
    __atomic_fetch_add(&board->numbers[i], 1, __ATOMIC_SEQ_CST); /* seq_cst: with number() */
}

/* A task waits until the test has come so far. */
void until_step(uint64_t step)
{
    while (number(STEP) < step)
        usleep(500); /* sleep: the other process has no other way to tell */
}

void reached(int i, uint64_t value, const char *what)
{
    hosts_await(h, number(i) >= value, "%s", what);
}

static uint8_t byte_at(size_t i, size_t salt)
{
    return (uint8_t)(i * 131 + (i >> 12) * 7 + salt);
}

void bytes_fill(void *to, size_t len, size_t salt)
{
    for (size_t i = 0; i < len; i++)
        ((uint8_t *)to)[i] = byte_at(i, salt);
}

bool bytes_are(const void *from, size_t len, size_t salt)
{
    for (size_t i = 0; i < len; i++)
        if (((const uint8_t *)from)[i] != byte_at(i, salt))
            return false;
    return true;
}

/* In a task: a status other than that one ends the process with the line. */
int told(const char *what, int line, enum muster_status got)
{
    printf("line %d: %s: %s (%s)\n", line, what, muster_status_name(got), muster_last_error());
    fflush(stdout);
    return 1;
}

static struct muster_object_info info_on(uint32_t host, muster_object ref, enum muster_status *ret_status)
{
    struct muster_object_info info = {0};

    *ret_status = muster_object_info(eyes[host], ref, &info);
    return info;
}

uint32_t holders(uint32_t host, muster_object ref)
{
    enum muster_status status;
    struct muster_object_info info = info_on(host, ref, &status);

    return status ? 0 : info.holders;
}

void until_holders(uint32_t host, muster_object ref, uint32_t count)
{
    hosts_await(h, holders(host, ref) == count, "object %llx has %u holders on host %u (%u)", (unsigned long long)ref,
                count, host, holders(host, ref));
}

void ends_well(pid_t pid)
{
    assert_int_equal(hosts_reap(h, pid), 0);
}

int get_one(struct muster *m, void *arg)
{
    struct muster_object_view view;
    muster_object ref = number(REFS);
    enum muster_status status;

    (void)arg;
    EXPECT_STATUS(MUSTER_DEADLINE_EXCEEDED, muster_object_get(m, &ref, 1, mu_now() + 20000000, &view, NULL));
    EXPECT(strstr(muster_last_error(), "node"));
    EXPECT_OK(muster_object_retain(m, &ref, 1, NULL));
    number_add(READERS);
    status = muster_object_get(m, &ref, 1, MUSTER_FOREVER, &view, NULL);
    snprintf(board->words[muster_task_id(m)], sizeof board->words[0], "%s", muster_last_error());
    if (!status) {
        EXPECT(bytes_are(view.data, view.len, 5));
        muster_object_unview(m, &view, 1);
    }
    EXPECT_OK(muster_object_drop(m, &ref, 1));
    return (int)status;
}

int put_long(struct muster *m, void *arg)
{
    struct muster_object_room room;
    muster_object ref;

    (void)arg;
    EXPECT_OK(muster_object_create(m, LONG, 0, MUSTER_FOREVER, &ref, &room));
    bytes_fill(room.data, LONG, 9);
    EXPECT_OK(muster_object_seal(m, ref));
    number_set(REFS, ref);
    number_add(AT);
    until_step(1);
    return 0;
}
