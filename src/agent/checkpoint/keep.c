/*
 * agent/checkpoint/keep.c: `muster run --checkpoint-dir`: checkpoints in memory are kept on a disk.
 *
 * Before an attempt's tasks start, what memory has no generation of is read back from the disk. Then a thread writes
 * (writer.c), for as long as the launcher lives: attempts come and go beside it. At the job's end, when no task is left
 * that could save anything, it writes the last whole generation, and the launcher waits for that: for as long as bytes
 * move, and until a signal comes.
 *
 * What an adopter needs to go on stands in a file in the run's folder, which goes with that: MU_KEEP_FILE.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/checkpoint/keep.h"
#include "agent/checkpoint/writer.h"
#include "agent/private.h"
#include "checkpoint/checkpoint.h"

#define MU_KEEP_FILE "disk"
#define PATIENCE_NS  30000000000ull /* without a byte */
#define LOOK_MS      100

struct keep_state {
    struct mu_writer *writer;
    char memory[256], path[MU_DISK_PATH_MAX];
    uint32_t every, keep;
};

static struct keep_state *keep_state(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_KEEP);
}

/* ---- beginning --------------------------------------------------------------------------------------------------- */

/* Reading back may take long: signals end it. */
static bool recall_goes_on(void *arg, size_t bytes)
{
    struct mu_agent *agent = arg;

    (void)bytes;
    mu_agent_take_signals(agent);
    return !mu_agent_is_ending(agent);
}

static int keep_say(const struct mu_agent *agent, const char *why)
{
    mu_agent_say("cannot keep checkpoints in %s: %s", agent->options->checkpoint->dir, why);
    return -1;
}

static int keep_note(const struct keep_state *s)
{
    char path[320];
    FILE *out;

    snprintf(path, sizeof path, "%s/%s", s->memory, MU_KEEP_FILE);
    out = fopen(path, "we");
    if (!out)
        return errno;
    fprintf(out, "%u %u %s\n", s->every, s->keep, s->path);
    return fclose(out) ? errno : 0;
}

static int writer_begin(struct mu_agent *agent, struct mu_disk *disk)
{
    struct keep_state *s = keep_state(agent);
    int rc = mu_writer_start(disk, &(struct mu_writer_options){.memory = s->memory, .every = s->every, .keep = s->keep},
                             &s->writer);

    if (rc)
        mu_agent_say("cannot keep checkpoints in %s: no thread: %s", s->path, strerror(rc));
    return rc ? -1 : 0;
}

static int keep_first(struct mu_agent *agent)
{
    const struct mu_agent_checkpoint *o = agent->options->checkpoint;
    struct keep_state *s = keep_state(agent);
    struct mu_disk_pace pace = {.goes_on = recall_goes_on, .arg = agent};
    struct mu_disk disk;
    char why[MU_DISK_WHY] = "";
    int rc;

    if (mu_disk_open(&disk, o->dir, true, why))
        return keep_say(agent, why);
    s->every = o->every;
    s->keep = o->keep;
    snprintf(s->path, sizeof s->path, "%s", disk.path);
    rc = mu_disk_claim(&disk, why);
    if (!rc)
        rc = mu_disk_recall(&disk, s->memory, &pace, why);
    if (rc && why[0])
        keep_say(agent, why);
    else if (rc)
        mu_agent_say("checkpoints in %s are not read back: the job ends", s->path);
    if (!rc && (rc = keep_note(s)))
        keep_say(agent, strerror(rc));
    if (!rc)
        rc = writer_begin(agent, &disk);
    mu_disk_close(&disk);
    return rc ? -1 : 0;
}

static int keep_begin(struct mu_agent *agent)
{
    struct keep_state *s = keep_state(agent);

    if (!agent->options->checkpoint || s->writer)
        return 0;
    if (mu_checkpoint_folder_make(agent->run_id, s->memory, sizeof s->memory) == MUSTER_OK)
        return keep_first(agent);
    return keep_say(agent, muster_last_error());
}

/* ---- an adopter -------------------------------------------------------------------------------------------------- */

/* Every, keep and the folder, as keep_note() has them. */
static bool note_read(struct keep_state *s)
{
    char path[320], line[MU_DISK_PATH_MAX + 64], *end;
    FILE *in;

    snprintf(path, sizeof path, "%s/%s", s->memory, MU_KEEP_FILE);
    in = fopen(path, "re");
    if (!in)
        return false;
    if (!fgets(line, sizeof line, in))
        line[0] = 0;
    fclose(in);
    line[strcspn(line, "\n")] = 0;
    s->every = (uint32_t)strtoul(line, &end, 10);
    s->keep = (uint32_t)strtoul(end, &end, 10);
    if (!s->every || !s->keep || end[0] != ' ' || end[1] != '/')
        return false;
    snprintf(s->path, sizeof s->path, "%s", end + 1);
    return true;
}

void mu_agent_keep_on(struct mu_agent *agent)
{
    struct keep_state *s = keep_state(agent);
    char why[MU_DISK_WHY] = "";
    struct mu_disk disk;

    mu_checkpoint_folder(agent->run_id, s->memory, sizeof s->memory);
    if (!note_read(s))
        return;
    if (mu_disk_open(&disk, s->path, false, why) || mu_disk_claim(&disk, why))
        mu_agent_say("checkpoints are not kept in %s any more: %s", s->path, why);
    else
        writer_begin(agent, &disk);
    mu_disk_close(&disk);
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

/* A signal that ends a launcher has come; others are as nothing now. */
static bool end_is_asked(const struct mu_agent *agent)
{
    struct signalfd_siginfo info;

    while (read(agent->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP ||
            info.ssi_signo == SIGQUIT)
            return true;
    return false;
}

/* The last generation is written, or it is said why not. */
static void last_await(struct mu_agent *agent, struct mu_writer *writer)
{
    uint64_t progress = mu_writer_progress(writer), until = muster_after_ns(PATIENCE_NS), now;

    mu_writer_finish(writer);
    while (!mu_writer_await(writer, LOOK_MS)) {
        now = mu_writer_progress(writer);
        if (now != progress)
            until = muster_after_ns(PATIENCE_NS);
        progress = now;
        if (muster_now_ns() >= until) {
            mu_agent_say("the disk of %s has taken nothing for %u s: the last checkpoint is given up",
                         keep_state(agent)->path, (unsigned)(PATIENCE_NS / 1000000000u));
            return;
        }
        if (end_is_asked(agent))
            return;
    }
}

static void keep_end(struct mu_agent *agent, bool is_last)
{
    struct keep_state *s = keep_state(agent);

    if (!s->writer)
        return;
    if (is_last)
        last_await(agent, s->writer);
    if (!mu_writer_stop(s->writer))
        mu_agent_say("the disk of %s still holds the writer: what it has begun there is no generation", s->path);
    s->writer = NULL;
}

/* An adopter's job has one attempt; a launcher's may have another, and what it has in memory stays. */
static void keep_clear(struct mu_agent *agent)
{
    if (agent->adopted)
        keep_end(agent, true);
}

static void keep_close(struct mu_agent *agent)
{
    keep_end(agent, !agent->adopted && agent->phase == MU_PHASE_DONE);
}

const struct mu_component mu_keep_component = {
    .name = "keep",
    .state_size = sizeof(struct keep_state),
    .begin = keep_begin,
    .clear = keep_clear,
    .close = keep_close,
};
