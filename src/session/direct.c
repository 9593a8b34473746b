/*
 * session/direct.c: steps that go to `muster executor` by a socket of its own: the master's end.
 *
 * What is said is sent at once as far as the socket takes it; the rest waits in pieces, and what a step feeds is not
 * copied: it is the step's until that is done. A step that is cancelled meanwhile leaves a copy of the rest behind, for
 * a frame that was begun is finished. What is fetched is read to where it stays, behind the head of its TensorProto.
 *
 * A graph is said when its second step comes: most run once. Until the executor has built it, steps go the other way.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/list.h"
#include "session/direct_private.h"
#include "session/private.h"

enum { INLINE = 16384, PIECES = 16, BUFFER = 4 << 20 };

size_t mu_direct_element(uint64_t type)
{
    static const uint8_t sizes[] = {0, 4, 8, 4, 1, 2, 1, 0, 8, 8, 1, 1, 1, 4, 2, 2, 2, 2, 16, 2, 0, 0, 4, 8};

    return type < sizeof sizes ? sizes[type] : 0;
}

bool mu_direct_tensor_is_well(const struct mu_direct_tensor *t)
{
    uint64_t elements = 1, size = mu_direct_element(t->type);

    if (!size || t->num_dims > MU_DIRECT_DIMS)
        return false;
    for (uint32_t i = 0; i < t->num_dims; i++) {
        if (t->dims[i] < 0 || (t->dims[i] > 0 && elements > MU_DIRECT_BYTES / (uint64_t)t->dims[i]))
            return false;
        elements *= (uint64_t)t->dims[i];
    }
    return elements <= MU_DIRECT_BYTES / size && t->bytes == elements * size;
}

/* ---- the end of calls -------------------------------------------------------------------------------------------- */

static void direct_call_free(struct mu_direct_call *call)
{
    MU_LIST_DROP(call->direct->calls, call);
    for (uint32_t i = 0; call->keys && i < call->num_recv; i++)
        free(call->keys[i]);
    free(call->keys);
    free(call);
}

void mu_direct_call_end(struct mu_direct_call *call, const struct mu_executor_answer *answer)
{
    mu_executor_done *done = call->done;
    void *arg = call->arg;

    MU_LIST_DROP(call->direct->calls, call);
    done(arg, answer);
    MU_LIST_PUSH(call->direct->calls, call);
    direct_call_free(call);
}

static void pieces_free(struct mu_direct *d)
{
    while (d->out) {
        struct mu_direct_piece *p = d->out;

        MU_QUEUE_DROP(d->out, d->out_last, p);
        free(p);
    }
}

/* The channel is of no use any more. Its calls end as those of a connection that is lost. */
void mu_direct_break(struct mu_direct *d)
{
    if (d->is_broken)
        return;
    d->is_broken = true;
    uv_poll_stop(&d->poll);
    pieces_free(d);
    while (d->calls)
        mu_direct_call_end(d->calls, &(struct mu_executor_answer){.status = MUSTER_UNAVAILABLE,
                                                                  .text = "its process takes no steps any more",
                                                                  .is_lost = true});
}

/* ---- what is said ------------------------------------------------------------------------------------------------ */

static void direct_poll(struct mu_direct *d)
{
    int wanted = UV_READABLE | (d->out ? UV_WRITABLE : 0);

    if (!d->is_broken && wanted != d->polled && uv_poll_start(&d->poll, wanted, mu_direct_on_event) == 0)
        d->polled = wanted;
}

