/*
 * session/cut.h: what the two files share that make a subgraph's parts.
 *
 *   partition.c   which nodes and edges each part has
 *   cut.c         the nodes that are made for them
 */
#ifndef MU_SESSION_CUT_H
#define MU_SESSION_CUT_H

#include "session/private.h"

struct mu_ss_chunk {
    struct mu_ss_chunk *next;
    uint64_t bytes[];
};

struct mu_ss_part_nodes {
    Mu__Graph__NodeDef **all;
    uint32_t count, room;
};

/* Where a tensor comes from: a node, or the _Recv of a feed. */
struct mu_ss_source {
    uint64_t id;
    const char *name;
    int32_t output, device; /* output: -1: control */
    uint32_t type;
};

struct mu_ss_crossing {
    uint64_t id;
    int32_t device;
    char *name; /* of its _Recv; NULL: the place is free */
};

struct mu_ss_cutting {
    struct mu_ss_session *s;
    const struct mu_ss_graph *g;
    const struct mu_ss_subgraph *sub;
    struct mu_ss_compiled *c;
    struct mu_ss_error *error;
    struct mu_ss_chunk *chunks;
    struct mu_ss_part_nodes *nodes; /* by part */
    int32_t *part_of;               /* by member */
    int32_t *feed_device;           /* by feed */
    bool *is_looping;               /* by node: within a loop; NULL: there is none */
    struct mu_ss_crossing *crossings;
    uint32_t num_crossings, size_crossings, next_edge;
    bool is_exhausted;
};

void *mu_ss_arena_take(struct mu_ss_cutting *cut, size_t size);
char *mu_ss_arena_print(struct mu_ss_cutting *cut, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The number of the part that this device is of; the part is made when it is first asked for. */
int32_t mu_ss_part_for(struct mu_ss_cutting *cut, int32_t device);
void mu_ss_node_put(struct mu_ss_cutting *cut, int32_t device, Mu__Graph__NodeDef *node);
/* A _Send or a _Recv, with this tensor's name between these devices. */
void mu_ss_transfer_make(struct mu_ss_cutting *cut, bool is_send, char *name, char *input, uint32_t type, int32_t from,
                         int32_t to, const char *tensor, bool is_client);
/* A constant behind the node, which stands for an edge that only orders. Its name. */
char *mu_ss_signal_make(struct mu_ss_cutting *cut, const struct mu_ss_source *from, uint32_t edge);

#endif
