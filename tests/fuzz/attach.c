/*
 * tests/fuzz/attach.c: attach to arbitrary bytes, then call everything.
 *
 * The sound image is made once: keys in the page, in blocks of their own and in parts, deleted ones, events around the
 * ring, tasks of every state, barriers, a slot of a process that died. A program of edits flips bits, writes words that
 * are likely to hurt (other words of the image, numbers near limits), and cuts the file short.
 */
#include "attach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <muster/muster.h>

#include "child.h"
#include "cli/status/picture.h"
#include "cli/trace/timeline.h"
#include "shm_layout/layout.h"

static uint8_t *image;
static size_t image_size;
static struct mu_header image_header;
static uint32_t used[4096]; /* granules of the heap at which blocks in use start */
static uint32_t used_count;
static int file = -1;

static void must(enum muster_status status, const char *what)
{
    if (status) {
        fprintf(stderr, "the sound image cannot be made: %s: %s\n", what, muster_last_error());
        exit(1);
    }
}

static struct muster *enter(int fd, int32_t task, uint32_t flags)
{
    struct muster_options options;
    struct muster *m = NULL;
    char name[32];

    snprintf(name, sizeof name, "fd:%d", fd);
    setenv("MUSTER_SEGMENT", name, 1);
    muster_options_init(&options);
    options.task_id = task;
    options.flags = flags | MUSTER_JOIN_NO_CREATE | MUSTER_JOIN_NO_HEARTBEAT;
    options.deadline = 1; /* long past: nothing is waited for */
    if (muster_join(&options, &m))
        m = NULL;
    unsetenv("MUSTER_SEGMENT");
    return m;
}

static int dies(void *arg)
{
    struct muster *m = enter(*(int *)arg, 1, 0);
    muster_object of_the_dead[2];
    struct muster_object_room room;

    if (m) {
        muster_kv_set(m, "/task/1", MUSTER_NTS, "here", 4, NULL);
        muster_object_put(m, "sealed", 6, "meta", 4, 0, &of_the_dead[0]);
        muster_object_create(m, 40, 0, 0, &of_the_dead[1], &room);
    }
    return m == NULL;
}

enum { UNITS = 12 };        /* of the arena, */
static muster_object chain; /* a queue of the image, with three messages, */
static struct muster_queue *queue_writer, *queue_reader;
static muster_object objects[8]; /* and objects of the image, of which the last lies there */

static void fill_queue(struct muster *m)
{
    static const char message[5000];

    must(muster_queue_create(m, NULL, &queue_writer, &chain), "queue");
    must(muster_queue_open(m, chain, &queue_reader), "reader");
    for (size_t i = 0; i < 3; i++)
        must(muster_queue_write(queue_writer, message, i == 1 ? sizeof message : i * 10, 0), "message");
}

static void fill(struct muster *m)
{
    static char value[200000];
    const int32_t both[2] = {0, 3};
    struct muster_object_room room;
    muster_object open;
    char key[64];

    memset(value, 'v', sizeof value);
    for (int i = 0; i < 24; i++) {
        snprintf(key, sizeof key, "/dir/%d/key", i);
        must(muster_kv_set(m, key, MUSTER_NTS, value, (size_t)(i * i), NULL), "set");
    }
    must(muster_kv_delete(m, "/dir/7", MUSTER_NTS, NULL), "delete");
    must(muster_kv_set(m, "/outside", MUSTER_NTS, value, 5000, NULL), "set");
    must(muster_kv_set(m, "/parts", MUSTER_NTS, value, sizeof value, NULL), "set");
    must(muster_kv_set(m, "/number", MUSTER_NTS, "41", 2, NULL), "set");
    for (int i = 0; i < 13; i++)
        must(muster_event_send(m, (uint32_t)i, value, (size_t)i * 40, NULL), "event");
    for (size_t i = 0; i < 8; i++)
        must(muster_object_put(m, value, i < 7 ? i * 10 : 70000, value, i, 0, &objects[i]), "put");
    must(muster_object_create(m, 60, 0, 0, &open, &room), "create");
    fill_queue(m);
    muster_barrier_wait(m, "half", MUSTER_BARRIER_NEXT, both, 2, 600000000000u, 1);
    muster_error_report(m, 2, MUSTER_INTERNAL, "reported by the test");
}

static void note_used(void)
{
    const uint32_t granules[] = MU_CLASS_GRANULES;

    for (uint32_t c = 0; c < image_header.num_chunks; c++) {
        uint32_t class_index;

        memcpy(&class_index, image + image_header.chunks_offset + c * 4, 4);
        class_index = MU_CHUNK_CLASS(class_index);
        if (!class_index)
            continue;
        for (uint32_t g = 0; g + granules[class_index - 1] <= MU_CHUNK_GRANULES; g += granules[class_index - 1]) {
            uint64_t word, at = image_header.heap_offset + ((uint64_t)c * MU_CHUNK_GRANULES + g) * MU_GRANULE;

            memcpy(&word, image + at, 8);
            if (MU_BLOCK_STATE(word) != MU_FREE && used_count < sizeof used / sizeof used[0])
                used[used_count++] = c * MU_CHUNK_GRANULES + g;
        }
    }
}