/* Bytes that have been sent of these; negative: the socket is no more. */
static ssize_t pieces_send(struct mu_direct *d, struct iovec *parts, size_t count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t n;

    do
        n = sendmsg(d->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : n;
}

/* A socket that is no more is seen when it is read from: calls are not done here. */
void mu_direct_flush(struct mu_direct *d)
{
    while (d->out) {
        struct iovec parts[PIECES];
        size_t count = 0;
        ssize_t n;

        for (struct mu_direct_piece *p = d->out; p && count < PIECES; p = p->next)
            parts[count++] = (struct iovec){(void *)(uintptr_t)p->at, p->len};
        n = pieces_send(d, parts, count);
        if (n <= 0)
            break;
        while (n > 0) {
            struct mu_direct_piece *p = d->out;
            size_t part = (size_t)n < p->len ? (size_t)n : p->len;

            p->at += part;
            p->len -= part;
            n -= (ssize_t)part;
            if (p->len)
                break;
            MU_QUEUE_DROP(d->out, d->out_last, p);
            free(p);
        }
    }
    direct_poll(d);
}

/* Its bytes behind it, for the caller to fill. */
struct mu_direct_piece *mu_direct_piece_new(size_t len)
{
    struct mu_direct_piece *p = malloc(sizeof *p + len);

    if (p)
        *p = (struct mu_direct_piece){.at = (uint8_t *)(p + 1), .len = len};
    return p;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* The tensor's name in "SEND_DEVICE;INCARNATION;RECV_DEVICE;NAME;0:0" is this one. */
static bool key_names(const char *key, const char *name)
{
    size_t len = strlen(name);

    for (int i = 0; i < 3 && key; i++) {
        key = strchr(key, ';');
        key += key != NULL;
    }
    return key && strncmp(key, name, len) == 0 && key[len] == ';';
}

/* The number of the key's name; a step says them in one order always, so the guess is right as a rule. */
static uint32_t number_of(char *const *names, uint32_t count, const char *key, uint32_t guess)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (guess + i) % count;

        if (key_names(key, names[at]))
            return at;
    }
    return UINT32_MAX;
}

/* What is fed, in the graph's order. */
static bool feeds_describe(const struct mu_direct_way *way, const struct mu_executor_run *run,
                           struct mu_direct_tensor *tensors, struct mu_executor_bytes *contents, uint64_t *ret_bytes)
{
    bool is_given[MU_DIRECT_TENSORS] = {false};

    *ret_bytes = 0;
    for (uint32_t i = 0; i < run->num_send; i++) {
        uint32_t n = number_of(way->names.fed, way->names.num_fed, run->send[i].key, i);

        if (n == UINT32_MAX || is_given[n] || !mu_ss_tensor_plain(run->send[i].tensor, &tensors[n], &contents[n]))
            return false;
        is_given[n] = true;
        *ret_bytes += tensors[n].bytes;
    }
    return true;
}

static struct mu_direct_call *direct_call_new(struct mu_direct_way *way, const struct mu_executor_run *run,
                                              mu_executor_done *done, void *arg)
{
    struct mu_direct_call *call = calloc(1, sizeof *call);

    if (!call)
        return NULL;
    *call = (struct mu_direct_call){.direct = way->direct, .num_recv = run->num_recv, .done = done, .arg = arg};
    call->keys = calloc(run->num_recv + 1, sizeof *call->keys);
    MU_LIST_PUSH(way->direct->calls, call);
    for (uint32_t i = 0; call->keys && i < run->num_recv; i++) {
        uint32_t n = number_of(way->names.fetched, way->names.num_fetched, run->recv[i], i);

        if (n == UINT32_MAX || call->keys[n] || !(call->keys[n] = strdup(run->recv[i]))) {
            direct_call_free(call);
            return NULL;
        }
    }
    if (call->keys)
        return call;
    direct_call_free(call);
    return NULL;
}

/* Head, descriptions and short tensors in one piece; a long one is a piece that refers to it. */
static bool run_say(struct mu_direct_call *call, const struct mu_direct_head *head,
                    const struct mu_direct_tensor *tensors, const struct mu_executor_bytes *contents)
{
    struct mu_direct *d = call->direct;
    size_t described = head->count * sizeof *tensors, len = sizeof *head + described;
    bool is_short = head->bytes <= INLINE;
    struct mu_direct_piece *first = mu_direct_piece_new(len + (is_short ? head->bytes : 0)), *chain = NULL,
                           *last = NULL;
    uint8_t *to = (uint8_t *)(first + 1);

    if (!first)
        return false;
    memcpy(to, head, sizeof *head);
    memcpy(to + sizeof *head, tensors, described);
    MU_QUEUE_APPEND(chain, last, first);
    for (uint32_t i = 0; i < head->count; i++) {
        struct mu_direct_piece *p;

        if (is_short) {
            memcpy(to + len, contents[i].len ? contents[i].at : "", contents[i].len);
            len += contents[i].len;
            continue;
        }
        p = contents[i].len ? malloc(sizeof *p) : NULL;
        if (p) {
            *p = (struct mu_direct_piece){.at = contents[i].at, .len = contents[i].len, .call = call};
            MU_QUEUE_APPEND(chain, last, p);
        } else if (contents[i].len) {
            break;
        }
        len += contents[i].len;
    }
    if (len < sizeof *head + described + head->bytes) {
        while ((first = chain)) {
            MU_QUEUE_DROP(chain, last, first);
            free(first);
        }
        return false;
    }
    while ((first = chain)) {
        MU_QUEUE_DROP(chain, last, first);
        MU_QUEUE_APPEND(d->out, d->out_last, first);
    }
    mu_direct_flush(d);
    return true;
}

