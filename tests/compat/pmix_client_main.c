/*
 * A program of PMIx, as tests of `--mpi pmix` run it: pmix_client DO [ARGUMENT]. It speaks through the system's
 * libpmix, opened as muster opens it. What it says on stdout is for the test to read; whatever goes wrong ends it with
 * status 3.
 *
 *   ring           put a value, fence with data, read everybody's
 *   direct         the same without data in the fence: values are asked for one by one
 *   large BYTES    as ring, with so large values
 *   subset         the first and the last task fence three times, the others do not come
 *   publish        task 0 looks up, waiting, what the last task publishes, and then unpublishes
 *   abort CODE     the last task aborts, the others wait in a fence
 *   stay           be within PMIx, and wait for a signal
 *   leave          the last task exits with status 0 within PMIx, the others wait in a fence
 *   facts          say what the server tells of this task
 *   half           go in the midst of PMIx_Init: its greeting is sent, and the connection closed, before it is answered
 */
#include <dlfcn.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "compat/pmix_abi.h"

/* libpmix keeps what it has until the process ends. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libpmix\nleak:libhwloc\nleak:libevent\nleak:mca_\n";
}

#define CALLS(each)                                                                                                    \
    each(mu_pmix_status, PMIx_Init, (struct mu_pmix_proc * proc, struct mu_pmix_info * info, size_t count))            \
        each(mu_pmix_status, PMIx_Finalize, (const struct mu_pmix_info *info, size_t count)) each(                     \
            mu_pmix_status, PMIx_Put,                                                                                  \
            (uint8_t scope, const char *key, struct mu_pmix_value *value)) each(mu_pmix_status, PMIx_Commit, (void))   \
            each(mu_pmix_status, PMIx_Fence,                                                                           \
                 (const struct mu_pmix_proc *procs, size_t num, const struct mu_pmix_info *info, size_t count))        \
                each(mu_pmix_status, PMIx_Get,                                                                         \
                     (const struct mu_pmix_proc *proc, const char *key, const struct mu_pmix_info *info, size_t count, \
                      struct mu_pmix_value **ret_value)) each(mu_pmix_status, PMIx_Publish,                            \
                                                              (const struct mu_pmix_info *info, size_t count))         \
                    each(mu_pmix_status, PMIx_Lookup,                                                                  \
                         (struct mu_pmix_pdata * data, size_t num, const struct mu_pmix_info *info, size_t count))     \
                        each(mu_pmix_status, PMIx_Unpublish,                                                           \
                             (char **keys, const struct mu_pmix_info *info, size_t count))                             \
                            each(mu_pmix_status, PMIx_Abort,                                                           \
                                 (int status, const char *text, struct mu_pmix_proc *procs, size_t num))               \
                                each(mu_pmix_status, PMIx_Info_load,                                                   \
                                     (struct mu_pmix_info * info, const char *key, const void *data, uint16_t type))   \
                                    each(const char *, PMIx_Error_string, (mu_pmix_status status))

static struct {
#define MEMBER(result, name, parameters) result(*name) parameters;
    CALLS(MEMBER)
#undef MEMBER
} pmix;

static struct mu_pmix_proc me;
static uint32_t size;
static bool goes_halfway;

/* libpmix's, too: the first that it awaits is the server's answer to its greeting. */
__attribute__((visibility("default"))) ssize_t recv(int fd, void *bytes, size_t len, int flags)
{
    static const char text[] = "went halfway\n";

    if (!goes_halfway)
        return recvfrom(fd, bytes, len, flags, NULL, NULL);
    close(fd);
    _exit(write(1, text, sizeof text - 1) == sizeof text - 1 ? 0 : 3);
}

