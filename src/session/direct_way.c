/*
 * session/direct_way.c: a part of a session's graph, as a graph that TensorFlow's own session can run.
 *
 * The part's _Recv and _Send of the client become nodes with numbers for names, which the step feeds and fetches, all
 * of them. What else has no user is what a control edge of one more node waits for, which is the step's target. Devices
 * lose their task, for the executor's own session calls itself otherwise.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "session/direct_private.h"
#include "session/private.h"

typedef Mu__Graph__NodeDef node;

/* A node by its name as the part has it. */
struct named {
    char *name;
    uint32_t number;
    bool is_used;
};

static int named_compare(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static struct named *named_find(struct named *all, size_t count, const char *name, size_t len)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strncmp(all[middle].name, name, len);

        if (order == 0 && all[middle].name[len])
            order = 1;
        if (order == 0)
            return &all[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool text_set(char **text, const char *format, const char *a, unsigned b)
{
    char *made = NULL;

    if (asprintf(&made, format, a, b) < 0)
        return false;
    free(*text);
    *text = made;
    return true;
}

/* The only attribute that stays is this one, under another key. */
static bool attrs_leave(node *n, const char *key, const char *new_key)
{
    size_t kept = 0;

    for (size_t i = 0; i < n->n_attr; i++) {
        Mu__Graph__AttrEntry *entry = n->attr[i];

        if (entry->key && strcmp(entry->key, key) == 0 && !kept && text_set(&entry->key, "%s", new_key, 0))
            n->attr[kept++] = entry;
        else
            mu__graph__attr_entry__free_unpacked(entry, NULL);
    }
    n->n_attr = kept;
    return kept == 1;
}

/* Where nodes are has been decided: they need not be beside others, which may not be here. */
static void class_drop(node *n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n->n_attr; i++)
        if (n->attr[i]->key && strcmp(n->attr[i]->key, "_class") == 0)
            mu__graph__attr_entry__free_unpacked(n->attr[i], NULL);
        else
            n->attr[kept++] = n->attr[i];
    n->n_attr = kept;
}

/* Its name, for the caller to free; NULL: it is not one of the client's. */
static char *transfer_name(const node *n)
{
    const Mu__Graph__AttrValue *name = mu_ss_attr(n, "tensor_name"), *is_client = mu_ss_attr(n, "client_terminated");
    char *text;

    if (!name || name->value_case != MU__GRAPH__ATTR_VALUE__VALUE_S || !is_client ||
        is_client->value_case != MU__GRAPH__ATTR_VALUE__VALUE_B || !is_client->b)
        return NULL;
    text = calloc(1, name->s.len + 1); /* the bytes end without a NUL */
    if (text && name->s.len)
        memcpy(text, name->s.data, name->s.len);
    return text;
}

/* False: the graph is none that is run so. */
static bool node_turn(node *n, struct mu_direct_names *names)
{
    const char *device = n->device ? strstr(n->device, "/device:") : NULL;
    bool is_recv = strcmp(n->op, "_Recv") == 0, is_send = strcmp(n->op, "_Send") == 0;
    uint32_t *count = is_recv ? &names->num_fed : &names->num_fetched;
    char **name = is_recv ? names->fed : names->fetched;

    if (!device || strcmp(device, "/device:CPU:0") != 0 || !text_set(&n->device, "%s", "/device:CPU:0", 0))
        return false;
    class_drop(n);
    if (!is_recv && !is_send)
        return n->op[0] != '_';
    if (*count == MU_DIRECT_TENSORS || !(name[*count] = transfer_name(n)))
        return false;
    if (!text_set(&n->name, "%s%u", is_recv ? MU_DIRECT_IN : MU_DIRECT_OUT, (*count)++) ||
        !attrs_leave(n, is_recv ? "tensor_type" : "T", is_recv ? "dtype" : "T"))
        return false;
    return text_set(&n->op, "%s", is_recv ? "Placeholder" : "Identity", 0);
}

/* Inputs are called as their nodes now are. */
static bool inputs_turn(const Mu__Graph__GraphDef *def, node *n, struct named *all, size_t count)
{
    for (size_t i = 0; i < n->n_input; i++) {
        const char *input = n->input[i];
        bool is_control = *input == '^';
        size_t len = strcspn(input + is_control, ":");
        struct named *from = named_find(all, count, input + is_control, len);
        const char *now = from ? def->node[from->number]->name : NULL;

        if (!now)
            return false;
        from->is_used = true;
        if (strncmp(now, MU_DIRECT_IN, strlen(MU_DIRECT_IN)) == 0 &&
            !text_set(&n->input[i], is_control ? "^%s" : "%s", now, 0))
            return false;
    }
    return true;
}

/* One more node, which runs behind all that nothing else waits for. */
static bool end_add(Mu__Graph__GraphDef *def, const struct named *all, size_t count)
{
    node *end = calloc(1, sizeof *end), **more = realloc(def->node, (def->n_node + 1) * sizeof(node *));

    if (more)
        def->node = more;
    if (!end || !more) {
        free(end);
        return false;
    }
    mu__graph__node_def__init(end);
    end->input = calloc(count + 1, sizeof *end->input);
    def->node[def->n_node++] = end;
    if (!end->input || !text_set(&end->name, "%s", MU_DIRECT_END, 0) || !text_set(&end->op, "%s", "NoOp", 0))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!all[i].is_used) {
            if (!text_set(&end->input[end->n_input], "^%s", def->node[all[i].number]->name, 0))
                return false;
            end->n_input++;
        }
    return true;
}

