/*
 * tests/bridge/objects_test.c: objects of other hosts: whatever the length, an error, an object that is yet to be
 * sealed; counts on both sides; and what another host may say.
 */
#include "goods.h"

/* ---- lengths ---- */

static const struct length {
    size_t len, meta;
} lengths[] = {{0, 0},
               {1, 0},
               {0, 3},
               {7, 7},
               {4000, 100},
               {32768, 0},
               {40000, 1},
               {65000, 3000},
               {(1 << 20), 0},
               {(1 << 20) + 1, 9},
               {300, 70000},
               {(6 << 20) - 5, 4},
               {(9 << 20) + 7, 0}};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static int put_lengths(struct muster *m, void *arg)
{
    (void)arg;
    for (int i = 0; i < LENGTHS; i++) {
        struct muster_object_room room;
        muster_object ref;

        EXPECT_OK(muster_object_create(m, lengths[i].len, lengths[i].meta, MUSTER_FOREVER, &ref, &room));
        bytes_fill(room.data, lengths[i].len, (size_t)i);
        bytes_fill(room.meta, lengths[i].meta, (size_t)i + 1);
        EXPECT_OK(muster_object_seal(m, ref));
        number_set(REFS + i, ref);
    }
    number_add(AT);
    until_step(1);
    return 0;
}

static int get_lengths(struct muster *m, void *arg)
{
    muster_object refs[LENGTHS];
    struct muster_object_view views[LENGTHS];
    struct muster_object_info info;
    unsigned char ready[LENGTHS];
    size_t count;

    (void)arg;
    for (int i = 0; i < LENGTHS; i++)
        refs[i] = number(REFS + i);
    EXPECT_OK(muster_object_get(m, refs, LENGTHS, MUSTER_FOREVER, views, NULL));
    for (int i = 0; i < LENGTHS; i++) {
        EXPECT(views[i].object == refs[i] && views[i].len == lengths[i].len && views[i].meta_len == lengths[i].meta);
        EXPECT(!views[i].len == !views[i].data && !views[i].meta_len == !views[i].meta);
        EXPECT(bytes_are(views[i].data, views[i].len, (size_t)i));
        EXPECT(bytes_are(views[i].meta, views[i].meta_len, (size_t)i + 1));
        EXPECT_OK(muster_object_info(m, refs[i], &info));
        EXPECT(info.object == refs[i] && info.len == lengths[i].len && info.sealed && !info.code);
    }
    number_add(READERS); /* both readers of a host have all of it before either gives back */
    until_step(1);
    EXPECT_OK(muster_object_wait(m, refs, LENGTHS, LENGTHS, 0, ready, &count));
    EXPECT(count == LENGTHS);
    EXPECT_OK(muster_object_retain(m, refs, LENGTHS, NULL));
    muster_object_unview(m, views, LENGTHS);
    EXPECT(!views[3].object);
    EXPECT_OK(muster_object_get(m, refs, LENGTHS, 0, views, NULL)); /* held, so they are here */
    muster_object_unview(m, views, LENGTHS);
    EXPECT_OK(muster_object_drop(m, refs, LENGTHS));
    EXPECT_STATUS(MUSTER_NOT_FOUND, muster_object_drop(m, refs, 1));
    return 0;
}

/* The producer is on that host; two readers on each of the others share a copy. */
static void lengths_from(uint32_t home)
{
    pid_t source, readers[4];
    int n = 0;

    crowd_open(&goods_three);
    source = hosts_task(h, 2 * home, put_lengths, NULL);
    reached(AT, 1, "the objects are there");
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; i != home && k < 2; k++)
            readers[n++] = hosts_task(h, 2 * i + k, get_lengths, NULL);
    hosts_await(h, number(READERS) == 4, "all have read");
    for (uint32_t i = 0; i < 3; i++)
        for (int k = 0; k < LENGTHS; k++)
            until_holders(i, number(REFS + k), i == home ? 1 : 2); /* the home has nothing to lend any more */
    number_set(STEP, 1);
    for (int i = 0; i < n; i++)
        ends_well(readers[i]);
    ends_well(source);
    for (uint32_t i = 0; i < 3; i++) /* nothing is left of the copies */
        for (int k = 0; k < LENGTHS; k++)
            assert_int_equal(holders(i, number(REFS + k)), 0);
    crowd_close();
}

