/*
 * bridge/group/groups.c: groups that span hosts: what an agent knows of them, and what both ends say.
 *
 * All that decides lies in the segments: the joined members, in the leader's entry; the arrivals, in the members'
 * words; the verdict on an instance, in the word of the leader's proxy. What is kept here is found again by the next
 * agent (mu_groups_start), and what was said on a connection that broke is said anew on the next. So nothing here is
 * acknowledged but the end: a follower's entry goes when the leader has heard that all of its members are gone.
 */
#include "bridge/group/groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

/* How often the arrivals so far are said, while anybody waits; and while nothing changes. */
#define SHOW_NS      20000000u
#define SHOW_IDLE_NS 100000000u

/* ---- which there are --------------------------------------------------------------------------------------------- */

struct span *mu_bridge_span_find(struct mu_core *core, const char *name, uint64_t generation)
{
    struct span *s = mu_groups_of(core)->first;

    while (s && (s->generation != generation || strcmp(s->name, name) != 0))
        s = s->next;
    return s;
}

static void free_span(struct span *s)
{
    free(s->members);
    free(s->areas);
    free(s->own);
    free(s->shown);
    free(s->bits);
    free(s->sides);
    free(s->waiters);
    free(s);
}

struct span *mu_bridge_span_new(struct mu_core *core, const char *name, uint64_t generation, uint32_t size,
                                uint32_t data_bytes)
{
    struct groups *g = mu_groups_of(core);
    struct span *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->members = calloc(size, sizeof *s->members);
    s->areas = calloc(size, sizeof *s->areas);
    s->own = calloc(size, sizeof *s->own);
    s->shown = calloc(size / 8 + 1, 1);
    s->bits = calloc(size / 8 + 1, 1);
    s->sides = core->leader ? calloc(core->num_hosts, sizeof *s->sides) : NULL;
    if (!s->members || !s->areas || !s->own || !s->shown || !s->bits || (core->leader && !s->sides)) {
        free_span(s);
        return NULL;
    }
    s->generation = generation;
    s->size = size;
    s->data_bytes = data_bytes;
    memcpy(s->name, name, strlen(name) + 1);
    mu_group_entry_key(&s->key, core->seg, name, core->leader ? generation : generation | MU_GROUP_ENTRY_SPANS);
    s->next = g->first;
    g->first = s;
    return s;
}

void mu_bridge_span_drop(struct mu_core *core, struct span *s)
{
    MU_CHAIN_DROP(mu_groups_of(core)->first, s, next);
    free_span(s);
}

enum muster_status mu_bridge_span_load(struct mu_core *core, struct span *s, struct mu_group_entry *r)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(core->m, &ctx);

    if (status)
        return status;
    s->epoch = mu_load32_acquire(&core->seg->header->epoch); /* acquire: pairs with mu_epoch_move() */
    *r =
        (struct mu_group_entry){.size = s->size, .data_bytes = s->data_bytes, .members = s->members, .areas = s->areas};
    status = mu_group_entry_read(core->seg, ctx, &s->key, s->name, r);
    mu_exit(ctx);
    s->word = r->word;
    if (status)
        return status;
    s->proxy = r->proxy;
    s->num_own = 0;
    s->gone = true;
    for (uint32_t i = 0; r->found && i < s->size; i++)
        if (mu_is_local_task(core->seg, s->members[i].task)) {
            s->own[s->num_own++] = i;
            s->gone &= mu_group_entry_is_gone(core->seg, &s->members[i], true);
        }
    if (s->proxy && !s->way)
        mu_way_attach(core, s);
    return MUSTER_OK;
}

bool mu_bridge_span_changed(struct mu_core *core, const struct span *s)
{
    struct mu_table t = mu_table_cells(core->seg);

    /* acquire, both: the looks that follow see what moved them; pairs with the commit, and with mu_epoch_move() */
    return !mu_word_same(mu_load_acquire(mu_table_bucket(&t, &s->key)), s->word) ||
           mu_load32_acquire(&core->seg->header->epoch) != s->epoch;
}

/* An entry that was there before this agent. */
static bool is_group(void *arg, const char *key, uint32_t key_len)
{
    (void)arg;
    return key_len > 10 && key[0] == 'G';
}

static enum muster_status departure_note(void *arg, const struct mu_item *item)
{
    struct mu_core *core = arg;
    const struct mu_group_head *h = item->value;
    char name[MUSTER_GROUP_NAME_MAX + 1];
    uint64_t generation;