static void make_image(void)
{
    struct muster_segment_config config = {.num_tasks = 4,
                                           .num_slots = 8,
                                           .num_buckets = 8,
                                           .num_events = 8,
                                           .heap_bytes = 1 << 20,
                                           .memfd = 1,
                                           .trace_events = 64,
                                           .object_bytes = UNITS * MU_UNIT};
    struct muster_segment *segment;
    struct muster *m;
    int fd;

    must(muster_segment_create("fuzzed", &config, &segment), "create");
    fd = muster_segment_fd(segment);
    if (test_in_child(dies, &fd))
        must(MUSTER_UNKNOWN, "child");
    m = enter(fd, 0, 0);
    if (!m)
        must(MUSTER_UNKNOWN, "join");
    fill(m);
    image_size = (size_t)lseek(fd, 0, SEEK_END);
    image = malloc(image_size);
    if (!image || pread(fd, image, image_size, 0) != (ssize_t)image_size)
        must(MUSTER_UNKNOWN, "read");
    muster_queue_close(queue_reader); /* the image has both ends open */
    muster_queue_close(queue_writer);
    muster_leave(m);
    muster_segment_close(segment);
    memcpy(&image_header, image, sizeof image_header);
    note_used();
    file = memfd_create("fuzzed", MFD_CLOEXEC);
}

const uint8_t *attach_image(size_t *ret_size)
{
    if (!image)
        make_image();
    *ret_size = image_size;
    return image;
}

/* The program's bytes, one after the other; zeros at its end. */
struct program {
    const uint8_t *at;
    size_t left;
};

static uint64_t take(struct program *p, unsigned bytes)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < bytes && p->left; i++, p->left--)
        v |= (uint64_t)*p->at++ << (8 * i);
    return v;
}

/* A place in the file, most often one that matters. Aligned to a word. */
static uint64_t place(struct program *p)
{
    const struct mu_header *h = &image_header;
    uint64_t which = take(p, 1), n = take(p, 2), at;

    switch (which % 12) {
    case 0: at = n % 1024; break;
    case 1: at = 1024 + n % 1024; break;
    case 2: at = h->slots_offset + n % (h->num_slots * sizeof(struct mu_slot)); break;
    case 3: at = h->slots_offset + (n % 4) * sizeof(struct mu_slot) + offsetof(struct mu_slot, act) + n / 4 % 96; break;
    case 4: at = h->chunks_offset + n % (h->num_chunks * 4); break;
    case 5: at = h->events_offset + n % (h->num_events * 8); break;
    case 6: at = h->cells_offset + n % (h->num_cells * 8); break;
    case 7: at = h->buckets_offset + n % (h->num_buckets * 8); break;
    case 8: /* in the ring of one of the slots in use */
        at = h->trace_offset + n % 4 * mu_trace_ring_bytes(h->trace_events, h->trace_names);
        at += n & 0x100 ? n / 512 % 2 * 8 : sizeof(struct mu_ring) + n / 512 * 32 % 4096 + n / 4 % 4 * 8;
        break;
    case 9: at = n & 0x100 ? h->units_offset + n % UNITS * 8 : h->objects_offset + n % MU_OBJECTS_RANGE * 8; break;
    default:
        at = h->heap_offset + (uint64_t)used[n % used_count] * MU_GRANULE;
        at += which & 0x80 ? take(p, 2) * 8 : take(p, 1) % 16 * 8;
    }
    return at % (image_size - 8) & ~7ull;
}

static uint64_t value(struct program *p, const uint8_t *bytes)
{
    uint64_t v, which = take(p, 1), granule = used[take(p, 2) % used_count];

    switch (which % 8) {
    case 0: return take(p, 8);
    case 1: return 0;
    case 2: return ~0ull >> which / 8;
    case 3: return 1ull << which / 8;
    case 4: memcpy(&v, bytes + place(p), 8); return v;
    case 5: /* a reference to a block that is there */
        memcpy(&v, bytes + image_header.heap_offset + granule * MU_GRANULE, 8);
        return MU_REF(MU_BLOCK_GENERATION(v), granule + 1) | (which & 0x80 ? MU_REF_DEEP : 0);
    case 6: return MU_WORD(granule + 1, which & 0x80 ? 1 : take(p, 4));
    default: return MU_ACT(place(p), which & 0x80 ? 15 : 3, which & 0x40 ? 15 : 3);
    }
}