TEST(an_object_of_the_leaders_host_comes_whole_whatever_its_length)
{
    lengths_from(0);
}

TEST(an_object_of_a_followers_host_comes_by_the_leader)
{
    lengths_from(1);
}

/* ---- before it is sealed ---- */

static int create_one(struct muster *m, void *arg)
{
    size_t len = (size_t)(intptr_t)arg;
    struct muster_object_room room;
    muster_object ref;

    EXPECT_OK(muster_object_create(m, len, 0, MUSTER_FOREVER, &ref, &room));
    number_set(REFS, ref);
    number_add(AT);
    until_step(1);
    bytes_fill(room.data, len, 5);
    if (number(STEP) == 1)
        EXPECT_OK(muster_object_seal(m, ref));
    else if (number(STEP) == 2)
        EXPECT_OK(muster_object_fail(m, ref, MUSTER_DATA_LOSS, "the disk is gone"));
    if (number(STEP) < 3)
        EXPECT_OK(muster_object_drop(m, &ref, 1)); /* others hold it */
    number_add(AT);
    until_step(4);
    return 0;
}

static void open_object(uint32_t home, size_t len, pid_t *ret_source, pid_t readers[2])
{
    uint32_t far = home == 1 ? 2 : 1;

    crowd_open(&goods_three);
    *ret_source = hosts_task(h, 2 * home, create_one, (void *)(intptr_t)len);
    reached(AT, 1, "the object is made");
    readers[0] = hosts_task(h, 2 * far, get_one, NULL);
    readers[1] = hosts_task(h, 2 * far + 1, get_one, NULL);
    reached(READERS, 2, "the readers wait");
    until_holders(home, number(REFS), 2); /* its producer, and one for the other host */
}

TEST(an_object_that_is_not_sealed_is_waited_for)
{
    static const size_t some[] = {0, 100, 3 << 20};

    for (int i = 0; i < 3; i++) {
        pid_t source, readers[2];

        open_object(i % 2, some[i], &source, readers);
        number_set(STEP, 1);
        ends_well(readers[0]);
        ends_well(readers[1]);
        number_set(STEP, 4);
        ends_well(source);
        assert_int_equal(holders(i % 2, number(REFS)), 0);
        crowd_close();
    }
}

/* A task submits a call whose argument is of another host and not sealed, runs it when it has come, and shows its
 * result, which the argument's maker gets. */
static int call_with_it(struct muster *m, void *arg)
{
    struct muster_argument argument = {.object = number(REFS)};
    struct muster_function_text text = {.name = "f", .kind = MUSTER_FUNCTION_OWN, .num_results = 1};
    struct muster_object_room room;
    struct muster_object_view view;
    struct muster_call *call;
    muster_function function;
    muster_object result;

    EXPECT_OK(muster_function_export(m, &text, &function));
    EXPECT_OK(muster_submit(m, function, &argument, 1, NULL, &result));
    number_set(REFS + 1, result);
    EXPECT_STATUS(MUSTER_DEADLINE_EXCEEDED, muster_worker_next(m, 0, mu_now() + 1000000, &call));
    number_add(READERS);
    EXPECT_OK(muster_worker_next(m, 0, MUSTER_FOREVER, &call));
    EXPECT_OK(muster_call_argument(call, 0, &view));
    EXPECT(view.len == (size_t)(intptr_t)arg && bytes_are(view.data, view.len, 5));
    EXPECT_OK(muster_call_result(call, 0, 3, 0, &room));
    bytes_fill(room.data, 3, 77);
    EXPECT_OK(muster_call_done(call));
    until_step(4);
    EXPECT_OK(muster_object_drop(m, &result, 1));
    return 0;
}

