/*
 * tests/segment/file_test.c: segments as files: names, creation, races, squatters, inheritance, removal.
 */
#include "cm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"
#include "job.h"
#include "segment/file.h"

static const struct muster_segment_config small = {
    .num_tasks = 4, .num_slots = 16, .num_buckets = 64, .num_events = 8, .heap_bytes = 1 << 20};

static void path_of(const char *job, char path[300])
{
    snprintf(path, 300, "/dev/shm/muster-%u-%s", (unsigned)geteuid(), job);
}

TEST(a_segment_is_created_opened_described_and_removed)
{
    struct muster_segment *made, *opened;
    struct muster_segment_info info, seen;
    char name[128], path[300];
    struct stat st;

    test_name(name, "basic");
    path_of(name, path);
    assert_status(MUSTER_NOT_FOUND, muster_segment_open(name, &opened));
    assert_ok(muster_segment_create(name, &small, &made));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_ok(muster_segment_open(name, &opened));
    assert_ok(muster_segment_info(made, &info));
    assert_ok(muster_segment_info(opened, &seen));
    assert_string_equal(info.job, name);
    assert_string_equal(info.path, path);
    assert_memory_equal(info.run_id, seen.run_id, sizeof info.run_id);
    assert_true(info.run_id[0] || info.run_id[1]);
    assert_int_equal(info.creator_pid, getpid());
    assert_int_equal(info.num_tasks, 4);
    assert_int_equal(info.num_slots, 16);
    assert_int_equal(info.num_buckets, 64);
    assert_int_equal(info.num_events, 8);
    assert_int_equal(info.slots_live, 0);
    assert_in_range(info.size_bytes + info.object_bytes, st.st_size - (2 << 20), st.st_size); /* between them a gap */
    assert_true(info.committed_bytes > 0 && info.committed_bytes < 1 << 20);
    assert_false(info.closed);
    muster_segment_close(opened);
    assert_ok(muster_segment_open(path, &opened)); /* by path */
    muster_segment_close(opened);
    assert_ok(muster_segment_remove(name));
    assert_int_equal(stat(path, &st), -1);
    assert_ok(muster_segment_info(made, &info));
    assert_true(info.closed);
    assert_status(MUSTER_NOT_FOUND, muster_segment_remove(name));
    muster_segment_close(made);
    muster_segment_close(NULL);
}

TEST(unusable_job_names_are_refused_with_a_reason)
{
    static const struct {
        const char *name, *reason;
    } vectors[] = {{"", "no job name"}, {NULL, "no job name"}, {"a b", "0x20"},           {".hidden", "dot"},
                   {"..", "dot"},       {"tab\t", "0x09"},     {"uml\xc3\xa4ut", "0xc3"}, {"semi;colon", "0x3b"}};
    static char long_name[301];
    struct muster_segment *segment;

    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        assert_status(MUSTER_INVALID_ARGUMENT, muster_segment_create(vectors[i].name, &small, &segment));
        assert_says(vectors[i].reason);
        assert_status(MUSTER_INVALID_ARGUMENT, muster_segment_open(vectors[i].name, &segment));
    }
    assert_status(MUSTER_INVALID_ARGUMENT, muster_segment_create("with/slash", &small, &segment));
    assert_says("0x2f");
    memset(long_name, 'x', 300);
    assert_status(MUSTER_INVALID_ARGUMENT, muster_segment_create(long_name, &small, &segment));
    assert_says("300");
    long_name[200] = 0;
    assert_ok(muster_segment_create(long_name, &small, &segment));
    assert_ok(muster_segment_remove(long_name));
    muster_segment_close(segment);
    assert_status(MUSTER_INVALID_ARGUMENT, muster_segment_open("fd:", &segment));
    assert_status(MUSTER_INVALID_ARGUMENT, muster_segment_open("fd:x", &segment));
    assert_status(MUSTER_INVALID_ARGUMENT, muster_segment_open("fd:-1", &segment));
    assert_status(MUSTER_INVALID_ARGUMENT, muster_segment_open("fd:9999", &segment));
}

