/*
 * bench/object.c: objects in shared memory beside memcpy.
 *
 *   object.put.BYTES   muster: muster_object_put() and _drop(), on pages that the object before had; memcpy: the same
 * bytes to memory that is warm
 *   object.get.BYTES   muster_object_get() and _unview() of a sealed object that this process holds
 *   object.wait.N      muster_object_wait_any() of those that are left of N sealed objects, N times: a wait
 *
 * Usage: object SECONDS      (for each row)
 */
#include "job.h"

enum { MIB = 1 << 20, BATCH = 32 };

static struct {
    struct muster *muster;
    double seconds, tick_ns;
    uint8_t *from, *to;
} room;

static void emit(const char *what, size_t bytes, const char *who, struct bench_samples *samples, int batch)
{
    char metric[64];

    snprintf(metric, sizeof(metric), "object.%s.%zu", what, bytes);
    bench_emit(metric, who, samples, room.tick_ns, batch, batch);
    bench_samples_free(samples);
}

static void put_and_drop(size_t bytes)
{
    muster_object object;

    bench_ok(muster_object_put(room.muster, room.from, bytes, NULL, 0, 0, &object), "muster_object_put");
    bench_ok(muster_object_drop(room.muster, &object, 1), "muster_object_drop");
}

/* Both in turn, so that what else the machine does falls on both. */
static void row_put(size_t bytes)
{
    struct bench_samples puts, copies;
    uint64_t end = bench_now_ns() + (uint64_t)(room.seconds * 1e9);

    bench_samples_init(&puts, 1u << 18);
    bench_samples_init(&copies, 1u << 18);
    put_and_drop(bytes); /* the next one has its pages */
    while (bench_goes_on(&puts, end)) {
        uint64_t start = bench_ticks();

        put_and_drop(bytes);
        bench_add(&puts, bench_ticks() - start);
        start = bench_ticks();
        memcpy(room.to, room.from, bytes);
        __asm__ volatile("" ::"r"(room.to) : "memory");
        bench_add(&copies, bench_ticks() - start);
    }
    emit("put", bytes, "muster", &puts, 1);
    emit("put", bytes, "memcpy", &copies, 1);
}

static void row_get(size_t bytes)
{
    struct bench_samples samples;
    uint64_t end = bench_now_ns() + (uint64_t)(room.seconds * 1e9);
    struct muster_object_view view;
    muster_object object;

    bench_ok(muster_object_put(room.muster, room.from, bytes, NULL, 0, 0, &object), "muster_object_put");
    bench_samples_init(&samples, 1u << 20);
    while (bench_goes_on(&samples, end)) {
        uint64_t start = bench_ticks();

        for (int i = 0; i < BATCH; i++) {
            if (muster_object_get(room.muster, &object, 1, 0, &view, NULL))
                bench_die("muster_object_get: %s", muster_last_error());
            muster_object_unview(room.muster, &view, 1);
        }
        bench_add(&samples, bench_ticks() - start);
    }
    bench_ok(muster_object_drop(room.muster, &object, 1), "muster_object_drop");
    emit("get", bytes, "muster", &samples, BATCH);
}

/* One by one: what is ready is taken out, and the others are waited for. */
static void row_wait(size_t count)
{
    muster_object *objects = malloc(count * sizeof(*objects));
    struct bench_samples samples;
    uint64_t end = bench_now_ns() + (uint64_t)(room.seconds * 1e9);
    char metric[64];

    if (!objects)
        bench_die("no memory");
    for (size_t i = 0; i < count; i++)
        bench_ok(muster_object_put(room.muster, room.from, 20, NULL, 0, 0, &objects[i]), "muster_object_put");
    bench_samples_init(&samples, 1u << 16);
    while (bench_goes_on(&samples, end)) {
        uint64_t start = bench_ticks();
        size_t at;

        for (size_t left = count; left; left--) {
            muster_object first = objects[0];

            if (muster_object_wait_any(room.muster, objects, left, 0, &at))
                bench_die("muster_object_wait_any: %s", muster_last_error());
            objects[at] = objects[left - 1];
            objects[left - 1] = first;
        }
        bench_add(&samples, bench_ticks() - start);
    }
    bench_ok(muster_object_drop(room.muster, objects, count), "muster_object_drop");
    snprintf(metric, sizeof(metric), "object.wait.%zu", count);
    bench_emit(metric, "muster", &samples, room.tick_ns, (double)count, (double)count);
    bench_samples_free(&samples);
    free(objects);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {20, 70000, MIB, 64 * MIB};
    struct bench_job job;

    if (argc != 2)
        bench_die("usage: object SECONDS");
    room.seconds = strtod(argv[1], NULL);
    room.tick_ns = bench_tick_ns();
    room.from = malloc(64 * MIB);
    room.to = malloc(64 * MIB);
    if (!room.from || !room.to)
        bench_die("no memory");
    memset(room.from, 1, 64 * MIB);
    memset(room.to, 2, 64 * MIB);
    bench_job_init(&job, "object", 1);
    room.muster = bench_job_join(&job, 0, 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        row_put(sizes[i]);
        row_get(sizes[i]);
    }
    row_wait(1000);
    row_wait(100000);
    bench_ok(muster_leave(room.muster), "muster_leave");
    return 0;
}