    if (!mu_group_entry_well_formed(item->value, item->len) || h->size > MUSTER_GROUP_SIZE_MAX ||
        item->num_refs != h->size + 1 || !mu_group_entry_name(item->key, item->key_len, name, &generation) ||
        (!core->leader && !(generation & MU_GROUP_ENTRY_SPANS)))
        return MUSTER_OK;
    generation &= ~MU_GROUP_ENTRY_SPANS;
    if (!mu_bridge_span_find(core, name, generation))
        mu_bridge_span_new(core, name, generation, h->size, h->data_bytes);
    return MUSTER_OK;
}

void mu_groups_start(struct mu_core *core)
{
    struct groups *g = mu_groups_of(core);
    struct mu_table t = mu_table_cells(core->seg);
    struct mu_walk w = {is_group, departure_note, core, false};
    struct mu_ctx *ctx;

    if (g->started || mu_enter(core->m, &ctx))
        return;
    g->started = true;
    for (uint32_t i = 0; i <= t.mask; i++) {
        struct mu_bucket_info info;

        mu_table_walk(&t, ctx, i, &w, &info); /* a corrupt one is the auditor's affair */
    }
    mu_exit(ctx);
    for (struct span *s = g->first, *next; s; s = next) {
        struct mu_group_entry r;

        next = s->next;
        if (mu_bridge_span_load(core, s, &r) || !r.found || (core->leader ? !mu_lead_loaded(core, s) : !s->proxy))
            mu_bridge_span_drop(core, s); /* of a follower's that is half made the leader tells once more */
    }
}

/* ---- what is said ------------------------------------------------------------------------------------------------ */

void mu_bridge_span_pack(struct mu_pack *p, uint8_t say, const struct span *s)
{
    mu_pack_u8(p, say);
    mu_pack_text(p, s->name);
    mu_pack_u64(p, s->generation);
}

void mu_bridge_span_send(struct mu_core *core, uint32_t host, uint8_t type, struct mu_pack *p)
{
    static const char why[] = "there is no memory for what it must be told of a group";

    if (p->failed) { /* the next connection says all anew */
        core->wire.drop(core->wire.arg, host, why);
        mu_core_down(core, host, why, core->now);
    } else {
        mu_core_send(core, host, type, p->bytes, p->len);
    }
    mu_pack_done(p);
}

/* Whether the member has arrived, as far as is known here. */
static bool is_there(struct mu_core *core, const struct span *s, uint32_t rank, uint64_t instance)
{
    uint32_t task = s->members[rank].task;

    if (core->leader && !mu_is_local_task(core->seg, task) && s->sides[mu_host_of(core->seg, task)].there >= instance)
        return true;
    /* acquire: pairs with the member's CAS; or it is this agent's own */
    return mu_has_arrived(mu_load_acquire(&s->areas[rank]->arrived), instance);
}

uint32_t mu_bridge_span_bits(struct mu_core *core, struct span *s, uint64_t instance)
{
    uint32_t n = 0;

    memset(s->bits, 0, s->size / 8 + 1);
    for (uint32_t k = 0; k < (core->leader ? s->size : s->num_own); k++) {
        uint32_t i = core->leader ? k : s->own[k];

        if (!is_there(core, s, i, instance))
            continue;
        s->bits[i / 8] |= (uint8_t)(1u << (i % 8));
        n++;
    }
    return n;
}

void mu_bridge_span_pack_bits(struct mu_pack *p, const struct span *s)
{
    mu_pack_blob(p, s->bits, s->size / 8 + 1);
}

bool mu_bridge_span_take_bits(struct mu_core *core, struct span *s, uint64_t instance, struct mu_unpack *u,
                              uint64_t closed)
{
    size_t len;
    const uint8_t *bits = mu_unpack_blob(u, s->size / 8 + 1, &len);

    if (!mu_unpack_end(u) || len != s->size / 8 + 1)
        return !mu_fail(MUSTER_INVALID_ARGUMENT, "%zu bytes of who has arrived", len);
    for (uint32_t i = 0; i < s->size; i++) {
        uint64_t w = mu_load_relaxed(&s->areas[i]->arrived); /* relaxed: of other hosts' members it is our own */

        if (mu_is_local_task(core->seg, s->members[i].task) || mu_has_arrived(w, instance))
            continue;
        if (bits[i / 8] >> (i % 8) & 1) /* release, both: pairs with mu_span_word(); to be read by people */
            mu_store_release(&s->areas[i]->arrived, MU_ARRIVED(instance));
        else if (closed)
            mu_store_release(&s->areas[i]->arrived, MU_ARRIVED(instance) | closed); /* release: likewise */
    }
    return true;
}

