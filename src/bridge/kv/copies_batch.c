/*
 * bridge/kv/copies_batch.c: what the leader says to one host of the keys that it has copies of.
 *
 * The items of a batch are bytes in a row, but for long values: those stay where they were read, once for all hosts,
 * and each ends the frame that it is in, so that it is written to the connection from there.
 */
#include "bridge/kv/copies.h"

static void begin_item(struct mu_pack *p, const struct mu_wanted *k, uint8_t kind, size_t len)
{
    mu_pack_u8(p, kind);
    mu_pack_u64(p, kind == MU_COPY_VALUE ? k->version : 0);
    mu_pack_blob(p, k->key, k->key_len);
    mu_pack_u32(p, (uint32_t)len);
}

static void name_it(struct mu_outgoing *o, const struct mu_wanted *k)
{
    begin_item(&o->names, k, MU_COPY_GONE, 0);
    o->num_names++;
}

void mu_batch_gone(struct mu_outgoing *o, const struct mu_wanted *k, struct mu_want *want)
{
    if (want->sent && !want->bare) {
        name_it(o, k);
        begin_item(&o->items, k, MU_COPY_GONE, 0);
        o->num_items++;
    }
    want->sent = 0;
    want->bare = false;
}

/* A long value, behind the items so far. */
static void add_slice(struct mu_outgoing *o, const struct mu_wanted *k)
{
    struct mu_batch_slice s = {o->items.len, {k->blob, 0, k->len}};

    mu_pack_raw(&o->slices, &s, sizeof s);
    if (o->slices.failed)
        return;
    mu_blob_hold(k->blob);
    o->slice_bytes += k->len;
}

void mu_batch_value(struct mu_copies *c, struct mu_outgoing *o, const struct mu_wanted *k, struct mu_want *want)
{
    if (want->sent && !want->bare)
        name_it(o, k);
    begin_item(&o->items, k, MU_COPY_VALUE, k->len);
    if (k->blob)
        add_slice(o, k);
    else
        mu_pack_raw(&o->items, c->taken.bytes + k->at, k->len);
    o->num_items++;
    o->num_values++;
    want->sent = k->version;
    want->at = o->sent; /* the batch's frames are counted when they go */
    want->bare = false;
}

bool mu_batch_has_room(const struct mu_outgoing *o, const struct mu_wanted *k)
{
    return o->sent - o->taken + o->items.len + o->slice_bytes + k->key_len + k->len <= MU_COPIES_ROOM;
}

/* Items that are being sent: from the `at`th byte on, with the `next`th of the long values. */
struct run {
    const struct mu_pack *items, *slices;
    size_t at, next;
};

/* The long value behind so many bytes; NULL: there is none. */
static const struct mu_slice *slice_behind(const struct run *r, size_t bytes)
{
    const struct mu_batch_slice *all = (const struct mu_batch_slice *)(const void *)r->slices->bytes;

    return r->next < r->slices->len / sizeof *all && all[r->next].behind == bytes ? &all[r->next].slice : NULL;
}

/* A frame of them. */
static void run_send_some(struct mu_core *core, uint32_t host, struct run *r, uint8_t flags)
{
    struct mu_outgoing *o = &mu_copies_of(core)->out[host];
    struct mu_unpack u = mu_unpack_of(r->items->bytes + r->at, r->items->len - r->at);
    const struct mu_slice *slice = NULL;
    struct mu_pack frame = {0};
    size_t n = 0, len;
    uint32_t count = 0;

    while (u.left && n < MU_COPIES_CUT && !slice) {
        mu_unpack_u8(&u);
        mu_unpack_u64(&u);
        mu_unpack_blob(&u, SIZE_MAX, &len);
        len = mu_unpack_u32(&u);
        slice = slice_behind(r, r->items->len - u.left);
        if (!slice)
            mu_unpack_raw(&u, len);
        n = r->items->len - r->at - u.left;
        count++;
    }
    mu_pack_u8(&frame, flags);
    mu_pack_u32(&frame, count);
    mu_pack_raw(&frame, r->items->bytes + r->at, n);
    if (slice)
        mu_core_send_slice_ahead(core, host, MU_FRAME_COPIES, frame.bytes, frame.len, slice);
    else
        mu_core_send_ahead(core, host, MU_FRAME_COPIES, frame.bytes, frame.len);
    if (frame.failed)
        core->peers[host].ahead.failed = true;
    o->sent += frame.len + (slice ? slice->len : 0);
    r->at += n;
    r->next += slice != NULL;
    mu_pack_done(&frame);
}

static void forget_slices(struct mu_outgoing *o)
{
    struct mu_unpack u = mu_unpack_of(o->slices.bytes, o->slices.len);
    const struct mu_batch_slice *s;

    while ((s = mu_unpack_raw(&u, sizeof *s)))
        mu_blob_drop(s->slice.blob);
    mu_core_trim(&o->slices);
    o->slice_bytes = 0;
}

/* As one frame where that is short, and no long value is among others. Else all names go first, as GONE, and then the
 * values: what one frame does to the copies, several then do in that order. */
static bool is_one_frame(const struct mu_outgoing *o)
{
    return o->items.len <= MU_COPIES_CUT && (!o->slices.len || o->num_items == 1);
}

void mu_batch_send(struct mu_core *core, uint32_t host)
{
    static const struct mu_pack none;
    struct mu_outgoing *o = &mu_copies_of(core)->out[host];
    struct run names = {&o->names, &none, 0, 0}, items = {&o->items, &o->slices, 0, 0};
    uint8_t flags = o->anew ? MU_COPIES_ANEW : 0;
    bool failed = o->items.failed || o->names.failed || o->slices.failed;

    if (failed) { /* what there is of it makes no sense; the core breaks the connection */
        core->peers[host].ahead.failed = true;
        mu_core_want(core, host);
    }
    while (!failed && !is_one_frame(o) && names.at < o->names.len)
        run_send_some(core, host, &names, 0);
    if (!failed && (o->num_items || o->anew))
        do {
            run_send_some(core, host, &items, flags);
            flags = 0;
        } while (items.at < o->items.len);
    o->num_items = o->num_names = o->num_values = 0;
    o->anew = false;
    forget_slices(o);
    mu_core_trim(&o->items); /* at once: there is one for each host */
    mu_core_trim(&o->names);
}

void mu_batch_done(struct mu_outgoing *o)
{
    forget_slices(o);
    mu_pack_done(&o->slices);
    mu_pack_done(&o->items);
    mu_pack_done(&o->names);
}
