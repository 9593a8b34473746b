/*
 * bridge/link/queue.c: what goes out to one peer.
 *
 * A frame is copied once, behind the others, into chunks; one writev (or one TLS record a chunk) takes many. What lies
 * in a blob is not copied: each of its frames is a chunk, with the header and where the payload is. A peer that reads
 * more slowly than it is written to is dropped when its queue is full. A host behind a relay has no socket: what is
 * sent to it is gathered with what is for its siblings, and goes out in VIA messages on the relay's connection.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bridge/link/private.h"

uint32_t mu_link_hosts_behind(const struct mu_link *link)
{
    uint32_t count = 0;

    for (const struct mu_link_peer *p = link->relay ? link->relay->down->peers : NULL; p; p = p->next)
        count += p->state == MU_LINK_UP;
    return count;
}

/* A relay's connection has what all behind it may have. */
static bool queue_is_full(const struct mu_link_peer *p, size_t queued, size_t more)
{
    size_t one = p->link->options.queue_bytes ? p->link->options.queue_bytes : (size_t)128 << 20;

    return queued && queued + more > one &&
           queued + more > one * (1 + (p->branch ? p->branch->count : mu_link_hosts_behind(p->link)));
}

static void free_chunk(struct mu_link *link, struct mu_link_chunk *chunk)
{
    mu_blob_drop(chunk->slice.blob);
    if (!link->spare && chunk->capacity == MU_LINK_CHUNK)
        link->spare = chunk;
    else
        free(chunk);
}

/* A new one at the end of the queue. */
static struct mu_link_chunk *add_chunk(struct mu_link_peer *p, size_t capacity)
{
    struct mu_link_chunk *chunk = capacity == MU_LINK_CHUNK ? p->link->spare : NULL;

    if (chunk)
        p->link->spare = NULL;
    else
        chunk = malloc(sizeof *chunk + capacity);
    if (!chunk)
        return NULL;
    *chunk = (struct mu_link_chunk){.capacity = capacity};
    if (p->tail)
        p->tail->next = chunk;
    else
        p->head = chunk;
    p->tail = chunk;
    return chunk;
}

/* Room for n bytes at the end of the queue, in one piece; the slice is what follows them. */
static uint8_t *queue_room(struct mu_link_peer *p, size_t n, const struct mu_slice *slice)
{
    struct mu_link_chunk *chunk = p->tail;

    if (slice->blob)
        chunk = add_chunk(p, n);
    else if (!chunk || chunk->slice.blob || chunk->capacity - chunk->len < n)
        chunk = add_chunk(p, n > MU_LINK_CHUNK ? n : MU_LINK_CHUNK);
    if (!chunk)
        return NULL;
    if (slice->blob) {
        chunk->slice = *slice;
        mu_blob_hold(slice->blob);
    }
    chunk->len += n;
    p->queued += n + slice->len;
    return chunk->bytes + chunk->len - n;
}

/* What a message is made of: bytes that are copied, and then perhaps some that are not. */
struct parts {
    const uint8_t *head, *payload;
    size_t head_len, len;
    struct mu_slice slice;
};

static size_t parts_length(const struct parts *m)
{
    return m->head_len + m->len + m->slice.len;
}

static bool add_frame(struct mu_link_peer *p, uint8_t type, uint8_t flags, const struct parts *m)
{
    uint8_t *to = queue_room(p, MU_FRAME_HEADER + m->head_len + m->len, &m->slice);

    if (!to)
        return false;
    mu_frame_put(to, &(struct mu_frame_header){.magic = MU_FRAME_MAGIC,
                                               .version = MU_BRIDGE_VERSION,
                                               .type = type,
                                               .flags = flags,
                                               .length = (uint32_t)parts_length(m),
                                               .sequence = p->sequence++});
    if (m->head_len)
        memcpy(to + MU_FRAME_HEADER, m->head, m->head_len);
    if (m->len)
        memcpy(to + MU_FRAME_HEADER + m->head_len, m->payload, m->len);
    p->stats->frames_out++;
    return true;
}

static void touch_peer(struct mu_link_peer *p)
{
    if (p->is_dirty || p->wants_out)
        return;
    p->is_dirty = true;
    p->next_dirty = p->link->dirty;
    p->link->dirty = p;
}

