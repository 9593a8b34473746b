/*
 * agent/checkpoint/note.c: where a run's checkpoints are written, noted beside those in memory.
 *
 * A file in the run's folder, which goes with that: an adopter goes on by it, and people are shown the disk. One line:
 * "EVERY KEEP FOLDER".
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/checkpoint/disk.h"

static void note_path(const char *memory, char path[640])
{
    snprintf(path, 640, "%s/disk", memory);
}

int mu_disk_note_write(const char *memory, const struct mu_disk_note *note)
{
    char path[640];
    FILE *out;

    note_path(memory, path);
    out = fopen(path, "we");
    if (!out)
        return errno;
    fprintf(out, "%u %u %s\n", note->every, note->keep, note->path);
    return fclose(out) ? errno : 0;
}

bool mu_disk_note_read(const char *memory, struct mu_disk_note *ret_note)
{
    char path[640], line[MU_DISK_PATH_MAX + 64], *end;
    FILE *in;

    note_path(memory, path);
    in = fopen(path, "re");
    if (!in)
        return false;
    if (!fgets(line, sizeof line, in))
        line[0] = 0;
    fclose(in);
    line[strcspn(line, "\n")] = 0;
    ret_note->every = (uint32_t)strtoul(line, &end, 10);
    ret_note->keep = (uint32_t)strtoul(end, &end, 10);
    if (!ret_note->every || !ret_note->keep || end[0] != ' ' || end[1] != '/')
        return false;
    snprintf(ret_note->path, sizeof ret_note->path, "%s", end + 1);
    return true;
}
