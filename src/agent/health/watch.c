/*
 * agent/health/watch.c: the process that waits for errors of GPUs.
 *
 * NVML has no descriptor to wait on, only a call that sleeps, in a library that hangs with a sick driver: so a process
 * of its own makes it: this executable again, exec'ed by the launcher. The launcher's death ends it. It writes into a
 * pipe what GPUs there are, then each event. That a GPU has gone it learns from the wait, which does not say which one,
 * or from asking each now and then; one that has gone is waited for no more, or the wait would return at once for ever.
 */
#include "agent/health/health.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define WAIT_MS     1000
#define ASK_EVERY   5  /* waits without an event */
#define ERRORS_MAX  10 /* in a row, a second apart: then it is over */
#define EVENT_TYPES (NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT_ECC | NVML_EVENT_FATAL_POISON | NVML_EVENT_GPU_UNAVAILABLE)

struct watch {
    struct mu_nvml nvml;
    int fd;
    uint32_t count;
    nvml_device handles[MU_NVML_GPUS_MAX]; /* NULL: not to be watched, or not any more */
    nvml_event_set set;
};

static void record_tell(const struct watch *watch, struct mu_health_record *record)
{
    ssize_t n;

    record->magic = MU_HEALTH_MAGIC;
    do
        n = write(watch->fd, record, sizeof *record); /* less than PIPE_BUF: all of it */
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof *record)
        _exit(0); /* the launcher does not listen any more */
}

static void tell_gpu(struct watch *watch, uint32_t index)
{
    struct mu_health_record record = {.kind = MU_HEALTH_GPU, .gpu = index, .gpu_instance = -1};
    static struct mu_nvml_device gpu, parts[MU_NVML_PARTS_MAX];
    size_t count;

    mu_nvml_gpu(&watch->nvml, index, &gpu, &watch->handles[index]);
    memcpy(record.pci, gpu.pci, sizeof record.pci);
    memcpy(record.uuid, gpu.uuid, sizeof record.uuid);
    memcpy(record.name, gpu.name, sizeof record.name);
    record.is_refused = gpu.refused != 0;
    record_tell(watch, &record);
    count = mu_nvml_parts(&watch->nvml, index, watch->handles[index], parts);
    for (size_t i = 0; i < count; i++) {
        record.kind = MU_HEALTH_PART;
        record.gpu_instance = parts[i].gpu_instance;
        memcpy(record.uuid, parts[i].uuid, sizeof record.uuid);
        record_tell(watch, &record);
    }
}

/* A set with all that are watched. Of events that are not supported not one would be registered. */
static int make_set(struct watch *watch)
{
    int rc, any = 0;

    if (watch->set)
        MU_NVML(&watch->nvml, event_set_free, watch->set);
    watch->set = NULL;
    rc = MU_NVML(&watch->nvml, event_set, &watch->set);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < watch->count; i++) {
        uint64_t types = 0;

        if (!watch->handles[i] || MU_NVML(&watch->nvml, event_types, watch->handles[i], &types) ||
            (types & EVENT_TYPES) == 0)
            continue;
        any |= MU_NVML(&watch->nvml, event_register, watch->handles[i], types & EVENT_TYPES, watch->set) == NVML_OK;
    }
    return any ? NVML_OK : NVML_NOT_SUPPORTED;
}

static bool is_lost(const struct watch *watch, nvml_device handle)
{
    struct nvml_memory memory;

    return MU_NVML(&watch->nvml, memory, handle, &memory) == NVML_GPU_IS_LOST;
}

/* Tell of those that have gone. Whether any has. */
static int find_lost(struct watch *watch)
{
    int found = 0;

    for (uint32_t i = 0; i < watch->count; i++) {
        struct mu_health_record record = {.kind = MU_HEALTH_LOST, .gpu = i, .gpu_instance = -1};

        if (!watch->handles[i] || !is_lost(watch, watch->handles[i]))
            continue;
        watch->handles[i] = NULL;
        record_tell(watch, &record);
        found = 1;
    }
    return found;
}

static void tell_event(const struct watch *watch, const struct nvml_event *event)
{
    struct mu_health_record record = {
        .kind = MU_HEALTH_EVENT, .gpu_instance = -1, .type = event->type, .data = event->data};

    if (event->gpu_instance < 1u << 16)
        record.gpu_instance = (int32_t)event->gpu_instance;
    for (record.gpu = 0; record.gpu < watch->count; record.gpu++)
        if (event->device && watch->handles[record.gpu] == event->device) {
            record_tell(watch, &record);
            return;
        }
}

static _Noreturn void watch_give_up(const struct watch *watch, int rc)
{
    struct mu_health_record record = {.kind = MU_HEALTH_END, .gpu_instance = -1};

    snprintf(record.text, sizeof record.text, "%s (%d)", mu_nvml_words(&watch->nvml, rc), rc);
    record_tell(watch, &record);
    _exit(0);
}

static _Noreturn void wait_for_events(struct watch *watch)
{
    unsigned quiet = 0, errors = 0;

    for (;;) {
        struct nvml_event event = {.type = 0};
        int rc = MU_NVML(&watch->nvml, event_wait, watch->set, &event, WAIT_MS), gone = 0;

        if (rc == NVML_OK)
            tell_event(watch, &event);
        if ((rc == NVML_TIMEOUT && ++quiet % ASK_EVERY == 0) || rc == NVML_GPU_IS_LOST)
            gone = find_lost(watch);
        if (gone)
            rc = make_set(watch);
        if (rc == NVML_OK || rc == NVML_TIMEOUT) {
            errors = 0;
            continue;
        }
        if (gone || ++errors == ERRORS_MAX) /* none is left, or nothing helps */
            watch_give_up(watch, rc);
        poll(NULL, 0, WAIT_MS);
    }
}

int mu_health_main(int argc, char **argv)
{
    static struct watch watch;
    struct mu_health_record ready = {.kind = MU_HEALTH_READY, .gpu_instance = -1};
    char why[256], *end = NULL;
    long fd = argc > 1 ? strtol(argv[1], &end, 10) : -1;

    if (fd < 3 || fd > INT32_MAX || *end || fcntl((int)fd, F_GETFD) < 0)
        return 125;
    watch.fd = (int)fd;
    if (fd > 3)
        close_range(3, (unsigned)fd - 1, 0);
    close_range((unsigned)fd + 1, ~0u, 0);
    prctl(PR_SET_NAME, MU_HEALTH_NAME);
    signal(SIGPIPE, SIG_IGN);
    /* Nothing to watch is nothing to say: 'muster doctor' knows why. */
    if (mu_nvml_open(NULL, &watch.nvml, why, sizeof why) || mu_nvml_count(&watch.nvml, &watch.count))
        return 0;
    for (uint32_t i = 0; i < watch.count; i++)
        tell_gpu(&watch, i);
    if (make_set(&watch))
        return 0;
    record_tell(&watch, &ready);
    wait_for_events(&watch);
}
