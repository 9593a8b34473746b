/*
 * agent/health/health.c: the launcher's side of watching GPUs.
 *
 * The process that watches (health/watch.c) is started when the tasks run, where a driver is there, and writes records
 * into a pipe that the loop reads. Of an error of the hardware the tasks that compute on that GPU are put in error, all
 * of them where it cannot be told which do; then the job ends as after any failure, the tasks that may have noticed
 * nothing included, unless it is to go on. What is a program's own fault is only said: the program learns of it. That
 * the watcher dies, or a library writes nonsense into our pipe, costs the watching and a line.
 */
#include "agent/health/health.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/private.h"
#include "base/process.h"

#define ENVIRONMENT_MAX (1u << 20)
#define REAP_MS         1000
#define FAILURES_MAX    (2 * MU_NVML_PARTS_MAX) /* of one GPU that are acted upon: a storm of them tells nothing more */

struct mu_health {
    uv_poll_t poll;
    struct mu_agent *agent;
    int fd, pidfd;
    pid_t pid;
    int is_ready;
    size_t len;
    struct mu_health_record record; /* as far as it has come */
    struct mu_health_gpus gpus;
};

/* ---- the tasks concerned --------------------------------------------------------------------------------------------
 */

static enum mu_health_use record_use(const struct mu_health *health, const struct mu_agent_task *task,
                                     const struct mu_health_record *record)
{
    struct pollfd ended = {.fd = task->pidfd, .events = POLLIN};
    char path[64], *text = malloc(ENVIRONMENT_MAX);
    enum mu_health_use use = MU_HEALTH_USE_NOT_TOLD;
    ssize_t len;

    snprintf(path, sizeof path, "/proc/%d/environ", (int)task->pid);
    len = text ? mu_read_file(path, text, ENVIRONMENT_MAX) : -1;
    if (len > 0)
        use = mu_health_uses(&health->gpus, text, (size_t)len, record->gpu, record->gpu_instance);
    else if (poll(&ended, 1, 0) == 1) /* it has no environment any more, and is not reaped yet */
        use = MU_HEALTH_USES_NOT;
    free(text);
    return use;
}

/* The tasks that compute on this GPU, or may; how many. ret_guessed: whether that is not known of any of them. */
static uint32_t find_tasks(const struct mu_health *health, const struct mu_health_record *record, uint32_t *ret_tasks,
                           int *ret_guessed)
{
    const struct mu_agent *agent = health->agent;
    uint32_t count = 0;

    *ret_guessed = 0;
    for (uint32_t i = 0; i < agent->num_tasks; i++) {
        enum mu_health_use use;

        if (!mu_agent_has_task(agent, i) || !agent->tasks[i].started || agent->tasks[i].ended)
            continue;
        use = record_use(health, &agent->tasks[i], record);
        if (use == MU_HEALTH_USES_NOT)
            continue;
        *ret_guessed |= use == MU_HEALTH_USE_NOT_TOLD;
        ret_tasks[count++] = i;
    }
    return count;
}

/* "tasks 0, 3 and 5 more". */
static void name_tasks(const uint32_t *tasks, uint32_t count, char *to, size_t size)
{
    uint32_t shown = count > 8 ? 7 : count;
    size_t len = (size_t)snprintf(to, size, "task%s", count == 1 ? "" : "s");

    for (uint32_t i = 0; i < shown && len < size; i++)
        len += (size_t)snprintf(to + len, size - len, "%s%u", i ? ", " : " ", tasks[i]);
    if (shown < count && len < size)
        snprintf(to + len, size - len, " and %u more", count - shown);
}

/* ---- what happens then ------------------------------------------------------------------------------------------- */

static void put_in_error(struct mu_agent *agent, uint32_t task_id, const char *message)
{
    const struct mu_agent_task *task = &agent->tasks[task_id];

    /* A program that has not joined cannot be in error there; it ends with the job all the same. */
    if (mu_agent_be_there(agent) == 0)
        muster_error_report(agent->muster, (int32_t)task_id, MUSTER_UNAVAILABLE, message);
    if (agent->options->restart_tasks && !agent->adopted) /* its successor may be luckier; its end is its failure */
        kill(-task->pid, SIGKILL);
    else if (!agent->options->keep_going && agent->root_cause < 0) {
        agent->root_cause = (int32_t)task_id;
        agent->gpu_failed = 1;
    }
}

