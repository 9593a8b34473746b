/*
 * schedule/run.c: a worker of C functions: libraries are opened, images become files without a name, and a call is a
 * call of a symbol.
 *
 * The process has one thread that takes calls, and starts another when one of its threads is blocked in a call and no
 * other is free: so calls that wait for calls go on. A thread that is no longer needed, for the blocked ones have gone
 * on, ends.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "schedule/private.h"

enum { THREADS = 64, TURN_MS = 100, IMAGE_PATH_MAX = 128 };

/* A function's symbol, found once; they stay for as long as the process runs calls. */
struct body {
    struct body *next;
    muster_function function;
    muster_function_body call;
    void *library;
};

struct crew {
    struct muster *m;
    muster_deadline deadline;
    uint32_t max_threads;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct body *bodies;
    uint32_t threads, running; /* there are; and are in a call that is not blocked, or wait for one */
    bool stopping;
};

/* ---- symbols ---- */

/* A file without a name that holds the bytes; -1 with errno. */
static int image_write(const struct muster_object_view *view)
{
    int fd = memfd_create("muster-image", MFD_CLOEXEC);
    size_t at = 0;

    while (fd >= 0 && at < view->len) {
        ssize_t n = write(fd, (const char *)view->data + at, view->len - at);

        if (n > 0) {
            at += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            close(fd);
            fd = -1;
        }
    }
    return fd;
}

/*
 * A path of the file that no image of this process had before: the loader takes a path that it knows for the library
 * that it has loaded from there, and numbers of descriptors come back. "/" and "./" between the names write a number.
 */
static void image_path(int fd, char path[IMAGE_PATH_MAX])
{
    static _Atomic uint32_t images;
    /* relaxed, process-local: the number only has to be unique */
    uint32_t number = atomic_fetch_add_explicit(&images, 1, memory_order_relaxed);
    size_t len = (size_t)snprintf(path, IMAGE_PATH_MAX, "/proc/self/fd/");

    for (; number; number >>= 1)
        len += (size_t)snprintf(path + len, IMAGE_PATH_MAX - len, number & 1 ? "./" : "/");
    snprintf(path + len, IMAGE_PATH_MAX - len, "%d", fd);
}

static enum muster_status image_open(struct muster *m, const struct muster_function_info *info, void **ret_library)
{
    struct muster_object_view view;
    char path[IMAGE_PATH_MAX];
    enum muster_status status = muster_object_get(m, &info->code, 1, 0, &view, NULL);
    int fd;

    if (status)
        return status;
    fd = image_write(&view);
    if (fd < 0) {
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "function %s: no file in memory for its image: %s", info->name,
                         strerror(errno));
    } else {
        image_path(fd, path);
        *ret_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!*ret_library)
            status = mu_fail(MUSTER_FAILED_PRECONDITION, "function %s: %s", info->name, dlerror());
    }
    if (fd >= 0)
        close(fd);
    muster_object_unview(m, &view, 1);
    return status;
}

static enum muster_status body_open(struct muster *m, muster_function function, struct body *b)
{
    struct muster_function_info info;
    enum muster_status status = muster_function_info(m, function, &info);

    if (status)
        return status;
    b->function = function;
    if (info.kind == MUSTER_FUNCTION_IMAGE)
        status = image_open(m, &info, &b->library);
    else if (info.kind != MUSTER_FUNCTION_LIBRARY)
        status = mu_fail(MUSTER_UNIMPLEMENTED, "function %s is of kind %u, which this worker cannot run", info.name,
                         info.kind);
    else if ((b->library = dlopen(*info.library ? info.library : NULL, RTLD_NOW | RTLD_LOCAL)) == NULL)
        status = mu_fail(MUSTER_FAILED_PRECONDITION, "function %s: %s", info.name, dlerror());
    if (status)
        return status;
    *(void **)&b->call = dlsym(b->library, info.symbol);
    return b->call ? MUSTER_OK
                   : mu_fail(MUSTER_NOT_FOUND, "function %s: no symbol %s in %s", info.name, info.symbol,
                             *info.library ? info.library : "it");
}

/* Found once; a function that cannot be opened is tried again with its next call. */
static enum muster_status body_find(struct crew *c, muster_function function, muster_function_body *ret_call)
{
    enum muster_status status = MUSTER_OK;
    struct body *b;