TEST(unusable_configurations_are_refused)
{
    struct muster_segment *segment;
    char name[128];

    test_name(name, "bad");
    for (int i = 0; i < 7; i++) {
        struct muster_segment_config c = small;

        switch (i) {
        case 0: c.num_tasks = 0; break;
        case 1: c.num_tasks = 8193; break;
        case 2: c.num_slots = 16001; break;
        case 3: c.num_buckets = (1u << 26) + 1; break;
        case 4: c.num_events = (1u << 20) + 1; break;
        case 5: c.heap_bytes = (1 << 20) - 1; break;
        case 6: c.heap_bytes = (8ull << 30) + 1; break;
        }
        assert_status(MUSTER_INVALID_ARGUMENT, muster_segment_create(name, &c, &segment));
        assert_status(MUSTER_NOT_FOUND, muster_segment_open(name, &segment));
    }
    assert_status(MUSTER_INVALID_ARGUMENT, muster_segment_create(name, NULL, &segment));
}

/* 16 threads of each task and its heartbeat's, with bounds. */
TEST(slots_follow_the_tasks)
{
    static const uint32_t vectors[][2] = {{1, 81}, {8, 200}, {478, 8190}, {479, 8192}, {4096, 8256}, {8192, 16000}};
    struct muster_segment_info info;
    struct muster_segment *segment;
    char name[128];

    test_name(name, "slots");
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        struct muster_segment_config c = {.num_tasks = vectors[i][0]};

        assert_ok(muster_segment_create(name, &c, &segment));
        assert_ok(muster_segment_info(segment, &info));
        assert_int_equal(info.num_slots, vectors[i][1]);
        assert_ok(muster_segment_remove(name));
        muster_segment_close(segment);
    }
}

TEST(extreme_configurations_work)
{
    struct muster_segment_config c[] = {
        {.num_tasks = 1, .num_slots = 1, .num_buckets = 1, .num_events = 1, .heap_bytes = 1 << 20},
        {.num_tasks = 8192, .num_slots = 16000, .heap_bytes = 8ull << 30}};
    for (int i = 0; i < 2; i++) {
        struct test_job job;
        struct muster *m;
        int64_t sum = 0;

        test_name(job.name, "extreme");
        assert_ok(muster_segment_create(job.name, &c[i], &job.segment));
        m = test_join(job.name, (int32_t)c[i].num_tasks - 1, 0);
        assert_non_null(m);
        for (int k = 0; k < 10; k++) {
            assert_ok(muster_kv_increment(m, "n", 1, 1, &sum));
            assert_ok(muster_event_send(m, 0, "x", 1, NULL));
        }
        assert_int_equal(sum, 10);
        muster_leave(m);
        assert_int_equal(test_job_end(&job), 0);
    }
}

TEST(a_live_job_is_not_replaced_and_its_starter_is_named)
{
    struct muster_segment *first, *second;
    char name[128], pid[32];

    test_name(name, "live");
    assert_ok(muster_segment_create(name, &small, &first));
    assert_status(MUSTER_ALREADY_EXISTS, muster_segment_create(name, &small, &second));
    snprintf(pid, sizeof pid, "pid %d", (int)getpid());
    assert_says(pid);
    assert_ok(muster_segment_remove(name));
    assert_ok(muster_segment_create(name, &small, &second));
    assert_ok(muster_segment_remove(name));
    muster_segment_close(first);
    muster_segment_close(second);
}

static int creates_and_dies(void *arg)
{
    struct muster_segment *segment;
    struct muster *m;

    CHECK(muster_segment_create(arg, &small, &segment) == MUSTER_OK);
    m = test_join(arg, 0, TEST_WITH_HEARTBEAT);
    CHECK(m && muster_kv_set(m, "old", 3, "x", 1, NULL) == MUSTER_OK);
    return 0; /* without leaving */
}

