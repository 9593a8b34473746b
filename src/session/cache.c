/*
 * session/cache.c: the subgraphs of a session, compiled and registered with its executors once, and found by their key:
 * all that is fed, fetched, run and connected, in order, written out. The graph only grows, so they stay right.
 *
 * They are bounded: what was used longest ago and is not in use goes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "session/private.h"

enum { SUBGRAPHS_MAX = 1024, BYTES_MAX = 512 << 20 };

/* ---- keys -------------------------------------------------------------------------------------------------------- */

struct key {
    char *bytes;
    size_t len;
    uint32_t room;
    bool is_exhausted;
};

static void key_put(struct key *k, char kind, const char *text)
{
    size_t len = strlen(text) + 1;

    if (k->is_exhausted || !mu_ss_grow(&k->bytes, 1, k->len + len + 1, &k->room)) {
        k->is_exhausted = true;
        return;
    }
    k->bytes[k->len] = kind;
    memcpy(k->bytes + k->len + 1, text, len);
    k->len += len + 1;
}

static int texts_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The same names in order; each once, where `once`. malloc()ed. NULL: no memory. */
static const char **names_sort(const char *const *names, uint32_t *count, bool once)
{
    const char **sorted = malloc((*count + 1) * sizeof *sorted);
    uint32_t n = 0;

    if (!sorted)
        return NULL;
    if (*count)
        memcpy(sorted, names, *count * sizeof *sorted);
    qsort(sorted, *count, sizeof *sorted, texts_compare);
    for (uint32_t i = 0; i < *count; i++)
        if (!once || !n || strcmp(sorted[n - 1], sorted[i]) != 0)
            sorted[n++] = sorted[i];
    *count = n;
    return sorted;
}

static struct key key_make(const struct mu_ss_want *w)
{
    struct key k = {0};

    key_put(&k, '.', "");
    for (uint32_t i = 0; i < w->num_feeds; i++)
        key_put(&k, '<', w->feeds[i]);
    for (uint32_t i = 0; i < w->num_fetches; i++)
        key_put(&k, '>', w->fetches[i]);
    for (uint32_t i = 0; i < w->num_targets; i++)
        key_put(&k, '!', w->targets[i]);
    for (uint32_t i = 0; i < w->num_connections; i++) {
        key_put(&k, '(', w->connections[i]->from_tensor ? w->connections[i]->from_tensor : "");
        key_put(&k, ')', w->connections[i]->to_tensor ? w->connections[i]->to_tensor : "");
    }
    return k;
}

static uint64_t key_hash(const struct key *k)
{
    uint64_t h = 1469598103934665603ull;

    for (size_t i = 0; i < k->len; i++)
        h = (h ^ (uint8_t)k->bytes[i]) * 1099511628211ull;
    return h;
}

/* ---- their life -------------------------------------------------------------------------------------------------- */

static void compiled_free(struct mu_ss_compiled *c)
{
    for (uint32_t i = 0; i < c->num_parts; i++) {
        struct mu_ss_part *part = &c->parts[i];
        struct mu_executor *executor = part->member->executor;

        if (part->call)
            executor->kind->cancel(part->call);
        if (part->graph && !c->session->broken)
            executor->kind->deregister_graph(executor, c->session->handle, part->graph, part->way);
        free(part->graph);
        free(part->bytes);
    }
    for (uint32_t i = 0; c->feeds && i < c->num_feeds; i++) {
        free(c->feeds[i].name);
        free(c->feeds[i].key);
    }
    for (uint32_t i = 0; c->fetches && i < c->num_fetches; i++) {
        free(c->fetches[i].name);
        free(c->fetches[i].key);
    }
    mu_ss_error_clear(&c->error);
    free(c->parts);
    free(c->feeds);
    free(c->fetches);
    free(c->by_key);
    free(c->key);
    free(c);
}

static void compiled_forget(struct mu_ss_compiled *c)
{
    struct mu_ss_session *s = c->session;

    if (!c->is_kept)
        return;
    c->is_kept = false;
    MU_LIST_DROP(s->compiled, c);
    s->num_compiled--;
    s->compiled_bytes -= c->bytes;
}

void mu_ss_compiled_release(struct mu_ss_compiled *c)
{
    if (c && --c->users == 0 && !c->is_kept)
        compiled_free(c);
}

static void cache_bound(struct mu_ss_session *s)
{
    while (s->num_compiled > SUBGRAPHS_MAX || s->compiled_bytes > BYTES_MAX) {
        struct mu_ss_compiled *oldest = NULL;

        for (struct mu_ss_compiled *c = s->compiled; c; c = c->next)
            if (!c->users && c->state != MU_SS_REGISTERING)
                oldest = c;
        if (!oldest)
            return;
        compiled_forget(oldest);
        compiled_free(oldest);
    }
}

void mu_ss_cache_clear(struct mu_ss_session *s)
{
    while (s->compiled) {
        struct mu_ss_compiled *c = s->compiled;

        compiled_forget(c);
        if (!c->users)
            compiled_free(c);
    }
}

/* ---- finding and making ------------------------------------------------------------------------------------------ */

