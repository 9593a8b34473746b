/*
 * tests/checkpoint/kill_test.c: SIGKILL at every step of a save and of an opening.
 *
 * A process of rank 0 is single-stepped through the operation. At each image of the checkpoint's folder that differs
 * from the one before, the folder is copied: what lies in the copy is what a SIGKILL there would have left. There rank
 * 0 is opened anew, and then both ranks go on. Always: the newest generation is the one before or the one that was
 * being saved, it is whole and of one saving of each rank, it never goes back from one image to the next, and the next
 * generations come.
 */
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stage.h"

enum { FILES_MAX = 8, BYTES_MAX = 8196 };

/* What lies in a folder, file by file. */
struct image {
    int count;
    char names[FILES_MAX][64];
    size_t sizes[FILES_MAX];
    uint8_t bytes[FILES_MAX][BYTES_MAX];
};

static struct image before, now;
static char own_run[56], folder[512];
static struct test_job theirs; /* the victim is a task of another job */
static struct test_job later;  /* the job whose tasks look at what it leaves: new processes, as it were */

static enum muster_status value_save(struct muster_checkpoint *cp, uint32_t rank, uint64_t step)
{
    uint64_t value = rank * 1000 + step;
    struct muster_checkpoint_tensor t = {.name = "v", .dtype = "uint64", .data = &value, .len = 8};

    return muster_checkpoint_save(cp, step, &t, 1, 0, NULL);
}

static void small_save(struct muster_checkpoint *cp, uint32_t rank, uint64_t step)
{
    OK(value_save(cp, rank, step));
}

static void small_check(struct muster_checkpoint *cp, uint32_t rank, uint64_t generation, uint64_t step)
{
    const struct muster_checkpoint_tensor *t;
    struct muster_checkpoint_view view;

    OK(muster_checkpoint_load(cp, (int32_t)rank, &view));
    assert_int_equal(view.generation, generation);
    assert_int_equal(view.step, step);
    OK(muster_checkpoint_find(&view, "v", "uint64", 0, NULL, &t));
    assert_int_equal(*(const uint64_t *)t->data, rank * 1000 + step);
    muster_checkpoint_unload(&view);
}

/* ---- images ---- */

static void image_take(const char *from, struct image *image)
{
    DIR *d = opendir(from);
    struct dirent *e;

    memset(image, 0, sizeof *image);
    while (d && (e = readdir(d))) {
        int fd, at = image->count;

        if (e->d_name[0] == '.')
            continue;
        assert_true(at < FILES_MAX);
        fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        snprintf(image->names[at], sizeof image->names[at], "%.60s", e->d_name);
        image->sizes[at] = (size_t)pread(fd, image->bytes[at], BYTES_MAX, 0);
        assert_true(image->sizes[at] < BYTES_MAX);
        close(fd);
        image->count++;
    }
    if (d)
        closedir(d);
}

static void image_put(const struct image *image, const char *to)
{
    char path[600];

    assert_int_equal(mkdir(to, 0700), 0);
    for (int i = 0; i < image->count; i++) {
        int fd;

        snprintf(path, sizeof path, "%s/%s", to, image->names[i]);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_int_equal(write(fd, image->bytes[i], image->sizes[i]), image->sizes[i]);
        close(fd);
    }
}

/* ---- what a death at this image leaves ---- */

/* The newest generation that is found: `old`, or `old` + 1, which rank 0 saved as `step`. */
static uint64_t image_check(const struct image *image, uint64_t old, uint64_t step)
{
    struct muster *successors[2] = {test_join(later.name, 0, 0), test_join(later.name, 1, 0)};
    struct muster_checkpoint *cp[2];
    struct muster_checkpoint_info info;
    char copy[512];
    uint64_t found;

    snprintf(run_id, sizeof run_id, "%s-copy", own_run);
    setenv("MUSTER_RUN_ID", run_id, 1);
    mu_checkpoint_folder(run_id, copy, sizeof copy);
    image_put(image, copy);
    for (uint32_t i = 0; i < 2; i++)
        OK(muster_checkpoint_open(successors[i], "model", &cp[i]));
    OK(muster_checkpoint_info(cp[0], &info));
    found = info.generation;
    assert_true(found == old || found == old + 1);
    for (uint32_t i = 0; i < 4 && found; i++)
        small_check(cp[i / 2], i % 2, found, found == old ? old * 10 : step);
    for (uint64_t next = found + 1; next < found + 3; next++) {
        /* the first to save is alone: nothing of the dead one, nor of our own before, counts */
        small_save(cp[1], 1, next * 100);
        OK(muster_checkpoint_info(cp[1], &info));
        assert_int_equal(info.generation, next - 1);
        small_save(cp[0], 0, next * 100);
        for (uint32_t rank = 0; rank < 2; rank++)
            small_check(cp[0], rank, next, next * 100);
    }
    for (uint32_t i = 0; i < 2; i++) {
        muster_checkpoint_close(cp[i]);
        OK(muster_leave(successors[i]));
    }
    mu_checkpoint_remove(run_id);
    setenv("MUSTER_RUN_ID", own_run, 1);
    return found;
}