TEST(a_left_over_of_the_dead_is_replaced)
{
    struct muster_segment *segment;
    char name[128];
    struct muster *m;
    size_t len;

    test_name(name, "stale");
    assert_int_equal(test_in_child(creates_and_dies, name), 0);
    assert_ok(muster_segment_create(name, &small, &segment));
    m = test_join(name, 0, 0);
    assert_status(MUSTER_NOT_FOUND, muster_kv_try_get(m, "old", 3, NULL, 0, &len, NULL));
    muster_leave(m);
    assert_ok(muster_segment_remove(name));
    muster_segment_close(segment);
}

static int find_row(void *arg, const struct muster_segment_row *row)
{
    struct {
        const char *job;
        char problem[200];
        int count;
    } *want = arg;

    if (strcmp(row->job, want->job))
        return 0;
    want->count++;
    snprintf(want->problem, sizeof want->problem, "%s", row->problem ? row->problem : "");
    return 0;
}

TEST(the_list_shows_the_sound_and_the_left_over)
{
    struct {
        const char *job;
        char problem[200];
        int count;
    } want = {0};
    struct muster_segment *segment;
    char name[128], path[300];
    int fd;

    test_name(name, "list");
    want.job = name;
    assert_ok(muster_segment_list(find_row, &want));
    assert_int_equal(want.count, 0);
    assert_ok(muster_segment_create(name, &small, &segment));
    assert_ok(muster_segment_list(find_row, &want));
    assert_int_equal(want.count, 1);
    assert_string_equal(want.problem, "");
    assert_ok(muster_segment_remove(name));
    muster_segment_close(segment);
    assert_int_equal(test_in_child(creates_and_dies, name), 0);
    assert_ok(muster_segment_list(find_row, &want));
    assert_int_equal(want.count, 2);
    assert_non_null(strstr(want.problem, "left over"));
    assert_ok(muster_segment_remove(name));
    path_of(name, path);
    fd = open(path, O_CREAT | O_RDWR, 0600);
    assert_int_equal(write(fd, "rubbish", 7), 7);
    close(fd);
    assert_ok(muster_segment_list(find_row, &want));
    assert_int_equal(want.count, 3);
    assert_non_null(strstr(want.problem, "truncated"));
    assert_ok(muster_segment_remove(name)); /* what is unsound can be removed by name */
    assert_int_equal(access(path, F_OK), -1);
}

/* Of eight who start at once, one creates and all meet: each adds one; the last sees eight. */
static char race_name[128];
static struct test_gate start;