static struct mu_ss_compiled *cache_find(struct mu_ss_session *s, const struct key *k, uint64_t hash)
{
    for (struct mu_ss_compiled *c = s->compiled; c; c = c->next)
        if (c->hash == hash && c->key_len == k->len && memcmp(c->key, k->bytes, k->len) == 0) {
            MU_LIST_DROP(s->compiled, c);
            MU_LIST_PUSH(s->compiled, c);
            return c;
        }
    return NULL;
}

static struct mu_ss_compiled *compiled_new(struct mu_ss_session *s, const struct mu_ss_want *want, struct key *k,
                                           uint64_t hash, struct mu_ss_error *error)
{
    struct mu_ss_compiled *c = calloc(1, sizeof *c);
    struct mu_ss_subgraph sub;
    bool is_made;

    if (!c) {
        mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step's part of the graph");
        return NULL;
    }
    c->session = s;
    if (!mu_ss_prune(&s->graph, want, &sub, error)) {
        free(c);
        return NULL;
    }
    is_made = mu_ss_partition(s, want, &sub, c, error);
    mu_ss_subgraph_clear(&sub);
    if (!is_made) {
        compiled_free(c);
        return NULL;
    }
    for (uint32_t i = 0; i < c->num_parts; i++)
        c->parts[i].compiled = c;
    c->key = k->bytes;
    c->key_len = k->len;
    c->hash = hash;
    k->bytes = NULL;
    c->is_kept = true;
    MU_LIST_PUSH(s->compiled, c);
    s->num_compiled++;
    s->compiled_bytes += c->bytes;
    c->users++; /* not this one */
    cache_bound(s);
    c->users--;
    return c;
}

struct mu_ss_compiled *mu_ss_compile(struct mu_ss_session *s, const struct mu_ss_want *want, struct mu_ss_error *error)
{
    struct mu_ss_want w = *want;
    struct mu_ss_compiled *c = NULL;
    struct key k = {0};

    w.feeds = names_sort(want->feeds, &w.num_feeds, false);
    w.fetches = names_sort(want->fetches, &w.num_fetches, true);
    w.targets = names_sort(want->targets, &w.num_targets, true);
    if (w.feeds && w.fetches && w.targets)
        k = key_make(&w);
    if (!k.bytes || k.is_exhausted) {
        mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step");
    } else {
        uint64_t hash = key_hash(&k);

        c = cache_find(s, &k, hash);
        if (!c)
            c = compiled_new(s, &w, &k, hash, error);
    }
    free(k.bytes);
    free((void *)w.feeds);
    free((void *)w.fetches);
    free((void *)w.targets);
    if (c)
        c->users++;
    return c;
}

/* ---- registering ------------------------------------------------------------------------------------------------- */

static void compiled_registered(struct mu_ss_compiled *c)
{
    struct mu_ss_step *steps = c->waiting;

    if (c->error.status)
        compiled_forget(c);
    c->state = c->error.status ? MU_SS_UNUSABLE : MU_SS_READY;
    c->waiting = NULL;
    c->users++;
    while (steps) {
        struct mu_ss_step *step = steps;

        steps = step->after;
        step->after = NULL;
        mu_ss_step_ready(step);
    }
    mu_ss_compiled_release(c);
}

static void on_part_registered(void *arg, const struct mu_executor_answer *a)
{
    struct mu_ss_part *part = arg;
    struct mu_ss_compiled *c = part->compiled;
    char name[300];

    part->call = NULL;
    free(part->bytes);
    part->bytes = NULL;
    if (a->status) {
        mu_executor_name(part->member->executor, name, sizeof name);
        mu_ss_fail(&c->error, a->is_lost ? MUSTER_ABORTED : a->status, a->is_lost ? "%s is gone: %s" : "From %s:\n%s",
                   name, a->text);
    } else {
        part->graph = strdup(a->graph);
        part->way = a->way;
        if (!part->graph)
            mu_ss_fail(&c->error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step");
    }
    if (--c->num_registering == 0)
        compiled_registered(c);
}

void mu_ss_compiled_register(struct mu_ss_compiled *c)
{
    struct mu_ss_session *s = c->session;

    c->state = MU_SS_REGISTERING;
    c->num_registering = 1;
    for (uint32_t i = 0; i < c->num_parts; i++) {
        struct mu_ss_part *part = &c->parts[i];
        struct mu_executor *executor = part->member->executor;
        struct mu_executor_graph graph = {
            .session = s->handle, .graph = {part->bytes, part->len}, .is_whole = c->is_whole};

        graph.config = (struct mu_executor_bytes){s->config.data, s->config.len};
        if (s->options && s->options->has_graph_options)
            graph.graph_options =
                (struct mu_executor_bytes){s->options->graph_options.data, s->options->graph_options.len};
        part->call = executor->kind->register_graph(executor, &graph, on_part_registered, part);
        if (part->call)
            c->num_registering++;
        else
            mu_ss_fail(&c->error, MUSTER_RESOURCE_EXHAUSTED, "no memory to register a step's part of the graph");
    }
    if (--c->num_registering == 0)
        compiled_registered(c);
}