static int get_result(struct muster *m, void *arg)
{
    struct muster_object_view view;
    muster_object result = number(REFS + 1);

    (void)arg;
    EXPECT_OK(muster_object_get(m, &result, 1, MUSTER_FOREVER, &view, NULL));
    EXPECT(view.len == 3 && bytes_are(view.data, 3, 77));
    return 0;
}

TEST(a_calls_argument_may_be_of_another_host_and_its_result_is_got_there)
{
    const size_t len = 2 << 20;
    pid_t source, caller, reader;

    crowd_open(&goods_three);
    source = hosts_task(h, 2, create_one, (void *)(intptr_t)len);
    reached(AT, 1, "the object is made");
    caller = hosts_task(h, 0, call_with_it, (void *)(intptr_t)len);
    reached(READERS, 1, "the call is submitted");
    reader = hosts_task(h, 4, get_result, NULL);
    number_set(STEP, 1);
    ends_well(reader);
    number_set(STEP, 4);
    ends_well(caller);
    ends_well(source);
    crowd_close();
}

TEST(an_error_comes_with_its_code_its_words_and_its_maker)
{
    pid_t source, readers[2];

    open_object(1, 50, &source, readers);
    number_set(STEP, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hosts_reap(h, readers[i]), MUSTER_DATA_LOSS);
        assert_non_null(strstr(board->words[4 + i], "the disk is gone"));
        assert_non_null(strstr(board->words[4 + i], "task 2 on host node1"));
    }
    number_set(STEP, 4);
    ends_well(source);
    crowd_close();
}

TEST(the_producers_death_ends_waits_on_other_hosts)
{
    for (uint32_t home = 0; home < 2; home++) {
        pid_t source, readers[2];
        char who[32];

        open_object(home, 3 << 20, &source, readers);
        crowd_murder(source, home);
        snprintf(who, sizeof who, "task %u ended before", 2 * home);
        for (int i = 0; i < 2; i++) {
            const char *words = board->words[(home == 1 ? 4 : 2) + i];

            assert_int_equal(hosts_reap(h, readers[i]), MUSTER_UNAVAILABLE);
            if (!strstr(words, who))
                fail_msg("\"%s\" does not say \"%s\"", words, who);
        }
        until_holders(home, number(REFS), 0);
        crowd_close();
    }
}

TEST(the_loss_of_its_host_ends_waits_with_its_name)
{
    pid_t source, readers[2];

    open_object(1, 3 << 20, &source, readers);
    hosts_lose(h, 0, 1, "it is silent");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hosts_reap(h, readers[i]), MUSTER_UNAVAILABLE);
        assert_non_null(strstr(board->words[4 + i], "host node1"));
    }
    number_set(STEP, 4);
    ends_well(source);
    crowd_close();
}

TEST(the_loss_of_a_host_that_wants_an_object_gives_it_back)
{
    pid_t source, readers[2];

    open_object(0, 3 << 20, &source, readers);
    hosts_lose(h, 0, 1, "it is silent");
    until_holders(0, number(REFS), 1);
    hosts_lose(h, 1, 0, "it is silent");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hosts_reap(h, readers[i]), MUSTER_UNAVAILABLE);
        assert_non_null(strstr(board->words[2 + i], "node0"));
    }
    number_set(STEP, 4);
    ends_well(source);
    crowd_close();
}

static int get_gone(struct muster *m, void *arg)
{
    struct muster_object_info info;
    struct muster_object_view view;
    muster_object ref = number(REFS);

    (void)arg;
    EXPECT_STATUS(MUSTER_NOT_FOUND, muster_object_info(m, ref, &info));
    EXPECT(strstr(muster_last_error(), "nobody holds it on this host"));
    EXPECT_STATUS(MUSTER_NOT_FOUND, muster_object_get(m, &ref, 1, MUSTER_FOREVER, &view, NULL));
    EXPECT(strstr(muster_last_error(), "is gone: nobody held it"));
    EXPECT_STATUS(MUSTER_FAILED_PRECONDITION, muster_object_seal(m, ref));
    EXPECT(strstr(muster_last_error(), "of host node1"));
    ref = ref | 0xfff0000000000000; /* no host of the job */
    EXPECT_STATUS(MUSTER_INVALID_ARGUMENT, muster_object_get(m, &ref, 1, MUSTER_FOREVER, &view, NULL));
    return 0;
}

