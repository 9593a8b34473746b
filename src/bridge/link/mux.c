/*
 * bridge/link/mux.c: what the leader says to hosts behind one relay, gathered until it is sent, and said once for all
 * channels that it is for.
 *
 * An item is a message and the channels that it is for. A channel may join an item that is already there when the
 * bytes are the same and none of the channel's own messages comes behind it: so each channel's order stays, and the
 * modules above need not know which hosts are told the same. Candidates are found by a hash of the message's ends.
 */
#include "bridge/link/mux.h"

#include <string.h>

enum { ENDS = 64, TRIES = 8, KEPT_ROOM = 65536 };

static uint64_t hash_some(uint64_t h, const uint8_t *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        h = (h ^ at[i]) * 1099511628211u;
    return h;
}

/* Of type, length, and the first and last bytes: equal messages have equal ones. */
static uint64_t hash_of(uint8_t type, const uint8_t *at, size_t len)
{
    uint64_t h = hash_some(14695981039346656037u ^ type ^ ((uint64_t)len << 8), at, len < ENDS ? len : ENDS);

    return len > ENDS ? hash_some(h, at + len - ENDS, ENDS) : h;
}

static struct mu_mux_item *item_at(const struct mu_mux_batch *b, uint32_t i)
{
    return (struct mu_mux_item *)(void *)b->items.bytes + i;
}

static struct mu_mux_channel *channel_at(const struct mu_mux_batch *b, uint32_t i)
{
    return (struct mu_mux_channel *)(void *)b->channels.bytes + i;
}

static uint32_t num_items(const struct mu_mux_batch *b)
{
    return (uint32_t)(b->items.len / sizeof(struct mu_mux_item));
}

static uint32_t num_channels(const struct mu_mux_batch *b)
{
    return (uint32_t)(b->channels.len / sizeof(struct mu_mux_channel));
}

/* An item behind the route's last one with the bytes that were just appended at `at`; UINT32_MAX: none. */
static uint32_t mux_item_find(const struct mu_mux_batch *b, const struct mu_mux_route *route, uint8_t type,
                              uint64_t hash, size_t at, size_t len)
{
    uint32_t tries = 0;

    for (uint32_t i = b->slots[hash % 256]; i && b->sent + i > route->last && tries < TRIES; tries++) {
        const struct mu_mux_item *item = item_at(b, i - 1);

        if (item->hash == hash && item->type == type && item->len == len && item->count < UINT16_MAX &&
            (!len || memcmp(b->bytes.bytes + item->at, b->bytes.bytes + at, len) == 0))
            return i - 1;
        i = item->next;
    }
    return UINT32_MAX;
}

static bool add_channel(struct mu_mux_batch *b, struct mu_mux_item *item, uint32_t channel)
{
    const struct mu_mux_channel c = {.channel = channel, .next = UINT32_MAX};
    uint32_t place = num_channels(b);

    mu_pack_raw(&b->channels, &c, sizeof c);
    if (b->channels.failed)
        return false;
    if (item->count)
        channel_at(b, item->last)->next = place;
    else
        item->first = place;
    item->last = place;
    item->count++;
    return true;
}

bool mu_mux_add(struct mu_mux_batch *b, struct mu_mux_route *route, uint8_t type, const void *head, size_t head_len,
                const void *payload, size_t len)
{
    size_t at = b->bytes.len, whole = head_len + len;
    struct mu_mux_item item = {.at = at, .len = whole, .type = type};
    uint32_t place;

    mu_pack_raw(&b->bytes, head, head_len);
    mu_pack_raw(&b->bytes, payload, len);
    if (b->bytes.failed)
        return false;
    item.hash = hash_of(type, whole ? b->bytes.bytes + at : NULL, whole);
    place = mux_item_find(b, route, type, item.hash, at, whole);
    if (place != UINT32_MAX) {
        b->bytes.len = at;
    } else {
        place = num_items(b);
        item.next = b->slots[item.hash % 256];
        mu_pack_raw(&b->items, &item, sizeof item);
        if (b->items.failed)
            return false;
        b->slots[item.hash % 256] = place + 1;
    }
    route->last = b->sent + place + 1;
    return add_channel(b, item_at(b, place), route->channel);
}

static bool pack_head(struct mu_mux_batch *b, const struct mu_mux_item *item)
{
    mu_pack_reset(&b->head);
    mu_pack_u8(&b->head, item->type);
    mu_pack_u16(&b->head, (uint16_t)item->count);
    for (uint32_t i = item->first; i != UINT32_MAX; i = channel_at(b, i)->next)
        mu_pack_u32(&b->head, channel_at(b, i)->channel);
    return !b->head.failed;
}

static void pack_empty(struct mu_pack *p)
{
    mu_pack_reset(p);
    if (p->capacity > KEPT_ROOM)
        mu_pack_done(p);
}

bool mu_mux_send(struct mu_mux_batch *b,
                 bool (*send)(void *arg, const void *head, size_t head_len, const void *payload, size_t len), void *arg)
{
    uint32_t count = num_items(b);
    bool ok = true;

    for (uint32_t i = 0; i < count && ok; i++) {
        const struct mu_mux_item *item = item_at(b, i);

        ok = pack_head(b, item) &&
             send(arg, b->head.bytes, b->head.len, item->len ? b->bytes.bytes + item->at : NULL, item->len);
    }
    if (count)
        memset(b->slots, 0, sizeof b->slots);
    b->sent += count;
    pack_empty(&b->bytes);
    pack_empty(&b->items);
    pack_empty(&b->channels);
    pack_empty(&b->head);
    return ok;
}

void mu_mux_done(struct mu_mux_batch *b)
{
    mu_pack_done(&b->bytes);
    mu_pack_done(&b->items);
    mu_pack_done(&b->channels);
    mu_pack_done(&b->head);
}

bool mu_mux_read(const void *bytes, size_t len, struct mu_mux_message *ret)
{
    struct mu_unpack u = mu_unpack_of(bytes, len);

    ret->type = mu_unpack_u8(&u);
    ret->count = mu_unpack_u16(&u);
    ret->channels = mu_unpack_raw(&u, 4 * (size_t)ret->count);
    ret->payload = u.at;
    ret->len = u.left;
    return !u.failed && ret->count > 0;
}

uint32_t mu_mux_channel(const struct mu_mux_message *message, uint32_t i)
{
    struct mu_unpack u = mu_unpack_of(message->channels + 4 * (size_t)i, 4);

    return mu_unpack_u32(&u);
}
