/*
 * compat/pmix.c: libpmix's server, and the registration of a job with it.
 *
 * libpmix is set up in an environment without the variables of PMIx and of hwloc's plugins: the launcher may itself be
 * a client of another's PMIx, and it looks at the machine with hwloc, and hwloc's plugins start vendors' runtimes (and
 * a process that has started CUDA may not fork). It keeps its thread until the server is closed, however many attempts
 * there are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "compat/pmix_private.h"

#define PATIENCE_S 2 /* with libpmix, which has nothing to wait for */

struct mu_pmix *mu_pmix_serving;

/* ---- the server -------------------------------------------------------------------------------------------------- */

/*
 * The environment in which libpmix starts; the strings are those of the real one. Kept: it may hold on to it.
 * libpmix 4 would share what it has with the tasks behind locks that nobody repairs: a task that is killed with one
 * stops the server for good. Without, it sends it; no slower with 64 tasks of Open MPI.
 */
static char **bare_environment(const struct mu_pmix *pmix)
{
    static char no_plugins[] = "HWLOC_PLUGINS_PATH=/dev/null", no_locks[] = "PMIX_MCA_gds=hash";
    static char **copy;
    size_t count = 0, n = 0;

    while (environ && environ[count])
        count++;
    free(copy); /* of a server that has ended */
    copy = calloc(count + 3, sizeof *copy);
    if (!copy)
        return NULL;
    copy[n++] = no_plugins; /* the first of a name is found */
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "PMIX_", 5) != 0 || strncmp(environ[i], "PMIX_MCA_", 9) == 0)
            copy[n++] = environ[i];
    if (pmix->library.major == 4)
        copy[n++] = no_locks; /* after the user's word */
    return copy;
}

static mu_pmix_status server_start(struct mu_pmix *pmix)
{
    struct mu_pmix_facts facts = mu_pmix_facts_new(pmix, MU_PMIX_INFOS_MAX);
    char **bare = bare_environment(pmix), **real = environ;
    mu_pmix_status status;

    mu_pmix_facts_add(&facts, MU_PMIX_SERVER_TMPDIR, pmix->directory, MU_PMIX_STRING);
    mu_pmix_facts_add(&facts, MU_PMIX_SYSTEM_TMPDIR, pmix->directory, MU_PMIX_STRING);
    mu_pmix_facts_add(&facts, MU_PMIX_HOSTNAME, pmix->options.host_name, MU_PMIX_STRING);
    status = bare ? facts.status : MU_PMIX_ERR_NOMEM;
    if (status == MU_PMIX_SUCCESS) {
        environ = bare; /* not setenv(): others hold pointers into it, and tasks inherit it */
        status = pmix->library.PMIx_server_init(&mu_pmix_module, facts.infos, facts.count);
        environ = real;
    }
    mu_pmix_facts_free(&facts);
    return status;
}

static void on_async_closed(uv_handle_t *handle)
{
    struct mu_pmix *pmix = handle->data;

    pmix->handles--;
}

static void close_handles(struct mu_pmix *pmix)
{
    uv_close((uv_handle_t *)&pmix->async, on_async_closed);
    uv_close((uv_handle_t *)&pmix->timer, on_async_closed);
    while (pmix->handles > 0)
        uv_run(pmix->options.loop, UV_RUN_NOWAIT);
}

static int open_handles(struct mu_pmix *pmix)
{
    int error = uv_async_init(pmix->options.loop, &pmix->async, mu_pmix_take_calls);

    if (error)
        return error;
    uv_timer_init(pmix->options.loop, &pmix->timer);
    pmix->async.data = pmix->timer.data = pmix;
    pmix->handles = 2;
    return 0;
}

enum muster_status mu_pmix_open(const struct mu_pmix_options *options, struct mu_pmix **ret_pmix)
{
    struct mu_pmix *pmix = calloc(1, sizeof *pmix);
    char why[400];
    mu_pmix_status status;
    int error;

