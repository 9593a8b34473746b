/*
 * session/partition.c: a step's part of the graph, as a graph a task.
 *
 * An edge between two tasks becomes a _Send and a _Recv, which the executors join; an edge that only orders becomes one
 * of a constant. Several edges from one tensor to one device share a pair. What the client feeds and fetches is a _Recv
 * and a _Send, too. The nodes written here point into the session's graph; what is made for them lies in an arena.
 */
#include "session/cut.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- edges ------------------------------------------------------------------------------------------------------- */

static char *input_print(struct mu_ss_cutting *cut, const char *name, int32_t output)
{
    if (output < 0)
        return mu_ss_arena_print(cut, "^%s", name);
    return output ? mu_ss_arena_print(cut, "%s:%d", name, output) : (char *)(uintptr_t)name;
}

static bool crossings_grow(struct mu_ss_cutting *cut)
{
    uint32_t size = cut->size_crossings ? cut->size_crossings * 2 : 64;
    struct mu_ss_crossing *old = cut->crossings, *all = calloc(size, sizeof *all);

    if (!all)
        return false;
    for (uint32_t i = 0; i < cut->size_crossings; i++)
        if (old[i].name) {
            uint64_t at = (old[i].id * 0x9e3779b97f4a7c15ull) >> 20 & (size - 1);

            while (all[at].name)
                at = (at + 1) & (size - 1);
            all[at] = old[i];
        }
    free(old);
    cut->crossings = all;
    cut->size_crossings = size;
    return true;
}

/* The place of this one. NULL: no memory. */
static struct mu_ss_crossing *crossing_find(struct mu_ss_cutting *cut, uint64_t id, int32_t device)
{
    uint64_t at;

    if (cut->num_crossings * 2 >= cut->size_crossings && !crossings_grow(cut))
        return NULL;
    at = (id * 0x9e3779b97f4a7c15ull) >> 20 & (cut->size_crossings - 1);
    while (cut->crossings[at].name && (cut->crossings[at].id != id || cut->crossings[at].device != device))
        at = (at + 1) & (cut->size_crossings - 1);
    return &cut->crossings[at];
}

/* The name of the _Recv by which the tensor comes to that device. NULL: no memory. */
static const char *edge_cross(struct mu_ss_cutting *cut, const struct mu_ss_source *from, int32_t device)
{
    struct mu_ss_crossing *x = crossing_find(cut, from->id, device);
    uint32_t edge = cut->next_edge;
    uint32_t type = from->output < 0 ? MU__GRAPH__DATA_TYPE__DT_FLOAT : from->type;
    char *tensor, *input, *name;

    if (!x || x->name)
        return x ? x->name : NULL;
    cut->next_edge++;
    tensor = mu_ss_arena_print(cut, "edge_%u_%s", edge, from->name);
    name = mu_ss_arena_print(cut, "_recv_e%u", edge);
    input = from->output < 0 ? mu_ss_signal_make(cut, from, edge) : input_print(cut, from->name, from->output);
    if (!tensor || !name || !input)
        return NULL;
    *x = (struct mu_ss_crossing){from->id, device, name};
    cut->num_crossings++;
    mu_ss_transfer_make(cut, true, mu_ss_arena_print(cut, "_send_e%u", edge), input, type, from->device, device, tensor,
                        false);
    mu_ss_transfer_make(cut, false, name, NULL, type, from->device, device, tensor, false);
    return name;
}

static bool source_of(struct mu_ss_cutting *cut, struct mu_ss_at at, struct mu_ss_source *ret)
{
    int32_t feed = mu_ss_feed_of(cut->g, cut->sub, &at);
    const struct mu_ss_node *n = &cut->g->nodes[at.node];

    *ret = (struct mu_ss_source){.output = at.output, .device = n->device, .name = n->def->name};
    ret->type = at.output < 0 ? 0 : n->out_types[at.output];
    ret->id = (uint64_t)at.node << 24 | ((uint64_t)(at.output + 1) & 0xffffff);
    if (feed >= 0) {
        const struct mu_ss_at *fed = &cut->sub->feeds[feed];

        ret->name = mu_ss_arena_print(cut, "_recv_%s_%d", n->def->name, fed->output);
        ret->output = at.output < 0 ? -1 : 0;
        ret->device = cut->feed_device[feed];
        ret->id |= 1ull << 63;
    }
    return ret->name != NULL;
}