static void fail_tasks(struct mu_health *health, const struct mu_health_record *record, const char *what)
{
    struct mu_agent *agent = health->agent;
    uint32_t *tasks = calloc(agent->num_tasks, sizeof *tasks), count;
    char names[160], message[320];
    int guessed;

    if (!tasks)
        return;
    count = find_tasks(health, record, tasks, &guessed);
    name_tasks(tasks, count, names, sizeof names);
    if (count == 0)
        mu_agent_say("%s; no task of this job computes on it", what);
    else if (guessed)
        mu_agent_say("%s; which tasks compute on it is not known (CUDA_VISIBLE_DEVICES does not tell): %s", what,
                     names);
    else
        mu_agent_say("%s; %s compute%s on it", what, names, count == 1 ? "s" : "");
    snprintf(message, sizeof message, "%s%s", what, guessed ? "; which tasks compute on it is not known" : "");
    for (uint32_t i = 0; i < count; i++)
        put_in_error(agent, tasks[i], message);
    free(tasks);
}

/* Once a GPU and number. */
static bool is_said(struct mu_health_gpu *gpu, const struct mu_health_record *record)
{
    uint64_t number = record->type == NVML_EVENT_XID ? record->data : 0, bit;
    int said;

    if (number > 255) /* 999: the driver does not know it */
        number = 255;
    bit = 1ull << (number & 63);
    said = (gpu->said[number >> 6] & bit) != 0;
    gpu->said[number >> 6] |= bit;
    return said;
}

static void take_event(struct mu_health *health, const struct mu_health_record *record)
{
    struct mu_health_gpu *gpu = &health->gpus.gpus[record->gpu];
    enum mu_health_verdict verdict = MU_HEALTH_HARDWARE;
    char words[192] = "is gone: it fell off the bus, or its driver was unloaded", what[256];

    /* That tasks are being ended makes GPUs report things. */
    if (mu_agent_is_ending(health->agent) || gpu->has_failed || gpu->failures == FAILURES_MAX)
        return;
    if (record->kind == MU_HEALTH_EVENT)
        verdict = mu_health_event(record->type, record->data, words, sizeof words);
    if (gpu->pci[0]) /* NVML's number may be another GPU's by now */
        snprintf(what, sizeof what, "GPU %s %s", gpu->pci, words);
    else
        snprintf(what, sizeof what, "GPU %u of NVML's list %s", record->gpu, words);
    if (verdict == MU_HEALTH_HARDWARE) {
        gpu->has_failed = record->gpu_instance < 0;
        gpu->failures++;
        fail_tasks(health, record, what);
    } else if (!is_said(gpu, record)) {
        mu_agent_say("%s%s", what,
                     verdict == MU_HEALTH_PROGRAM ? ": a program's error, the GPU is well"
                     : verdict == MU_HEALTH_NOTED ? ": the job goes on"
                                                  : "; what that means is not known here: the job goes on");
    }
}

static void take_record(struct mu_health *health, struct mu_health_record *record)
{
    struct mu_health_gpus *gpus = &health->gpus;
    struct mu_health_gpu *gpu = &gpus->gpus[record->gpu];

    if (record->kind == MU_HEALTH_GPU && record->gpu == gpus->num_gpus) {
        gpus->num_gpus++;
        memcpy(gpu->pci, record->pci, sizeof gpu->pci);
        memcpy(gpu->uuid, record->uuid, sizeof gpu->uuid);
        memcpy(gpu->name, record->name, sizeof gpu->name);
        gpu->is_refused = record->is_refused;
    } else if (record->kind == MU_HEALTH_PART && gpus->num_parts < MU_HEALTH_PARTS_MAX) {
        struct mu_health_part *part = &gpus->parts[gpus->num_parts++];

        *part = (struct mu_health_part){.gpu = record->gpu, .gpu_instance = record->gpu_instance};
        memcpy(part->uuid, record->uuid, sizeof part->uuid);
    } else if (record->kind == MU_HEALTH_READY) {
        health->is_ready = 1;
    } else if ((record->kind == MU_HEALTH_EVENT || record->kind == MU_HEALTH_LOST) && record->gpu < gpus->num_gpus) {
        take_event(health, record);
    } else if (record->kind == MU_HEALTH_END) {
        health->is_ready = 0; /* all is said */
        mu_agent_say("GPUs are not watched any more: %s", record->text);
    }
}

/* ---- the pipe ---------------------------------------------------------------------------------------------------- */

static bool is_sound(struct mu_health_record *record)
{
    record->pci[sizeof record->pci - 1] = record->uuid[sizeof record->uuid - 1] = 0;
    record->name[sizeof record->name - 1] = record->text[sizeof record->text - 1] = 0;
    return record->magic == MU_HEALTH_MAGIC && record->gpu < MU_NVML_GPUS_MAX;
}