    if (!pmix)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "out of memory");
    if (mu_pmix_library_open(options->library, &pmix->library, why, sizeof why)) {
        free(pmix);
        return mu_fail(MUSTER_UNIMPLEMENTED, "%s", why);
    }
    pmix->options = *options;
    snprintf(pmix->directory, sizeof pmix->directory, "%s", options->directory);
    pthread_mutex_init(&pmix->lock, NULL);
    pthread_cond_init(&pmix->has_settled, NULL);
    error = open_handles(pmix);
    if (error) {
        free(pmix);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "cannot set up: %s", uv_strerror(error));
    }
    mu_pmix_serving = pmix;
    status = server_start(pmix);
    if (status == MU_PMIX_SUCCESS) {
        *ret_pmix = pmix;
        return MUSTER_OK;
    }
    snprintf(why, sizeof why, "%s", pmix->library.PMIx_Error_string(status));
    mu_pmix_serving = NULL;
    close_handles(pmix);
    free(pmix);
    return mu_fail(MUSTER_INTERNAL, "libpmix's server does not start: %s", why);
}

/* ---- a job ------------------------------------------------------------------------------------------------------- */

uint32_t mu_pmix_host_of(const struct mu_pmix *pmix, uint32_t task)
{
    uint32_t host = 0;

    while (host + 1 < pmix->num_hosts && task >= pmix->host_tasks[host])
        task -= pmix->host_tasks[host++];
    return host;
}

struct mu_pmix_proc mu_pmix_proc_of(const struct mu_pmix *pmix, uint32_t task)
{
    struct mu_pmix_proc proc = {.rank = task};

    memcpy(proc.nspace, pmix->nspace, sizeof proc.nspace);
    return proc;
}

static mu_pmix_status status_good(mu_pmix_status status)
{
    return status == MU_PMIX_OPERATION_SUCCEEDED ? MU_PMIX_SUCCESS : status;
}

/* All of this host's tasks, before any is started: a fence of theirs would wait for ever for one that comes later. */
static mu_pmix_status register_all(struct mu_pmix *pmix, const struct mu_pmix_job *job)
{
    const struct mu_pmix_library *library = &pmix->library;
    struct mu_pmix_facts facts = mu_pmix_facts_of_job(pmix, job);
    mu_pmix_status status = facts.status;

    if (status == MU_PMIX_SUCCESS)
        status = status_good(library->PMIx_server_register_nspace(pmix->nspace, (int)pmix->local_tasks, facts.infos,
                                                                  facts.count, NULL, NULL));
    mu_pmix_facts_free(&facts);
    if (status == MU_PMIX_SUCCESS)
        status = status_good(library->PMIx_server_setup_local_support(pmix->nspace, NULL, 0, NULL, NULL));
    for (uint32_t i = 0; status == MU_PMIX_SUCCESS && i < pmix->local_tasks; i++) {
        struct mu_pmix_proc proc = mu_pmix_proc_of(pmix, pmix->first_task + i);

        status = status_good(library->PMIx_server_register_client(&proc, getuid(), getgid(), NULL, NULL, NULL));
    }
    return status;
}

/* What libpmix's thread looks at when a task calls. */
static bool take_job(struct mu_pmix *pmix, const struct mu_pmix_job *job)
{
    uint32_t *host_tasks = malloc(job->num_hosts * sizeof *host_tasks);
    struct mu_pmix_client *clients = calloc((size_t)job->host_tasks[job->host] + 1, sizeof *clients);

    if (!host_tasks || !clients) {
        free(host_tasks);
        free(clients);
        return false;
    }
    memcpy(host_tasks, job->host_tasks, job->num_hosts * sizeof *host_tasks);
    pthread_mutex_lock(&pmix->lock);
    pmix->host_tasks = host_tasks;
    pmix->clients = clients;
    pmix->num_tasks = job->num_tasks;
    pmix->host = job->host;
    pmix->num_hosts = job->num_hosts;
    pmix->first_task = 0;
    for (uint32_t i = 0; i < job->host; i++)
        pmix->first_task += job->host_tasks[i];
    pmix->local_tasks = job->host_tasks[job->host];
    snprintf(pmix->nspace, sizeof pmix->nspace, "%s", job->nspace);
    pmix->has_job = true;
    pthread_mutex_unlock(&pmix->lock);
    return true;
}