/* ---- the victim ---- */

static int victim_save(void)
{
    return value_save(cps[0], 0, 777);
}

static int victim_open(void)
{
    struct muster_checkpoint *cp;

    return muster_checkpoint_open(tasks[0], "model", &cp);
}

static void victim_run(int (*operation)(void))
{
    tasks[0] = test_join(theirs.name, 0, MUSTER_JOIN_RECOVERABLE);
    if (!tasks[0])
        _exit(1);
    if (operation == victim_save && muster_checkpoint_open(tasks[0], "model", &cps[0]))
        _exit(2);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        _exit(77);
    raise(SIGSTOP);
    _exit(operation());
}

/* Steps it to its end: how many images there were, all checked. */
static unsigned victim_step(int (*operation)(void), uint64_t old, uint64_t *ret_found)
{
    unsigned images = 0;
    int status;
    pid_t pid = fork();

    if (!pid)
        victim_run(operation);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_true(WIFSTOPPED(status));
    *ret_found = 0;
    before.count = -1;
    for (;;) {
        image_take(folder, &now);
        if (memcmp(&now, &before, sizeof now) != 0) {
            uint64_t found = image_check(&now, old, 777);

            assert_true(found >= *ret_found);
            *ret_found = found;
            before = now;
            images++;
        }
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) || waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
            break;
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    return images;
}

/* ---- the stage: our own tasks have saved so many generations ---- */

static void saved(uint64_t generations)
{
    for (uint64_t g = 1; g <= generations; g++)
        for (uint32_t rank = 0; rank < 2; rank++)
            small_save(cps[rank], rank, g * 10);
}

static int kill_begin(void)
{
    struct muster_segment_config config = {.num_tasks = 2, .num_slots = 32};

    stage_begin();
    snprintf(own_run, sizeof own_run, "%.50s", run_id);
    mu_checkpoint_folder(own_run, folder, sizeof folder);
    OK(test_job_create(&theirs, &config));
    OK(test_job_create(&later, &config));
    return 0;
}

static int kill_end(void)
{
    struct muster *m = test_join(theirs.name, 0, MUSTER_JOIN_RECOVERABLE); /* behind the dead one */

    OK(muster_leave(m));
    assert_int_equal(test_job_end(&theirs), 0);
    assert_int_equal(test_job_end(&later), 0);
    snprintf(run_id, sizeof run_id, "%s", own_run);
    return stage_end();
}

#define KILL_TEST(name) TEST_WITH(name, kill_begin, kill_end)

KILL_TEST(the_first_to_save_is_killed_at_every_step)
{
    uint64_t found;

    saved(2);
    assert_in_range(victim_step(victim_save, 2, &found), 10, 1000);
    assert_int_equal(found, 2);
}

KILL_TEST(the_last_to_save_is_killed_at_every_step)
{
    uint64_t found;

    saved(2);
    small_save(cps[1], 1, 777);
    assert_in_range(victim_step(victim_save, 2, &found), 10, 1000);
    assert_int_equal(found, 3);
}

KILL_TEST(a_successor_is_killed_at_every_step_of_its_opening)
{
    uint64_t found;

    saved(2);
    small_save(cps[0], 0, 777);
    assert_in_range(victim_step(victim_open, 2, &found), 2, 1000);
    assert_int_equal(found, 2);
}

KILL_TEST(the_very_first_opening_is_killed_at_every_step)
{
    uint64_t found;

    muster_checkpoint_close(cps[0]);
    muster_checkpoint_close(cps[1]);
    mu_checkpoint_remove(own_run);
    assert_in_range(victim_step(victim_open, 0, &found), 2, 1000);
    assert_int_equal(found, 0);
    OK(muster_checkpoint_open(tasks[0], "model", &cps[0]));
    OK(muster_checkpoint_open(tasks[1], "model", &cps[1]));
}