    pthread_mutex_lock(&c->lock);
    for (b = c->bodies; b && b->function != function; b = b->next)
        ;
    if (!b) {
        b = calloc(1, sizeof *b);
        status = b ? body_open(c->m, function, b) : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a function");
        if (status) {
            if (b && b->library)
                dlclose(b->library);
            free(b);
        } else {
            b->next = c->bodies;
            c->bodies = b;
        }
    }
    if (!status)
        *ret_call = b->call;
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- threads ---- */

static void call_run(struct crew *c, struct muster_call *call)
{
    struct muster_call_info info;
    muster_function_body body;
    enum muster_status status;

    muster_call_get(call, &info);
    status = body_find(c, info.function, &body);
    if (!status)
        status = body(c->m, call);
    if (status)
        muster_call_fail(call, status, muster_last_error(), 0);
    else
        muster_call_done(call);
}

static void *crew_thread(void *arg);

static bool thread_start(struct crew *c)
{
    pthread_attr_t attr;
    pthread_t thread;
    bool started;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    started = pthread_create(&thread, &attr, crew_thread, c) == 0;
    pthread_attr_destroy(&attr);
    return started;
}

/* A thread of the crew blocks in a call, or goes on: mu_crew_watch. */
static void crew_blocked(void *arg, bool blocked)
{
    struct crew *c = arg;

    pthread_mutex_lock(&c->lock);
    if (!blocked)
        c->running++;
    else if (!--c->running && !c->stopping && c->threads < c->max_threads) {
        c->threads++;
        c->running++;
        if (!thread_start(c)) {
            c->threads--;
            c->running--;
        }
    }
    pthread_mutex_unlock(&c->lock);
}

/* Whether the thread ends, for the blocked ones have gone on. It counts as running no more from then on: of two threads
 * that are one too many, one ends. */
static bool thread_retires(struct crew *c)
{
    bool spare;

    pthread_mutex_lock(&c->lock);
    spare = c->stopping || c->running > 1;
    c->running -= spare;
    pthread_mutex_unlock(&c->lock);
    return spare;
}

static enum muster_status crew_work(struct crew *c, bool first)
{
    enum muster_status status = MUSTER_OK;

    mu_crew_watch = (struct mu_crew_watch){crew_blocked, c};
    while (first || !thread_retires(c)) {
        muster_deadline turn = first ? c->deadline : muster_after_ms(TURN_MS);
        struct muster_call *call;

        status = muster_worker_next(c->m, 0, turn, &call);
        if (status == MUSTER_DEADLINE_EXCEEDED && !first)
            continue;
        if (status) {
            pthread_mutex_lock(&c->lock);
            c->running--;
            pthread_mutex_unlock(&c->lock);
            break;
        }
        call_run(c, call);
    }
    mu_crew_watch = (struct mu_crew_watch){NULL, NULL};
    return status;
}

static void *crew_thread(void *arg)
{
    struct crew *c = arg;

    crew_work(c, false);
    muster_thread_detach(c->m);
    pthread_mutex_lock(&c->lock);
    c->threads--;
    pthread_cond_signal(&c->moved);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

enum muster_status muster_worker_run(struct muster *muster, const struct muster_worker_options *options)
{
    struct crew c = {.m = muster,
                     .deadline = options && options->deadline ? options->deadline : MUSTER_FOREVER,
                     .max_threads = options && options->max_threads ? options->max_threads : THREADS,
                     .threads = 1,
                     .running = 1};
    enum muster_status status;

    pthread_mutex_init(&c.lock, NULL);
    pthread_cond_init(&c.moved, NULL);
    status = crew_work(&c, true);
    pthread_mutex_lock(&c.lock);
    c.stopping = true;
    while (c.threads > 1) /* their calls end, or are blocked for as long as these say */
        pthread_cond_wait(&c.moved, &c.lock);
    pthread_mutex_unlock(&c.lock);
    while (c.bodies) {
        struct body *b = c.bodies;

        c.bodies = b->next;
        dlclose(b->library);
        free(b);
    }
    pthread_mutex_destroy(&c.lock);
    pthread_cond_destroy(&c.moved);
    return status == MUSTER_DEADLINE_EXCEEDED ? MUSTER_OK : status;
}