enum muster_status mu_pmix_begin(struct mu_pmix *pmix, const struct mu_pmix_job *job)
{
    mu_pmix_status status;

    mu_pmix_end(pmix); /* what was not ended */
    if (pmix->hangs)
        return mu_fail(MUSTER_INTERNAL, "libpmix does not answer any more: it takes no further attempt of the job");
    pmix->m = job->m;
    pmix->left = UINT32_MAX;
    if (!take_job(pmix, job))
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "out of memory");
    status = register_all(pmix, job);
    if (status == MU_PMIX_SUCCESS)
        return MUSTER_OK;
    mu_pmix_end(pmix);
    return mu_fail(MUSTER_INTERNAL, "libpmix does not take the job: %s", pmix->library.PMIx_Error_string(status));
}

enum muster_status mu_pmix_environment(struct mu_pmix *pmix, uint32_t task, char ***ret_vars)
{
    struct mu_pmix_proc proc = mu_pmix_proc_of(pmix, task);
    mu_pmix_status status;

    *ret_vars = NULL;
    status = status_good(pmix->library.PMIx_server_setup_fork(&proc, ret_vars));
    if (status == MU_PMIX_SUCCESS)
        return MUSTER_OK;
    return mu_fail(MUSTER_INTERNAL, "libpmix does not take task %u: %s", task, pmix->library.PMIx_Error_string(status));
}

enum mu_pmix_state mu_pmix_state_of(const struct mu_pmix *pmix, uint32_t task)
{
    if (!pmix->has_job || task - pmix->first_task >= pmix->local_tasks)
        return MU_PMIX_OUTSIDE;
    /* acquire, process-local: pairs with on_client_connected() and on_client_finalized(); what the task has done before
     * it ended */
    return (enum mu_pmix_state)atomic_load_explicit(&pmix->clients[task - pmix->first_task].state,
                                                    memory_order_acquire);
}

bool mu_pmix_is_within(const struct mu_pmix *pmix, uint32_t task)
{
    return mu_pmix_state_of(pmix, task) == MU_PMIX_WITHIN;
}

void mu_pmix_stats(const struct mu_pmix *pmix, struct mu_pmix_stats *ret_stats)
{
    *ret_stats = pmix->stats;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void say_settled(struct mu_pmix *pmix)
{
    pthread_mutex_lock(&pmix->lock);
    pmix->settled = true;
    pthread_cond_signal(&pmix->has_settled);
    pthread_mutex_unlock(&pmix->lock);
}

/* False: libpmix hangs. */
static bool await_settled(struct mu_pmix *pmix)
{
    struct timespec until;
    bool done;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&pmix->lock);
    while (!pmix->settled && pthread_cond_timedwait(&pmix->has_settled, &pmix->lock, &until) == 0)
        ;
    done = pmix->settled;
    pmix->settled = false; /* for the next */
    pthread_mutex_unlock(&pmix->lock);
    pmix->hangs |= !done;
    return done;
}

/* On libpmix's thread: it has done what came before. */
static void on_library_settled(mu_pmix_status status, void *data)
{
    (void)status;
    say_settled(data);
}

/* The same, and it does nothing any more, until the process ends. Where libpmix is not there, or has no memory, it
 * calls from within pass_by(). */
static void on_library_frozen(mu_pmix_status status, void *data)
{
    struct mu_pmix *pmix = data;
    bool is_ours = pthread_equal(pthread_self(), pmix->loops);

    (void)status;
    say_settled(pmix);
    while (!is_ours)
        pause();
}