/* The message's first frame, full; it goes on behind that. */
static struct parts cut_frame(struct parts *m)
{
    size_t of_head = m->head_len < MU_FRAME_PAYLOAD ? m->head_len : MU_FRAME_PAYLOAD, n = MU_FRAME_PAYLOAD - of_head;
    struct parts first = *m;

    first.head_len = of_head;
    if (of_head) /* else it may be NULL */
        m->head += of_head;
    m->head_len -= of_head;
    if (!n) { /* nothing of the rest yet */
        first.len = 0;
        first.slice = (struct mu_slice){0};
    } else if (m->slice.blob) {
        first.slice.len = n;
        m->slice.at += n;
        m->slice.len -= n;
    } else {
        first.len = n;
        m->payload += n;
        m->len -= n;
    }
    return first;
}

/* Frames that are full, then the rest: the head, then either a payload or a slice. */
static bool add_message(struct mu_link_peer *p, uint8_t type, struct parts m)
{
    while (parts_length(&m) > MU_FRAME_PAYLOAD) {
        struct parts first = cut_frame(&m);

        if (!add_frame(p, type, MU_FRAME_MORE, &first))
            return false;
    }
    return add_frame(p, type, 0, &m);
}

static bool send_message(struct mu_link_peer *p, uint8_t type, const struct parts *m)
{
    size_t most = type == MU_FRAME_VIA ? MU_LINK_VIA_MOST : MU_FRAME_MESSAGE, len = m->len + m->slice.len;
    bool ok;

    if (queue_is_full(p, p->queued, len)) {
        mu_peer_close(p, MU_LINK_QUIET, "it does not read what it is sent: %zu MiB wait for it", p->queued >> 20);
        return false;
    }
    ok = m->head_len + len <= most && add_message(p, type, *m);
    if (!ok) /* half a message may be in the queue: this connection is of no use any more */
        mu_peer_close(p, MU_LINK_QUIET, "there is no memory for what is to be sent");
    else
        touch_peer(p);
    return ok;
}

bool mu_peer_send_parts(struct mu_link_peer *p, uint8_t type, const void *head, size_t head_len, const void *payload,
                        size_t len)
{
    if (p->relay)
        return mu_branch_send(p, type, head, head_len, payload, len);
    return send_message(p, type, &(struct parts){.head = head, .head_len = head_len, .payload = payload, .len = len});
}

bool mu_peer_send_slice(struct mu_link_peer *p, uint8_t type, const void *head, size_t head_len,
                        const struct mu_slice *body)
{
    if (p->relay)
        return mu_branch_send(p, type, head, head_len, mu_slice_bytes(body), body->len);
    return send_message(p, type, &(struct parts){.head = head, .head_len = head_len, .slice = *body});
}

bool mu_peer_send(struct mu_link_peer *p, uint8_t type, const void *payload, size_t len)
{
    return mu_peer_send_parts(p, type, NULL, 0, payload, len);
}

/* ---- to hosts behind a relay ---- */

enum { BATCH_MOST = 16 << 20 };

static bool send_via(void *arg, const void *head, size_t head_len, const void *payload, size_t len)
{
    return mu_peer_send_parts(arg, MU_FRAME_VIA, head, head_len, payload, len);
}

void mu_branch_drain(struct mu_link_peer *relay)
{
    if (!mu_mux_send(&relay->branch->batch, send_via, relay))
        mu_peer_close(relay, MU_LINK_QUIET, "there is no memory for what is to be sent");
}

bool mu_branch_send(struct mu_link_peer *p, uint8_t type, const void *head, size_t head_len, const void *payload,
                    size_t len)
{
    struct mu_link_peer *relay = p->relay;
    struct mu_mux_batch *batch = &relay->branch->batch;
    size_t waiting = relay->queued + batch->bytes.len;
    uint32_t host = p->host;

    if (relay->state != MU_LINK_UP)
        return false;
    if (queue_is_full(relay, waiting, len)) {
        mu_peer_close(relay, MU_LINK_QUIET, "it does not read what it is sent: %zu MiB wait for it", waiting >> 20);
        return false;
    }
    if (batch->bytes.len > BATCH_MOST)
        mu_branch_drain(relay);
    if (type == MU_FRAME_WELCOME) {
        head = &host;
        head_len = sizeof host;
    }
    if (relay->state != MU_LINK_UP || !mu_mux_add(batch, &p->route, type, head, head_len, payload, len)) {
        mu_peer_close(relay, MU_LINK_QUIET, "there is no memory for what is to be sent");
        return false;
    }
    p->stats->frames_out++;
    p->stats->bytes_out += head_len + len;
    touch_peer(relay);
    return true;
}

