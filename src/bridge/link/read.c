/*
 * bridge/link/read.c: what comes in from one peer.
 *
 * Reading takes what there is up to a bound, so that one peer cannot keep the others waiting, through one buffer for
 * all; the middle of a long frame goes straight to where its message is put together. A whole message goes to the
 * owner, or to the row of the link's calls for its type.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "bridge/link/private.h"

void mu_peer_read_again(struct mu_link_peer *p, bool again)
{
    p->link->num_again += again;
    p->link->num_again -= p->is_again;
    p->is_again = again;
}

/* What one read may take: first the rest of a long frame's payload, to where its message is; then what comes behind it,
 * to the buffer. Where the message goes on behind the frame, that is the next one's header, so that its payload can go
 * where it belongs as well. */
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
        return mu_openssl_read(p->ssl, first->iov_base, first->iov_len);
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

static bool has_right_length(const struct mu_message *message)
{
    if (message->type == MU_FRAME_PING || message->type == MU_FRAME_PONG)
        return message->len == 8;
    return message->type != MU_FRAME_LEAVE || message->len == 0;
}

/* Whether it may come at all, the states' table says; what it means, those above: the owner, or the link's own. */
static void take_message(struct mu_link_peer *p, const struct mu_message *message)
{
    const struct mu_link_events *events = &p->link->options.events;
    enum mu_link_state next;

    if (!mu_link_step(p->state, mu_link_event_of(message->type), p->link->side, &next)) {
        mu_peer_take_wrong(p, message, "");
        return;
    }
    if (!has_right_length(message)) {
        mu_peer_take_wrong(p, message, " and a wrong length");
        return;
    }
    if (next != MU_LINK_CLOSED) /* closing does that itself */
        p->state = next;
    p->link->dial.since = 0; /* a follower's leader is there, whenever the welcome may come */
    if (message->type < MU_FRAME_OWNER) {
        p->link->calls->frames[message->type](p, message);
        return;
    }
    p->beyond_heard = p->link->now;
    if (!p->link->is_ending)
        events->frame(events->arg, p->host, message->type, message->bytes, message->len);
}

static void reader_feed(struct mu_link_peer *p, const uint8_t *at, size_t left)
{
    uint64_t before = p->reader.frames;
    int whole = 1;

    while (whole > 0 && p->state != MU_LINK_CLOSED && p->state != MU_LINK_ENDING) {
        struct mu_message message;

        whole = mu_frame_read(&p->reader, &at, &left, &message);
        p->stats->frames_in += p->reader.frames - before;
        before = p->reader.frames;
        if (whole > 0)
            take_message(p, &message);
    }
    if (whole < 0)
        end_by_fault(p);
}

/* What it says stays with it, and with the kernel. */
void mu_peer_pause(struct mu_link_peer *p, bool pause)
{
    if (pause == p->is_paused || !mu_peer_await(p, !pause, p->wants_out))
        return;
    p->is_paused = pause;
    p->heard = p->link->now;
    mu_peer_read_again(p, !pause); /* something may lie in OpenSSL's hands */
}

void mu_peer_read(struct mu_link_peer *p)
{
    mu_peer_read_again(p, false);
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
            reader_feed(p, p->link->buffer, (size_t)n - filled);
        if (p->state == MU_LINK_CLOSED || p->is_paused || (!p->ssl && (size_t)n < in.most) ||
            (p->ssl && !SSL_has_pending(p->ssl)))
            return;
    }
    mu_peer_read_again(p, true);
}
