/*
 * tests/segment/format_test.c: believing a segment: every kind of unsound header is refused, and what is wrong is
 * named.
 */
#include "cm.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "job.h"
#include "shm_layout/layout.h"

static const struct muster_segment_config small = {
    .num_tasks = 4, .num_slots = 16, .num_buckets = 64, .num_events = 8, .heap_bytes = 1 << 20};

static void path_of(const char *job, char path[300])
{
    snprintf(path, 300, "/dev/shm/muster-%u-%s", (unsigned)geteuid(), job);
}

/* A sound segment's file, changed by `change`, then opened. */
static enum muster_status open_changed(void (*change)(int fd, struct mu_header *h))
{
    struct muster_segment *segment, *opened;
    enum muster_status status;
    struct mu_header *h;
    char name[128], path[300];
    int fd;

    test_name(name, "changed");
    assert_ok(muster_segment_create(name, &small, &segment));
    fd = muster_segment_fd(segment);
    h = mmap(NULL, sizeof *h, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    change(fd, h);
    munmap(h, sizeof *h);
    status = muster_segment_open(name, &opened);
    if (status)
        print_message("%s: %s\n", muster_status_name(status), muster_last_error());
    else
        muster_segment_close(opened);
    /* whatever it is, it is the name's: nobody replaces what he does not understand */
    assert_status(MUSTER_ALREADY_EXISTS, muster_segment_create(name, &small, &opened));
    path_of(name, path);
    assert_int_equal(unlink(path), 0);
    muster_segment_close(segment);
    return status;
}

static void other_major(int fd, struct mu_header *h)
{
    (void)fd;
    h->major++;
}
static void other_signature(int fd, struct mu_header *h)
{
    (void)fd;
    h->signature ^= 1;
}
static void other_endian(int fd, struct mu_header *h)
{
    (void)fd;
    h->endian = 0x04030201;
}
static void no_magic(int fd, struct mu_header *h)
{
    (void)fd;
    h->magic = 0;
}
static void wrong_magic(int fd, struct mu_header *h)
{
    (void)fd;
    h->magic ^= 1;
}
static void cut_to_half(int fd, struct mu_header *h)
{
    assert_int_equal(ftruncate(fd, (off_t)h->total_bytes / 2), 0);
}
static void cut_by_one(int fd, struct mu_header *h)
{
    assert_int_equal(ftruncate(fd, (off_t)h->total_bytes - 1), 0);
}
static void cut_to_nothing(int fd, struct mu_header *h)
{
    (void)h;
    assert_int_equal(ftruncate(fd, 0), 0);
}
static void cut_in_the_header(int fd, struct mu_header *h)
{
    (void)h;
    assert_int_equal(ftruncate(fd, 4095), 0);
}
static void huge_heap(int fd, struct mu_header *h)
{
    (void)fd;
    h->num_chunks = MU_INDEX_MAX / MU_CHUNK_GRANULES;
}
static void overlapping(int fd, struct mu_header *h)
{
    (void)fd;
    h->buckets_offset = h->cells_offset;
}
static void outside(int fd, struct mu_header *h)
{
    (void)fd;
    h->heap_offset = UINT64_MAX - 4095;
}
static void odd_buckets(int fd, struct mu_header *h)
{
    (void)fd;
    h->num_buckets = 63;
}
static void no_tasks(int fd, struct mu_header *h)
{
    (void)fd;
    h->num_tasks = 0;
}
static void endless_name(int fd, struct mu_header *h)
{
    (void)fd;
    memset(h->job, 'x', sizeof h->job);
}
static void larger_file(int fd, struct mu_header *h)
{
    assert_int_equal(ftruncate(fd, (off_t)h->total_bytes + 4096), 0);
}

TEST(what_is_wrong_with_a_segment_is_named)
{
    static const struct {
        void (*change)(int fd, struct mu_header *h);
        enum muster_status status;
    } vectors[] = {{other_major, MUSTER_FAILED_PRECONDITION},
                   {other_signature, MUSTER_FAILED_PRECONDITION},
                   {other_endian, MUSTER_DATA_LOSS},
                   {no_magic, MUSTER_DATA_LOSS},
                   {wrong_magic, MUSTER_DATA_LOSS},
                   {cut_to_half, MUSTER_DATA_LOSS},
                   {cut_by_one, MUSTER_DATA_LOSS},
                   {cut_to_nothing, MUSTER_DATA_LOSS},
                   {cut_in_the_header, MUSTER_DATA_LOSS},
                   {huge_heap, MUSTER_DATA_LOSS},
                   {overlapping, MUSTER_DATA_LOSS},
                   {outside, MUSTER_DATA_LOSS},
                   {odd_buckets, MUSTER_DATA_LOSS},
                   {no_tasks, MUSTER_DATA_LOSS},
                   {endless_name, MUSTER_DATA_LOSS},
                   {larger_file, MUSTER_OK}};

    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        if (open_changed(vectors[i].change) != vectors[i].status)
            fail_msg("vector %zu: expected %s", i, muster_status_name(vectors[i].status));
}

TEST(a_version_mismatch_names_both_sides)
{
    struct muster_segment *segment, *opened;
    struct mu_header *h;
    char name[128];

    test_name(name, "version");
    assert_ok(muster_segment_create(name, &small, &segment));
    h = mmap(NULL, sizeof *h, PROT_READ | PROT_WRITE, MAP_SHARED, muster_segment_fd(segment), 0);
    h->major = 77;
    assert_status(MUSTER_FAILED_PRECONDITION, muster_segment_open(name, &opened));
    assert_says("77.");
    assert_says("1.");
    h->major = MU_LAYOUT_MAJOR;
    h->signature = 0x1234;
    assert_status(MUSTER_FAILED_PRECONDITION, muster_segment_open(name, &opened));
    assert_says("0000000000001234");
    munmap(h, sizeof *h);
    assert_ok(muster_segment_remove(name)); /* not understood, but removable */
    muster_segment_close(segment);
}
