/*
 * mindspore/message.c: what the cluster tells its members.
 */
#include "mindspore/private.h"

#include <stdlib.h>

void *mu_ms_pack(const ProtobufCMessage *message, size_t *ret_len)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *body = malloc(len + 1);

    if (!body)
        return NULL;
    *ret_len = protobuf_c_message_pack(message, body);
    return body;
}

struct ms_list {
    Mu__Ms__Member *members, **pointers;
    size_t count;
};

static void list_free(struct ms_list *list)
{
    free(list->members);
    free(list->pointers);
}

/* Servers with what is needed to reach them; or everybody, with everything. False: no memory. */
static bool list_make(const struct mu_ms_cluster *c, bool is_all, struct ms_list *ret_list)
{
    size_t room = 1;

    for (const struct mu_ms_node *n = c->nodes; n; n = n->next)
        room++;
    *ret_list = (struct ms_list){.members = calloc(room, sizeof *ret_list->members),
                                 .pointers = calloc(room, sizeof *ret_list->pointers)};
    if (!ret_list->members || !ret_list->pointers) {
        list_free(ret_list);
        return false;
    }
    for (const struct mu_ms_node *n = c->nodes; n; n = n->next) {
        Mu__Ms__Member *m = &ret_list->members[ret_list->count];

        if (n->is_leaving || (!is_all && (n->role != MU__MS__ROLE__SERVER || !n->is_alive)))
            continue;
        mu__ms__member__init(m);
        m->rank_id = n->rank;
        m->ip = (char *)n->ip;
        m->port = (int32_t)n->port;
        if (is_all) {
            m->is_alive = n->is_alive;
            m->role = n->role;
            m->node_id = (char *)n->id;
        }
        ret_list->pointers[ret_list->count++] = m;
    }
    return true;
}

/* The nodes go on without one that is lost, and wait for it, unless it is a worker or the first server. */
static bool is_end(const struct mu_ms_cluster *c)
{
    for (const struct mu_ms_node *n = c->nodes; n; n = n->next)
        if (!n->is_alive && !n->is_leaving && !n->is_finished && (n->role == MU__MS__ROLE__WORKER || n->rank == 0))
            return true;
    return false;
}

void *mu_ms_body_beat(const struct mu_ms_cluster *c, size_t *ret_len)
{
    Mu__Ms__Beaten beaten = MU__MS__BEATEN__INIT;
    struct ms_list list;
    void *body;

    if (!list_make(c, true, &list))
        return NULL;
    beaten.cluster_state = c->state;
    beaten.n_servers_meta = list.count;
    beaten.servers_meta = list.pointers;
    beaten.is_worker_or_server0 = is_end(c);
    body = mu_ms_pack(&beaten.base, ret_len);
    list_free(&list);
    return body;
}

void *mu_ms_body_servers(const struct mu_ms_cluster *c, size_t *ret_len)
{
    Mu__Ms__Fetched fetched = MU__MS__FETCHED__INIT;
    struct ms_list list;
    void *body;

    if (!list_make(c, false, &list))
        return NULL;
    fetched.n_servers_meta = list.count;
    fetched.servers_meta = list.pointers;
    body = mu_ms_pack(&fetched.base, ret_len);
    list_free(&list);
    return body;
}

static void body_push(struct mu_ms_cluster *c, struct mu_ms_node *node, Mu__Ms__Command command,
                      const ProtobufCMessage *message)
{
    size_t len = 0;
    void *body = mu_ms_pack(message, &len);

    if (body)
        c->out.push(c->out.arg, node, command, body, len);
    else
        mu_ms_say(c, "MindSpore: no memory to tell %.60s anything", node->id);
    free(body);
}

void mu_ms_tell_beat(struct mu_ms_cluster *c)
{
    size_t len = 0;
    void *body = mu_ms_body_beat(c, &len);

    for (struct mu_ms_node *n = c->nodes; body && n; n = n->next)
        if (n->is_alive && n->conn)
            c->out.beat(c->out.arg, n, body, len);
    free(body);
}

void mu_ms_tell_metadata(struct mu_ms_cluster *c, struct mu_ms_node *node, Mu__Ms__State state)
{
    Mu__Ms__Metadata metadata = MU__MS__METADATA__INIT;
    struct ms_list list;

    if (!node->is_alive || !list_make(c, false, &list))
        return;
    metadata.n_servers_meta = list.count;
    metadata.servers_meta = list.pointers;
    metadata.worker_num = (int32_t)c->want[MU__MS__ROLE__WORKER];
    metadata.server_num = (int32_t)c->want[MU__MS__ROLE__SERVER];
    metadata.cluster_state = state;
    metadata.rank_id = node->rank;
    body_push(c, node, MU__MS__COMMAND__SEND_METADATA, &metadata.base);
    list_free(&list);
}

void mu_ms_tell_scale(struct mu_ms_cluster *c, struct mu_ms_node *node)
{
    Mu__Ms__Scale scale = MU__MS__SCALE__INIT;

    scale.worker_num = (int32_t)c->want[MU__MS__ROLE__WORKER];
    scale.server_num = (int32_t)c->want[MU__MS__ROLE__SERVER];
    scale.is_node_scale_in = node->is_leaving;
    body_push(c, node, c->state == MU__MS__STATE__SCALING_OUT ? MU__MS__COMMAND__SCALE_OUT : MU__MS__COMMAND__SCALE_IN,
              &scale.base);
}

/* Nobody waits for an acknowledgement: all hear of two events in the order in which they came. */
void mu_ms_tell_event(struct mu_ms_cluster *c, uint32_t number)
{
    Mu__Ms__Event event = MU__MS__EVENT__INIT;

    event.event = number;
    for (struct mu_ms_node *n = c->nodes; n; n = n->next)
        if (n->is_alive)
            body_push(c, n, MU__MS__COMMAND__SEND_EVENT, &event.base);
}

void mu_ms_tell(struct mu_ms_cluster *c, Mu__Ms__Command command)
{
    for (struct mu_ms_node *n = c->nodes; n; n = n->next)
        if (n->is_alive && !n->is_leaving)
            c->out.push(c->out.arg, n, command, "", 0);
}
