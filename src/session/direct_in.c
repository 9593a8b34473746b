/*
 * session/direct_in.c: what an executor says by its channel.
 *
 * A frame is read in four stages: its head, the tensors' descriptions, text, elements. Each stage is judged when it is
 * whole, so a head's numbers are within bounds before anything is made for them. Elements are read to where they stay,
 * behind the head of their TensorProto.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/list.h"
#include "session/direct_private.h"

enum { TURN = 4 << 20, PREFIX_MAX = 160 };

void mu_direct_coming_clear(struct mu_direct_coming *in)
{
    free(in->words);
    for (uint32_t i = 0; i < MU_DIRECT_TENSORS; i++)
        free(in->buffers[i]);
    memset(in, 0, sizeof *in);
}

static struct mu_direct_call *direct_call_find(struct mu_direct *d, uint64_t id)
{
    struct mu_direct_call *call = d->calls;

    while (call && call->id != id)
        call = call->next;
    return call;
}

static uint8_t *varint_put(uint8_t *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *to++ = (uint8_t)(value | 0x80);
    *to++ = (uint8_t)value;
    return to;
}

/* What is in front of a tensor's elements in its TensorProto: dtype, tensor_shape, the head of tensor_content. */
static size_t prefix_put(const struct mu_direct_tensor *t, uint8_t *to)
{
    uint8_t shape[PREFIX_MAX], *at = shape, *begin = to;

    for (uint32_t i = 0; i < t->num_dims; i++) {
        uint8_t size[16], *end = varint_put(size, (uint64_t)t->dims[i]);

        *at++ = 2 << 3 | 2;
        *at++ = (uint8_t)(end - size + 1);
        *at++ = 1 << 3;
        memcpy(at, size, (size_t)(end - size));
        at += end - size;
    }
    *to++ = 1 << 3;
    to = varint_put(to, t->type);
    *to++ = 2 << 3 | 2;
    to = varint_put(to, (uint64_t)(at - shape));
    memcpy(to, shape, (size_t)(at - shape));
    to += at - shape;
    if (t->bytes) {
        *to++ = 4 << 3 | 2;
        to = varint_put(to, t->bytes);
    }
    return (size_t)(to - begin);
}

static bool head_is_well(const struct mu_direct_coming *in)
{
    return (in->head.kind == MU_DIRECT_DONE || in->head.kind == MU_DIRECT_BUILT) &&
           in->head.count <= MU_DIRECT_TENSORS && in->head.words <= MU_DIRECT_WORDS &&
           (!in->head.status || !in->head.count) && (in->head.count || !in->head.bytes);
}

/* Room for the tensors that are described. */
static bool values_make(struct mu_direct_coming *in)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < in->head.count; i++) {
        uint8_t prefix[PREFIX_MAX];

        if (!mu_direct_tensor_is_well(&in->tensors[i]))
            return false;
        sum += in->tensors[i].bytes;
        in->prefixes[i] = prefix_put(&in->tensors[i], prefix);
        in->buffers[i] = malloc(in->prefixes[i] + in->tensors[i].bytes);
        if (!in->buffers[i])
            return false;
        memcpy(in->buffers[i], prefix, in->prefixes[i]);
    }
    return sum == in->head.bytes;
}

/* The executor's own name for itself is none that the client knows. malloc()ed. */
static char *words_tell(const struct mu_direct *d, const char *words)
{
    static const char from[] = "From " MU_DIRECT_ITSELF ":\n";
    size_t size = 1, own = strlen(MU_DIRECT_ITSELF), len = strlen(d->task), n = 0;
    char *told;

    if (strncmp(words, from, sizeof from - 1) == 0)
        words += sizeof from - 1;
    for (const char *at = words; *at; at++)
        size += strncmp(at, MU_DIRECT_ITSELF, own) == 0 ? len + 1 : 1;
    told = malloc(size);
    while (told && *words) {
        if (strncmp(words, MU_DIRECT_ITSELF, own) == 0) {
            memcpy(told + n, d->task, len);
            n += len;
            words += own;
        } else {
            told[n++] = *words++;
        }
    }
    if (told)
        told[n] = 0;
    return told;
}