/* `done` is called on libpmix's thread after what came before; it looks for a job of that name, and there is none. */
static bool pass_by(struct mu_pmix *pmix, mu_pmix_done *done)
{
    static const struct mu_pmix_proc nobody = {.nspace = "muster: no job"};

    pmix->loops = pthread_self();
    pmix->library.PMIx_server_deregister_client(&nobody, done, pmix);
    return await_settled(pmix);
}

static void *library_finalize(void *arg)
{
    struct mu_pmix *pmix = arg;

    pmix->library.PMIx_server_finalize(); /* its thread has ended after it */
    say_settled(pmix);
    return NULL;
}

/* libpmix ends. On a thread of its own: it has been seen to wait for ever for a lock in freed memory. */
static void finalize_library(struct mu_pmix *pmix)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, library_finalize, pmix)) {
        pmix->frozen = true;
        pass_by(pmix, on_library_frozen);
    } else if (await_settled(pmix)) {
        pthread_join(thread, NULL);
    } else {
        pthread_detach(thread);
    }
}

/*
 * Whether a task of this host may have gone in the midst of PMIx_Init: libpmix (4.2 to 6.1) then frees what it keeps of
 * the task, and leaves it in the list of the job's, and the job's end frees it again: it crashes, or waits for ever.
 */
static bool may_be_broken(const struct mu_pmix *pmix)
{
    for (uint32_t i = 0; i < pmix->local_tasks; i++)
        if (mu_pmix_state_of(pmix, pmix->first_task + i) == MU_PMIX_OUTSIDE)
            return true;
    return false;
}

static void drop_calls(struct mu_pmix *pmix)
{
    struct mu_pmix_call *call;

    pthread_mutex_lock(&pmix->lock);
    call = pmix->first;
    pmix->first = pmix->last = NULL;
    pthread_mutex_unlock(&pmix->lock);
    while (call) {
        struct mu_pmix_call *next = call->next;

        mu_pmix_free_call(call);
        call = next;
    }
}

/* The job's name space goes, or is kept until the process ends: see may_be_broken(). */
static void end_job(struct mu_pmix *pmix)
{
    uint32_t *host_tasks = pmix->host_tasks;
    struct mu_pmix_client *clients = pmix->clients;

    if (!pmix->has_job)
        return;
    mu_pmix_expire(pmix, true);
    if (may_be_broken(pmix)) {
        pmix->broken = true;
        pass_by(pmix, on_library_settled);
    } else {
        pmix->library.PMIx_server_deregister_nspace(pmix->nspace, on_library_settled, pmix);
        await_settled(pmix);
    }
    drop_calls(pmix);
    mu_pmix_forget_searches(pmix);
    pthread_mutex_lock(&pmix->lock);
    pmix->has_job = false;
    pmix->host_tasks = NULL;
    pmix->clients = NULL;
    pthread_mutex_unlock(&pmix->lock);
    free(host_tasks);
    free(clients);
}

void mu_pmix_end(struct mu_pmix *pmix)
{
    end_job(pmix);
}

void mu_pmix_halt(struct mu_pmix *pmix)
{
    if (!pmix || pmix->halted)
        return;
    end_job(pmix);
    if (pmix->broken && !pmix->hangs) {
        pmix->frozen = true;
        pass_by(pmix, on_library_frozen);
    } else if (!pmix->hangs) {
        finalize_library(pmix);
    }
    pthread_mutex_lock(&pmix->lock);
    pmix->halted = true;
    pthread_mutex_unlock(&pmix->lock);
    drop_calls(pmix);
}

void mu_pmix_close(struct mu_pmix *pmix)
{
    if (!pmix)
        return;
    mu_pmix_halt(pmix);
    close_handles(pmix);
    if (pmix->hangs || pmix->frozen) /* its threads may look at it yet, until the process ends */
        return;
    mu_pmix_serving = NULL;
    pthread_cond_destroy(&pmix->has_settled);
    pthread_mutex_destroy(&pmix->lock);
    free(pmix);
}