void mu_peer_forget_queue(struct mu_link_peer *p)
{
    while (p->head) {
        struct mu_link_chunk *chunk = p->head;

        p->head = chunk->next;
        free_chunk(p->link, chunk);
    }
    p->tail = NULL;
    p->queued = 0;
}

/* ---- writing ---- */

bool mu_peer_await(const struct mu_link_peer *p, bool in, bool out)
{
    struct epoll_event event = {.events = (in ? EPOLLIN : 0) | (out ? EPOLLOUT : 0)};

    event.data.ptr = (void *)p;
    return epoll_ctl(p->link->epoll, EPOLL_CTL_MOD, p->fd, &event) == 0;
}

static void want_out(struct mu_link_peer *p, bool want)
{
    if (want != p->wants_out && mu_peer_await(p, !p->is_paused, want))
        p->wants_out = want;
}

static void queue_consume(struct mu_link_peer *p, size_t n)
{
    p->queued -= n;
    while (n) {
        struct mu_link_chunk *chunk = p->head;
        size_t left = chunk->len + chunk->slice.len - chunk->at;

        if (n < left) {
            chunk->at += n;
            return;
        }
        n -= left;
        p->head = chunk->next;
        if (!p->head)
            p->tail = NULL;
        free_chunk(p->link, chunk);
    }
}

/* What is left of a chunk: one or two pieces. */
static size_t chunk_pieces(const struct mu_link_chunk *chunk, struct iovec piece[2])
{
    size_t gone = chunk->at > chunk->len ? chunk->at - chunk->len : 0, n = 0;

    if (chunk->at < chunk->len)
        piece[n++] = (struct iovec){(void *)(chunk->bytes + chunk->at), chunk->len - chunk->at};
    if (chunk->slice.len > gone)
        piece[n++] = (struct iovec){(void *)(mu_slice_bytes(&chunk->slice) + gone), chunk->slice.len - gone};
    return n;
}

static ssize_t write_some(struct mu_link_peer *p)
{
    struct iovec parts[MU_LINK_VECTOR + 1];
    struct msghdr message = {.msg_iov = parts};
    ssize_t n;

    if (p->ssl) {
        size_t pieces = chunk_pieces(p->head, parts), len = parts[0].iov_len;

        p->socket.goes_on = pieces > 1 || p->head->next || len > MU_LINK_RECORD;
        n = mu_openssl_write(p->ssl, parts[0].iov_base, len < MU_LINK_RECORD ? len : MU_LINK_RECORD);
        p->socket.goes_on = false;
        return n;
    }
    for (struct mu_link_chunk *c = p->head; c && message.msg_iovlen < MU_LINK_VECTOR; c = c->next)
        message.msg_iovlen += chunk_pieces(c, parts + message.msg_iovlen);
    do
        n = sendmsg(p->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        p->stats->bytes_out += (uint64_t)n;
    return n;
}

/* All has gone out, and it was our last word. */
static void peer_shut(struct mu_link_peer *p)
{
    if (p->is_shut)
        return;
    p->is_shut = true;
    if (p->ssl && SSL_is_init_finished(p->ssl))
        SSL_shutdown(p->ssl);
    shutdown(p->fd, SHUT_WR);
}

/* The other end is gone. What it said before that may lie in the socket still, a LEAVE perhaps: reading ends it. */
static bool is_left_to_reading(struct mu_link_peer *p, int error)
{
    if (p->state == MU_LINK_ENDING || (error != EPIPE && error != ECONNRESET))
        return false;
    mu_peer_forget_queue(p);
    mu_peer_read_again(p, true);
    return true;
}

void mu_peer_flush(struct mu_link_peer *p)
{
    if (p->branch && p->state == MU_LINK_UP)
        mu_branch_drain(p);
    while (p->head && p->state != MU_LINK_CLOSED) {
        ssize_t n = write_some(p);

        if (n > 0) {
            queue_consume(p, (size_t)n);
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            want_out(p, true);
            return;
        }
        if (n < 0 && is_left_to_reading(p, errno))
            break;
        mu_peer_close(p, MU_LINK_QUIET, "writing to it failed: %s", strerror(errno));
    }
    if (p->state == MU_LINK_CLOSED)
        return;
    want_out(p, false);
    if (p->state == MU_LINK_ENDING)
        peer_shut(p);
}
