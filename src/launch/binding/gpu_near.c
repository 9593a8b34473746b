/*
 * launch/binding/gpu_near.c: processors near GPUs, dealt out among the tasks that would like the same ones.
 *
 * Cores that the same tasks would like are one class; classes with few suitors are dealt out first. In each class a
 * core goes to the suitor that has the fewest until then, of equals to the one with the smallest choice; so tasks at
 * one NUMA node get equal shares of it, and one that would take any core takes what those leave that have no other.
 * A task's part of a class lies together. A task that goes away empty all the same, because others had more to choose
 * from, is given a core for which its owner has another, or can be given another in turn: so nobody shares a core where
 * cores suffice. Where they do not, those share the least used.
 */
#include "launch/binding/bind_private.h"
#include "launch/binding/gpu.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct core {
    size_t first, count; /* threads[first ..] of the machine */
    size_t class;        /* the first core that the same tasks would like */
    uint32_t suitors, users;
    uint32_t owner; /* the task that it was dealt to */
    char tried;
};

#define NOBODY UINT32_MAX

struct split {
    const struct mu_launch_machine *machine;
    struct mu_launch_wish *wishes;
    uint32_t num_wishes;
    struct core *cores;
    size_t num_cores;
    uint32_t *choice; /* of each wish: cores that it would like */
    uint32_t *got;    /* cores that it has */
    uint32_t *quota;  /* of the class that is being dealt out */
};

static int wish_likes(const struct split *s, uint32_t wish, size_t core)
{
    const struct core *it = &s->cores[core];

    for (size_t i = it->first; i < it->first + it->count; i++)
        if (CPU_ISSET_S(s->machine->threads[i].cpu, s->machine->set_size, s->wishes[wish].near))
            return 1;
    return 0;
}

static void find_cores(struct split *s)
{
    const struct mu_launch_machine *machine = s->machine;

    for (size_t i = 0; i < machine->num_threads; i++) {
        struct core *last = s->num_cores ? &s->cores[s->num_cores - 1] : NULL;

        if (last && machine->threads[last->first].part[MU_PART_CORE] == machine->threads[i].part[MU_PART_CORE])
            last->count++;
        else
            s->cores[s->num_cores++] = (struct core){.first = i, .count = 1, .owner = NOBODY};
    }
}

static bool are_liked_alike(const struct split *s, size_t a, size_t b)
{
    for (uint32_t wish = 0; wish < s->num_wishes; wish++)
        if (wish_likes(s, wish, a) != wish_likes(s, wish, b))
            return 0;
    return 1;
}

/* Neighbours mostly are of one class, so the last one is tried first. */
static void find_classes(struct split *s)
{
    for (size_t core = 0; core < s->num_cores; core++) {
        size_t class = core;

        for (uint32_t wish = 0; wish < s->num_wishes; wish++) {
            int liked = wish_likes(s, wish, core);

            s->cores[core].suitors += (uint32_t)liked;
            s->choice[wish] += (uint32_t)liked;
        }
        if (core > 0 && are_liked_alike(s, s->cores[core - 1].class, core))
            class = s->cores[core - 1].class;
        for (size_t i = 0; class == core && i < core; i++)
            if (s->cores[i].class == i && s->cores[i].suitors == s->cores[core].suitors && are_liked_alike(s, i, core))
                class = i;
        s->cores[core].class = class;
    }
}

static void core_give(struct split *s, uint32_t wish, size_t core)
{
    struct core *it = &s->cores[core];
    size_t size = s->machine->set_size;

    for (size_t i = it->first; i < it->first + it->count; i++) {
        unsigned cpu = s->machine->threads[i].cpu;

        if (CPU_ISSET_S(cpu, size, s->wishes[wish].near))
            CPU_SET_S(cpu, size, s->wishes[wish].cpus);
    }
    it->users++;
}

static int goes_before(const struct split *s, uint32_t a, uint32_t b)
{
    if (s->got[a] != s->got[b])
        return s->got[a] < s->got[b];
    return s->choice[a] < s->choice[b];
}

