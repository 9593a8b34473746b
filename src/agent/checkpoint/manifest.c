/*
 * agent/checkpoint/manifest.c: what stands beside the parts of a generation on a disk.
 *
 *     muster-checkpoint 1
 *     name model
 *     generation 12
 *     step 1200
 *     ranks 2
 *     written 1764368000
 *     part 0 1073745920 89abcdef
 *     part 1 1073745920 01234567
 *     sum 5e0c1a27
 *
 * Sums are zlib's crc32, the last one that of all lines before it. Nothing of a manifest is believed before it is
 * checked, and a part counts as there only with its very length. What is loaded may be unpickled, so all of it must be
 * this user's own: sums keep nobody from writing another.
 */
#include "agent/checkpoint/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { MANIFEST_MAX = 8 << 20 }; /* bytes */

char *mu_disk_manifest_text(const struct mu_disk_generation *generation, size_t *ret_len)
{
    const struct mu_checkpoint_whole *whole = &generation->whole;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    if (!out)
        return NULL;
    fprintf(out, "muster-checkpoint 1\nname %s\ngeneration %llu\nstep %llu\nranks %u\nwritten %lld\n", whole->name,
            (unsigned long long)whole->generation, (unsigned long long)whole->step, whole->ranks,
            (long long)generation->written);
    for (uint32_t i = 0; i < whole->ranks; i++)
        fprintf(out, "part %u %llu %08x\n", i, (unsigned long long)generation->parts[i].bytes,
                generation->parts[i].sum);
    if (fflush(out) == 0)
        fprintf(out, "sum %08x\n", (unsigned)crc32(crc32(0, NULL, 0), (const Bytef *)text, (uInt)len));
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    *ret_len = len;
    return text;
}

/* ---- reading ---- */

/* The number behind this word, at the line that *at is at; then *at is behind the line. */
static bool line_take(const char **at, const char *word, int base, uint64_t most, uint64_t *ret_value)
{
    size_t len = strlen(word);
    const char *digits = *at + len + 1;
    char *end;

    if (strncmp(*at, word, len) != 0 || (*at)[len] != ' ' || !strchr("0123456789abcdef", *digits) || !*digits)
        return false;
    errno = 0;
    *ret_value = strtoull(digits, &end, base);
    if (errno || *ret_value > most || (*end != '\n' && *end != ' '))
        return false;
    *at = end + (*end == '\n');
    return true;
}

/* The sum at the end is that of all before it. */
static bool sum_is_right(const char *text, size_t len)
{
    const char *last = len > 13 ? text + len - 13 : NULL;
    uint64_t sum;

    return last && last[-1] == '\n' && line_take(&last, "sum", 16, UINT32_MAX, &sum) && last == text + len &&
           sum == crc32(crc32(0, NULL, 0), (const Bytef *)text, (uInt)(len - 13));
}

static bool parts_parse(const char *at, struct mu_disk_generation *g)
{
    g->parts = calloc(g->whole.ranks, sizeof *g->parts);
    for (uint32_t i = 0; g->parts && i < g->whole.ranks; i++) {
        uint64_t rank, sum;
        char *end;

        if (!line_take(&at, "part", 10, g->whole.ranks - 1, &rank) || rank != i || *at != ' ')
            return false;
        errno = 0;
        g->parts[i].bytes = strtoull(at + 1, &end, 10);
        if (errno || *end != ' ' || g->parts[i].bytes > 1ull << 47)
            return false;
        sum = strtoull(end + 1, &end, 16);
        if (*end != '\n' || sum > UINT32_MAX)
            return false;
        g->parts[i].sum = (uint32_t)sum;
        g->bytes += g->parts[i].bytes;
        at = end + 1;
    }
    return g->parts && strncmp(at, "sum ", 4) == 0;
}

static bool manifest_parse(const char *text, size_t len, const struct mu_disk_entry *entry,
                           struct mu_disk_generation *g)
{
    static const char first[] = "muster-checkpoint 1\nname ";
    const char *at = text + strlen(first);
    uint64_t ranks, written;