struct mu_direct_call *mu_direct_run(struct mu_direct_way *way, const struct mu_executor_run *run,
                                     mu_executor_done *done, void *arg)
{
    struct mu_direct_tensor tensors[MU_DIRECT_TENSORS];
    struct mu_executor_bytes contents[MU_DIRECT_TENSORS];
    struct mu_direct_head head = {.kind = MU_DIRECT_RUN, .graph = way->id};
    struct mu_direct_call *call;

    if (way->direct->is_broken || run->is_partial || run->options.len)
        return NULL;
    if (way->state == MU_DIRECT_WAY_KNOWN && ++way->runs > 1)
        mu_direct_way_say(way);
    if (way->state != MU_DIRECT_WAY_READY || run->num_send != way->names.num_fed ||
        run->num_recv != way->names.num_fetched || !feeds_describe(way, run, tensors, contents, &head.bytes))
        return NULL;
    call = direct_call_new(way, run, done, arg);
    if (!call)
        return NULL;
    head.count = run->num_send;
    head.id = call->id = ++way->direct->next_id;
    if (run_say(call, &head, tensors, contents))
        return call;
    direct_call_free(call);
    return NULL;
}

void mu_direct_cancel(struct mu_direct_call *call)
{
    struct mu_direct *d = call->direct;

    for (struct mu_direct_piece *p = d->out, *next; p; p = next) {
        struct mu_direct_piece *copy = p->call == call ? mu_direct_piece_new(p->len) : NULL;

        next = p->next;
        if (p->call != call)
            continue;
        if (!copy) { /* half a frame: nothing can follow it */
            shutdown(d->fd, SHUT_RDWR);
            p->call = NULL;
            p->at = (const uint8_t *)p, p->len = 0;
            continue;
        }
        memcpy(copy + 1, p->at, p->len);
        copy->next = p->next;
        copy->prev = p->prev;
        *(p->prev ? &p->prev->next : &d->out) = copy;
        *(p->next ? &p->next->prev : &d->out_last) = copy;
        free(p);
    }
    direct_call_free(call);
}

/* ---- its life ---------------------------------------------------------------------------------------------------- */

struct mu_direct *mu_direct_open(uv_loop_t *loop, int fd, const char *task)
{
    struct mu_direct *d = calloc(1, sizeof *d);
    int size = BUFFER;

    if (d)
        d->task = strdup(task);
    if (!d || !d->task || uv_poll_init(loop, &d->poll, fd)) {
        free(d ? d->task : NULL);
        free(d);
        return NULL;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    d->fd = fd;
    d->poll.data = d;
    direct_poll(d);
    uv_unref((uv_handle_t *)&d->poll);
    return d;
}

static void on_direct_closed(uv_handle_t *handle)
{
    struct mu_direct *d = handle->data;

    close(d->fd);
    free(d->task);
    free(d);
}

void mu_direct_close(struct mu_direct *d)
{
    if (!d)
        return;
    d->is_closed = d->is_broken = true;
    pieces_free(d);
    while (d->calls)
        direct_call_free(d->calls);
    while (d->ways)
        mu_direct_way_drop(d->ways);
    mu_direct_coming_clear(&d->in);
    uv_close((uv_handle_t *)&d->poll, on_direct_closed);
}