static mu_a64 *buffer_of(const struct span *s, uint32_t rank, uint64_t instance)
{
    return s->areas[rank]->data + (instance & 1) * ((s->data_bytes + 7) / 8);
}

void mu_bridge_span_pack_data(struct mu_core *core, struct mu_pack *p, const struct span *s, uint64_t instance,
                              bool (*wanted)(const struct mu_core *core, uint32_t task, uint32_t host), uint32_t host)
{
    uint8_t *room = mu_groups_of(core)->room;
    size_t at = p->len;
    uint32_t count = 0;

    mu_pack_u32(p, 0);
    for (uint32_t i = 0; i < s->size; i++) {
        /* relaxed: the member's arrival, which was acquired, came after it; pairs with shortcut_offer() in collective.c
         */
        uint64_t given = mu_load_relaxed(&s->areas[i]->sign[instance & 1].given);
        uint32_t len = MU_GIVEN_LEN(given);

        if (MU_GIVEN_INSTANCE(given) != instance || len > s->data_bytes || !wanted(core, s->members[i].task, host))
            continue;
        mu_copy_out((uint64_t *)(void *)room, buffer_of(s, i, instance), (len + 7) / 8);
        mu_pack_u32(p, i);
        mu_pack_blob(p, room, len);
        count++;
    }
    if (!p->failed)
        mu_pack_put_u32(p, at, count);
}

bool mu_bridge_span_take_data(struct mu_core *core, struct span *s, uint64_t instance, struct mu_unpack *u,
                              uint32_t host)
{
    uint8_t *room = mu_groups_of(core)->room;
    uint32_t count = mu_unpack_u32(u);

    for (uint32_t k = 0; k < count && !u->failed; k++) {
        uint32_t rank = mu_unpack_u32(u);
        size_t len;
        const void *bytes = mu_unpack_blob(u, s->data_bytes, &len);

        if (u->failed || rank >= s->size || mu_is_local_task(core->seg, s->members[rank].task) ||
            (host != UINT32_MAX && mu_host_of(core->seg, s->members[rank].task) != host))
            return !mu_fail(MUSTER_INVALID_ARGUMENT, "group %s: data of member %u", s->name, rank);
        memset(room + len / 8 * 8, 0, 8);
        memcpy(room, bytes, len);
        /* the proxy's arrival releases it; pairs with bytes_fetch() in collective.c */
        mu_copy_in(buffer_of(s, rank, instance), (const uint64_t *)(const void *)room, (len + 7) / 8);
        mu_store_relaxed(&s->areas[rank]->sign[instance & 1].given, MU_GIVEN(instance, len)); /* relaxed: our own */
    }
    return mu_unpack_end(u) || !mu_fail(MUSTER_INVALID_ARGUMENT, "group %s: %u members' data", s->name, count);
}

bool mu_bridge_span_shows(struct mu_core *core, struct span *s, uint64_t instance)
{
    struct groups *g = mu_groups_of(core);
    uint32_t bytes = s->size / 8 + 1;
    bool changed;

    if (s->shown_instance != instance) { /* it begins */
        s->shown_instance = instance;
        s->show_at = core->now + SHOW_NS;
        memset(s->shown, 0, bytes);
    }
    if (core->now < s->show_at) {
        g->next = s->show_at < g->next ? s->show_at : g->next;
        return false;
    }
    mu_bridge_span_bits(core, s, instance);
    changed = memcmp(s->shown, s->bits, bytes) != 0;
    memcpy(s->shown, s->bits, bytes);
    s->show_at = core->now + (changed ? SHOW_NS : SHOW_IDLE_NS);
    g->next = s->show_at < g->next ? s->show_at : g->next;
    return changed;
}

/* ---- leaving ----------------------------------------------------------------------------------------------------- */

struct group_departure {
    const struct muster_segment *seg;
    bool one;
    uint32_t host, rank; /* UINT32_MAX: all other hosts; all members */
};

static bool member_departs(void *arg, uint32_t rank, const struct mu_group_member *m)
{
    const struct group_departure *d = arg;

    if (d->one)
        return d->rank == UINT32_MAX || rank == d->rank;
    return !mu_is_local_task(d->seg, m->task) && (d->host == UINT32_MAX || mu_host_of(d->seg, m->task) == d->host);
}

static void span_depart(struct mu_core *core, struct span *s, struct group_departure d)
{
    struct mu_ctx *ctx;

    if (mu_enter(core->m, &ctx))
        return;
    mu_group_entry_leave(ctx, &s->key, member_departs, &d);
    mu_group_entry_reap(ctx, &s->key);
    mu_exit(ctx);
}

