/*
 * tests/checkpoint/disk_test.c: generations on a disk: written, read back, damaged, overwritten, without room; and
 * SIGKILL at every system call of a writer.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/checkpoint/disk.h"
#include "child.h"
#include "shm.h"
#include "stage.h"

static char folder[64], memory[512], why[MU_DISK_WHY];
static struct mu_disk disk;
static unsigned pieces, piece_number = 1; /* that were copied; at which at_piece() is called */
static void (*at_piece)(void);

static bool goes_on(void *arg, size_t bytes)
{
    (void)arg;
    (void)bytes;
    if (++pieces == piece_number && at_piece)
        at_piece();
    return true;
}

static const struct mu_disk_pace pace = {.goes_on = goes_on};

static void disk_open(void)
{
    if (mu_disk_open(&disk, folder, true, why) || mu_disk_claim(&disk, why))
        fail_msg("%s", why);
}

static int disk_begin(void)
{
    snprintf(folder, sizeof folder, "/tmp/muster-disk-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(stage_begin(), 0);
    mu_checkpoint_folder(run_id, memory, sizeof memory);
    disk_open();
    pieces = 0;
    at_piece = NULL;
    piece_number = 1;
    return 0;
}

static int disk_end(void)
{
    struct mu_disk_entry *entries;
    size_t count;

    assert_int_equal(mu_disk_list(&disk, &entries, &count), 0);
    for (size_t i = 0; i < count; i++)
        mu_disk_remove(&disk, entries[i].name, entries[i].generation);
    free(entries);
    mu_disk_close(&disk);
    return rmdir(folder) || stage_end();
}

#define DISK_TEST(name) TEST_WITH(name, disk_begin, disk_end)

static void generation_take(void *arg, const struct mu_checkpoint_whole *whole)
{
    struct mu_checkpoint_whole *newest = arg;

    if (whole->generation > newest->generation)
        *newest = *whole;
}

static enum mu_disk_end newest_write(bool held)
{
    struct mu_checkpoint_whole newest = {.generation = 0};
    uint64_t bytes;

    mu_checkpoint_each_whole(memory, generation_take, &newest);
    assert_string_equal(newest.name, "model");
    return mu_disk_write(&disk, memory, &newest, held, &pace, &bytes, why);
}

static void save_and_write(uint64_t step)
{
    all_save(step);
    if (newest_write(false))
        fail_msg("%s", why);
}

/* What another run finds, of so many tasks: 0, or -1. */
static int run_anew(uint32_t count)
{
    static unsigned runs;
    int rc;

    attempt_end();
    mu_checkpoint_remove(run_id);
    snprintf(run_id, sizeof run_id, "anew-%d-%u", (int)getpid(), runs++);
    setenv("MUSTER_RUN_ID", run_id, 1);
    OK(mu_checkpoint_folder_make(run_id, memory, sizeof memory));
    rc = mu_disk_recall(&disk, memory, &pace, why);
    attempt_begin(count);
    return rc;
}

static int entries_count(void)
{
    struct dirent *e;
    DIR *d = opendir(folder);
    int count = 0;

    while (d && (e = readdir(d)))
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return count;
}

static void damage(const char *file, off_t at)
{
    char path[256], byte;
    int fd;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* ---- there and back ---- */

DISK_TEST(what_was_written_is_read_back_by_another_run)
{
    save_and_write(10);
    save_and_write(20);
    all_save(30); /* not written */
    assert_int_equal(run_anew(2), 0);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 2, 20);
    rank_check(1, MUSTER_CHECKPOINT_OWN, 2, 20);
    all_save(21); /* numbers go on behind it */
    rank_check(0, 1, 3, 21);
    rank_save(0, 22);
    attempt_again(2); /* and what memory has is not read again */
    assert_int_equal(mu_disk_recall(&disk, memory, &pace, why), 0);
    rank_check(1, 0, 3, 21);
}

DISK_TEST(another_number_of_ranks_finds_the_parts)
{
    save_and_write(10);
    assert_int_equal(run_anew(3), 0);
    rank_check(2, 0, 1, 10);
    rank_check(0, 1, 1, 10);
    all_save(11);
    rank_check(2, MUSTER_CHECKPOINT_OWN, 2, 11);
}

DISK_TEST(the_newest_are_kept)
{
    for (uint64_t step = 1; step <= 5; step++)
        save_and_write(step);
    mu_disk_prune(&disk, "mode", 5, 1);
    assert_int_equal(entries_count(), 5);
    mu_disk_prune(&disk, "model", 4, 2); /* 5 is beyond what counts */
    assert_int_equal(entries_count(), 3);
    assert_int_equal(run_anew(2), 0);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 5, 5);
}

