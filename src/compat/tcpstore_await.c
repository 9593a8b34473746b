/*
 * compat/tcpstore_await.c: waiting for something in a queue, and looks at what may have been missed.
 *
 * A client that waits for a queue to which nobody has pushed yet waits for its tail, which stays once it is there. Then
 * there is a next item, and the client waits for that. A client that comes when there is one is told of it. Where
 * several wait for an item one is told, the others go on to the next one.
 *
 * An item that is popped as soon as it is pushed may never be seen, and nobody waits for an item of which a client was
 * told that did not pop it. So sleepers look at the queue's head now and again: from one that has passed them they go
 * on, and back to one that has stood still for so long, of which one more is told. So do those that wait at a barrier,
 * at how often it has been passed.
 */
#include "compat/tcpstore_private.h"

#include "base/clock.h"
#include "base/list.h"

#define LOOKS_MS 250         /* between two looks */
#define LOOKS    1024u       /* at so many that sleep */
#define TOLD_NS  2000000000u /* then a client that was told of an item is not waited for any more */

static struct mu_ts_name *queue_of(struct mu_ts_item *item)
{
    struct mu_ts_name *name = &item->wait->conn->store->key;

    mu_ts_name(name, MU_TS_QUEUES, item->wait->request + item->key.at, item->key.len);
    return name;
}

static struct mu_ts_item *item_of_request(struct mu_coord_request *request)
{
    return (struct mu_ts_item *)((char *)request - offsetof(struct mu_ts_item, queue));
}

static struct mu_ts_sleepers *sleepers_of(const struct mu_ts_item *item)
{
    return &item->wait->conn->store->sleepers;
}

/* ---- sleepers ---------------------------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

static void item_enlist(struct mu_ts_item *item)
{
    struct mu_ts_sleepers *s = sleepers_of(item);

    item->sleeps = true;
    item->next = NULL;
    MU_QUEUE_APPEND(s->first, s->last, item);
    s->count++;
    if (!uv_is_active((uv_handle_t *)&s->timer))
        uv_timer_start(&s->timer, on_timer, LOOKS_MS, LOOKS_MS);
}

static void item_delist(struct mu_ts_item *item)
{
    struct mu_ts_sleepers *s = sleepers_of(item);

    MU_QUEUE_DROP(s->first, s->last, item);
    item->sleeps = false;
    s->count--;
}

void mu_ts_await_end(struct mu_ts_item *item)
{
    struct mu_tcpstore *store = item->wait->conn->store;

    mu_coord_drop(store->options.coord, &item->queue);
    if (item->sleeps)
        item_delist(item);
    if (store->sleepers.looked_at == item)
        store->sleepers.looked_at = NULL;
}

/* ---- the next item ----------------------------------------------------------------------------------------------- */

