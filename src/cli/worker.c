/*
 * cli/worker.c: `muster worker`: a process that runs C functions which a job's tasks call.
 *
 * Functions take and give objects by calls of the shared library with which they were linked, and a process can have
 * one copy of its state. So the worker is a member of the job by that copy, and not by the one in this command: the
 * libraries named are opened first, and what they need of libmuster is the one that works here.
 */
#include "cli/cli.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/schedule.h>

#define SONAME      "libmuster.so.0"
#define THREADS_MAX 4096u

/* What a worker needs of it. */
struct worker_library {
    void (*options_init)(struct muster_options *options);
    enum muster_status (*join)(const struct muster_options *options, struct muster **ret_muster);
    enum muster_status (*leave)(struct muster *muster);
    enum muster_status (*run)(struct muster *muster, const struct muster_worker_options *options);
    void (*interrupt)(struct muster *muster);
    const char *(*last_error)(void);
};

static struct worker_library library;
static struct muster *volatile working; /* what a signal interrupts */
static volatile sig_atomic_t told;

static void on_worker_signal(int number)
{
    told = number;
    if (working)
        library.interrupt(working);
}

/* The one that the functions have brought; else the user's, one beside this command or above it, or the loader's. */
static void *library_open(void)
{
    const char *named = getenv("MUSTER_LIBRARY");
    void *found = dlopen(SONAME, RTLD_NOW | RTLD_NOLOAD);
    char path[4096 + sizeof SONAME], *slash;
    ssize_t len;

    if (!found && named && *named)
        return dlopen(named, RTLD_NOW | RTLD_GLOBAL);
    len = found ? 0 : readlink("/proc/self/exe", path, 4095);
    path[len > 0 ? len : 0] = 0;
    for (int folders = 0; !found && folders < 2 && (slash = strrchr(path, '/')) != NULL; folders++) {
        memcpy(slash + 1, SONAME, sizeof SONAME);
        found = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        *slash = 0;
    }
    return found ? found : dlopen(SONAME, RTLD_NOW | RTLD_GLOBAL);
}

static int library_find(const struct mu_cli_call *call)
{
    const struct {
        const char *name;
        void *to;
    } wanted[] = {{"muster_options_init", &library.options_init},
                  {"muster_join", &library.join},
                  {"muster_leave", &library.leave},
                  {"muster_worker_run", &library.run},
                  {"muster_interrupt", &library.interrupt},
                  {"muster_last_error", &library.last_error}};
    void *it = library_open();
    const char *why = it ? NULL : dlerror();

    for (size_t i = 0; it && i < sizeof wanted / sizeof wanted[0]; i++)
        if (!(*(void **)wanted[i].to = dlsym(it, wanted[i].name)))
            why = dlerror();
    if (!why)
        return 0;
    fprintf(stderr, "%s: no %s: %s (MUSTER_LIBRARY may name it)\n", call->path, SONAME, why);
    return MU_CLI_EXIT_FAILURE;
}

/* Where everybody in this process finds their symbols: a function that names no library is looked for there. */
static int operands_open(const struct mu_cli_call *call)
{
    for (int i = 0; i < call->count; i++)
        if (!dlopen(call->operands[i], RTLD_NOW | RTLD_GLOBAL)) {
            fprintf(stderr, "%s: %s\n", call->path, dlerror());
            return MU_CLI_EXIT_FAILURE;
        }
    return 0;
}

static int worker_fail(const struct mu_cli_call *call, enum muster_status status)
{
    fprintf(stderr, "%s: ", call->path);
    mu_cli_print_line(stderr, library.last_error());
    putc('\n', stderr);
    return status == MUSTER_NOT_FOUND ? MU_CLI_EXIT_NOT_FOUND : MU_CLI_EXIT_FAILURE;
}

/* A job's name, or a segment's path, which the library is told of by the environment. */
static int worker_join(struct mu_cli_call *call, struct muster **ret_muster)
{
    char job[512];
    struct muster_options options;
    enum muster_status status;
    int code = mu_cli_pick_job(call, job, sizeof job);

    if (code)
        return code;
    library.options_init(&options);
    options.flags = MUSTER_JOIN_WORKER | MUSTER_JOIN_NO_CREATE;
    if (strchr(job, '/') || strncmp(job, "fd:", 3) == 0)
        setenv("MUSTER_SEGMENT", job, 1);
    else
        options.job = job;
    status = library.join(&options, ret_muster);
    if (status == MUSTER_NOT_FOUND && options.job && mu_cli_find_part(call, job, sizeof job))
        status = library.join(&options, ret_muster);
    if (status == MUSTER_NOT_FOUND && options.job)
        return mu_cli_no_job(call, job);
    return status ? worker_fail(call, status) : 0;
}

static int worker_run(struct mu_cli_call *call)
{
    const char *text = call->values[MU_OPT_THREADS];
    uint64_t threads = 0;
    struct muster_worker_options options = {0};
    struct muster *muster;
    enum muster_status status;
    int code;

    if (text && (mu_cli_parse_unsigned(text, THREADS_MAX, &threads) || threads == 0))
        return mu_cli_wrong(call, MU_OPT_THREADS, text, "is no number of threads from 1 to %u", THREADS_MAX);
    code = operands_open(call);
    if (!code)
        code = library_find(call);
    if (!code)
        code = worker_join(call, &muster);
    if (code)
        return code;
    working = muster;
    mu_cli_catch(on_worker_signal);
    if (told) /* before there was anything to interrupt */
        library.interrupt(muster);
    options.max_threads = (uint32_t)threads;
    status = library.run(muster, &options);
    if (status != MUSTER_OK && status != MUSTER_CANCELLED)
        code = worker_fail(call, status);
    working = NULL;
    library.leave(muster);
    return mu_cli_finish(call, code);
}

static const struct mu_cli_option worker_options[] = {
    {MU_OPT_THREADS, 0, "threads", "N", NULL, "threads at most, while calls wait for other calls (default 64)"},
    MU_CLI_JOB,
    MU_CLI_END,
};

const struct mu_cli_verb mu_cli_worker = {
    .name = "worker",
    .operands = "[LIBRARY...]",
    .summary = "Run C functions that a job's tasks call",
    .options = worker_options,
    .max = -1,
    .run = worker_run,
    .words = mu_cli_files,
};
