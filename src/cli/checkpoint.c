/*
 * cli/checkpoint.c: `muster checkpoint`: generations in a job's memory, and in a folder on a disk.
 *
 * A job's are found by its run's number, which one of its live tasks has in its environment. Nothing is locked, joined
 * or waited for, so it shows a job that stands still. What lies on the disk is read from there, not from the job: what
 * is shown as sound can be read back. `rm` needs a folder that no job writes to.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/checkpoint/disk.h"
#include "base/process.h"
#include "checkpoint/checkpoint.h"

struct checkpoint_row {
    const struct mu_checkpoint_whole *whole;
    uint64_t bytes;
    int64_t written;     /* seconds since 1970; 0: not known */
    const char *where;   /* "memory", or the folder on the disk */
    const char *missing; /* ranks that have not saved the generation behind it; NULL: none has */
    const char *problem; /* NULL: it is sound */
    uint64_t on_disk;    /* of one in memory: the newest of its name on the disk; 0: none */
};

struct checkpoint_listing {
    const struct mu_cli_call *call;
    struct mu_cli_json json;
    unsigned shown;
    int has_problem;
    const struct mu_disk *disk; /* NULL: the job has none */
};

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static const char *age_words(int64_t written, char words[32])
{
    int64_t seconds = (int64_t)time(NULL) - written;

    if (!written)
        return "-";
    if (seconds < 120)
        snprintf(words, 32, "%llds", (long long)(seconds > 0 ? seconds : 0));
    else if (seconds < 7200)
        snprintf(words, 32, "%lldm", (long long)seconds / 60);
    else
        snprintf(words, 32, "%lldh", (long long)seconds / 3600);
    return words;
}

static void row_json(struct mu_cli_json *json, const struct checkpoint_row *row)
{
    mu_cli_json_open(json, NULL, '{');
    mu_cli_json_text(json, "name", row->whole->name);
    mu_cli_json_unsigned(json, "generation", row->whole->generation);
    mu_cli_json_known(json, "step", row->whole->ranks > 0, row->whole->step);
    mu_cli_json_known(json, "ranks", row->whole->ranks > 0, row->whole->ranks);
    mu_cli_json_known(json, "bytes", row->whole->ranks > 0, row->bytes);
    mu_cli_json_known(json, "written", row->written > 0, (uint64_t)row->written);
    mu_cli_json_text(json, "where", row->where);
    mu_cli_json_text(json, "missing", row->missing);
    mu_cli_json_known(json, "on_disk", row->on_disk > 0, row->on_disk);
    mu_cli_json_text(json, "problem", row->problem);
    mu_cli_json_close(json, '}');
}

static void row_show(struct checkpoint_listing *listing, const struct checkpoint_row *row)
{
    char bytes[32], age[32], disk[32] = "";

    listing->has_problem |= row->problem != NULL;
    if (listing->call->values[MU_OPT_JSON]) {
        row_json(&listing->json, row);
        return;
    }
    if (listing->shown++ == 0)
        printf("%s%-16s %10s %10s %6s %10s %6s %s%s\n", mu_cli_colour(MU_CLI_BOLD), "NAME", "GENERATION", "STEP",
               "RANKS", "BYTES", "AGE", "WHERE", mu_cli_colour(MU_CLI_PLAIN));
    if (row->on_disk)
        snprintf(disk, sizeof disk, ", on disk %" PRIu64, row->on_disk);
    if (row->whole->ranks)
        printf("%-16s %10" PRIu64 " %10" PRIu64 " %6u %10s %6s ", row->whole->name, row->whole->generation,
               row->whole->step, row->whole->ranks, mu_cli_bytes(row->bytes, bytes), age_words(row->written, age));
    else
        printf("%-16s %10" PRIu64 " %10s %6s %10s %6s ", row->whole->name, row->whole->generation, "-", "-", "-", "-");
    mu_cli_print_line(stdout, row->where);
    printf("%s%s%s%s%s\n", disk, row->missing ? ", the next one is not saved by " : "",
           row->missing ? row->missing : "", row->problem ? ": " : "", row->problem ? row->problem : "");
}

/* ---- the disk ---------------------------------------------------------------------------------------------------- */

/* The newest of the name that is sound as far as its manifest and lengths say. */
static uint64_t disk_newest(const struct mu_disk *disk, const char *name)
{
    struct mu_disk_entry *entries;
    struct mu_disk_generation g;
    uint64_t newest = 0;
    char why[MU_DISK_WHY];
    size_t count;

    if (!disk || mu_disk_list(disk, &entries, &count))
        return 0;
    for (size_t i = 0; i < count && !newest; i++)
        if (strcmp(entries[i].name, name) == 0 && mu_disk_manifest_read(disk, &entries[i], &g, why) == 0) {
            newest = entries[i].generation;
            mu_disk_forget(&g);
        }
    free(entries);
    return newest;
}