static uint64_t name_hash(const struct mu_ts_name *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (size_t i = 0; i < name->len; i++)
        h = (h ^ (uint8_t)name->text[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* One client is told of an item. */
static bool is_told_already(struct mu_ts_item *item)
{
    struct mu_ts_sleepers *s = sleepers_of(item);
    struct mu_ts_name *name = queue_of(item);
    size_t slot = (name_hash(name) >> 32) % (sizeof s->told / sizeof s->told[0]);
    uint64_t now = mu_now(), hash;

    mu_ts_name_number(name, item->head + 1);
    hash = name_hash(name);
    if (s->told[slot].hash == hash && now - s->told[slot].at < TOLD_NS)
        return true;
    s->told[slot].hash = hash;
    s->told[slot].at = now;
    return false;
}

static void wait_for_item(struct mu_ts_item *item);

static void item_answered(struct mu_coord_request *request)
{
    struct mu_ts_item *item = item_of_request(request);

    if (request->status) {
        mu_ts_cannot_wait(item, request);
    } else if (!is_told_already(item) || item->is_prompt) {
        mu_ts_came(item);
    } else {
        item->head++;
        wait_for_item(item);
    }
}

static void wait_for_item(struct mu_ts_item *item)
{
    struct mu_ts_name *name = queue_of(item);

    if (!item->sleeps)
        item_enlist(item);
    mu_ts_name_number(name, item->head + 1);
    mu_ts_prepare(&item->queue, item_answered);
    mu_coord_get(item->wait->conn->store->options.coord, &item->queue, name->text, name->len);
}

/* ---- the queue's counts ------------------------------------------------------------------------------------------ */

static uint64_t count_in(const struct mu_coord_request *request)
{
    int64_t count;

    return request->status == MUSTER_OK && mu_ts_number(request->value, request->len, &count) && count > 0
               ? (uint64_t)count
               : 0;
}

static bool item_has_failed(struct mu_ts_item *item, const struct mu_coord_request *request)
{
    if (!request->status || request->status == MUSTER_NOT_FOUND)
        return false;
    mu_ts_cannot_wait(item, request);
    return true;
}

/* In a job of several hosts what lies here may be older than what its clients have done elsewhere, and a client that
 * waited for an item that is gone would wait for the next look: adding nothing asks the leader. */
static void read_count(struct mu_ts_item *item, const char *part, bool is_old,
                       void (*answered)(struct mu_coord_request *request))
{
    struct mu_coord *coord = item->wait->conn->store->options.coord;
    struct mu_ts_name *name = queue_of(item);

    mu_ts_name_under(name, part);
    mu_ts_prepare(&item->queue, answered);
    if (is_old && mu_coord_options(coord)->lanes)
        mu_coord_increment(coord, &item->queue, name->text, name->len, 0);
    else
        mu_coord_try_get(coord, &item->queue, name->text, name->len);
}

/* What the tail counts may be on its way still. */
static void head_answered(struct mu_coord_request *request)
{
    struct mu_ts_item *item = item_of_request(request);

    if (item_has_failed(item, request))
        return;
    item->head = count_in(request);
    item->is_prompt = item->tail > item->head;
    wait_for_item(item);
}

static void true_tail_answered(struct mu_coord_request *request)
{
    struct mu_ts_item *item = item_of_request(request);

    if (item_has_failed(item, request))
        return;
    item->tail = count_in(request);
    read_count(item, "head", true, head_answered);
}

/* The first item is being pushed. If it has been popped, too, the next look tells. */
static void tail_came(struct mu_coord_request *request)
{
    struct mu_ts_item *item = item_of_request(request);

    if (!item_has_failed(item, request))
        wait_for_item(item);
}

static void tail_answered(struct mu_coord_request *request)
{
    struct mu_ts_item *item = item_of_request(request);
    struct mu_ts_name *name;

    if (item_has_failed(item, request))
        return;
    if (count_in(request)) {
        read_count(item, "tail", true, true_tail_answered);
        return;
    }
    name = queue_of(item); /* the leader has no such queue either */
    mu_ts_name_under(name, "tail");
    mu_ts_prepare(&item->queue, tail_came);
    mu_coord_get(item->wait->conn->store->options.coord, &item->queue, name->text, name->len);
}

void mu_ts_await(struct mu_ts_item *item)
{
    read_count(item, "tail", false, tail_answered);
}

/* ---- looks ------------------------------------------------------------------------------------------------------- */

void mu_ts_await_pass(struct mu_ts_item *item, uint64_t passes)
{
    item->is_pass = true;
    item->head = passes;
    item_enlist(item);
}

/* What says how far it has come. */
static struct mu_ts_name *count_of(struct mu_ts_item *item)
{
    struct mu_ts_name *name = &item->wait->conn->store->key;

    mu_ts_name(name, item->is_pass ? MU_TS_BARRIERS : MU_TS_QUEUES, item->wait->request + item->key.at, item->key.len);
    mu_ts_name_under(name, item->is_pass ? "passes" : "head");
    return name;
}

/* From where it waits to the item behind that head. */
static void go_to(struct mu_ts_item *item, uint64_t head)
{
    mu_coord_drop(item->wait->conn->store->options.coord, &item->queue);
    item->head = head;
    wait_for_item(item);
}

static void look_on(struct mu_ts_sleepers *s);

static void head_seen(struct mu_coord_request *request)
{
    struct mu_ts_sleepers *s = (struct mu_ts_sleepers *)((char *)request - offsetof(struct mu_ts_sleepers, look));
    struct mu_ts_item *item = s->looked_at;
    uint64_t head = count_in(request);
    bool stands = item && item->was_seen && item->seen == head;

    s->looked_at = NULL;
    s->is_looking = false;
    if (item && item->is_pass) {
        if (head > item->head)
            mu_ts_came(item);
    } else if (item && (!request->status || request->status == MUSTER_NOT_FOUND)) {
        item->was_seen = true;
        item->seen = head;
        if (head > item->head || (head < item->head && stands))
            go_to(item, head);
    }
    look_on(s);
}

/* One after another; what is answered at once does not deepen the stack. */
static void look_on(struct mu_ts_sleepers *s)
{
    if (s->is_in_looks)
        return;
    s->is_in_looks = true;
    while (s->left > 0 && s->first && !s->is_looking) {
        struct mu_ts_item *item = s->first;
        struct mu_ts_name *name;

        s->left--;
        item_delist(item);
        item_enlist(item); /* behind all others */
        s->looked_at = item;
        s->is_looking = true;
        name = count_of(item);
        mu_ts_prepare(&s->look, head_seen);
        mu_coord_try_get(item->wait->conn->store->options.coord, &s->look, name->text, name->len);
    }
    s->is_in_looks = false;
}

static void on_timer(uv_timer_t *timer)
{
    struct mu_ts_sleepers *s = &((struct mu_tcpstore *)timer->data)->sleepers;

    if (!s->first)
        uv_timer_stop(timer);
    s->left = s->count < LOOKS ? s->count : LOOKS;
    look_on(s);
}

void mu_ts_looks_begin(struct mu_tcpstore *store)
{
    uv_timer_init(store->options.loop, &store->sleepers.timer);
    store->sleepers.timer.data = store;
    uv_unref((uv_handle_t *)&store->sleepers.timer);
}

void mu_ts_looks_end(struct mu_tcpstore *store)
{
    mu_coord_drop(store->options.coord, &store->sleepers.look);
}
