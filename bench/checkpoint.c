/*
 * bench/checkpoint.c: a checkpoint in memory of one rank, beside bare copies.
 *
 *   checkpoint.save.BYTES   how long training stands still for a save; memcpy: into pages that are warm
 *   checkpoint.load.BYTES   from the newest generation into memory that is warm; memcpy: from pages that are warm
 *   checkpoint.view.BYTES   until the bytes can be read in place
 *
 * Usage: checkpoint SECONDS BYTES...      (for each row)
 */
#include <dirent.h>

#include "job.h"

static struct bench_job job;
static double seconds, tick_ns;
static struct muster_checkpoint *cp;

static uint8_t *warm(size_t bytes)
{
    uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (at == MAP_FAILED)
        bench_die("no memory");
    memset(at, 1, bytes);
    return at;
}

static void save_once(const uint8_t *from, size_t bytes)
{
    struct muster_checkpoint_tensor t = {
        .name = "t", .dtype = "uint8", .num_dims = 1, .shape = {bytes}, .data = from, .len = bytes};

    bench_ok(muster_checkpoint_save(cp, 1, &t, 1, 0, NULL), "muster_checkpoint_save");
}

static void load_once(uint8_t *to, size_t bytes)
{
    struct muster_checkpoint_view view;

    bench_ok(muster_checkpoint_load(cp, MUSTER_CHECKPOINT_OWN, &view), "muster_checkpoint_load");
    if (to)
        memcpy(to, view.tensors[0].data, bytes);
    muster_checkpoint_unload(&view);
}

enum what { SAVE, COPY, LOAD, VIEW };

static void row(const char *name, const char *who, enum what what, size_t bytes, uint8_t *from, uint8_t *to)
{
    struct bench_samples samples;
    char text[64];
    uint64_t end = bench_now_ns() + (uint64_t)(seconds * 1e9);

    bench_samples_init(&samples, 1u << 16);
    do {
        uint64_t start = bench_ticks();

        if (what == SAVE)
            save_once(from, bytes);
        else if (what == COPY)
            memcpy(to, from, bytes);
        else
            load_once(what == LOAD ? to : NULL, bytes);
        bench_add(&samples, bench_ticks() - start);
    } while (bench_goes_on(&samples, end));
    snprintf(text, sizeof(text), "checkpoint.%s.%zu", name, bytes);
    bench_emit(text, who, &samples, tick_ns, 1, 1);
    bench_samples_free(&samples);
}

static void rows(size_t bytes)
{
    uint8_t *from = warm(bytes), *to = warm(bytes);

    for (int i = 0; i < 4; i++) /* both generations are warm */
        save_once(from, bytes);
    row("save", "muster", SAVE, bytes, from, to);
    row("save", "memcpy", COPY, bytes, from, to);
    row("load", "muster", LOAD, bytes, from, to);
    row("load", "memcpy", COPY, bytes, from, to);
    row("view", "muster", VIEW, bytes, from, to);
    munmap(from, bytes);
    munmap(to, bytes);
}

/* As the launcher of a job does. */
static void folder_remove(const char *run)
{
    const char *shm = getenv("MUSTER_SHM_DIR");
    char path[512];
    struct dirent *e;
    DIR *d;

    snprintf(path, sizeof(path), "%s/muster-checkpoints-%u-%s", shm ? shm : "/dev/shm", (unsigned)geteuid(), run);
    d = opendir(path);
    while (d && (e = readdir(d)))
        unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(path);
}

int main(int argc, char **argv)
{
    char run[64];
    struct muster *m;

    if (argc < 3)
        bench_die("usage: checkpoint SECONDS BYTES...");
    seconds = strtod(argv[1], NULL);
    tick_ns = bench_tick_ns();
    snprintf(run, sizeof(run), "bench-%d", (int)getpid());
    setenv("MUSTER_RUN_ID", run, 1);
    bench_job_init(&job, "checkpoint", 1);
    m = bench_job_join(&job, 0, MUSTER_JOIN_RECOVERABLE);
    bench_ok(muster_checkpoint_open(m, "bench", &cp), "muster_checkpoint_open");
    for (int i = 2; i < argc; i++)
        rows(strtoull(argv[i], NULL, 10));
    muster_checkpoint_close(cp);
    bench_ok(muster_leave(m), "muster_leave");
    folder_remove(run);
    return 0;
}