/* How a node on that device says that its input is this. NULL: it cannot be. */
static char *input_of(struct mu_ss_cutting *cut, struct mu_ss_at at, int32_t device)
{
    struct mu_ss_source from;
    const char *name;

    if (!source_of(cut, at, &from))
        return NULL;
    if (cut->s->devices[from.device].member == cut->s->devices[device].member)
        return input_print(cut, from.name, from.output);
    if (cut->is_looping && cut->is_looping[at.node] && !(from.id >> 63) &&
        !strstr(cut->g->nodes[at.node].def->op, "Exit")) {
        mu_ss_fail(cut->error, MUSTER_UNIMPLEMENTED,
                   "the loop of Enter and Exit that node %s is in has nodes on several tasks: that is not served; a "
                   "tf.while_loop of control flow v2, or one on one task, is",
                   from.name);
        return NULL;
    }
    name = edge_cross(cut, &from, device);
    return name ? input_print(cut, name, from.output < 0 ? -1 : 0) : NULL;
}

static bool node_cut(struct mu_ss_cutting *cut, uint32_t i)
{
    const struct mu_ss_node *n = &cut->g->nodes[i];
    Mu__Graph__NodeDef *node = mu_ss_arena_take(cut, sizeof *node);
    char **inputs = mu_ss_arena_take(cut, (n->num_inputs + 1) * sizeof *inputs);

    if (!node || !inputs)
        return false;
    *node = *n->def;
    node->input = inputs;
    node->device = cut->s->devices[n->device].name;
    for (uint32_t k = 0; k < n->num_inputs; k++) {
        inputs[k] = input_of(cut, (struct mu_ss_at){n->inputs[k].node, n->inputs[k].output}, n->device);
        if (!inputs[k])
            return false;
    }
    mu_ss_node_put(cut, n->device, node);
    return true;
}

/* ---- feeds and fetches ------------------------------------------------------------------------------------------- */

/* The one device on which all are that use it; else the node's own. */
static void feed_devices_choose(struct mu_ss_cutting *cut)
{
    for (uint32_t i = 0; i < cut->sub->num_feeds; i++)
        cut->feed_device[i] = -1;
    for (uint32_t i = 0; i < cut->g->num_nodes; i++)
        for (uint32_t k = 0; cut->sub->is_needed[i] && k < cut->g->nodes[i].num_inputs; k++) {
            struct mu_ss_at at = {cut->g->nodes[i].inputs[k].node, cut->g->nodes[i].inputs[k].output};
            int32_t feed = mu_ss_feed_of(cut->g, cut->sub, &at), device = cut->g->nodes[i].device;

            if (feed >= 0)
                cut->feed_device[feed] =
                    cut->feed_device[feed] < 0 || cut->feed_device[feed] == device ? device : INT32_MAX;
        }
    for (uint32_t i = 0; i < cut->sub->num_feeds; i++)
        if (cut->feed_device[i] < 0 || cut->feed_device[i] == INT32_MAX)
            cut->feed_device[i] = cut->g->nodes[cut->sub->feeds[i].node].device;
}

static char *key_print(const struct mu_ss_cutting *cut, int32_t device, const char *tensor)
{
    const struct mu_ss_device *d = &cut->s->devices[device];
    char *key;

    return asprintf(&key, "%s;%016llx;%s;%s;0:0", d->name, (unsigned long long)d->incarnation, d->name, tensor) < 0
               ? NULL
               : key;
}

static bool feed_cut(struct mu_ss_cutting *cut, uint32_t i, const char *name)
{
    const struct mu_ss_at *at = &cut->sub->feeds[i];
    const struct mu_ss_node *n = &cut->g->nodes[at->node];
    struct mu_ss_feed *feed = &cut->c->feeds[i];
    const char *tensor = mu_ss_arena_print(cut, "%s:%d", n->def->name, at->output);
    int32_t device = cut->feed_device[i];

    feed->name = strdup(name);
    feed->type = n->out_types[at->output] % MU_SS_REF;
    feed->node = at->node;
    feed->output = at->output;
    if (!feed->name || !tensor)
        return false;
    if (!cut->sub->is_used[i])
        return true;
    feed->key = key_print(cut, device, tensor);
    feed->part = (uint32_t)mu_ss_part_for(cut, device);
    mu_ss_transfer_make(cut, false, mu_ss_arena_print(cut, "_recv_%s_%d", n->def->name, at->output), NULL, feed->type,
                        device, device, tensor, true);
    return feed->key != NULL;
}

static bool fetch_cut(struct mu_ss_cutting *cut, uint32_t i, const char *name)
{
    struct mu_ss_feed *fetch = &cut->c->fetches[i];
    struct mu_ss_at at = cut->sub->fetches[i];
    const char *tensor = mu_ss_arena_print(cut, "%s:%d", cut->g->nodes[at.node].def->name, at.output);
    struct mu_ss_source from;

    fetch->node = at.node;
    fetch->output = at.output;
    fetch->name = strdup(name);
    if (!fetch->name || !tensor || !source_of(cut, at, &from))
        return false;
    fetch->type = from.type % MU_SS_REF;
    fetch->key = key_print(cut, from.device, tensor);
    fetch->part = (uint32_t)mu_ss_part_for(cut, from.device);
    return fetch->key != NULL;
}