void mu_bridge_span_leave(struct mu_core *core, struct span *s, uint32_t host)
{
    span_depart(core, s, (struct group_departure){core->seg, false, host, 0});
}

void mu_bridge_span_leave_one(struct mu_core *core, struct span *s, uint32_t rank)
{
    span_depart(core, s, (struct group_departure){core->seg, true, 0, rank});
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

static bool groups_init(struct mu_core *core, void **ret_state)
{
    struct groups *g = calloc(1, sizeof *g);

    (void)core;
    *ret_state = g;
    if (g)
        g->room = malloc(MUSTER_GROUP_DATA_MAX + 16);
    return g && g->room;
}

static void groups_done(struct mu_core *core)
{
    struct groups *g = mu_groups_of(core);

    while (g->first)
        mu_bridge_span_drop(core, g->first);
    free(g->room);
    free(g);
}

static void groups_look(struct mu_core *core)
{
    struct groups *g = mu_groups_of(core);

    mu_groups_start(core);
    g->busy = false;
    g->next = UINT64_MAX;
    for (struct span *s = g->first, *next; s; s = next) {
        next = s->next;
        mu_way_look(core, s);
        if (core->leader)
            mu_lead_look(core, s);
        else
            mu_follow_look(core, s);
    }
}

static void groups_up(struct mu_core *core, uint32_t host)
{
    struct groups *g = mu_groups_of(core);

    mu_groups_start(core);
    for (struct span *s = g->first; s; s = s->next) {
        if (!core->leader)
            s->said = s->wished = s->trusted = 0;
        s->shown_instance = 0;
        s->is_anew = s->over = false;
        if (s->way && s->way_host == host)
            s->released = 0;
        if (core->leader)
            mu_lead_up(core, s, host);
    }
}

static void way_ends(struct mu_core *core, uint32_t host)
{
    for (struct span *s = mu_groups_of(core)->first; s; s = s->next)
        if (s->way && s->way_host == host)
            mu_way_off(s);
}

static void span_frames_say(struct mu_core *core, uint32_t host)
{
    for (struct span *s = mu_groups_of(core)->first; s; s = s->next)
        mu_way_says(core, s, host);
}

static void span_frames_took(struct mu_core *core, uint32_t host)
{
    for (struct span *s = mu_groups_of(core)->first; s; s = s->next)
        mu_way_took(core, s, host);
}

static void groups_rest(struct mu_core *core)
{
    for (struct span *s = mu_groups_of(core)->first; s; s = s->next)
        mu_way_rest(core, s);
}

static void groups_lost(struct mu_core *core, uint32_t host, const char *why)
{
    (void)why;
    mu_groups_start(core);
    way_ends(core, host);
    for (struct span *s = mu_groups_of(core)->first, *next; s && core->leader; s = next) {
        next = s->next;
        mu_lead_lost(core, s, host);
    }
}

static uint64_t groups_next(struct mu_core *core)
{
    return mu_groups_of(core)->next;
}

static bool groups_busy(struct mu_core *core)
{
    return mu_groups_of(core)->busy;
}

const struct mu_module mu_module_groups = {.name = "groups",
                                           .init = groups_init,
                                           .done = groups_done,
                                           .up = groups_up,
                                           .down = way_ends,
                                           .lost = groups_lost,
                                           .look = groups_look,
                                           .says = span_frames_say,
                                           .took = span_frames_took,
                                           .rest = groups_rest,
                                           .next = groups_next,
                                           .busy = groups_busy};

static bool span_frame_take(struct mu_core *core, uint32_t host, uint8_t type, struct mu_unpack *u)
{
    uint8_t say = mu_unpack_u8(u);
    char name[MUSTER_GROUP_NAME_MAX + 1];
    uint64_t generation;

    mu_unpack_text(u, name, sizeof name);
    generation = mu_unpack_u64(u);
    if (u->failed || !*name || (generation & MU_GROUP_ENTRY_SPANS))
        return !mu_fail(MUSTER_INVALID_ARGUMENT, "no group's name and generation");
    mu_groups_start(core);
    mu_core_worked(core);
    return core->leader ? mu_lead_take(core, host, type, say, name, generation, u)
                        : mu_follow_take(core, type, say, name, generation, u);
}

bool mu_take_group(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    return span_frame_take(core, host, MU_FRAME_GROUP, u);
}

bool mu_take_group_end(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    return span_frame_take(core, host, MU_FRAME_GROUP_END, u);
}