/* Returns the length of the file. */
static size_t edit(struct program *p, uint8_t *bytes)
{
    size_t length = image_size;

    for (int n = 0; p->left && n < 64; n++) {
        uint64_t what = take(p, 1), at = place(p), v;

        switch (what % 8) {
        case 0:
        case 1:
        case 2: bytes[at + what / 8 % 8] ^= (uint8_t)(1u << take(p, 1) % 8); break;
        case 3:
            if (what & 0x80)
                length = take(p, 3) % image_size;
            break;
        case 4: /* half a word */
            v = value(p, bytes);
            memcpy(bytes + at + (what & 0x80 ? 4 : 0), &v, 4);
            break;
        default: v = value(p, bytes); memcpy(bytes + at, &v, 8);
        }
    }
    return length;
}

static int ignore_barrier(void *arg, const struct muster_barrier_info *info)
{
    *(size_t *)arg += info->missing_count;
    return 0;
}

static void read_keys(struct muster *m)
{
    static const char *const keys[] = {"/dir/1/key", "/dir/20/key", "/dir/7/key", "/outside",
                                       "/parts",     "/number",     "/task/1",    "/none"};
    struct muster_kv_list *list;
    static char buffer[300000];
    size_t len, count;
    uint64_t version;
    void *copy;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        muster_kv_try_get(m, keys[i], MUSTER_NTS, buffer, sizeof buffer, &len, &version);
        muster_kv_try_get(m, keys[i], MUSTER_NTS, NULL, 0, &len, NULL);
        muster_kv_get(m, keys[i], MUSTER_NTS, 1, buffer, 100, &len, &version);
        muster_kv_watch(m, keys[i], MUSTER_NTS, 3, 1, buffer, sizeof buffer, &len, &version);
        if (!muster_kv_get_alloc(m, keys[i], MUSTER_NTS, 1, &copy, &len, NULL))
            free(copy);
    }
    if (!muster_kv_get_dir(m, "", MUSTER_NTS, &list))
        muster_kv_list_free(list);
    muster_kv_count(m, "/dir", MUSTER_NTS, &count);
}

static void read_others(struct muster *m)
{
    uint64_t version = 0, position = 0, next = 0, lost;
    struct muster_task_info tasks[4], task;
    struct mu_cli_picture first, second;
    struct mu_cli_timeline timeline;
    struct muster_error error;
    struct muster_event event;
    char payload[600];
    size_t count = 0;
    static FILE *nowhere;

    if (!nowhere)
        nowhere = fopen("/dev/null", "we");

    muster_task_list(m, tasks, 4, &count, &version);
    for (int32_t i = -1; i < 5; i++)
        muster_task_get(m, i, &task);
    muster_task_watch(m, version, 1, tasks, 4, &count, &version);
    muster_error_wait(m, 1, &error);
    muster_barrier_list(m, ignore_barrier, &count);
    if (!mu_cli_picture_take(m, NULL, &first)) { /* as status and top read and judge it */
        if (!mu_cli_picture_take(m, &first, &second)) {
            mu_cli_print_picture(&second, nowhere);
            mu_cli_json_picture(&second, nowhere);
            mu_cli_picture_free(&second);
        }
        mu_cli_picture_free(&first);
    }
    if (!mu_cli_timeline_read(muster_segment_of(m), 0, &timeline)) {
        mu_cli_print_stragglers(&timeline, muster_num_tasks(m), nowhere);
        mu_cli_timeline_done(&timeline);
    }
    muster_event_next(m, &next);
    for (int i = 0; i < 40; i++) {
        enum muster_status status = muster_event_read(m, &position, 1, &event, payload, sizeof payload, &lost);

        if (status && status != MUSTER_OUT_OF_RANGE)
            break;
    }
    position = next - 1;
    muster_event_read(m, &position, 1, &event, payload, 10, &lost);
}

struct found {
    muster_object objects[64];
    size_t count;
};

static int note_object(void *arg, const struct muster_object_info *info)
{
    struct found *f = arg;

    f->objects[f->count++] = info->object;
    return f->count == 64;
}

static void queue_all(struct muster *m)
{
    struct muster_queue_message message;
    struct muster_queue_info info;
    struct muster_queue *q, *reader;
    muster_object fresh;

    if (!muster_queue_open(m, chain, &reader)) {
        muster_queue_read(reader, 1, &message);
        muster_queue_info(reader, &info);
        muster_queue_close(reader);
    }
    if (muster_queue_create(m, NULL, &q, &fresh))
        return;
    if (!muster_queue_open(m, fresh, &reader)) {
        muster_queue_wait(q, 1, 1);
        muster_queue_write(q, "fresh", 5, 1);
        muster_queue_read(reader, 1, &message);
        muster_queue_close(reader);
    }
    muster_queue_close(q);
}

