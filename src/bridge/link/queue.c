/*
 * bridge/link/queue.c: what goes out to one peer, and what comes in.
 *
 * A frame is copied once, behind the others, into chunks; one writev (or one TLS record a chunk) takes many. What lies
 * in a blob is not copied: each of its frames is a chunk, with the header and where the payload is. A peer that reads
 * more slowly than it is written to is dropped when its queue is full. Reading takes what there is up to a bound, so
 * that one peer cannot keep the others waiting, through one buffer for all; the middle of a long frame goes straight to
 * where its message is put together.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bridge/link/private.h"

/* A relay's connection has what all behind it may have. */
bool mu_peer_is_full(const struct mu_link_peer *p, size_t queued, size_t more)
{
    size_t one = p->link->options.queue_bytes ? p->link->options.queue_bytes : (size_t)128 << 20;

    return queued && queued + more > one &&
           queued + more > one * (1 + (p->branch ? p->branch->count : mu_relay_count(p->link)));
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
static uint8_t *room(struct mu_link_peer *p, size_t n, const struct mu_slice *slice)
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

static size_t length(const struct parts *m)
{
    return m->head_len + m->len + m->slice.len;
}

static bool add_frame(struct mu_link_peer *p, uint8_t type, uint8_t flags, const struct parts *m)
{
    uint8_t *to = room(p, MU_FRAME_HEADER + m->head_len + m->len, &m->slice);

    if (!to)
        return false;
    mu_frame_put(to, &(struct mu_frame_header){.magic = MU_FRAME_MAGIC,
                                               .version = MU_BRIDGE_VERSION,
                                               .type = type,
                                               .flags = flags,
                                               .length = (uint32_t)length(m),
                                               .sequence = p->sequence++});
    if (m->head_len)
        memcpy(to + MU_FRAME_HEADER, m->head, m->head_len);
    if (m->len)
        memcpy(to + MU_FRAME_HEADER + m->head_len, m->payload, m->len);
    p->stats->frames_out++;
    return true;
}

void mu_peer_touch(struct mu_link_peer *p)
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
    while (length(&m) > MU_FRAME_PAYLOAD) {
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

    if (mu_peer_is_full(p, p->queued, len)) {
        mu_peer_close(p, MU_LINK_QUIET, "it does not read what it is sent: %zu MiB wait for it", p->queued >> 20);
        return false;
    }
    ok = m->head_len + len <= most && add_message(p, type, *m);
    if (!ok) /* half a message may be in the queue: this connection is of no use any more */
        mu_peer_close(p, MU_LINK_QUIET, "there is no memory for what is to be sent");
    else
        mu_peer_touch(p);
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

static bool await(const struct mu_link_peer *p, bool in, bool out)
{
    struct epoll_event event = {.events = (in ? EPOLLIN : 0) | (out ? EPOLLOUT : 0)};

    event.data.ptr = (void *)p;
    return epoll_ctl(p->link->epoll, EPOLL_CTL_MOD, p->fd, &event) == 0;
}

static void want_out(struct mu_link_peer *p, bool want)
{
    if (want != p->wants_out && await(p, !p->is_paused, want))
        p->wants_out = want;
}

static void consume(struct mu_link_peer *p, size_t n)
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
static size_t pieces(const struct mu_link_chunk *chunk, struct iovec piece[2])
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
        pieces(p->head, parts);
        return mu_tls_write(p, parts[0].iov_base, parts[0].iov_len);
    }
    for (struct mu_link_chunk *c = p->head; c && message.msg_iovlen < MU_LINK_VECTOR; c = c->next)
        message.msg_iovlen += pieces(c, parts + message.msg_iovlen);
    do
        n = sendmsg(p->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        p->stats->bytes_out += (uint64_t)n;
    return n;
}

/* All has gone out, and it was our last word. */
static void shut(struct mu_link_peer *p)
{
    if (p->is_shut)
        return;
    p->is_shut = true;
    if (p->ssl && SSL_is_init_finished(p->ssl))
        SSL_shutdown(p->ssl);
    shutdown(p->fd, SHUT_WR);
}

static void set_again(struct mu_link_peer *p, bool again)
{
    p->link->num_again += again;
    p->link->num_again -= p->is_again;
    p->is_again = again;
}

/* The other end is gone. What it said before that may lie in the socket still, a LEAVE perhaps: reading ends it. */
static bool is_left_to_reading(struct mu_link_peer *p, int error)
{
    if (p->state == MU_LINK_ENDING || (error != EPIPE && error != ECONNRESET))
        return false;
    mu_peer_forget_queue(p);
    set_again(p, true);
    return true;
}

void mu_peer_flush(struct mu_link_peer *p)
{
    if (p->branch && p->state == MU_LINK_UP)
        mu_branch_drain(p);
    while (p->head && p->state != MU_LINK_CLOSED) {
        ssize_t n = write_some(p);

        if (n > 0) {
            consume(p, (size_t)n);
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
        shut(p);
}

/* ---- reading ---- */

/* What one read may take: first the rest of a long frame's payload, to where its message is; then what comes behind it,
 * to the buffer. Behind a frame whose message goes on that is the next one's header, so that its payload can go where
 * it belongs as well. */
struct intake {
    struct iovec parts[2];
    size_t most; /* of both */
};

static void plan_read(struct mu_link_peer *p, struct intake *in)
{
    size_t size, behind = mu_frame_goes_on(&p->reader) ? MU_FRAME_HEADER : MU_LINK_BUFFER;
    uint8_t *room = mu_frame_room(&p->reader, &size);

    if (size < MU_LINK_DIRECT) {
        size = 0;
        behind = MU_LINK_BUFFER;
    }
    in->parts[0] = (struct iovec){room, size};
    in->parts[1] = (struct iovec){p->link->buffer, behind};
    in->most = size + behind;
}

static ssize_t read_some(struct mu_link_peer *p, struct intake *in)
{
    struct iovec *first = &in->parts[in->parts[0].iov_len == 0];
    struct msghdr message = {.msg_iov = first, .msg_iovlen = (size_t)(in->parts + 2 - first)};
    ssize_t n;

    if (p->ssl)
        return mu_tls_read(p, first->iov_base, first->iov_len);
    do
        n = recvmsg(p->fd, &message, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        p->stats->bytes_in += (uint64_t)n;
    return n;
}

/* The stream has no meaning any more. What a follower hears before it is up will be no better the next time. */
static void end_by_fault(struct mu_link_peer *p)
{
    char why[200], words[160];
    bool is_final = p->link->side == MU_LINK_FOLLOWER && p->state != MU_LINK_UP;

    mu_frame_say(&p->reader, why, sizeof why);
    mu_peer_words(p, words, sizeof words);
    if (is_final) {
        mu_peer_close(p, MU_LINK_REFUSED, "%s %s", words, why);
        return;
    }
    mu_link_say(p->link, "%s %s: dropped", words, why);
    memmove(why + 3, why, sizeof why - 3);
    memcpy(why, "it ", 3);
    why[sizeof why - 1] = 0;
    mu_peer_dismiss(p, why);
}

static void feed(struct mu_link_peer *p, const uint8_t *at, size_t left)
{
    uint64_t before = p->reader.frames;
    int whole = 1;

    while (whole > 0 && p->state != MU_LINK_CLOSED && p->state != MU_LINK_ENDING) {
        struct mu_message message;

        whole = mu_frame_read(&p->reader, &at, &left, &message);
        p->stats->frames_in += p->reader.frames - before;
        before = p->reader.frames;
        if (whole > 0)
            mu_peer_take(p, &message);
    }
    if (whole < 0)
        end_by_fault(p);
}

/* What it says stays with it, and with the kernel. */
void mu_peer_pause(struct mu_link_peer *p, bool pause)
{
    if (pause == p->is_paused || !await(p, !pause, p->wants_out))
        return;
    p->is_paused = pause;
    p->heard = p->link->now;
    set_again(p, !pause); /* something may lie in OpenSSL's hands */
}

void mu_peer_read(struct mu_link_peer *p)
{
    set_again(p, false);
    for (int i = 0; i < 16; i++) {
        struct intake in;
        ssize_t n;
        size_t filled;

        plan_read(p, &in);
        n = read_some(p, &in);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            mu_peer_close(p, MU_LINK_QUIET, "reading from it failed: %s", strerror(errno));
        else if (n == 0)
            mu_peer_close(p, MU_LINK_QUIET, "it closed the connection");
        if (n <= 0)
            return;
        p->heard = p->link->now;
        filled = (size_t)n < in.parts[0].iov_len ? (size_t)n : in.parts[0].iov_len;
        mu_frame_fill(&p->reader, filled);
        if (p->state != MU_LINK_ENDING) /* then nothing that it says counts any more */
            feed(p, p->link->buffer, (size_t)n - filled);
        if (p->state == MU_LINK_CLOSED || p->is_paused || (!p->ssl && (size_t)n < in.most) ||
            (p->ssl && !SSL_has_pending(p->ssl)))
            return;
    }
    set_again(p, true);
}