/* What leaves nothing behind that another session would not find: variables are in containers, by name. */
static bool op_is_plain(const Mu__Graph__OpDef *op)
{
    static const char *const names[] = {
        "Assert",         "AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp",
        "ReadVariableOp", "VarHandleOp",         "VarIsInitializedOp",  "Variable",
        "VariableShape",  "VariableV2"};
    static const char *const families[] = {"ResourceApply", "ResourceGather", "ResourceScatter", "ResourceSparseApply"};

    if (!op->is_stateful)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op->name, names[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strncmp(op->name, families[i], strlen(families[i])) == 0)
            return true;
    return false;
}

/* A function in it would need the library. */
static bool attrs_are_plain(const node *n)
{
    for (size_t i = 0; i < n->n_attr; i++) {
        const Mu__Graph__AttrValue *v = n->attr[i]->value;

        if (v && (v->value_case == MU__GRAPH__ATTR_VALUE__VALUE_FUNC ||
                  (v->value_case == MU__GRAPH__ATTR_VALUE__VALUE_LIST && v->list->n_func)))
            return false;
    }
    return true;
}

bool mu_ss_part_is_whole(const struct mu_ss_session *s, const bool *is_needed, const struct mu_ss_compiled *c)
{
    if (c->num_parts != 1 || c->num_feeds > MU_DIRECT_TENSORS || c->num_fetches > MU_DIRECT_TENSORS ||
        (s->options && s->options->isolate_session_state))
        return false;
    for (uint32_t i = 0; i < s->graph.num_nodes; i++) {
        const struct mu_ss_node *n = &s->graph.nodes[i];

        if (is_needed[i] && (n->is_function || !n->op || !op_is_plain(n->op) || !attrs_are_plain(n->def) ||
                             strcmp(s->devices[n->device].type, "CPU") != 0))
            return false;
    }
    for (uint32_t i = 0; i < c->num_feeds; i++)
        if (!mu_direct_element(c->feeds[i].type))
            return false;
    for (uint32_t i = 0; i < c->num_fetches; i++)
        if (!mu_direct_element(c->fetches[i].type))
            return false;
    return true;
}

static bool graph_turn(Mu__Graph__GraphDef *def, struct named *all, struct mu_direct_names *names)
{
    size_t count = def->n_node;

    for (size_t i = 0; i < count; i++) {
        if (!def->node[i]->name || !def->node[i]->op || !(all[i].name = strdup(def->node[i]->name)))
            return false;
        all[i].number = (uint32_t)i;
        if (!node_turn(def->node[i], names))
            return false;
    }
    qsort(all, count, sizeof *all, named_compare);
    for (size_t i = 0; i < count; i++)
        if (!inputs_turn(def, def->node[i], all, count))
            return false;
    return end_add(def, all, count);
}

void *mu_direct_graph(const void *part, size_t len, struct mu_direct_names *names, size_t *ret_len)
{
    Mu__Graph__GraphDef *def = mu__graph__graph_def__unpack(NULL, len, part);
    size_t count = def ? def->n_node : 0;
    struct named *all = calloc(count + 1, sizeof *all);
    void *bytes = NULL;

    if (def && all && graph_turn(def, all, names)) {
        def->has_library = false;
        *ret_len = mu__graph__graph_def__get_packed_size(def);
        bytes = malloc(*ret_len + 1);
        if (bytes)
            mu__graph__graph_def__pack(def, bytes);
        def->has_library = def->library.data != NULL;
    }
    for (size_t i = 0; all && i < count; i++)
        free(all[i].name);
    free(all);
    if (def)
        mu__graph__graph_def__free_unpacked(def, NULL);
    return bytes;
}