static void end_watcher(struct mu_health *health)
{
    struct pollfd pfd = {.fd = health->pidfd, .events = POLLIN};

    if (health->pidfd < 0)
        return;
    syscall(SYS_pidfd_send_signal, health->pidfd, SIGKILL, NULL, 0);
    if (poll(&pfd, 1, REAP_MS) == 1) /* else its driver holds it; it is named with what the tasks leave behind */
        waitpid(health->pid, NULL, WNOHANG);
    close(health->pidfd);
    health->pidfd = -1;
}

static void read_records(uv_poll_t *poll, int status, int events)
{
    struct mu_health *health = poll->data;
    ssize_t n = 1;

    (void)status;
    (void)events;
    while (n > 0) {
        n = read(health->fd, (char *)&health->record + health->len, sizeof health->record - health->len);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        health->len += n > 0 ? (size_t)n : 0;
        if (health->len < sizeof health->record)
            continue;
        health->len = 0;
        if (!is_sound(&health->record))
            break;
        take_record(health, &health->record);
    }
    if (health->is_ready && !mu_agent_is_ending(health->agent))
        mu_agent_say("GPUs are not watched any more: %s",
                     n == 0 ? "the process that did has ended (NVIDIA's library may have crashed)"
                            : "what NVIDIA's library wrote is no event");
    uv_poll_stop(poll);
    end_watcher(health);
}

static void on_process_closed(uv_handle_t *handle)
{
    struct mu_health *health = handle->data;

    close(health->fd);
    free(health);
}

/* ---- start and stop ---------------------------------------------------------------------------------------------- */

/* Two looks at /dev where there is nothing. MUSTER_NVML is somebody's word that there is. */
static bool is_worth_it(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    if (!*mu_nvml_path(NULL) || (visible && !*visible))
        return 0;
    return getenv("MUSTER_NVML") || access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
}

static int check_spawn(struct mu_health *health, int write_end)
{
    struct mu_agent *agent = health->agent;
    struct mu_launch_failure failure;
    struct mu_launch_env env;
    char text[16], *argv[] = {MU_HEALTH_NAME, text, NULL};
    struct mu_launch_image image = {
        .path = "/proc/self/exe",
        .argv = argv,
        .directory = "/",
        .stdio = {agent->launching.null_fd, agent->launching.null_fd, agent->launching.null_fd},
        .keep = {write_end, -1},
        .mask = agent->launching.mask_before,
        .defaults = agent->launching.defaults,
        .files = agent->launching.files_before};
    int rc = -1, null_fd = agent->launching.null_fd < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;

    if (null_fd >= 0)
        image.stdio[0] = image.stdio[1] = image.stdio[2] = null_fd;
    snprintf(text, sizeof text, "%d", write_end);
    if (mu_launch_env_init(&env, environ, NULL) == 0) {
        image.envp = env.vars;
        rc = mu_launch_spawn(&image, &health->pid, &health->pidfd, &failure);
    }
    mu_launch_env_done(&env);
    if (null_fd >= 0)
        close(null_fd);
    return rc;
}

void mu_health_start(struct mu_agent *agent)
{
    struct mu_health *health;
    int fds[2];

    if (agent->health || !is_worth_it() || pipe2(fds, O_CLOEXEC))
        return;
    health = calloc(1, sizeof *health);
    if (!health || fcntl(fds[0], F_SETFL, O_NONBLOCK) || uv_poll_init(&agent->loop, &health->poll, fds[0])) {
        free(health);
        close(fds[0]);
        close(fds[1]);
        return;
    }
    health->poll.data = health;
    health->agent = agent;
    health->fd = fds[0];
    health->pidfd = -1;
    agent->health = health;
    if (check_spawn(health, fds[1]) == 0)
        uv_poll_start(&health->poll, UV_READABLE, read_records);
    close(fds[1]);
}

void mu_health_stop(struct mu_agent *agent)
{
    struct mu_health *health = agent->health;

    if (!health)
        return;
    agent->health = NULL;
    end_watcher(health);
    uv_close((uv_handle_t *)&health->poll, on_process_closed);
}

static void health_started(struct mu_agent *agent, uint32_t first, uint32_t count)
{
    (void)first;
    (void)count;
    mu_health_start(agent);
}

const struct mu_component mu_health_component = {
    .name = "health", .started = health_started, .part = mu_health_stop, .close = mu_health_stop};
