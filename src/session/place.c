/*
 * session/place.c: which device each node is on.
 *
 * Nodes that must be together are a group, by union-find: what a node's attribute _class says, what a reference or a
 * resource goes between. A group's device has what all its members ask for, and a kernel for each; of several the first
 * in the order of the session's devices. A node that was placed stays: a group that one is in is where that one is.
 * Sources that nothing else asks for are placed where their one user is, so that what they give is not sent there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/private.h"

struct group {
    uint32_t parent, next, last; /* its members are a chain from its root, which ends with 0xffffffff */
    int32_t device;              /* -1: none yet */
    struct mu_ss_spec spec;
    bool has_spec;
};

struct placing {
    struct mu_ss_session *s;
    struct mu_ss_graph *g;
    uint32_t first;
    struct group *groups; /* by node, from first on */
    struct mu_ss_error *error;
};

#define NOBODY UINT32_MAX

static struct group *group_of(const struct placing *p, uint32_t node)
{
    uint32_t at = node - p->first;

    while (p->groups[at].parent != at)
        at = p->groups[at].parent = p->groups[p->groups[at].parent].parent;
    return &p->groups[at];
}

static bool is_soft(const struct placing *p)
{
    return p->s->options && p->s->options->allow_soft_placement;
}

static bool colocation_fails(const struct placing *p, uint32_t a, uint32_t b)
{
    return mu_ss_fail(p->error, MUSTER_INVALID_ARGUMENT,
                      "Cannot colocate nodes {{colocation_node %s}} and {{colocation_node %s}}: they are placed on, or "
                      "ask for, devices that exclude each other",
                      p->g->nodes[a].def->name, p->g->nodes[b].def->name);
}

/* The new node is to be where the other one is, new or old. */
static bool group_join(const struct placing *p, uint32_t node, uint32_t other, bool is_strict)
{
    struct group *a = group_of(p, node), *b;

    if (other < p->first) {
        int32_t device = p->g->nodes[other].device;

        if (a->device >= 0 && a->device != device)
            return !is_strict || is_soft(p) || colocation_fails(p, node, other);
        if (a->has_spec && !mu_ss_spec_has(&a->spec, &p->s->devices[device].spec))
            return !is_strict || is_soft(p) || colocation_fails(p, node, other);
        a->device = device;
        return true;
    }
    b = group_of(p, other);
    if (a == b)
        return true;
    if ((a->device >= 0 && b->device >= 0 && a->device != b->device) || !mu_ss_spec_merge(&b->spec, &a->spec))
        return !is_strict || is_soft(p) || colocation_fails(p, node, other);
    b->device = b->device >= 0 ? b->device : a->device;
    b->has_spec = b->has_spec || a->has_spec;
    a->parent = (uint32_t)(b - p->groups);
    p->groups[b->last].next = (uint32_t)(a - p->groups);
    b->last = a->last;
    return true;
}

static bool class_join(const struct placing *p, uint32_t node, const ProtobufCBinaryData *class)
{
    static const char loc[] = "loc:@";
    const char *name = (const char *)class->data + sizeof loc - 1;
    const struct mu_ss_node *other;

    if (class->len < sizeof loc || memcmp(class->data, loc, sizeof loc - 1) != 0)
        return true;
    other = mu_ss_graph_find(p->g, name, class->len - (sizeof loc - 1));
    if (!other)
        return mu_ss_fail(p->error, MUSTER_INVALID_ARGUMENT,
                          "Node '%s' expects to be colocated with unknown node '%.*s'", p->g->nodes[node].def->name,
                          (int)(class->len - (sizeof loc - 1)), name);
    return group_join(p, node, (uint32_t)(other - p->g->nodes), true);
}

/* A function takes resources from where they are, and may be elsewhere itself. */
static bool takes_handles(const struct mu_ss_node *n)
{
    const char *op = n->def->op;

    return !n->is_function && !strstr(op, "PartitionedCall") && !strstr(op, "RemoteCall");
}