TEST(what_nobody_holds_is_an_error_in_words)
{
    pid_t source, readers[2];

    open_object(1, 10, &source, readers);
    number_set(STEP, 1);
    ends_well(readers[0]);
    ends_well(readers[1]);
    number_set(STEP, 4);
    ends_well(source);
    until_holders(1, number(REFS), 0);
    ends_well(hosts_task(h, 0, get_gone, NULL));
    crowd_close();
}

/* ---- no room ---- */

static int get_full(struct muster *m, void *arg)
{
    struct muster_object_view view;
    muster_object ref = (muster_object)(uintptr_t)arg;

    EXPECT_STATUS(MUSTER_RESOURCE_EXHAUSTED, muster_object_get(m, &ref, 1, MUSTER_FOREVER, &view, NULL));
    EXPECT(strstr(muster_last_error(), "host node2 has no room for it"));
    number_set(STEP, 1); /* room is made */
    while (number(AT) < 3)
        usleep(500); /* sleep: as in until_step() */
    EXPECT_OK(muster_object_get(m, &ref, 1, MUSTER_FOREVER, &view, NULL));
    EXPECT(bytes_are(view.data, LONG, 9));
    number_set(STEP, 2);
    return 0;
}

static int put_and_make_room(struct muster *m, void *arg)
{
    muster_object ref;

    if (put_long(m, arg))
        return 1;
    ref = number(REFS);
    EXPECT_OK(muster_object_drop(m, &ref, 1));
    number_add(AT);
    return 0;
}

static int put_and_stay(struct muster *m, void *arg)
{
    if (put_long(m, arg))
        return 1;
    until_step(2);
    return 0;
}

TEST(a_host_without_room_says_so)
{
    struct hosts_config config = goods_three;
    pid_t source, other, reader;
    muster_object ref;

    config.segment.object_bytes = 32u << 20;
    crowd_open(&config);
    source = hosts_task(h, 2, put_and_stay, NULL);
    reached(AT, 1, "the object is there");
    ref = number(REFS);
    other = hosts_task(h, 4, put_and_make_room, NULL); /* its host is full of it */
    reached(AT, 2, "another is there");
    reader = hosts_task(h, 5, get_full, (void *)(uintptr_t)ref);
    ends_well(reader);
    ends_well(other);
    ends_well(source);
    crowd_close();
}

/* ---- what other hosts may say ---- */

static bool is_up(uint32_t host)
{
    struct mu_core *core = hosts_lock(h, 0);
    bool up = core && core->peers[host].state == MU_PEER_UP;

    hosts_unlock(h, 0);
    return up;
}

static void drops_for(const void *payload, size_t len, const char *why)
{
    char dropped[700];

    hosts_await(h, is_up(1), "the host is there");
    hosts_inject(h, 1, 0, MU_FRAME_OBJECT, payload, len);
    hosts_await(h, strstr(hosts_dropped(h, dropped), why), "the connection breaks for \"%s\" (%s)", why, dropped);
    hosts_await(h, !is_up(1), "it is down");
    hosts_mend(h);
}

TEST(what_is_not_sound_breaks_the_connection)
{
    uint8_t head[40] = {1, 1}; /* WANT, from host 1 to the leader, of an object of the leader's */

    crowd_open(&goods_three);
    head[9] = 1;
    drops_for(head, 16, "too short");
    drops_for(head, 18, "has bytes behind it");
    head[1] = 2;
    drops_for(head, 17, "came from another");
    head[1] = 1;
    head[5] = 1;
    drops_for(head, 17, "cannot be");
    head[5] = 0;
    head[0] = 8;
    drops_for(head, 17, "cannot be");
    head[0] = 7;
    drops_for(head, 17, "not the sender's to say");
    head[0] = 4;
    drops_for(head, 17, "not the sender's to say"); /* the object is the leader's */
    head[0] = 2;
    drops_for(head, 17, "does not say how much");
    crowd_close();
}

int main(void)
{
    return test_run(goods_begin, NULL);
}
