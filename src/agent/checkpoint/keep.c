/*
 * agent/checkpoint/keep.c: `muster run --checkpoint-dir`: checkpoints in memory are kept on a disk.
 *
 * Before an attempt's tasks start, what memory has no generation of is read back from the disk. Then a thread writes
 * (writer.c), for as long as the launcher lives: attempts come and go beside it. At the job's end, when no task is left
 * that could save anything, it writes the last whole generation, and the launcher waits for that: for as long as bytes
 * move, and until a signal comes.
 *
 * What an adopter needs to go on stands in the run's folder (note.c).
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

#define PATIENCE_NS 30000000000ull /* without a byte */
#define LOOK_MS     100

struct keep_state {
    struct mu_writer *writer;
    char memory[256];
    struct mu_disk_note note;
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

static int writer_begin(struct mu_agent *agent, struct mu_disk *disk)
{
    struct keep_state *s = keep_state(agent);
    int rc = mu_writer_start(
        disk, &(struct mu_writer_options){.memory = s->memory, .every = s->note.every, .keep = s->note.keep},
        &s->writer);

    if (rc)
        mu_agent_say("cannot keep checkpoints in %s: no thread: %s", s->note.path, strerror(rc));
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
    s->note.every = o->every;
    s->note.keep = o->keep;
    snprintf(s->note.path, sizeof s->note.path, "%s", disk.path);
    rc = mu_disk_claim(&disk, why);
    if (!rc)
        rc = mu_disk_recall(&disk, s->memory, &pace, why);
    if (rc && why[0])
        keep_say(agent, why);
    else if (rc)
        mu_agent_say("checkpoints in %s are not read back: the job ends", s->note.path);
    if (!rc && (rc = mu_disk_note_write(s->memory, &s->note)))
        keep_say(agent, strerror(rc));
    if (!rc)
        rc = writer_begin(agent, &disk);
    mu_disk_close(&disk);
    return rc ? -1 : 0;
}

static int keep_begin(struct mu_agent *agent)
{
    struct keep_state *s = keep_state(agent);

    if (!agent->options->checkpoint)
        return 0;
    if (mu_agent_be_there(agent)) { /* status is told by a key */
        mu_agent_say("cannot keep checkpoints: %s", muster_last_error());
        return -1;
    }
    if (s->writer)
        return 0;
    if (mu_checkpoint_folder_make(agent->run_id, s->memory, sizeof s->memory) == MUSTER_OK)
        return keep_first(agent);
    return keep_say(agent, muster_last_error());
}

/* ---- an adopter -------------------------------------------------------------------------------------------------- */

void mu_agent_keep_on(struct mu_agent *agent)
{
    struct keep_state *s = keep_state(agent);
    char why[MU_DISK_WHY] = "";
    struct mu_disk disk;

    mu_checkpoint_folder(agent->run_id, s->memory, sizeof s->memory);
    if (!mu_disk_note_read(s->memory, &s->note))
        return;
    if (mu_disk_open(&disk, s->note.path, false, why) || mu_disk_claim(&disk, why))
        mu_agent_say("checkpoints are not kept in %s any more: %s", s->note.path, why);
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
                         keep_state(agent)->note.path, (unsigned)(PATIENCE_NS / 1000000000u));
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
        mu_agent_say("the disk of %s still holds the writer: what it has begun there is no generation", s->note.path);
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

/* "/scratch/train written 12 bytes 4096 overwritten 1 failed 0 newest 120"; a folder with a blank in it is "-". */
static void keep_describe(const struct mu_agent *agent, char *text, size_t size)
{
    const struct keep_state *s = keep_state(agent);
    struct mu_writer_facts facts;

    if (!s->writer)
        return;
    mu_writer_look(s->writer, &facts);
    snprintf(text, size, "%.100s written %llu bytes %llu overwritten %llu failed %llu newest %llu",
             strpbrk(s->note.path, " \t\n") ? "-" : s->note.path, (unsigned long long)facts.written,
             (unsigned long long)facts.bytes, (unsigned long long)facts.overwritten, (unsigned long long)facts.failed,
             (unsigned long long)facts.newest.generation);
}

const struct mu_component mu_keep_component = {
    .name = "keep",
    .state_size = sizeof(struct keep_state),
    .begin = keep_begin,
    .clear = keep_clear,
    .close = keep_close,
    .key = MU_AGENT_CHECKPOINT_KEY,
    .describe = keep_describe,
};