static void hold_all(struct muster *m)
{
    static const char large[70000];
    struct muster_object_view views[8];
    struct found found = {.count = 0};
    unsigned char ready[8];
    muster_object fresh;
    size_t n;

    muster_object_list(m, note_object, &found);
    for (n = 0; n < found.count; n++)
        muster_object_retain(m, &found.objects[n], 1, NULL);
    muster_object_wait(m, objects, 8, 8, 1, ready, &n);
    for (int i = 0; i < 8; i++)
        if (!muster_object_get(m, &objects[i], 1, 1, &views[i], NULL)) {
            uint64_t sum = 0;

            for (n = 0; n < views[i].len; n++)
                sum += ((const unsigned char *)views[i].data)[n];
            for (n = 0; n < views[i].meta_len; n++)
                sum += ((const unsigned char *)views[i].meta)[n];
            if (sum != 1) /* it is read, whatever it says */
                muster_object_unview(m, &views[i], 1);
        }
    if (!muster_object_put(m, "fresh", 5, NULL, 0, 0, &fresh))
        muster_object_drop(m, &fresh, 1);
    if (!muster_object_put(m, large, sizeof large, NULL, 0, 0, &fresh))
        muster_object_drop(m, &fresh, 1);
    muster_object_drop(m, objects, 8);
}

static void write_all(struct muster *m)
{
    static char big[150000];
    const int32_t both[2] = {0, 3};
    struct muster_group *group;
    uint64_t version;
    int64_t sum;
    size_t n;

    queue_all(m);
    hold_all(m);
    muster_kv_set(m, "/dir/1/key", MUSTER_NTS, "1", 1, &version);
    muster_kv_set(m, "/dir/1/key", MUSTER_NTS, big, 1, &version);
    muster_kv_set(m, "/outside", MUSTER_NTS, big, 5000, NULL);
    muster_kv_set(m, "/parts", MUSTER_NTS, big, sizeof big, NULL);
    muster_kv_insert(m, "/new", MUSTER_NTS, big, 100);
    muster_kv_increment(m, "/number", MUSTER_NTS, 1, &sum);
    muster_kv_append(m, "/outside", MUSTER_NTS, big, 3, &n);
    muster_kv_compare_and_set(m, "/task/1", MUSTER_NTS, 1, big, 9, &version);
    for (int i = 0; i < 10; i++)
        muster_event_send(m, 1, big, (size_t)i * 100, &version);
    muster_barrier_wait(m, "half", MUSTER_BARRIER_NEXT, both, 2, 600000000000u, 1);
    muster_barrier_wait(m, "full", MUSTER_BARRIER_NEXT, NULL, 0, 600000000000u, 1);
    muster_barrier_cancel(m, "half", 0);
    if (!muster_group_create(m, "group", both, 2, 64, 1, &group))
        muster_group_free(group);
    muster_error_report(m, 0, MUSTER_ABORTED, "by the fuzzer");
    muster_task_reset(m, 2);
    muster_task_heartbeat(m, 0, 1);
    muster_heartbeat(m);
    muster_scavenge(m, &n);
    muster_kv_delete(m, "/dir", MUSTER_NTS, &n);
    muster_kv_delete(m, "/", MUSTER_NTS, &n);
}

static void call_everything(int fd)
{
    struct muster *m = enter(fd, -1, MUSTER_JOIN_READ_ONLY);
    struct muster_segment_info info;
    struct muster_audit sum;

    if (!m)
        return;
    muster_segment_info(muster_segment_of(m), &info);
    muster_segment_check(muster_segment_of(m), NULL, NULL, &sum);
    read_keys(m);
    read_others(m);
    muster_leave(m);
    for (int32_t task = -1; task < 4; task += 4) {
        m = enter(fd, task, task < 0 ? MUSTER_JOIN_OBSERVER : 0);
        if (!m)
            continue;
        read_keys(m);
        write_all(m);
        read_keys(m);
        read_others(m);
        muster_segment_check(muster_segment_of(m), NULL, NULL, &sum);
        muster_leave(m);
    }
}

void attach_try(const uint8_t *data, size_t size)
{
    static uint8_t *bytes;
    struct program p = {data + 1, size - 1};
    size_t length;

    if (!image)
        make_image();
    if (!bytes)
        bytes = malloc(image_size);
    if (!size)
        return;
    if (data[0] & 1) {
        memcpy(bytes, image, image_size);
        length = edit(&p, bytes);
    } else {
        length = size - 1 < image_size ? size - 1 : image_size;
        memcpy(bytes, data + 1, length);
    }
    if (ftruncate(file, 0) || ftruncate(file, (off_t)length) || pwrite(file, bytes, length, 0) != (ssize_t)length)
        abort();
    call_everything(file);
}