    if (strlen(text) != len || strncmp(text, first, strlen(first)) != 0 || !sum_is_right(text, len))
        return false;
    if (strncmp(at, entry->name, strlen(entry->name)) != 0 || at[strlen(entry->name)] != '\n')
        return false;
    at += strlen(entry->name) + 1;
    if (!line_take(&at, "generation", 10, UINT64_MAX, &g->whole.generation) ||
        g->whole.generation != entry->generation || !line_take(&at, "step", 10, UINT64_MAX, &g->whole.step) ||
        !line_take(&at, "ranks", 10, MU_DISK_PARTS_MAX, &ranks) || ranks == 0 ||
        !line_take(&at, "written", 10, INT64_MAX, &written))
        return false;
    memcpy(g->whole.name, entry->name, sizeof g->whole.name);
    g->whole.ranks = (uint32_t)ranks;
    g->written = (int64_t)written;
    return parts_parse(at, g);
}

bool mu_disk_is_own(int fd)
{
    struct stat st;
    bool is_own = fstat(fd, &st) == 0 && st.st_uid == geteuid();

    errno = is_own ? 0 : EPERM;
    return is_own;
}

/* The file's text, with a NUL, malloc()ed; NULL: errno says why. */
static char *manifest_load(int folder, size_t *ret_len)
{
    int fd = openat(folder, "manifest", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    char *text = NULL;
    ssize_t n = -1;

    if (fd < 0)
        return NULL;
    if (!mu_disk_is_own(fd))
        errno = EPERM;
    else if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= MANIFEST_MAX)
        text = malloc((size_t)st.st_size + 1);
    else
        errno = EFBIG;
    if (text)
        n = pread(fd, text, (size_t)st.st_size, 0);
    close(fd);
    if (n < 0) {
        free(text);
        return NULL;
    }
    text[n] = 0;
    *ret_len = (size_t)n;
    return text;
}

/* Each part is there. */
static int parts_look(int folder, const struct mu_disk_generation *g, char why[MU_DISK_WHY])
{
    for (uint32_t i = 0; i < g->whole.ranks; i++) {
        char file[16];
        struct stat st;

        snprintf(file, sizeof file, "%u", i);
        if (fstatat(folder, file, &st, AT_SYMLINK_NOFOLLOW))
            snprintf(why, MU_DISK_WHY, "the part of rank %u is missing: %s", i, strerror(errno));
        else if (st.st_uid != geteuid())
            snprintf(why, MU_DISK_WHY, "the part of rank %u belongs to user %u", i, (unsigned)st.st_uid);
        else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != g->parts[i].bytes)
            snprintf(why, MU_DISK_WHY, "the part of rank %u has %lld bytes, not %llu", i, (long long)st.st_size,
                     (unsigned long long)g->parts[i].bytes);
        else
            continue;
        return -1;
    }
    return 0;
}

int mu_disk_manifest_read(const struct mu_disk *disk, const struct mu_disk_entry *entry,
                          struct mu_disk_generation *ret_generation, char why[MU_DISK_WHY])
{
    char path[128], *text = NULL;
    int folder, rc = -1;
    size_t len;

    *ret_generation = (struct mu_disk_generation){.written = 0};
    mu_disk_entry_path(entry->name, entry->generation, "", "", path);
    folder = openat(disk->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder >= 0 && mu_disk_is_own(folder))
        text = manifest_load(folder, &len);
    if (!text)
        snprintf(why, MU_DISK_WHY, "its manifest cannot be read: %s", strerror(errno));
    else if (!manifest_parse(text, len, entry, ret_generation))
        snprintf(why, MU_DISK_WHY, "its manifest is damaged, or of another version");
    else
        rc = parts_look(folder, ret_generation, why);
    free(text);
    if (folder >= 0)
        close(folder);
    if (rc)
        mu_disk_forget(ret_generation);
    return rc;
}

void mu_disk_forget(struct mu_disk_generation *generation)
{
    free(generation->parts);
    generation->parts = NULL;
}