static void open_library(void)
{
    const char *named = getenv("MUSTER_PMIX_LIBRARY");
    void *handle = dlopen(named ? named : "libpmix.so.2", RTLD_NOW), *address;

    if (!handle)
        errx(3, "%s", dlerror());
#define FIND(result, name, parameters)                                                                                 \
    address = dlsym(handle, #name);                                                                                    \
    if (!address)                                                                                                      \
        errx(3, "%s", dlerror());                                                                                      \
    memcpy(&pmix.name, &address, sizeof address);
    CALLS(FIND)
#undef FIND
}

static void must(mu_pmix_status status, const char *what)
{
    if (status != MU_PMIX_SUCCESS)
        errx(3, "task %u: %s: %s", me.rank, what, pmix.PMIx_Error_string(status));
}

static struct mu_pmix_proc task(uint32_t rank)
{
    struct mu_pmix_proc proc = me;

    proc.rank = rank;
    return proc;
}

static struct mu_pmix_value *get(uint32_t rank, const char *key)
{
    struct mu_pmix_proc proc = task(rank);
    struct mu_pmix_value *value = NULL;

    must(pmix.PMIx_Get(&proc, key, NULL, 0, &value), key);
    return value;
}

static void begin(void)
{
    must(pmix.PMIx_Init(&me, NULL, 0), "PMIx_Init");
    size = get(MU_PMIX_RANK_WILDCARD, MU_PMIX_JOB_SIZE)->data.uint32;
}

static void fence(const struct mu_pmix_proc *procs, size_t num, bool collect)
{
    struct mu_pmix_info info;

    memset(&info, 0, sizeof info);
    must(pmix.PMIx_Info_load(&info, "pmix.collect", &collect, MU_PMIX_BOOL), "PMIx_Info_load");
    must(pmix.PMIx_Fence(procs, num, &info, 1), "PMIx_Fence");
}

static char *text_of(uint32_t rank, size_t len)
{
    char *text = calloc(1, len + 32);

    if (!text)
        err(3, "calloc");
    memset(text, 'a' + (int)(rank % 26), len);
    snprintf(text + len, 32, "of %u", rank);
    return text;
}

/* Everybody puts, and reads everybody's. */
static void exchange(bool collect, size_t len)
{
    struct mu_pmix_value value = {.type = MU_PMIX_STRING};
    char *mine = text_of(me.rank, len);

    value.data.string = mine;
    must(pmix.PMIx_Put(MU_PMIX_GLOBAL, "address", &value), "PMIx_Put");
    must(pmix.PMIx_Commit(), "PMIx_Commit");
    fence(NULL, 0, collect);
    for (uint32_t i = 0; i < size; i++) {
        char *theirs = text_of(i, len);
        struct mu_pmix_value *got = get(i, "address");

        if (got->type != MU_PMIX_STRING || strcmp(got->data.string, theirs) != 0)
            errx(3, "task %u: task %u's value is another", me.rank, i);
        free(theirs);
    }
    free(mine);
    fence(NULL, 0, false); /* nobody goes while others may ask him */
    printf("%u of %u: all values are there\n", me.rank, size);
}

static void subset(void)
{
    struct mu_pmix_proc procs[2] = {task(size - 1), task(0)};

    for (int i = 0; i < 3 && (me.rank == 0 || me.rank == size - 1); i++)
        fence(procs, 2, true);
    printf("%u passed\n", me.rank);
}

static void publish(void)
{
    struct mu_pmix_info info[2];
    struct mu_pmix_pdata data;
    int all = 0, seconds = 1;
    char key[] = "the/port", *keys[] = {key, NULL};

    memset(info, 0, sizeof info);
    memset(&data, 0, sizeof data);
    snprintf(data.key, sizeof data.key, "%s", key);
    if (me.rank == size - 1) {
        must(pmix.PMIx_Info_load(&info[0], key, "tcp://somewhere:1", MU_PMIX_STRING), "PMIx_Info_load");
        must(pmix.PMIx_Publish(info, 1), "PMIx_Publish");
        if (pmix.PMIx_Publish(info, 1) == MU_PMIX_SUCCESS)
            errx(3, "the same was published twice");
    }
    if (me.rank == 0) {
        must(pmix.PMIx_Info_load(&info[0], MU_PMIX_WAIT, &all, MU_PMIX_INT), "PMIx_Info_load");
        must(pmix.PMIx_Lookup(&data, 1, info, 1), "PMIx_Lookup");
        printf("found %s of %u\n", data.value.data.string, data.proc.rank);
    }
    fence(NULL, 0, false);
    if (me.rank == size - 1)
        must(pmix.PMIx_Unpublish(keys, NULL, 0), "PMIx_Unpublish");
    fence(NULL, 0, false);
    if (me.rank == 0 && pmix.PMIx_Lookup(&data, 1, NULL, 0) == MU_PMIX_SUCCESS)
        errx(3, "what was unpublished is there");
    must(pmix.PMIx_Info_load(&info[1], MU_PMIX_TIMEOUT, &seconds, MU_PMIX_INT), "PMIx_Info_load");
    if (me.rank == 0 && pmix.PMIx_Lookup(&data, 1, info, 2) != MU_PMIX_ERR_TIMEOUT)
        errx(3, "who waits for what nobody publishes has no timeout");
}

static void facts(void)
{
    printf("%u: of %u, %u on this host, %u of them, host %u, command %u\n", me.rank, size,
           get(MU_PMIX_RANK_WILDCARD, MU_PMIX_LOCAL_SIZE)->data.uint32, get(me.rank, MU_PMIX_LOCAL_RANK)->data.uint16,
           get(me.rank, MU_PMIX_NODEID)->data.uint32, get(me.rank, MU_PMIX_APPNUM)->data.uint32);
}

static void finish(void)
{
    must(pmix.PMIx_Finalize(NULL, 0), "PMIx_Finalize");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "ring";

    setvbuf(stdout, NULL, _IOLBF, 0);
    open_library();
    goes_halfway = strcmp(what, "half") == 0;
    begin();
    if (strcmp(what, "ring") == 0 || strcmp(what, "direct") == 0) {
        exchange(what[0] == 'r', 100);
    } else if (strcmp(what, "large") == 0) {
        exchange(true, strtoul(argv[2], NULL, 10));
    } else if (strcmp(what, "subset") == 0) {
        subset();
    } else if (strcmp(what, "publish") == 0) {
        publish();
    } else if (strcmp(what, "facts") == 0) {
        facts();
    } else if (strcmp(what, "stay") == 0) {
        pause();
    } else if (me.rank == size - 1 && strcmp(what, "abort") == 0) {
        pmix.PMIx_Abort((int)strtol(argv[2], NULL, 10), "no such matrix", NULL, 0);
        pause();
    } else if (me.rank == size - 1 && strcmp(what, "leave") == 0) {
        _exit(0);
    } else {
        pmix.PMIx_Fence(NULL, 0, NULL,
                        0); /* the last one will not come; whether it is missed depends on when it left */
        printf("released\n");
        pause();
    }
    finish();
    return 0;
}
