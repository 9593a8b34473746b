/* tests/fuzz/seeds.c: see seeds.h. */
#include "seeds.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void load(const char *path, struct seed *s)
{
    const char *slash = strrchr(path, '/');
    FILE *file = fopen(path, "r");

    snprintf(s->name, sizeof s->name, "%s", slash ? slash + 1 : path);
    s->size = file ? fread(s->bytes, 1, sizeof s->bytes, file) : 0;
    if (!s->size || s->size == sizeof s->bytes) {
        fprintf(stderr, "%s cannot be read, or is longer than %d bytes\n", path, SEED_BYTES_MOST - 1);
        exit(1);
    }
    fclose(file);
}

size_t seeds_load(const char *ending, struct seed seeds[SEEDS_MOST])
{
    const char *top = getenv("TOP");
    char pattern[4096];
    glob_t found;
    size_t count;

    snprintf(pattern, sizeof pattern, "%s/tests/fuzz/seeds/*%s", top ? top : ".", ending);
    if (glob(pattern, 0, NULL, &found) || found.gl_pathc > SEEDS_MOST) {
        fprintf(stderr, "there are no seeds, or too many: %s\n", pattern);
        exit(1);
    }
    count = found.gl_pathc;
    for (size_t i = 0; i < count; i++)
        load(found.gl_pathv[i], &seeds[i]);
    globfree(&found);
    return count;
}