static void deal_class(struct split *s, size_t class)
{
    uint32_t to = 0;

    memset(s->quota, 0, s->num_wishes * sizeof *s->quota);
    for (size_t core = class; core < s->num_cores; core++) {
        uint32_t best = UINT32_MAX;

        if (s->cores[core].class != class)
            continue;
        for (uint32_t wish = 0; wish < s->num_wishes; wish++)
            if (wish_likes(s, wish, class) && (best == UINT32_MAX || goes_before(s, wish, best)))
                best = wish;
        s->quota[best]++;
        s->got[best]++;
    }
    for (size_t core = class; core < s->num_cores; core++) {
        if (s->cores[core].class != class)
            continue;
        while (s->quota[to] == 0)
            to++;
        s->cores[core].owner = to;
        s->quota[to]--;
    }
}

static void cores_deal(struct split *s)
{
    for (uint32_t suitors = 1; suitors <= s->num_wishes; suitors++)
        for (size_t core = 0; core < s->num_cores; core++)
            if (s->cores[core].class == core && s->cores[core].suitors == suitors)
                deal_class(s, core);
}

/* The core that it would like, not tried yet, of the owner that has the most. */
static size_t richest_core(const struct split *s, uint32_t wish)
{
    size_t best = SIZE_MAX;

    for (size_t core = 0; core < s->num_cores; core++)
        if (!s->cores[core].tried && wish_likes(s, wish, core) &&
            (best == SIZE_MAX || s->got[s->cores[core].owner] > s->got[s->cores[best].owner]))
            best = core;
    return best;
}

/* One more core, from an owner that has more or finds another. 0: there is none. */
static int find_one(struct split *s, uint32_t wish)
{
    for (size_t core = richest_core(s, wish); core != SIZE_MAX; core = richest_core(s, wish)) {
        uint32_t owner = s->cores[core].owner;

        s->cores[core].tried = 1;
        if (s->got[owner] < 2 && !find_one(s, owner))
            continue;
        s->got[owner]--;
        s->got[wish]++;
        s->cores[core].owner = wish;
        return 1;
    }
    return 0;
}

static void cores_share(struct split *s, uint32_t wish)
{
    size_t best = SIZE_MAX;

    for (size_t core = 0; core < s->num_cores; core++)
        if (wish_likes(s, wish, core) && (best == SIZE_MAX || s->cores[core].users < s->cores[best].users))
            best = core;
    if (best != SIZE_MAX)
        core_give(s, wish, best);
}

static void hand_out(struct split *s)
{
    for (uint32_t wish = 0; wish < s->num_wishes; wish++)
        if (s->got[wish] == 0) {
            for (size_t core = 0; core < s->num_cores; core++)
                s->cores[core].tried = 0;
            find_one(s, wish);
        }
    for (size_t core = 0; core < s->num_cores; core++)
        if (s->cores[core].owner != NOBODY)
            core_give(s, s->cores[core].owner, core);
    for (uint32_t wish = 0; wish < s->num_wishes; wish++)
        if (s->got[wish] == 0)
            cores_share(s, wish);
}

static void mark_shared(struct split *s)
{
    for (size_t core = 0; core < s->num_cores; core++)
        for (uint32_t wish = 0; s->cores[core].users > 1 && wish < s->num_wishes; wish++)
            if (CPU_ISSET_S(s->machine->threads[s->cores[core].first].cpu, s->machine->set_size, s->wishes[wish].cpus))
                s->wishes[wish].shared = 1;
}

int mu_launch_split(const struct mu_launch_machine *machine, struct mu_launch_wish *wishes, uint32_t count)
{
    struct split s = {.machine = machine, .wishes = wishes, .num_wishes = count};
    int code = -1;

    s.cores = calloc(machine->num_threads + 1, sizeof *s.cores);
    s.choice = calloc(count + 1, sizeof *s.choice);
    s.got = calloc(count + 1, sizeof *s.got);
    s.quota = calloc(count + 1, sizeof *s.quota);
    if (s.cores && s.choice && s.got && s.quota) {
        find_cores(&s);
        find_classes(&s);
        cores_deal(&s);
        hand_out(&s);
        mark_shared(&s);
        code = 0;
    }
    free(s.cores);
    free(s.choice);
    free(s.got);
    free(s.quota);
    return code;
}
