/*
 * agent/checkpoint/writer.c: the thread that writes whole generations to a disk.
 *
 * Ten times a second it looks which generation of each name is the newest, and writes those that are due. Nobody waits
 * for it: it copies a generation from where its ranks have put it, and a rank that writes over its part meanwhile makes
 * it nothing. Then the next one is held, as viewers hold what they view, if memory has room for what its ranks save
 * beside it. A failure is said when its reason is new, and tried again, later each time.
 *
 * The launcher's loop asks for what has become of it under a lock that is held for moments.
 */
#include "agent/checkpoint/writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/private.h"

#define LOOK_NS        100000000ull /* as every wait */
#define RETRY_FIRST_NS 1000000000ull
#define RETRY_MOST_NS  60000000000ull
#define STOP_MS        2000 /* a piece, or a file's end, on a slow disk */

struct writer_name {
    struct mu_checkpoint_whole whole; /* the newest in memory */
    uint64_t written;                 /* on the disk */
    bool is_held;                     /* the next one */
    unsigned failures;                /* in a row */
    uint64_t retry_at;
    char said[MU_DISK_WHY]; /* why the last one failed; "": it did not */
};

struct mu_writer {
    struct mu_disk disk;
    char memory[512];
    uint32_t every, keep;
    pthread_t thread;
    struct writer_name *names; /* the thread's own, and these */
    size_t count;
    bool is_blind; /* what is in memory could not be looked at, which has been said */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool is_finishing, is_stopped, has_ended; /* these and what follows: by the lock */
    uint64_t progress;
    struct mu_writer_facts facts;
};

/* ---- what is due ------------------------------------------------------------------------------------------------- */

static struct writer_name *name_find(struct mu_writer *w, const char *name)
{
    struct writer_name *more;

    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->names[i].whole.name, name) == 0)
            return &w->names[i];
    more = realloc(w->names, (w->count + 1) * sizeof *more);
    if (!more) /* the next look tries again */
        return NULL;
    w->names = more;
    more[w->count] = (struct writer_name){.written = 0};
    memcpy(more[w->count].whole.name, name, strlen(name));
    return &more[w->count++];
}

static void name_see(void *arg, const struct mu_checkpoint_whole *whole)
{
    struct writer_name *name = name_find(arg, whole->name);

    if (name && whole->generation > name->whole.generation)
        name->whole = *whole;
}

static void memory_see(struct mu_writer *w)
{
    if (mu_checkpoint_each_whole(w->memory, name_see, w) == MUSTER_OK) {
        w->is_blind = false;
    } else if (!w->is_blind) {
        w->is_blind = true;
        mu_agent_say("checkpoints are not written to %s: %s (have the tasks another version of libmuster?)",
                     w->disk.path, muster_last_error());
    }
}

/* What the folder has already: no generation is written twice. */
static void written_find(struct mu_writer *w)
{
    struct mu_disk_entry *entries;
    size_t count;

    if (mu_disk_list(&w->disk, &entries, &count))
        return;
    for (size_t i = 0; i < count; i++) {
        struct writer_name *name = name_find(w, entries[i].name);

        /* one beyond the newest in memory was passed over, and will be written anew */
        if (name && entries[i].generation <= name->whole.generation && entries[i].generation > name->written)
            name->written = entries[i].generation;
    }
    free(entries);
}