static bool disk_has(const struct mu_disk *disk, const struct mu_disk_entry *entry)
{
    char path[128];

    mu_disk_entry_path(entry->name, entry->generation, "", "", path);
    return faccessat(disk->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* `only`: NULL: all; its sums are looked at, too. Their number, or -1 with the reason said. */
static int disk_show(struct checkpoint_listing *listing, const struct mu_disk *disk, const struct mu_disk_entry *only)
{
    struct mu_disk_entry *entries;
    size_t count;
    int rc = mu_disk_list(disk, &entries, &count), shown = 0;

    if (rc) {
        fprintf(stderr, "%s: cannot list %s: %s\n", listing->call->path, disk->path, strerror(rc));
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        struct mu_checkpoint_whole unknown = {.generation = entries[i].generation};
        struct mu_disk_generation g;
        char why[MU_DISK_WHY];
        int bad;

        if (only && (strcmp(only->name, entries[i].name) != 0 ||
                     (only->generation && only->generation != entries[i].generation)))
            continue;
        memcpy(unknown.name, entries[i].name, sizeof unknown.name);
        bad = mu_disk_manifest_read(disk, &entries[i], &g, why);
        if (bad && !disk_has(disk, &entries[i])) /* its writer has removed it meanwhile */
            continue;
        row_show(listing, &(struct checkpoint_row){
                              .whole = bad ? &unknown : &g.whole,
                              .bytes = g.bytes,
                              .written = g.written,
                              .where = disk->path,
                              .problem = bad || (only && mu_disk_verify(disk, &g, NULL, why)) ? why : NULL});
        mu_disk_forget(&g);
        shown++;
    }
    free(entries);
    return shown;
}

static int folder_open(const struct mu_cli_call *call, const char *path, struct mu_disk *ret_disk)
{
    char why[MU_DISK_WHY];

    if (mu_disk_open(ret_disk, path, false, why) == 0)
        return 0;
    fprintf(stderr, "%s: %s\n", call->path, why);
    return errno == ENOENT ? MU_CLI_EXIT_NOT_FOUND : MU_CLI_EXIT_FAILURE;
}

/* ---- a job's memory ---------------------------------------------------------------------------------------------- */

/* The run's number, as a task's environment has it. */
static bool run_of(pid_t pid, char run_id[65])
{
    static const char name[] = "MUSTER_RUN_ID=";
    static char text[1u << 20];
    char path[64];
    ssize_t len;

    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    len = mu_read_file(path, text, sizeof text);
    for (ssize_t at = 0; at < len; at += (ssize_t)strlen(text + at) + 1)
        if (strncmp(text + at, name, strlen(name)) == 0)
            return snprintf(run_id, 65, "%s", text + at + strlen(name)) < 65;
    return false;
}

static int job_find(struct mu_cli_call *call, char *folder, size_t size)
{
    struct muster_task_info *infos;
    struct muster *muster;
    char run_id[65] = "";
    size_t count;
    int code = mu_cli_join(call, MUSTER_JOIN_READ_ONLY, -1, &muster);

    if (code)
        return code;
    if (mu_cli_tasks(muster, &infos, &count, NULL) == MUSTER_OK) {
        for (size_t i = 0; i < count && !run_id[0]; i++)
            if (infos[i].alive && infos[i].pid)
                run_of((pid_t)infos[i].pid, run_id);
        free(infos);
    }
    code = mu_cli_leave(call, muster, 0);
    if (!code && !run_id[0]) {
        fprintf(stderr, "%s: no task of the job lives here that its launcher has started: say the folder on the disk\n",
                call->path);
        return MU_CLI_EXIT_NOT_FOUND;
    }
    mu_checkpoint_folder(run_id, folder, size);
    return code;
}

static void memory_row(void *arg, const struct mu_checkpoint_whole *whole, uint64_t bytes, const char *missing)
{
    struct checkpoint_listing *listing = arg;

    row_show(listing, &(struct checkpoint_row){.whole = whole,
                                               .bytes = bytes,
                                               .where = "memory",
                                               .missing = missing,
                                               .on_disk = disk_newest(listing->disk, whole->name)});
}

static void job_show(struct checkpoint_listing *listing, const char *memory, const struct mu_disk_entry *only)
{
    struct mu_disk_note note;
    struct mu_disk disk = {.fd = -1};
    char why[MU_DISK_WHY];

    if (mu_disk_note_read(memory, &note) && mu_disk_open(&disk, note.path, false, why))
        fprintf(stderr, "%s: %s\n", listing->call->path, why);
    listing->disk = disk.fd < 0 ? NULL : &disk;
    mu_checkpoint_each_state(memory, only ? only->name : NULL, memory_row, listing);
    if (listing->disk)
        disk_show(listing, listing->disk, only);
    mu_disk_close(&disk);
}

/* ---- ls, show, rm ------------------------------------------------------------------------------------------------ */

/* A folder, or the job's; all of it, or what is named. */
static int checkpoint_list(struct mu_cli_call *call, const char *path, const struct mu_disk_entry *only)
{
    struct checkpoint_listing listing = {.call = call};
    struct mu_disk disk = {.fd = -1};
    char memory[256];
    int code = path ? folder_open(call, path, &disk) : job_find(call, memory, sizeof memory), shown = 0;

    if (code)
        return code;
    mu_cli_json_start(&listing.json, stdout);
    if (call->values[MU_OPT_JSON])
        mu_cli_json_open(&listing.json, NULL, '[');
    if (path)
        shown = disk_show(&listing, &disk, only);
    else
        job_show(&listing, memory, only);
    if (call->values[MU_OPT_JSON]) {
        mu_cli_json_close(&listing.json, ']');
        mu_cli_json_end(&listing.json);
    }
    mu_disk_close(&disk);
    if (only && shown == 0 && path) {
        fprintf(stderr, "%s: there is no such generation in %s\n", call->path, path);
        return MU_CLI_EXIT_NOT_FOUND;
    }
    return mu_cli_finish(call, shown < 0 || (only && listing.has_problem) ? MU_CLI_EXIT_FAILURE : 0);
}

static int checkpoint_ls_run(struct mu_cli_call *call)
{
    return checkpoint_list(call, call->count > 0 ? call->operands[0] : NULL, NULL);
}

/* NAME or NAME@GENERATION; generation 0: all of the name. */
static int entry_take(const struct mu_cli_call *call, const char *text, struct mu_disk_entry *ret_entry)
{
    const char *at = strrchr(text, '@');
    size_t len = at ? (size_t)(at - text) : strlen(text);
    uint64_t generation = 0;

    if (len == 0 || len > MUSTER_CHECKPOINT_NAME_MAX ||
        (at && (mu_cli_parse_unsigned(at + 1, INT64_MAX, &generation) || generation == 0)))
        return mu_cli_usage(call, "'%.100s' is no NAME or NAME@GENERATION", text);
    *ret_entry = (struct mu_disk_entry){.generation = generation};
    memcpy(ret_entry->name, text, len);
    return 0;
}

static int checkpoint_show_run(struct mu_cli_call *call)
{
    struct mu_disk_entry entry;
    int code = entry_take(call, call->operands[1], &entry);

    return code ? code : checkpoint_list(call, call->operands[0], &entry);
}

static int entries_remove(const struct mu_cli_call *call, const struct mu_disk *disk, const struct mu_disk_entry *what)
{
    struct mu_disk_entry *entries;
    size_t count, removed = 0;
    int rc = mu_disk_list(disk, &entries, &count);

    for (size_t i = 0; !rc && i < count; i++)
        if (strcmp(entries[i].name, what->name) == 0 &&
            (!what->generation || entries[i].generation == what->generation)) {
            rc = mu_disk_remove(disk, entries[i].name, entries[i].generation);
            removed++;
        }
    if (count)
        free(entries);
    if (rc)
        fprintf(stderr, "%s: cannot remove it from %s: %s\n", call->path, disk->path, strerror(rc));
    else if (!removed)
        fprintf(stderr, "%s: there is no such generation in %s\n", call->path, disk->path);
    return rc ? MU_CLI_EXIT_FAILURE : removed ? 0 : MU_CLI_EXIT_NOT_FOUND;
}

static int checkpoint_rm_run(struct mu_cli_call *call)
{
    struct mu_disk_entry what;
    struct mu_disk disk;
    char why[MU_DISK_WHY];
    int code = entry_take(call, call->operands[1], &what);

    if (!code)
        code = folder_open(call, call->operands[0], &disk);
    if (code)
        return code;
    if (mu_disk_claim(&disk, why)) {
        fprintf(stderr, "%s: %s: %s\n", call->path, disk.path, why);
        code = MU_CLI_EXIT_FAILURE;
    } else {
        code = entries_remove(call, &disk, &what);
    }
    mu_disk_close(&disk);
    return code;
}

static const struct mu_cli_option ls_options[] = {MU_CLI_JOB, MU_CLI_JSON, MU_CLI_END};
static const struct mu_cli_option show_options[] = {MU_CLI_JSON, MU_CLI_END};
static const struct mu_cli_option rm_options[] = {MU_CLI_END};

static const struct mu_cli_verb verbs[] = {
    {"ls", "[FOLDER]", "List a job's generations, in memory and on its disk, or those of a folder", ls_options, 0, 1, 0,
     checkpoint_ls_run, NULL, mu_cli_folders},
    {"show", "FOLDER NAME[@GENERATION]", "Read generations on a disk whole, and say whether they are sound",
     show_options, 2, 2, 0, checkpoint_show_run, NULL, mu_cli_folders},
    {"rm", "FOLDER NAME[@GENERATION]", "Remove generations from a disk", rm_options, 2, 2, 0, checkpoint_rm_run, NULL,
     mu_cli_folders},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL},
};

const struct mu_cli_verb mu_cli_checkpoint = {
    .name = "checkpoint",
    .operands = "ls|show|rm ...",
    .summary = "List checkpoints of a job and on a disk, check and remove them",
    .verbs = verbs,
};