static int races(void *arg)
{
    struct muster_options options;
    struct muster *m;
    int64_t sum;

    muster_options_init(&options);
    options.job = race_name;
    options.task_id = *(int *)arg;
    options.num_tasks = 8;
    test_gate_pass(&start);
    CHECK(muster_join(&options, &m) == MUSTER_OK);
    CHECK(muster_barrier_wait(m, "all", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) == MUSTER_OK);
    CHECK(muster_kv_increment(m, "sum", 3, 1, &sum) == MUSTER_OK);
    CHECK(muster_barrier_wait(m, "all", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) == MUSTER_OK);
    CHECK(muster_kv_increment(m, "sum", 3, 0, &sum) == MUSTER_OK && sum == 8);
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST(eight_creators_at_once_make_one_segment_and_meet)
{
    for (int round = 0; round < 15; round++) {
        struct muster_segment *segment;
        pid_t pids[8];
        int ids[8];

        test_name(race_name, "race");
        assert_int_equal(test_gate_open(&start), 0);
        for (int i = 0; i < 8; i++) {
            ids[i] = i;
            pids[i] = test_fork(races, &ids[i]);
        }
        for (int i = 0; i < 8; i++)
            test_gate_release(&start);
        for (int i = 0; i < 8; i++)
            assert_int_equal(test_reap(pids[i]), 0);
        test_gate_close(&start);
        assert_status(MUSTER_NOT_FOUND, muster_segment_open(race_name, &segment)); /* the last to leave unlinked it */
    }
}

/* As user 65534, who may write to /dev/shm too. */
static int squats_with_a_file(void *arg)
{
    int fd;

    CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    fd = open(arg, O_CREAT | O_EXCL | O_RDWR, 0666);
    CHECK(fd >= 0 && fchmod(fd, 0666) == 0);
    return 0;
}

static int squats_with_a_link(void *arg)
{
    CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    CHECK(symlink("/etc/passwd", arg) == 0);
    return 0;
}

static int squats_with_a_segment(void *arg)
{
    struct muster_segment *segment;
    char mine[300];

    CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    CHECK(muster_segment_create("squat", &small, &segment) == MUSTER_OK);
    path_of("squat", mine);
    CHECK(rename(mine, arg) == 0 && chmod(arg, 0666) == 0);
    return 0;
}

static int is_denied(void *arg)
{
    struct muster_segment *segment;

    CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    CHECK(muster_segment_open(arg, &segment) == MUSTER_PERMISSION_DENIED);
    CHECK(strstr(muster_last_error(), "user 0"));
    CHECK(muster_segment_remove(arg) == MUSTER_PERMISSION_DENIED);
    return 0;
}

/* User 0 has made this one's name, which only the two of them can take away. */
static int cannot_have_its_name(void *arg)
{
    struct muster_segment *segment;

    CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    CHECK(muster_segment_create(arg, &small, &segment) == MUSTER_PERMISSION_DENIED);
    CHECK(strstr(muster_last_error(), "; choose another job name: only user 0 or root can free this one"));
    return 0;
}

TEST(a_name_squatted_by_another_user_is_refused_and_he_is_named)
{
    static int (*const squatters[])(void *) = {squats_with_a_file, squats_with_a_link, squats_with_a_segment};
    struct muster_segment *segment;
    char name[128], path[300];

    if (geteuid()) {
        print_message("skipped: taking another user's identity needs root\n");
        skip();
    }
    for (int i = 0; i < 3; i++) {
        test_name(name, "squat");
        path_of(name, path);
        assert_int_equal(test_in_child(squatters[i], path), 0);
        assert_status(MUSTER_PERMISSION_DENIED, muster_segment_open(name, &segment));
        assert_says(i == 1 ? "symbolic link" : "65534");
        assert_status(MUSTER_PERMISSION_DENIED, muster_segment_create(name, &small, &segment));
        assert_says("remove that yourself, or choose another job name");
        assert_null(test_join(name, 0, 0));
        assert_int_equal(unlink(path), 0);
    }
    test_name(name, "mine"); /* and the other way about: ours is not his */
    path_of(name, path);
    assert_ok(muster_segment_create(name, &small, &segment));
    assert_int_equal(test_in_child(is_denied, path), 0);
    assert_ok(muster_segment_remove(name));
    muster_segment_close(segment);
    snprintf(path, sizeof path, "%s/muster-65534-%s", mu_segment_folder(), name);
    assert_int_equal(close(open(path, O_CREAT | O_EXCL | O_RDWR, 0600)), 0);
    assert_int_equal(test_in_child(cannot_have_its_name, name), 0);
    assert_int_equal(unlink(path), 0);
}

TEST(things_that_are_no_files_are_refused)
{
    struct muster_segment *segment;
    char name[128], path[300];

    test_name(name, "thing");
    path_of(name, path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_status(MUSTER_DATA_LOSS, muster_segment_open(name, &segment)); /* and does not wait for a writer */
    assert_true(muster_segment_create(name, &small, &segment) != MUSTER_OK);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_true(muster_segment_open(name, &segment) != MUSTER_OK);
    assert_true(muster_segment_create(name, &small, &segment) != MUSTER_OK);
    rmdir(path);
    assert_int_equal(symlink("/nowhere", path), 0);
    assert_status(MUSTER_PERMISSION_DENIED, muster_segment_open(name, &segment));
    unlink(path);
}

static int uses_inherited(void *arg)
{
    struct muster_options options;
    struct muster *m;
    int64_t sum;
    char fd[32];

    snprintf(fd, sizeof fd, "fd:%d", *(int *)arg);
    setenv("MUSTER_SEGMENT", fd, 1);
    muster_options_init(&options);
    options.task_id = 1;
    CHECK(muster_join(&options, &m) == MUSTER_OK);
    CHECK(muster_kv_increment(m, "n", 1, 1, &sum) == MUSTER_OK && sum == 42);
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST(a_memfd_has_no_name_is_inherited_and_cannot_be_cut)
{
    struct muster_segment_config config = small;
    struct muster_segment *segment, *opened;
    struct muster_segment_info info;
    struct muster_options options;
    char name[128], fd_name[32];
    struct muster *m;
    int fd;

    config.memfd = 1;
    test_name(name, "memfd");
    assert_ok(muster_segment_create(name, &config, &segment));
    assert_status(MUSTER_NOT_FOUND, muster_segment_open(name, &opened));
    assert_ok(muster_segment_info(segment, &info));
    assert_string_equal(info.path, "");
    fd = muster_segment_fd(segment);
    assert_int_equal(ftruncate(fd, 4096), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 1ll << 40), -1);
    snprintf(fd_name, sizeof fd_name, "fd:%d", fd);
    muster_options_init(&options);
    options.job = fd_name;
    options.flags = MUSTER_JOIN_OBSERVER;
    assert_ok(muster_join(&options, &m));
    assert_ok(muster_kv_set(m, "n", 1, "41", 2, NULL));
    assert_int_equal(test_in_child(uses_inherited, &fd), 0);
    muster_leave(m);
    assert_int_equal(test_audit(fd_name), 0);
    muster_segment_close(segment);
}

TEST(the_memory_of_a_removed_segment_stays_until_the_last_closes)
{
    struct muster_segment *segment;
    char name[128];
    struct muster *m;
    size_t len;

    test_name(name, "gone");
    assert_ok(muster_segment_create(name, &small, &segment));
    m = test_join(name, 0, 0);
    assert_ok(muster_kv_set(m, "key", 3, "value", 5, NULL));
    assert_ok(muster_segment_remove(name));
    muster_segment_close(segment);
    assert_status(MUSTER_CANCELLED, muster_kv_try_get(m, "key", 3, NULL, 0, &len, NULL));
    assert_says("was removed");
    snprintf(name, sizeof name, "fd:%d", muster_segment_fd(muster_segment_of(m)));
    assert_int_equal(test_audit(name), 0);
    assert_ok(muster_leave(m));
}

TEST(a_join_that_fails_leaves_no_segment_behind)
{
    struct muster_segment *segment;
    struct muster_options options;
    struct muster *m;
    char name[128];

    test_name(name, "failed");
    muster_options_init(&options);
    options.job = name;
    options.num_tasks = 2;
    options.task_id = 7;
    assert_status(MUSTER_INVALID_ARGUMENT, muster_join(&options, &m));
    assert_says("tasks 0 to 1");
    assert_status(MUSTER_NOT_FOUND, muster_segment_open(name, &segment));
    options.task_id = 0;
    options.flags = MUSTER_JOIN_NO_CREATE;
    assert_status(MUSTER_NOT_FOUND, muster_join(&options, &m));
    options.flags = MUSTER_JOIN_READ_ONLY;
    assert_status(MUSTER_NOT_FOUND, muster_join(&options, &m));
    assert_status(MUSTER_NOT_FOUND, muster_segment_open(name, &segment));
}