static bool node_join(const struct placing *p, uint32_t node)
{
    const struct mu_ss_node *n = &p->g->nodes[node];
    const Mu__Graph__AttrValue *class = mu_ss_attr(n->def, "_class");

    if (class && class->value_case == MU__GRAPH__ATTR_VALUE__VALUE_LIST)
        for (size_t i = 0; i < class->list->n_s; i++)
            if (!class_join(p, node, &class->list->s[i]))
                return false;
    for (uint32_t i = 0; i < n->num_data; i++) {
        bool is_ref = n->in_types[i] >= MU_SS_REF;
        bool is_handle = n->in_types[i] == MU__GRAPH__DATA_TYPE__DT_RESOURCE && takes_handles(n);

        if ((is_ref || is_handle) && !group_join(p, node, n->inputs[i].node, is_ref))
            return false;
    }
    return true;
}

static bool groups_make(const struct placing *p)
{
    for (uint32_t i = p->first; i < p->g->num_nodes; i++) {
        struct group *a = &p->groups[i - p->first];
        const char *device = p->g->nodes[i].def->device;

        *a = (struct group){.parent = i - p->first, .next = NOBODY, .last = i - p->first, .device = -1};
        a->has_spec = device && device[0];
        if (!mu_ss_spec_read(device ? device : "", &a->spec))
            return mu_ss_fail(p->error, MUSTER_INVALID_ARGUMENT, "Malformed device specification '%s' in node: %s",
                              device, p->g->nodes[i].def->name);
    }
    for (uint32_t i = p->first; i < p->g->num_nodes; i++)
        if (!node_join(p, i))
            return false;
    return true;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

static bool node_runs_on(const struct placing *p, uint32_t node, int32_t device)
{
    const struct mu_ss_node *n = &p->g->nodes[node];

    return n->is_function || mu_ss_op_runs(p->g->ops, n->def, p->s->devices[device].type);
}

static bool group_runs_on(const struct placing *p, const struct group *g, int32_t device)
{
    for (uint32_t at = (uint32_t)(g - p->groups); at != NOBODY; at = p->groups[at].next)
        if (!node_runs_on(p, at + p->first, device))
            return false;
    return true;
}

static int32_t device_choose(const struct placing *p, const struct group *g, const struct mu_ss_spec *spec)
{
    for (uint32_t i = 0; i < p->s->num_devices; i++)
        if (mu_ss_spec_has(spec, &p->s->devices[i].spec) && group_runs_on(p, g, (int32_t)i))
            return (int32_t)i;
    return -1;
}

static void devices_print(const struct mu_ss_session *s, char *text, size_t size)
{
    size_t n = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < s->num_devices && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%s", i ? ", " : "", s->devices[i].name);
}

static bool group_fails(const struct placing *p, const struct group *g)
{
    char devices[1024], asked[320];
    const struct mu_ss_node *n = &p->g->nodes[p->first + (uint32_t)(g - p->groups)];
    bool is_there = false;

    for (uint32_t at = (uint32_t)(g - p->groups); at != NOBODY; at = p->groups[at].next) {
        const struct mu_ss_node *m = &p->g->nodes[at + p->first];

        if (!m->is_function && !mu_ss_op_has_kernels(p->g->ops, m->def->op))
            return mu_ss_fail(p->error, MUSTER_INVALID_ARGUMENT,
                              "No OpKernel was registered to support Op '%s' used by {{node %s}}\n\t [[{{node %s}}]]",
                              m->def->op, m->def->name, m->def->name);
    }
    for (uint32_t i = 0; i < p->s->num_devices; i++)
        is_there = is_there || mu_ss_spec_has(&g->spec, &p->s->devices[i].spec);
    devices_print(p->s, devices, sizeof devices);
    mu_ss_spec_print(&g->spec, asked, sizeof asked);
    if (is_there)
        return mu_ss_fail(p->error, MUSTER_INVALID_ARGUMENT,
                          "Cannot assign a device for operation %s: Could not satisfy explicit device specification "
                          "'%s' because no supported kernel for %s devices is available.\n\t [[{{node %s}}]]",
                          n->def->name, asked, g->spec.type[0] ? g->spec.type : "these", n->def->name);
    return mu_ss_fail(
        p->error, MUSTER_INVALID_ARGUMENT,
        "Cannot assign a device for operation %s: {{node %s}} was explicitly assigned to %s but available "
        "devices are [ %s ]. Make sure the device specification refers to a valid device.\n\t [[{{node "
        "%s}}]]",
        n->def->name, n->def->name, asked, devices, n->def->name);
}

static bool group_place(const struct placing *p, struct group *g)
{
    struct mu_ss_spec spec = g->spec;

    if (g->device >= 0)
        return true;
    g->device = device_choose(p, g, &spec);
    if (g->device < 0 && is_soft(p)) { /* its job and task stay */
        spec.type[0] = 0;
        spec.id = -1;
        g->device = device_choose(p, g, &spec);
    }
    return g->device >= 0 || group_fails(p, g);
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static bool is_alone(const struct placing *p, const struct group *g)
{
    return p->groups[g - p->groups].next == NOBODY && !g->has_spec && g->device < 0;
}

static bool is_source(const struct mu_ss_node *n)
{
    return n->num_inputs == 0 && n->num_out == 1 && n->out_types[0] < MU_SS_REF &&
           n->out_types[0] != MU__GRAPH__DATA_TYPE__DT_RESOURCE && !n->op->is_stateful;
}

static bool is_metadata(const struct mu_ss_node *n)
{
    const char *op = n->def->op;

    return n->num_data == 1 && (strcmp(op, "Shape") == 0 || strcmp(op, "Size") == 0 || strcmp(op, "Rank") == 0);
}

/* Which group alone uses each source: users[] by node, NOBODY: none yet, NOBODY - 1: several. */
static void users_find(const struct placing *p, uint32_t *users)
{
    for (uint32_t i = 0; i < p->g->num_nodes - p->first; i++)
        users[i] = NOBODY;
    for (uint32_t i = p->first; i < p->g->num_nodes; i++)
        for (uint32_t k = 0; k < p->g->nodes[i].num_inputs; k++) {
            uint32_t from = p->g->nodes[i].inputs[k].node, group = (uint32_t)(group_of(p, i) - p->groups);

            if (from >= p->first)
                users[from - p->first] =
                    users[from - p->first] == NOBODY || users[from - p->first] == group ? group : NOBODY - 1;
        }
}

static bool follower_place(const struct placing *p, uint32_t node, uint32_t user)
{
    struct group *g = &p->groups[node - p->first];
    const struct mu_ss_node *n = &p->g->nodes[node];
    int32_t device = -1;

    if (!is_alone(p, g))
        return false;
    if (is_source(n) && user < NOBODY - 1)
        device = p->groups[user].device;
    else if (is_metadata(n))
        device = n->inputs[0].node < p->first ? p->g->nodes[n->inputs[0].node].device
                                              : group_of(p, n->inputs[0].node)->device;
    if (device < 0 || !node_runs_on(p, node, device))
        return false;
    g->device = device;
    return true;
}

static bool groups_place(const struct placing *p)
{
    uint32_t count = p->g->num_nodes - p->first;
    uint32_t *users = malloc((count + 1) * sizeof *users);
    bool is_placed = true;

    if (!users)
        return mu_ss_fail(p->error, MUSTER_RESOURCE_EXHAUSTED, "no memory to place a graph");
    users_find(p, users);
    for (uint32_t i = 0; i < count && is_placed; i++) {
        struct group *g = &p->groups[i];
        const struct mu_ss_node *n = &p->g->nodes[p->first + i];
        bool follows = is_alone(p, g) && ((is_source(n) && users[i] < NOBODY - 1) || is_metadata(n));

        if (g->parent == i && !follows)
            is_placed = group_place(p, g);
    }
    for (uint32_t i = count; i-- > 0 && is_placed;) {
        struct group *g = &p->groups[i];

        if (g->parent == i && g->device < 0 && !follower_place(p, p->first + i, users[i]))
            is_placed = group_place(p, g);
    }
    for (uint32_t i = p->first; i < p->g->num_nodes && is_placed; i++)
        p->g->nodes[i].device = group_of(p, i)->device;
    free(users);
    return is_placed;
}

bool mu_ss_place(struct mu_ss_session *s, uint32_t first, struct mu_ss_error *error)
{
    struct placing p = {s, &s->graph, first, NULL, error};
    bool is_placed;

    if (s->num_devices == 0)
        return mu_ss_fail(error, MUSTER_FAILED_PRECONDITION, "No devices are registered");
    p.groups = malloc((s->graph.num_nodes - first + 1) * sizeof *p.groups);
    if (!p.groups)
        return mu_ss_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory to place a graph");
    is_placed = groups_make(&p) && groups_place(&p);
    free(p.groups);
    return is_placed;
}
