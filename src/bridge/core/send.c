/*
 * bridge/core/send.c: what modules say to a peer, from when they say it until it goes to the wire.
 *
 * A peer has three buffers: what must be ahead, what is decided for everybody, and the rest. A message is its
 * head, and perhaps a slice of a blob, which is held until it has gone.
 */
#include <string.h>

#include "bridge/core/core.h"

enum { KEPT_ROOM = 8192 };

size_t mu_slice_min = MU_SLICE_MIN;

static bool is_up(const struct mu_core *core, uint32_t host)
{
    return mu_core_is_peer(core, host) && core->peers[host].state == MU_PEER_UP;
}

enum queue_place { AHEAD, FRONT, TAIL };

/* What is short goes behind its head, what is long is copied once, here; a slice's blob is held. */
static void frame_append(struct mu_core *core, uint32_t host, enum queue_place place, uint8_t type, const void *head,
                         size_t head_len, const void *body, size_t len, const struct mu_slice *slice)
{
    struct mu_spoken s = {.head_len = (uint32_t)(head_len + len), .type = type};
    struct mu_peer *p = &core->peers[host];
    struct mu_pack *to;

    if (!is_up(core, host))
        return;
    to = place == AHEAD ? &p->ahead : place == FRONT ? &p->front : &p->tail;
    if (slice && slice->len) {
        s.body = *slice;
        mu_blob_hold(s.body.blob);
    } else if (len > mu_slice_min) {
        s.body = (struct mu_slice){.blob = mu_blob_new(len), .len = len};
        to->failed |= !s.body.blob;
        if (s.body.blob)
            memcpy(s.body.blob->bytes, body, len);
        s.head_len = (uint32_t)head_len;
        len = 0;
    }
    mu_pack_raw(to, &s, sizeof s);
    if (to->failed)
        mu_blob_drop(s.body.blob);
    else if (place == TAIL)
        p->slices += s.body.len;
    mu_pack_raw(to, head, head_len);
    mu_pack_raw(to, body, len);
    p->wanted = true;
}

void mu_core_send(struct mu_core *core, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    frame_append(core, host, TAIL, type, NULL, 0, payload, len, NULL);
}

void mu_core_send_parts(struct mu_core *core, uint32_t host, uint8_t type, const void *head, size_t head_len,
                        const void *body, size_t len)
{
    frame_append(core, host, TAIL, type, head, head_len, body, len, NULL);
}

void mu_core_send_slice(struct mu_core *core, uint32_t host, uint8_t type, const void *head, size_t head_len,
                        const struct mu_slice *body)
{
    frame_append(core, host, TAIL, type, head, head_len, NULL, 0, body);
}

void mu_core_send_ahead(struct mu_core *core, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    frame_append(core, host, AHEAD, type, NULL, 0, payload, len, NULL);
}

void mu_core_send_slice_ahead(struct mu_core *core, uint32_t host, uint8_t type, const void *head, size_t head_len,
                              const struct mu_slice *body)
{
    frame_append(core, host, AHEAD, type, head, head_len, NULL, 0, body);
}

void mu_core_send_front(struct mu_core *core, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    frame_append(core, host, FRONT, type, NULL, 0, payload, len, NULL);
}

void mu_core_want(struct mu_core *core, uint32_t host)
{
    if (is_up(core, host))
        core->peers[host].wanted = true;
}

void mu_core_trim(struct mu_pack *p)
{
    if (p->capacity > KEPT_ROOM)
        mu_pack_done(p);
    else
        mu_pack_reset(p);
}

void mu_core_hold(struct mu_core *core, uint32_t host, size_t may_go)
{
    core->peers[host].may_go = may_go;
}

/* A wire that takes no slices gets the message in one piece. */
static bool send_whole(struct mu_core *core, uint32_t host, const struct mu_spoken *s, const uint8_t *head)
{
    struct mu_pack whole = {0};
    bool ok;

    mu_pack_raw(&whole, head, s->head_len);
    mu_pack_raw(&whole, mu_slice_bytes(&s->body), s->body.len);
    ok = !whole.failed && core->wire.send(core->wire.arg, host, s->type, whole.bytes, whole.len);
    mu_pack_done(&whole);
    return ok;
}

static bool send_said(struct mu_core *core, uint32_t host, const struct mu_spoken *s, const uint8_t *head)
{
    if (!s->body.blob)
        return core->wire.send(core->wire.arg, host, s->type, head, s->head_len);
    if (!core->wire.send_slice)
        return send_whole(core, host, s, head);
    return core->wire.send_slice(core->wire.arg, host, s->type, head, s->head_len, &s->body);
}

bool mu_core_flush(struct mu_core *core, uint32_t host, struct mu_pack *p, size_t until)
{
    size_t at = 0;
    bool ok = true;

    while (ok && at < p->len && at < until) {
        struct mu_spoken s;

        memcpy(&s, p->bytes + at, sizeof s);
        ok = send_said(core, host, &s, p->bytes + at + sizeof s);
        at += sizeof s + s.head_len;
        mu_blob_drop(s.body.blob);
        if (p == &core->peers[host].tail)
            core->peers[host].slices -= s.body.len;
        core->worked |= ok;
        core->peers[host].told += ok;
    }
    if (at < p->len) {
        memmove(p->bytes, p->bytes + at, p->len - at);
        p->len -= at;
    } else {
        mu_core_trim(p);
    }
    return ok;
}

/* Nothing of it goes out. */
static void forget_said(struct mu_pack *p)
{
    struct mu_unpack u = mu_unpack_of(p->bytes, p->len);
    const void *at;

    while ((at = mu_unpack_raw(&u, sizeof(struct mu_spoken)))) {
        struct mu_spoken s;

        memcpy(&s, at, sizeof s);
        mu_blob_drop(s.body.blob);
        mu_unpack_raw(&u, s.head_len);
    }
    mu_pack_done(p);
}

void mu_core_forget_said(struct mu_peer *p)
{
    forget_said(&p->ahead);
    forget_said(&p->front);
    forget_said(&p->tail);
    p->slices = 0;
}