void mu_direct_names_free(struct mu_direct_names *names)
{
    for (uint32_t i = 0; i < MU_DIRECT_TENSORS; i++) {
        free(names->fed[i]);
        free(names->fetched[i]);
    }
    *names = (struct mu_direct_names){0};
}

static size_t head_put(uint8_t *to, uint8_t field, size_t len)
{
    size_t n = 0;

    to[n++] = (uint8_t)(field << 3 | 2);
    for (; len >= 0x80; len >>= 7)
        to[n++] = (uint8_t)(len | 0x80);
    to[n++] = (uint8_t)len;
    return n;
}

void *mu_direct_config(struct mu_executor_bytes graph_options, size_t *ret_len)
{
    /* GraphOptions{rewrite_options(10): {disable_meta_optimizer(19): true}} */
    static const uint8_t no_optimizer[] = {10 << 3 | 2, 3, 0x98, 0x01, 1};
    uint8_t *config = malloc(graph_options.len + sizeof no_optimizer + 16);
    size_t n;

    if (!config)
        return NULL;
    n = head_put(config, 10, graph_options.len + sizeof no_optimizer);
    if (graph_options.len)
        memcpy(config + n, graph_options.at, graph_options.len);
    n += graph_options.len;
    memcpy(config + n, no_optimizer, sizeof no_optimizer);
    *ret_len = n + sizeof no_optimizer;
    return config;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

struct mu_direct_way *mu_direct_way_new(struct mu_direct *d, const struct mu_executor_graph *graph)
{
    struct mu_direct_way *way;

    if (!d || d->is_broken || graph->graph.len > MU_DIRECT_GRAPH)
        return NULL;
    way = calloc(1, sizeof *way);
    if (!way)
        return NULL;
    way->direct = d;
    way->id = ++d->next_id;
    way->part = malloc(graph->graph.len + 1);
    way->options = malloc(graph->graph_options.len + 1);
    MU_LIST_PUSH(d->ways, way);
    if (!way->part || !way->options) {
        mu_direct_way_drop(way);
        return NULL;
    }
    way->part_len = graph->graph.len;
    way->options_len = graph->graph_options.len;
    memcpy(way->part, graph->graph.len ? graph->graph.at : "", graph->graph.len);
    memcpy(way->options, graph->graph_options.len ? graph->graph_options.at : "", graph->graph_options.len);
    return way;
}

static void way_forget(struct mu_direct_way *way)
{
    free(way->part);
    free(way->options);
    way->part = way->options = NULL;
}

/* BUILD is said, or it never will be. */
void mu_direct_way_say(struct mu_direct_way *way)
{
    struct mu_direct *d = way->direct;
    size_t graph_len = 0, config_len = 0;
    void *graph = mu_direct_graph(way->part, way->part_len, &way->names, &graph_len);
    void *config = mu_direct_config((struct mu_executor_bytes){way->options, way->options_len}, &config_len);
    struct mu_direct_head head = {.kind = MU_DIRECT_BUILD,
                                  .id = way->id,
                                  .count = way->names.num_fed,
                                  .fetches = way->names.num_fetched,
                                  .words = (uint32_t)(config_len + graph_len),
                                  .config = (uint32_t)config_len};
    struct mu_direct_piece *p = graph && config ? mu_direct_piece_new(sizeof head + config_len + graph_len) : NULL;

    way->state = MU_DIRECT_WAY_REFUSED;
    if (p) {
        uint8_t *to = (uint8_t *)(p + 1);

        memcpy(to, &head, sizeof head);
        memcpy(to + sizeof head, config, config_len);
        memcpy(to + sizeof head + config_len, graph, graph_len);
        MU_QUEUE_APPEND(d->out, d->out_last, p);
        way->state = MU_DIRECT_WAY_BUILDING;
        mu_direct_flush(d);
    }
    free(graph);
    free(config);
    way_forget(way);
}

void mu_direct_drop_say(struct mu_direct *d, uint64_t id)
{
    struct mu_direct_head head = {.kind = MU_DIRECT_DROP, .id = id};
    struct mu_direct_piece *p = d->is_broken ? NULL : mu_direct_piece_new(sizeof head);

    if (!p)
        return;
    memcpy(p + 1, &head, sizeof head);
    MU_QUEUE_APPEND(d->out, d->out_last, p);
    mu_direct_flush(d);
}

void mu_direct_way_drop(struct mu_direct_way *way)
{
    if (!way)
        return;
    if (way->state == MU_DIRECT_WAY_BUILDING || way->state == MU_DIRECT_WAY_READY)
        mu_direct_drop_say(way->direct, way->id);
    MU_LIST_DROP(way->direct->ways, way);
    way_forget(way);
    mu_direct_names_free(&way->names);
    free(way);
}
