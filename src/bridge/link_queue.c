/*
 * bridge/link_queue.c: what goes out to one peer, and what comes in.
 *
 * A frame is copied once, behind the others, into chunks; one writev (or one TLS record a chunk) takes many. A peer
 * that reads more slowly than it is written to is dropped when its queue is full. Reading takes what there is up to a
 * bound, so that one peer cannot keep the others waiting, through one buffer for all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bridge/link_private.h"

/* A relay's connection has what all behind it may have. */
bool mu_peer_is_full(const struct mu_link_peer *p, size_t queued, size_t more)
{
    size_t one = p->link->options.queue_bytes ? p->link->options.queue_bytes : (size_t)128 << 20;

    return queued && queued + more > one &&
           queued + more > one * (1 + (p->branch ? p->branch->count : mu_relay_count(p->link)));
}

static void free_chunk(struct mu_link *link, struct mu_link_chunk *chunk)
{
    if (!link->spare && chunk->capacity == MU_LINK_CHUNK)
        link->spare = chunk;
    else
        free(chunk);
}

/* Room for n bytes at the end of the queue, in one piece. */
static uint8_t *room(struct mu_link_peer *p, size_t n)
{
    struct mu_link_chunk *chunk = p->tail;
    size_t capacity = n > MU_LINK_CHUNK ? n : MU_LINK_CHUNK;

    if (!chunk || chunk->capacity - chunk->len < n) {
        chunk = capacity == MU_LINK_CHUNK ? p->link->spare : NULL;
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
    }
    chunk->len += n;
    p->queued += n;
    return chunk->bytes + chunk->len - n;
}

static bool add_frame(struct mu_link_peer *p, uint8_t type, uint8_t flags, const uint8_t *head, size_t head_len,
                      const uint8_t *payload, size_t len)
{
    uint8_t *to = room(p, MU_FRAME_HEADER + head_len + len);

    if (!to)
        return false;
    mu_frame_put(to, &(struct mu_frame_header){.magic = MU_FRAME_MAGIC,
                                               .version = MU_BRIDGE_VERSION,
                                               .type = type,
                                               .flags = flags,
                                               .length = (uint32_t)(head_len + len),
                                               .sequence = p->sequence++});
    if (head_len)
        memcpy(to + MU_FRAME_HEADER, head, head_len);
    if (len)
        memcpy(to + MU_FRAME_HEADER + head_len, payload, len);
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

/* Frames that are full, then the rest. The head is short, and goes into the first. */
static bool add_message(struct mu_link_peer *p, uint8_t type, const uint8_t *head, size_t head_len, const uint8_t *at,
                        size_t len)
{
    while (head_len + len > MU_FRAME_PAYLOAD) {
        size_t n = MU_FRAME_PAYLOAD - head_len;

        if (!add_frame(p, type, MU_FRAME_MORE, head, head_len, at, n))
            return false;
        head_len = 0;
        at += n;
        len -= n;
    }
    return add_frame(p, type, 0, head, head_len, at, len);
}

bool mu_peer_send_parts(struct mu_link_peer *p, uint8_t type, const void *head, size_t head_len, const void *payload,
                        size_t len)
{
    size_t most = type == MU_FRAME_VIA ? MU_LINK_VIA_MOST : MU_FRAME_MESSAGE;
    bool ok;

    if (p->relay)
        return mu_branch_send(p, type, head, head_len, payload, len);
    if (mu_peer_is_full(p, p->queued, len)) {
        mu_peer_close(p, MU_LINK_QUIET, "it does not read what it is sent: %zu MiB wait for it", p->queued >> 20);
        return false;
    }
    ok = head_len <= MU_FRAME_PAYLOAD && head_len + len <= most && add_message(p, type, head, head_len, payload, len);
    if (!ok) /* half a message may be in the queue: this connection is of no use any more */
        mu_peer_close(p, MU_LINK_QUIET, "there is no memory for what is to be sent");
    else
        mu_peer_touch(p);
    return ok;
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
        free(chunk);
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
        size_t left = chunk->len - chunk->at;

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

static ssize_t write_some(struct mu_link_peer *p)
{
    struct iovec parts[MU_LINK_VECTOR];
    struct msghdr message = {.msg_iov = parts};
    ssize_t n;

    if (p->ssl)
        return mu_tls_write(p, p->head->bytes + p->head->at, p->head->len - p->head->at);
    for (struct mu_link_chunk *c = p->head; c && message.msg_iovlen < MU_LINK_VECTOR; c = c->next)
        parts[message.msg_iovlen++] = (struct iovec){c->bytes + c->at, c->len - c->at};
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

static ssize_t read_some(struct mu_link_peer *p)
{
    ssize_t n;

    if (p->ssl)
        return mu_tls_read(p, p->link->buffer, MU_LINK_BUFFER);
    do
        n = recv(p->fd, p->link->buffer, MU_LINK_BUFFER, MSG_DONTWAIT);
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
        ssize_t n = read_some(p);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            mu_peer_close(p, MU_LINK_QUIET, "reading from it failed: %s", strerror(errno));
        else if (n == 0)
            mu_peer_close(p, MU_LINK_QUIET, "it closed the connection");
        if (n <= 0)
            return;
        p->heard = p->link->now;
        if (p->state != MU_LINK_ENDING) /* then nothing that it says counts any more */
            feed(p, p->link->buffer, (size_t)n);
        if (p->state == MU_LINK_CLOSED || p->is_paused || (!p->ssl && n < MU_LINK_BUFFER) ||
            (p->ssl && !SSL_has_pending(p->ssl)))
            return;
    }
    set_again(p, true);
}