static bool done_take(struct mu_direct *d, struct mu_direct_coming *in)
{
    struct mu_direct_call *call = direct_call_find(d, in->head.id);
    struct mu_executor_answer a = {.text = "", .is_clean = true, .tensors = in->values, .buffers = in->buffers};
    char *told = NULL;

    if (!call)
        return true; /* it was cancelled */
    for (const struct mu_direct_piece *p = d->out; p; p = p->next)
        if (p->call == call)
            return false; /* it answers what it has not read yet */
    if (in->head.status) {
        a.status = in->head.status <= MUSTER_DATA_LOSS ? (enum muster_status)in->head.status : MUSTER_UNKNOWN;
        told = words_tell(d, in->words);
        a.text = told ? told : "";
    } else if (in->head.count != call->num_recv) {
        return false;
    }
    for (uint32_t i = 0; i < in->head.count; i++)
        in->values[i] = (struct mu_executor_tensor){call->keys[i],
                                                    {in->buffers[i], in->prefixes[i] + (size_t)in->tensors[i].bytes}};
    a.num_tensors = in->head.count;
    mu_direct_call_end(call, &a);
    free(told);
    return true;
}

static bool coming_take(struct mu_direct *d, struct mu_direct_coming *in)
{
    if (in->head.kind == MU_DIRECT_DONE)
        return done_take(d, in);
    for (struct mu_direct_way *way = d->ways; way; way = way->next)
        if (way->id == in->head.id) {
            if (way->state == MU_DIRECT_WAY_BUILDING)
                way->state = in->head.status ? MU_DIRECT_WAY_REFUSED : MU_DIRECT_WAY_READY;
            return true;
        }
    if (!in->head.status) /* it was dropped while it was built, perhaps before the executor had it in its list */
        mu_direct_drop_say(d, in->head.id);
    return true;
}

/* Where the next bytes go, and how many. NULL: the frame is whole. */
static uint8_t *coming_room(struct mu_direct_coming *in, size_t *ret_len)
{
    uint8_t *const starts[] = {(uint8_t *)&in->head, (uint8_t *)in->tensors, (uint8_t *)in->words};
    const size_t sizes[] = {sizeof in->head, in->head.count * sizeof *in->tensors, in->head.words};

    if (in->stage < 3) {
        *ret_len = sizes[in->stage] - in->have;
        return starts[in->stage] + in->have;
    }
    if (in->tensor == in->head.count)
        return NULL;
    *ret_len = (size_t)in->tensors[in->tensor].bytes - in->have;
    return (uint8_t *)in->buffers[in->tensor] + in->prefixes[in->tensor] + in->have;
}

/* A stage is whole. */
static bool coming_step(struct mu_direct_coming *in)
{
    in->have = 0;
    if (in->stage == 0) {
        if (!head_is_well(in))
            return false;
        in->words = calloc(1, in->head.words + 1);
    } else if (in->stage == 1 && !values_make(in)) {
        return false;
    } else if (in->stage == 3) {
        in->tensor++;
        return true;
    }
    in->stage++;
    return in->words != NULL;
}

/* As far as the bytes go that have been read. */
static bool direct_parse(struct mu_direct *d)
{
    for (;;) {
        size_t room = 0, part;
        uint8_t *to = coming_room(&d->in, &room);

        if (!to) {
            if (!coming_take(d, &d->in))
                return false;
            mu_direct_coming_clear(&d->in);
            if (d->is_closed)
                return true;
            continue;
        }
        part = d->in_len - d->in_at < room ? d->in_len - d->in_at : room;
        memcpy(to, d->bytes + d->in_at, part);
        d->in_at += part;
        d->in.have += part;
        if (part < room)
            return true;
        if (!coming_step(&d->in))
            return false;
    }
}

/* One read: what is left of a long tensor goes to its place at once. 0: nothing is there; -1: the end. */
static int direct_read(struct mu_direct *d)
{
    size_t room = 0;
    uint8_t *to = coming_room(&d->in, &room);
    bool is_long = d->in.stage == 3 && room > MU_DIRECT_READ;
    ssize_t n = recv(d->fd, is_long ? to : d->bytes, is_long ? room : MU_DIRECT_READ, MSG_DONTWAIT);

    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
    if (is_long) {
        d->in.have += (size_t)n;
        d->in_at = d->in_len = 0;
        if ((size_t)n == room && !coming_step(&d->in))
            return -1;
    } else {
        d->in_at = 0;
        d->in_len = (size_t)n;
    }
    return direct_parse(d) ? (int)n : -1;
}

void mu_direct_on_event(uv_poll_t *poll, int status, int events)
{
    struct mu_direct *d = poll->data;
    int n = 1, sum = 0;

    if (events & UV_WRITABLE)
        mu_direct_flush(d);
    while (status == 0 && events & UV_READABLE && n > 0 && sum < TURN && !d->is_closed && !d->is_broken) {
        n = direct_read(d);
        sum += n;
        if (n > 0 && n < (int)MU_DIRECT_READ && d->in.stage < 3)
            break;
    }
    if (!d->is_closed && (status || n < 0))
        mu_direct_break(d);
}