static int keys_compare(const void *a, const void *b, void *fetches)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = strcmp(((const struct mu_ss_feed *)fetches)[x].key, ((const struct mu_ss_feed *)fetches)[y].key);

    return order ? order : (x > y) - (x < y);
}

/* The tensor of a fetch is sent once, however many names it has: they share its key. */
static bool fetch_send(struct mu_ss_cutting *cut, uint32_t i)
{
    struct mu_ss_at at = cut->sub->fetches[i];
    const char *name = cut->g->nodes[at.node].def->name;
    struct mu_ss_source from;

    if (!source_of(cut, at, &from))
        return false;
    mu_ss_transfer_make(cut, true, mu_ss_arena_print(cut, "_send_%s_%d", name, at.output),
                        input_print(cut, from.name, from.output), cut->c->fetches[i].type, from.device, from.device,
                        mu_ss_arena_print(cut, "%s:%d", name, at.output), true);
    return true;
}

static bool fetches_cut(struct mu_ss_cutting *cut, const struct mu_ss_want *want)
{
    struct mu_ss_feed *fetches = cut->c->fetches;
    uint32_t *order = malloc((want->num_fetches + 1) * sizeof *order), first = 0;

    cut->c->by_key = order;
    for (uint32_t i = 0; order && i < want->num_fetches; i++) {
        if (!fetch_cut(cut, i, want->fetches[i]))
            return false;
        order[i] = i;
    }
    if (!order)
        return false;
    qsort_r(order, want->num_fetches, sizeof *order, keys_compare, fetches);
    for (uint32_t i = 0; i < want->num_fetches; i++) {
        bool is_first = i == 0 || strcmp(fetches[order[i - 1]].key, fetches[order[i]].key) != 0;

        first = is_first ? order[i] : first;
        fetches[order[i]].first = first;
        if (is_first && !fetch_send(cut, order[i]))
            return false;
    }
    return true;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Forwards from each Enter: the nodes that take what it gives are within, and so on; each is walked from once. */
static void loops_spread(struct mu_ss_cutting *cut, uint32_t *end, uint32_t *users, uint32_t *stack)
{
    const struct mu_ss_graph *g = cut->g;
    uint32_t depth = 0, sum = 0;

    for (uint32_t i = 0; i < g->num_nodes; i++)
        for (uint32_t k = 0; cut->sub->is_needed[i] && k < g->nodes[i].num_inputs; k++)
            end[g->nodes[i].inputs[k].node]++;
    for (uint32_t i = 0; i < g->num_nodes; i++) {
        sum += end[i];
        end[i] = sum - end[i]; /* where its users begin; where they end, when they are there */
    }
    for (uint32_t i = 0; i < g->num_nodes; i++)
        for (uint32_t k = 0; cut->sub->is_needed[i] && k < g->nodes[i].num_inputs; k++)
            users[end[g->nodes[i].inputs[k].node]++] = i;
    for (uint32_t i = 0; i < g->num_nodes; i++)
        if (cut->sub->is_needed[i] &&
            (strcmp(g->nodes[i].def->op, "Enter") == 0 || strcmp(g->nodes[i].def->op, "RefEnter") == 0)) {
            cut->is_looping[i] = true;
            stack[depth++] = i;
        }
    while (depth > 0) {
        uint32_t from = stack[--depth];

        for (uint32_t k = from ? end[from - 1] : 0; !strstr(g->nodes[from].def->op, "Exit") && k < end[from]; k++)
            if (!cut->is_looping[users[k]]) {
                cut->is_looping[users[k]] = true;
                stack[depth++] = users[k];
            }
    }
}

/* Which needed nodes are within a loop: behind an Enter, and not behind its Exit. */
static bool loops_find(struct mu_ss_cutting *cut)
{
    const struct mu_ss_graph *g = cut->g;
    uint32_t *end, *users, *stack;
    size_t edges = 0;
    bool has_loop = false;

    for (uint32_t i = 0; i < g->num_nodes && !has_loop; i++)
        has_loop = cut->sub->is_needed[i] && strstr(g->nodes[i].def->op, "Enter");
    if (!has_loop)
        return true;
    for (uint32_t i = 0; i < g->num_nodes; i++)
        edges += cut->sub->is_needed[i] ? g->nodes[i].num_inputs : 0;
    end = calloc(g->num_nodes + 1, sizeof *end);
    users = malloc((edges + 1) * sizeof *users);
    stack = malloc((g->num_nodes + 1) * sizeof *stack);
    cut->is_looping = calloc(g->num_nodes + 1, sizeof *cut->is_looping);
    has_loop = end && users && stack && cut->is_looping;
    if (has_loop)
        loops_spread(cut, end, users, stack);
    free(end);
    free(users);
    free(stack);
    return has_loop;
}

/* The functions of all messages, one behind the other: a list of them again. */
static bool library_join(struct mu_ss_cutting *cut, ProtobufCBinaryData *ret)
{
    size_t len = 0;

    for (uint32_t i = 0; i < cut->g->num_messages; i++)
        len += cut->g->messages[i]->library.len;
    ret->len = 0;
    ret->data = len ? mu_ss_arena_take(cut, len) : NULL;
    for (uint32_t i = 0; ret->data && i < cut->g->num_messages; i++) {
        const ProtobufCBinaryData *part = &cut->g->messages[i]->library;

        if (part->len)
            memcpy(ret->data + ret->len, part->data, part->len);
        ret->len += part->len;
    }
    return !len || ret->data;
}

static bool parts_pack(struct mu_ss_cutting *cut)
{
    Mu__Graph__VersionDef versions = MU__GRAPH__VERSION_DEF__INIT;
    Mu__Graph__GraphDef def = MU__GRAPH__GRAPH_DEF__INIT;

    versions.has_producer = true;
    versions.producer = cut->g->producer;
    versions.has_min_consumer = cut->g->min_consumer != 0;
    versions.min_consumer = cut->g->min_consumer;
    def.versions = &versions;
    if (!library_join(cut, &def.library))
        return false;
    def.has_library = def.library.len > 0;
    for (uint32_t i = 0; i < cut->c->num_parts; i++) {
        struct mu_ss_part *part = &cut->c->parts[i];

        def.node = cut->nodes[i].all;
        def.n_node = cut->nodes[i].count;
        part->len = mu__graph__graph_def__get_packed_size(&def);
        part->bytes = part->len < INT32_MAX ? malloc(part->len + 1) : NULL;
        if (!part->bytes)
            return mu_ss_fail(cut->error, MUSTER_RESOURCE_EXHAUSTED,
                              "a task's part of the graph has %zu bytes, and no "
                              "more than 2 GiB can be registered",
                              part->len);
        mu__graph__graph_def__pack(&def, part->bytes);
        cut->c->bytes += part->len;
    }
    return true;
}

static bool graph_cut(struct mu_ss_cutting *cut, const struct mu_ss_want *want)
{
    if (!loops_find(cut))
        return false;
    feed_devices_choose(cut);
    for (uint32_t i = 0; i < want->num_feeds; i++)
        if (!feed_cut(cut, i, want->feeds[i]))
            return false;
    for (uint32_t i = 0; i < cut->g->num_nodes; i++)
        if (cut->sub->is_needed[i] && !node_cut(cut, i))
            return false;
    if (!fetches_cut(cut, want))
        return false;
    cut->c->is_whole = !cut->is_looping && mu_ss_part_is_whole(cut->s, cut->sub->is_needed, cut->c);
    return !cut->is_exhausted && parts_pack(cut);
}

bool mu_ss_partition(struct mu_ss_session *s, const struct mu_ss_want *want, const struct mu_ss_subgraph *sub,
                     struct mu_ss_compiled *c, struct mu_ss_error *error)
{
    struct mu_ss_cutting cut = {.s = s, .g = &s->graph, .sub = sub, .c = c, .error = error};
    bool is_cut;

    c->num_feeds = want->num_feeds;
    c->num_fetches = want->num_fetches;
    c->feeds = calloc(c->num_feeds + 1, sizeof *c->feeds);
    c->fetches = calloc(c->num_fetches + 1, sizeof *c->fetches);
    c->parts = calloc(s->num_members + 1, sizeof *c->parts);
    cut.nodes = calloc(s->num_members + 1, sizeof *cut.nodes);
    cut.part_of = malloc((s->num_members + 1) * sizeof *cut.part_of);
    cut.feed_device = malloc((sub->num_feeds + 1) * sizeof *cut.feed_device);
    for (uint32_t i = 0; cut.part_of && i < s->num_members; i++)
        cut.part_of[i] = -1;
    is_cut = c->feeds && c->fetches && c->parts && cut.nodes && cut.part_of && cut.feed_device && graph_cut(&cut, want);
    if (!is_cut && !error->status)
        mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for a step's part of the graph");
    while (cut.chunks) {
        struct mu_ss_chunk *chunk = cut.chunks;

        cut.chunks = chunk->next;
        free(chunk);
    }
    for (uint32_t i = 0; cut.nodes && i < s->num_members; i++)
        free(cut.nodes[i].all);
    free(cut.nodes);
    free(cut.part_of);
    free(cut.feed_device);
    free(cut.is_looping);
    free(cut.crossings);
    return is_cut;
}