/* ---- damage ---- */

DISK_TEST(a_damaged_generation_is_passed_over)
{
    static const struct {
        const char *file;
        off_t at;
    } damaged[] = {{"model@5/manifest", 30},
                   {"model@4/1", 300000},
                   {"model@3/0", 8}, /* which generation it is */
                   {"model@2/manifest", 60}};

    for (uint64_t step = 1; step <= 6; step++)
        save_and_write(step);
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++)
        damage(damaged[i].file, damaged[i].at);
    assert_int_equal(unlinkat(disk.fd, "model@6/1", 0), 0);
    assert_int_equal(run_anew(2), 0);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 1, 1);
    for (uint64_t step = 2; step <= 6; step++) /* in the place of those */
        save_and_write(step);
    assert_int_equal(run_anew(2), 0);
    rank_check(1, MUSTER_CHECKPOINT_OWN, 6, 6);
    assert_int_equal(entries_count(), 6);
}

DISK_TEST(where_none_is_sound_there_is_none)
{
    struct mu_checkpoint_whole none = {.generation = 0};

    save_and_write(1);
    damage("model@1/0", 5000);
    assert_int_equal(run_anew(2), 0);
    mu_checkpoint_each_whole(memory, generation_take, &none);
    assert_int_equal(none.generation, 0);
    save_and_write(1);
    assert_int_equal(run_anew(2), 0);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 1, 1);
}

DISK_TEST(what_belongs_to_another_user_is_not_read)
{
    if (geteuid() != 0)
        skip();
    save_and_write(1);
    save_and_write(2);
    assert_int_equal(fchownat(disk.fd, "model@2/1", 1, (gid_t)-1, 0), 0);
    assert_int_equal(run_anew(2), 0);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 1, 1);
}

/* ---- beside a job that goes on ---- */

static void ranks_go_on(void)
{
    all_save(2);
    all_save(3);
    all_save(4);
}

DISK_TEST(a_generation_that_is_overwritten_meanwhile_is_nothing)
{
    save_and_write(1);
    at_piece = ranks_go_on;
    for (piece_number = 1; piece_number <= 2; piece_number++) { /* one is all of a part here */
        pieces = 0;
        all_save(11);
        assert_int_equal(newest_write(false), MU_DISK_OVERWRITTEN);
        assert_int_equal(pieces, piece_number);
        assert_int_equal(entries_count(), 1);
    }
    rank_check(0, 1, 9, 4);
}

DISK_TEST(a_generation_that_is_held_is_written_whatever_is_saved)
{
    at_piece = ranks_go_on;
    all_save(1);
    assert_int_equal(newest_write(true), MU_DISK_DONE);
    rank_check(0, 1, 4, 4);
    assert_int_equal(run_anew(2), 0);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 1, 1);
}

