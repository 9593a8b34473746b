/*
 * launch/binding/bind_words.c: what stands behind --bind-to, --map-by and -n, and what to say to a word that is none of
 * theirs.
 *
 * One table of parts serves the three. Each of the two options follows the other when it is not given, so that a task
 * has a part of its own before any two share one: --bind-to numa alone spreads over NUMA nodes, --map-by numa alone
 * binds to them. Only slot, the order of cores without regard to anything larger, binds to cores.
 */
#include "launch/binding/bind.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/words.h"

#define PER_TASK_MAX 65536ul

static const char *const names[MU_NUM_PARTS] = {
    [MU_PART_MACHINE] = "machine", [MU_PART_PACKAGE] = "package", [MU_PART_NUMA] = "numa",
    [MU_PART_L3] = "l3",           [MU_PART_CORE] = "core",       [MU_PART_HWTHREAD] = "hwthread",
};

/* What other launchers call them. */
static const struct {
    const char *theirs, *ours;
} foreign[] = {
    {"socket", "package"},  {"node", "numa"},   {"l3cache", "l3"}, {"core-complex", "l3"},
    {"thread", "hwthread"}, {"pu", "hwthread"}, {"cores", "core"},
};

MU_WORDS(mu_launch_bind_to_word, "none", "core", "gpu", "l3", "numa", "package", "hwthread")

MU_WORDS(mu_launch_map_by_word, "slot", "core", "l3", "numa", "package", "hwthread")

MU_WORDS(mu_launch_count_word, "auto", "gpu", "core", "l3", "numa", "package", "hwthread")

const char *mu_launch_part_name(enum mu_launch_part part)
{
    return names[part];
}

static const char *other_name(const char *word, size_t len)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (strlen(foreign[i].theirs) == len && strncasecmp(foreign[i].theirs, word, len) == 0)
            return foreign[i].ours;
    return NULL;
}

static void say_words(const char *option, const char *(*words)(size_t), const char *word, size_t len, char *why,
                      size_t size)
{
    char all[100] = "";

    for (size_t i = 0; words(i); i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s",
                 i == 0         ? ""
                 : words(i + 1) ? ", "
                                : " or ",
                 words(i));
    snprintf(why, size, "%s is %s, not '%.*s'", option, all, (int)(len < 60 ? len : 60), word);
}

/* The part that the first `len` bytes name; the first of the option's words is all of the machine. */
static int find_part(const char *option, const char *(*words)(size_t), const char *word, size_t len,
                     enum mu_launch_part *ret_part, char *why, size_t size)
{
    const char *ours = other_name(word, len);

    for (int part = MU_PART_MACHINE; part < MU_NUM_PARTS; part++) {
        const char *name = part == MU_PART_MACHINE ? words(0) : names[part];

        if (strlen(name) == len && strncmp(name, word, len) == 0) {
            *ret_part = part;
            return 0;
        }
    }
    if (ours)
        snprintf(why, size, "%s '%.*s' is called '%s' here", option, (int)(len < 60 ? len : 60), word, ours);
    else
        say_words(option, words, word, len, why, size);
    return -1;
}

static int take_bind_to(const char *text, struct mu_launch_binding *binding, char *why, size_t size)
{
    size_t len = strcspn(text, ":");

    if (len == 3 && strncmp(text, "gpu", len) == 0) {
        binding->to_gpus = 1;
        binding->bind_to = MU_PART_CORE; /* those near the GPUs */
    } else if (find_part("--bind-to", mu_launch_bind_to_word, text, len, &binding->bind_to, why, size)) {
        return -1;
    }
    if (!text[len])
        return 0;
    if (strcmp(text + len, ":overload") != 0) {
        snprintf(why, size, "--bind-to %.*s can be followed by ':overload', not by '%.60s'", (int)len, text,
                 text + len);
        return -1;
    }
    if (binding->bind_to == MU_PART_MACHINE) {
        snprintf(why, size, "--bind-to none binds nothing, so there is nothing to overload");
        return -1;
    }
    binding->overload = 1;
    return 0;
}

static int take_map_by(const char *text, struct mu_launch_binding *binding, char *why, size_t size)
{
    size_t len = strcspn(text, ":");
    const char *number = text + len + 4;
    unsigned long per_task;
    char *end;

    if (find_part("--map-by", mu_launch_map_by_word, text, len, &binding->map_by, why, size))
        return -1;
    if (!text[len])
        return 0;
    if (strncasecmp(text + len, ":pe=", 4) != 0) {
        snprintf(why, size, "--map-by %.*s can be followed by ':pe=N', not by '%.60s'", (int)len, text, text + len);
        return -1;
    }
    per_task = isdigit((unsigned char)*number) ? strtoul(number, &end, 10) : 0;
    if (per_task == 0 || per_task > PER_TASK_MAX || *end) {
        snprintf(why, size, "--map-by %.*s:pe='%.60s' is no number of cores for a task", (int)len, text, number);
        return -1;
    }
    binding->per_task = (uint32_t)per_task;
    return 0;
}

int mu_launch_binding_parse(const char *bind_to, const char *map_by, struct mu_launch_binding *ret_binding, char *why,
                            size_t size)
{
    struct mu_launch_binding binding = {.per_task = 1};

    if ((bind_to && take_bind_to(bind_to, &binding, why, size)) || (map_by && take_map_by(map_by, &binding, why, size)))
        return -1;
    if (binding.to_gpus && map_by) {
        snprintf(why, size, "--bind-to gpu gives out GPUs and what is near them: --map-by has no say there");
        return -1;
    }
    if (map_by && !bind_to)
        binding.bind_to = binding.map_by == MU_PART_MACHINE ? MU_PART_CORE : binding.map_by;
    if (bind_to && !map_by)
        binding.map_by = binding.bind_to;
    if (binding.per_task > 1 && binding.map_by == MU_PART_CORE) /* a core holds one core; the next ones are meant */
        binding.map_by = MU_PART_MACHINE;
    if (binding.per_task > 1 && binding.map_by == MU_PART_HWTHREAD) {
        snprintf(why, size, "--map-by hwthread gives a task one hardware thread; for more, --map-by slot:pe=%u",
                 binding.per_task);
        return -1;
    }
    *ret_binding = binding;
    return 0;
}

enum mu_launch_part mu_launch_part_find(const char *word)
{
    enum mu_launch_part part = MU_PART_PACKAGE;

    while (part < MU_NUM_PARTS && strcmp(names[part], word) != 0)
        part++;
    return part;
}

bool mu_launch_is_count(const char *text)
{
    for (size_t i = 0; mu_launch_count_word(i); i++)
        if (strcmp(mu_launch_count_word(i), text) == 0)
            return 1;
    return 0;
}