static bool is_due(const struct mu_writer *w, const struct writer_name *name, bool is_last)
{
    uint64_t generation = name->whole.generation;

    if (generation <= name->written)
        return false;
    return is_last || (generation / w->every > name->written / w->every && muster_now_ns() >= name->retry_at);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static bool writer_goes_on(void *arg, size_t bytes)
{
    struct mu_writer *w = arg;
    bool goes_on;

    pthread_mutex_lock(&w->lock);
    w->progress += bytes;
    goes_on = !w->is_stopped;
    pthread_mutex_unlock(&w->lock);
    return goes_on;
}

static void written_note(struct mu_writer *w, struct writer_name *name, uint64_t bytes)
{
    if (name->said[0])
        mu_agent_say("checkpoint %s: generation %llu is written to %s again", name->whole.name,
                     (unsigned long long)name->whole.generation, w->disk.path);
    name->written = name->whole.generation;
    name->is_held = false;
    name->failures = 0;
    name->retry_at = 0;
    name->said[0] = 0;
    pthread_mutex_lock(&w->lock);
    w->facts.written++;
    w->facts.bytes += bytes;
    w->facts.newest = name->whole;
    pthread_mutex_unlock(&w->lock);
    mu_disk_prune(&w->disk, name->whole.name, name->written, w->keep);
}

/* "; the newest there is 12" */
static void failure_say(const struct mu_writer *w, struct writer_name *name, const char *why)
{
    char newest[64] = "none is there";

    if (strcmp(name->said, why) == 0)
        return;
    snprintf(name->said, sizeof name->said, "%s", why);
    if (name->written)
        snprintf(newest, sizeof newest, "the newest there is %llu", (unsigned long long)name->written);
    mu_agent_say("checkpoint %s: generation %llu is not written to %s: %s; %s", name->whole.name,
                 (unsigned long long)name->whole.generation, w->disk.path, why, newest);
}

static void failed_note(struct mu_writer *w, struct writer_name *name, const char *why)
{
    uint64_t delay = RETRY_FIRST_NS;

    for (unsigned i = 0; i < name->failures && delay < RETRY_MOST_NS; i++)
        delay *= 2;
    name->failures++;
    name->retry_at = muster_after_ns(delay < RETRY_MOST_NS ? delay : RETRY_MOST_NS);
    failure_say(w, name, why);
    pthread_mutex_lock(&w->lock);
    w->facts.failed++;
    pthread_mutex_unlock(&w->lock);
}

/* Its ranks were quicker. The reason is said where the next one will fare no better. */
static void overwritten_note(struct mu_writer *w, struct writer_name *name, const char *why)
{
    name->is_held = true;
    if (why[0])
        failure_say(w, name, why);
    pthread_mutex_lock(&w->lock);
    w->facts.overwritten++;
    pthread_mutex_unlock(&w->lock);
}

static void name_write(struct mu_writer *w, struct writer_name *name)
{
    struct mu_disk_pace pace = {.goes_on = writer_goes_on, .arg = w};
    char why[MU_DISK_WHY];
    uint64_t bytes = 0;

    switch (mu_disk_write(&w->disk, w->memory, &name->whole, name->is_held, &pace, &bytes, why)) {
    case MU_DISK_DONE: written_note(w, name, bytes); break;
    case MU_DISK_OVERWRITTEN: overwritten_note(w, name, why); break;
    case MU_DISK_FAILED: failed_note(w, name, why); break;
    case MU_DISK_ENDED: failure_say(w, name, "the launcher ends"); break;
    }
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* False: it is to end. */
static bool writer_sleep(struct mu_writer *w, bool *ret_is_last)
{
    struct timespec until;
    bool goes_on;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&w->lock);
    while (!w->is_finishing && !w->is_stopped && pthread_cond_timedwait(&w->moved, &w->lock, &until) == 0)
        ;
    *ret_is_last = w->is_finishing;
    goes_on = !w->is_stopped;
    pthread_mutex_unlock(&w->lock);
    return goes_on;
}

static void *writer_run(void *arg)
{
    struct mu_writer *w = arg;
    bool is_last = false;

    memory_see(w);
    written_find(w);
    while (!is_last && writer_sleep(w, &is_last)) {
        memory_see(w);
        for (size_t i = 0; i < w->count; i++)
            if (is_due(w, &w->names[i], is_last))
                name_write(w, &w->names[i]);
    }
    pthread_mutex_lock(&w->lock);
    w->has_ended = true;
    pthread_cond_broadcast(&w->moved);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int mu_writer_start(struct mu_disk *disk, const struct mu_writer_options *options, struct mu_writer **ret_writer)
{
    struct mu_writer *w = calloc(1, sizeof *w);
    pthread_condattr_t clock;
    sigset_t all, before;
    int rc;

    if (!w)
        return ENOMEM;
    w->disk = *disk;
    w->every = options->every;
    w->keep = options->keep;
    snprintf(w->memory, sizeof w->memory, "%s", options->memory);
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&w->moved, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all); /* a file that grows beyond its limit is an error of the write, and no SIGXFSZ */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&w->thread, NULL, writer_run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        free(w);
        return rc;
    }
    disk->fd = -1;
    *ret_writer = w;
    return 0;
}

void mu_writer_look(struct mu_writer *writer, struct mu_writer_facts *ret_facts)
{
    pthread_mutex_lock(&writer->lock);
    *ret_facts = writer->facts;
    pthread_mutex_unlock(&writer->lock);
}

uint64_t mu_writer_progress(struct mu_writer *writer)
{
    uint64_t progress;

    pthread_mutex_lock(&writer->lock);
    progress = writer->progress;
    pthread_mutex_unlock(&writer->lock);
    return progress;
}

void mu_writer_finish(struct mu_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    writer->is_finishing = true;
    pthread_cond_broadcast(&writer->moved);
    pthread_mutex_unlock(&writer->lock);
}

bool mu_writer_await(struct mu_writer *writer, unsigned ms)
{
    struct timespec until;
    bool has_ended;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&writer->lock);
    while (!writer->has_ended && pthread_cond_timedwait(&writer->moved, &writer->lock, &until) == 0)
        ;
    has_ended = writer->has_ended;
    pthread_mutex_unlock(&writer->lock);
    return has_ended;
}

bool mu_writer_stop(struct mu_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    writer->is_stopped = true;
    pthread_cond_broadcast(&writer->moved);
    pthread_mutex_unlock(&writer->lock);
    if (!mu_writer_await(writer, STOP_MS)) {
        pthread_detach(writer->thread);
        return false;
    }
    pthread_join(writer->thread, NULL);
    mu_disk_close(&writer->disk);
    pthread_cond_destroy(&writer->moved);
    pthread_mutex_destroy(&writer->lock);
    free(writer->names);
    free(writer);
    return true;
}