DISK_TEST(a_folder_that_is_another_is_named_and_not_written_to)
{
    char elsewhere[80];

    all_save(1);
    snprintf(elsewhere, sizeof elsewhere, "%s-elsewhere", folder);
    assert_int_equal(rename(folder, elsewhere), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(newest_write(false), MU_DISK_FAILED);
    assert_non_null(strstr(why, "another folder than at the job's start"));
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(newest_write(false), MU_DISK_FAILED);
    assert_non_null(strstr(why, "the folder has gone"));
    assert_int_equal(rename(elsewhere, folder), 0);
    assert_int_equal(newest_write(false), MU_DISK_DONE);
}

DISK_TEST(one_job_at_a_time_writes_there)
{
    struct mu_disk other;

    assert_int_equal(mu_disk_open(&other, folder, false, why), 0);
    assert_int_equal(mu_disk_claim(&other, why), -1);
    assert_non_null(strstr(why, "another job writes its checkpoints there"));
    mu_disk_close(&disk);
    assert_int_equal(mu_disk_claim(&other, why), 0);
    mu_disk_close(&other);
    disk_open();
}

/* ---- no room ---- */

static int disk_full(void *arg)
{
    char directory[64], taken[128];

    (void)arg;
    if (!test_small_shm(8 << 20, directory))
        return TEST_NOT_ALLOWED;
    unsetenv("MUSTER_SHM_DIR"); /* the disk is small, not memory */
    CHECK(!stage_begin());
    mu_checkpoint_folder(run_id, memory, sizeof memory);
    snprintf(folder, sizeof folder, "%s", directory);
    disk_open();
    save_and_write(1);
    test_fill_shm(directory, taken);
    all_save(2);
    CHECK(newest_write(false) == MU_DISK_FAILED && strstr(why, "No space left on device"));
    unlink(taken);
    CHECK(entries_count() == 1);
    CHECK(newest_write(false) == MU_DISK_DONE && entries_count() == 2);
    mu_disk_close(&disk);
    CHECK(!stage_end());
    test_small_shm_end(directory);
    return 0;
}

TEST(a_full_disk_is_named_and_leaves_what_was_there)
{
    test_with_small_shm(disk_full);
}

static int memory_full(void *arg)
{
    char directory[64], taken[128], twin[64];
    struct stat st;

    (void)arg;
    if (!test_small_shm(16 << 20, directory))
        return TEST_NOT_ALLOWED;
    CHECK(!disk_begin());
    save_and_write(1);
    attempt_end();
    mu_checkpoint_remove(run_id);
    OK(mu_checkpoint_folder_make(run_id, memory, sizeof memory));
    test_fill_shm(directory, taken);
    CHECK(mu_disk_recall(&disk, memory, &pace, why) == -1 && strstr(why, "no room in "));
    snprintf(twin, sizeof twin, "model@2.0.1"); /* nothing of it is left */
    CHECK(fstatat(open(memory, O_RDONLY | O_CLOEXEC), twin, &st, 0) == -1);
    unlink(taken);
    CHECK(!mu_disk_recall(&disk, memory, &pace, why));
    attempt_begin(2);
    rank_check(1, MUSTER_CHECKPOINT_OWN, 1, 1);
    CHECK(!disk_end());
    test_small_shm_end(directory);
    return 0;
}

TEST(without_room_in_memory_nothing_is_read_back)
{
    test_with_small_shm(memory_full);
}

/* ---- SIGKILL ---- */

static int victim(void *arg)
{
    (void)arg;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        return 2;
    raise(SIGSTOP);
    if (newest_write(false))
        return 3;
    mu_disk_prune(&disk, "model", 2, 1);
    return 0;
}

/* Killed at its n-th stop at a system call: 1; it had come to its end before: 0. */
static int killed_at(unsigned n)
{
    pid_t pid = test_fork(victim, NULL);
    int status = 0;

    assert_int_equal(waitpid(pid, &status, __WALL), pid);
    for (unsigned i = 0; i < n && WIFSTOPPED(status); i++) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, __WALL), pid);
    }
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), 0);
        return 0;
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, __WALL), pid);
    return 1;
}

/* All that has a generation's name is sound; the newest of them. */
static uint64_t sound_newest(void)
{
    struct mu_disk_entry *entries;
    uint64_t newest = 0;
    size_t count;

    assert_int_equal(mu_disk_list(&disk, &entries, &count), 0);
    for (size_t i = 0; i < count; i++) {
        struct mu_disk_generation g;

        if (mu_disk_manifest_read(&disk, &entries[i], &g, why) || mu_disk_verify(&disk, &g, &pace, why))
            fail_msg("generation %llu: %s", (unsigned long long)entries[i].generation, why);
        newest = newest ? newest : entries[i].generation;
        mu_disk_forget(&g);
    }
    free(entries);
    return newest;
}

DISK_TEST(a_writer_that_is_killed_at_any_system_call_leaves_whole_generations)
{
    unsigned n = 1, firsts = 0, seconds = 0;

    all_save(1);
    for (int more = 1; more; n++) {
        uint64_t newest;

        if (n == 1 || sound_newest() == 2) { /* begin anew */
            mu_disk_remove(&disk, "model", 2);
            attempt_end();
            mu_checkpoint_remove(run_id);
            attempt_begin(2);
            save_and_write(1);
            all_save(2);
        }
        more = killed_at(n);
        newest = sound_newest();
        assert_true(newest == 1 || newest == 2);
        newest == 1 ? firsts++ : seconds++;
        mu_disk_close(&disk);
        disk_open();
        /* the writer's leftovers are gone, and with the newest there may be the one before it */
        assert_true(entries_count() == 1 || (newest == 2 && entries_count() == 2));
    }
    print_message("%u kills: %u before the commit\n", n - 2, firsts);
    assert_true(firsts > 20 && seconds > 5);
}
