/*
 * cli/executor/steps.c: steps that come from the master by a socket (session/direct.h), run by TensorFlow's sessions.
 *
 * Each graph has a session on the target of this process's own server: its variables are those that the steps see which
 * come over gRPC. A few threads take turns: the one that has the socket reads a frame, gives the socket to the next,
 * and does what the frame says. Nothing that comes this way waits for another step, so few threads are enough. A frame
 * that is wrong ends the turns, which the master sees as the socket's end; the server goes on.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cli/executor/library.h"
#include "session/direct.h"

enum { THREADS_MIN = 4, THREADS_MAX = 16, READ = 65536, TRIES = 5, ABORTED = 10, INTERNAL = 13 };

struct graph {
    struct graph *next;
    uint64_t id;
    uint32_t users; /* steps; the list */
    void *graph, *session, *end;
    struct mu_tf_output fed[MU_DIRECT_TENSORS], fetched[MU_DIRECT_TENSORS];
    uint32_t num_fed, num_fetched;
};

/* A frame that has come, or an answer. */
struct frame {
    struct mu_direct_head head;
    struct mu_direct_tensor described[MU_DIRECT_TENSORS];
    void *tensors[MU_DIRECT_TENSORS]; /* TF_Tensor */
    char *words;
};

static struct steps {
    const struct mu_tf_library *l;
    char target[128];
    int fd;
    pthread_mutex_t reading, writing, listing; /* the last one: graphs, and their users */
    bool is_over;
    struct graph *graphs;
    size_t at, len;
    uint8_t bytes[READ];
} steps = {
    .reading = PTHREAD_MUTEX_INITIALIZER, .writing = PTHREAD_MUTEX_INITIALIZER, .listing = PTHREAD_MUTEX_INITIALIZER};

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static void graph_done(struct graph *g)
{
    const struct mu_tf_library *l = steps.l;
    void *status = l->new_status();

    if (g->session) {
        l->close_session(g->session, status);
        l->delete_session(g->session, status);
    }
    if (g->graph)
        l->delete_graph(g->graph);
    l->delete_status(status);
    free(g);
}

static struct graph *graph_hold(uint64_t id)
{
    struct graph *g;

    pthread_mutex_lock(&steps.listing);
    for (g = steps.graphs; g && g->id != id;)
        g = g->next;
    if (g)
        g->users++;
    pthread_mutex_unlock(&steps.listing);
    return g;
}

static void graph_release(struct graph *g)
{
    bool is_last;

    pthread_mutex_lock(&steps.listing);
    is_last = --g->users == 0;
    pthread_mutex_unlock(&steps.listing);
    if (is_last)
        graph_done(g);
}

static void graph_drop(uint64_t id)
{
    struct graph *g = NULL;

    pthread_mutex_lock(&steps.listing);
    for (struct graph **at = &steps.graphs; *at; at = &(*at)->next)
        if ((*at)->id == id) {
            g = *at;
            *at = g->next;
            break;
        }
    pthread_mutex_unlock(&steps.listing);
    if (g)
        graph_release(g);
}

static bool ends_find(struct graph *g)
{
    char name[64];

    for (uint32_t i = 0; i < g->num_fed; i++) {
        snprintf(name, sizeof name, MU_DIRECT_IN "%u", i);
        if (!(g->fed[i].operation = steps.l->operation(g->graph, name)))
            return false;
    }
    for (uint32_t i = 0; i < g->num_fetched; i++) {
        snprintf(name, sizeof name, MU_DIRECT_OUT "%u", i);
        if (!(g->fetched[i].operation = steps.l->operation(g->graph, name)))
            return false;
    }
    g->end = steps.l->operation(g->graph, MU_DIRECT_END);
    return g->end != NULL;
}

static void graph_build(struct graph *g, const struct frame *f, void *status)
{
    const struct mu_tf_library *l = steps.l;
    const struct mu_tf_buffer def = {f->words + f->head.config, f->head.words - f->head.config, NULL};
    void *import = l->new_import(), *options = l->new_options();

    g->graph = l->new_graph();
    l->import(g->graph, &def, import, status);
    l->delete_import(import);
    if (l->get_code(status) == 0) {
        l->set_target(options, steps.target);
        l->set_config(options, f->words, f->head.config, status);
    }
    if (l->get_code(status) == 0)
        g->session = l->new_session(g->graph, options, status);
    l->delete_options(options);
}

/* ---- what is answered -------------------------------------------------------------------------------------------- */

static void parts_write(struct iovec *part, size_t count)
{
    pthread_mutex_lock(&steps.writing);
    while (count > 0) {
        struct msghdr message = {.msg_iov = part, .msg_iovlen = count};
        ssize_t n = sendmsg(steps.fd, &message, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break; /* the master is gone, and this process goes with it */
        while (count > 0 && (size_t)n >= part->iov_len) {
            n -= (ssize_t)part->iov_len;
            part++;
            count--;
        }
        if (count > 0) {
            part->iov_base = (char *)part->iov_base + n;
            part->iov_len -= (size_t)n;
        }
    }
    pthread_mutex_unlock(&steps.writing);
}

static void frame_answer(struct frame *f, int code, const char *words)
{
    struct iovec parts[3 + MU_DIRECT_TENSORS];
    size_t n = 0;

    f->head.status = (uint32_t)code;
    f->head.words = (uint32_t)strnlen(words, MU_DIRECT_WORDS);
    if (code)
        f->head.count = 0;
    f->head.bytes = 0;
    parts[n++] = (struct iovec){&f->head, sizeof f->head};
    parts[n++] = (struct iovec){f->described, f->head.count * sizeof *f->described};
    parts[n++] = (struct iovec){(void *)(uintptr_t)words, f->head.words};
    for (uint32_t i = 0; i < f->head.count; i++) {
        f->head.bytes += f->described[i].bytes;
        parts[n++] = (struct iovec){steps.l->tensor_data(f->tensors[i]), (size_t)f->described[i].bytes};
    }
    parts_write(parts, n);
}

/* ---- what is done ------------------------------------------------------------------------------------------------ */

static void frame_build(struct frame *f)
{
    void *status = steps.l->new_status();
    struct graph *g = calloc(1, sizeof *g);
    int code = INTERNAL;

    if (g) {
        g->id = f->head.id;
        g->num_fed = f->head.count;
        g->num_fetched = f->head.fetches;
        g->users = 1;
        graph_build(g, f, status);
        code = steps.l->get_code(status);
        if (!code && !ends_find(g))
            code = INTERNAL;
    }
    f->head.kind = MU_DIRECT_BUILT;
    f->head.count = 0;
    if (!code) {
        pthread_mutex_lock(&steps.listing);
        g->next = steps.graphs;
        steps.graphs = g;
        pthread_mutex_unlock(&steps.listing);
    } else if (g) {
        graph_done(g);
    }
    frame_answer(f, code, steps.l->message(status));
    steps.l->delete_status(status);
}

/* False: no such tensor can be sent. */
static bool fetched_describe(const void *tensor, struct mu_direct_tensor *ret)
{
    const struct mu_tf_library *l = steps.l;
    int dims = l->tensor_dims(tensor);

    if (dims < 0 || dims > (int)MU_DIRECT_DIMS)
        return false;
    *ret = (struct mu_direct_tensor){
        .type = (uint32_t)l->tensor_type(tensor), .num_dims = (uint32_t)dims, .bytes = l->tensor_bytes(tensor)};
    for (int i = 0; i < dims; i++)
        ret->dims[i] = l->tensor_dim(tensor, i);
    return mu_direct_tensor_is_well(ret);
}

static void tensors_free(struct frame *f)
{
    for (uint32_t i = 0; i < MU_DIRECT_TENSORS; i++) {
        if (f->tensors[i])
            steps.l->delete_tensor(f->tensors[i]);
        f->tensors[i] = NULL;
    }
}

static void frame_run(struct frame *f, void *status)
{
    const struct mu_tf_library *l = steps.l;
    struct graph *g = graph_hold(f->head.graph);
    void *fetched[MU_DIRECT_TENSORS] = {NULL};
    int code = INTERNAL;
    const char *words = "no such graph";

    if (g && f->head.count == g->num_fed) {
        /* TensorFlow's own master takes a step for one that it has had, now and then, before it has begun it. */
        for (int i = 0; i < TRIES; i++) {
            l->run(g->session, NULL, g->fed, f->tensors, (int)g->num_fed, g->fetched, fetched, (int)g->num_fetched,
                   &g->end, 1, NULL, status);
            code = l->get_code(status);
            words = l->message(status);
            if (code != ABORTED || !strstr(words, "request was received twice"))
                break;
        }
        tensors_free(f);
        f->head.count = code ? 0 : g->num_fetched;
        memcpy(f->tensors, fetched, sizeof fetched);
    }
    for (uint32_t i = 0; i < f->head.count && !code; i++)
        if (!fetched_describe(f->tensors[i], &f->described[i])) {
            code = INTERNAL;
            words = "a tensor is too large, or has more than eight dimensions";
        }
    f->head.kind = MU_DIRECT_DONE;
    frame_answer(f, code, words);
    tensors_free(f);
    if (g)
        graph_release(g);
}

/* ---- what comes -------------------------------------------------------------------------------------------------- */

/* What has been read already first. False: the end. */
static bool bytes_take(void *to, size_t len)
{
    while (len > 0) {
        size_t part = steps.len - steps.at < len ? steps.len - steps.at : len;
        ssize_t n;

        memcpy(to, steps.bytes + steps.at, part);
        steps.at += part;
        to = (uint8_t *)to + part;
        len -= part;
        if (!len)
            return true;
        n = recv(steps.fd, len > READ ? to : steps.bytes, len > READ ? len : READ, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        if (len > READ) {
            to = (uint8_t *)to + n;
            len -= (size_t)n;
            continue;
        }
        steps.at = 0;
        steps.len = (size_t)n;
    }
    return true;
}

static bool frame_head_is_well(const struct mu_direct_head *h)
{
    switch (h->kind) {
    case MU_DIRECT_BUILD:
        return h->count <= MU_DIRECT_TENSORS && h->fetches <= MU_DIRECT_TENSORS && h->bytes == 0 &&
               h->config <= h->words && h->words <= 2 * MU_DIRECT_GRAPH;
    case MU_DIRECT_RUN:
        return h->count <= MU_DIRECT_TENSORS && h->words == 0 && h->bytes <= (uint64_t)MU_DIRECT_BYTES * h->count;
    case MU_DIRECT_DROP: return h->count == 0 && h->words == 0 && h->bytes == 0;
    default: return false;
    }
}

/* False: the end, or a frame that is wrong. */
static bool frame_read(struct frame *f)
{
    uint64_t sum = 0;

    memset(f->tensors, 0, sizeof f->tensors);
    f->words = NULL;
    if (!bytes_take(&f->head, sizeof f->head) || !frame_head_is_well(&f->head))
        return false;
    if (f->head.kind == MU_DIRECT_BUILD) {
        f->words = malloc(f->head.words + 1);
        return f->words && bytes_take(f->words, f->head.words);
    }
    if (f->head.kind == MU_DIRECT_DROP)
        return true;
    if (!bytes_take(f->described, f->head.count * sizeof *f->described))
        return false;
    for (uint32_t i = 0; i < f->head.count; i++) {
        if (!mu_direct_tensor_is_well(&f->described[i]))
            return false;
        sum += f->described[i].bytes;
    }
    if (sum != f->head.bytes)
        return false;
    for (uint32_t i = 0; i < f->head.count; i++) {
        struct mu_direct_tensor *t = &f->described[i];

        f->tensors[i] = steps.l->new_tensor((int)t->type, t->dims, (int)t->num_dims, (size_t)t->bytes);
        if (!f->tensors[i] || !bytes_take(steps.l->tensor_data(f->tensors[i]), (size_t)t->bytes))
            return false;
    }
    return true;
}

static void *turns_take(void *arg)
{
    struct frame *f = calloc(1, sizeof *f);
    void *status = steps.l->new_status();

    while (f && status) {
        bool is_well;

        pthread_mutex_lock(&steps.reading);
        is_well = !steps.is_over && frame_read(f);
        if (!is_well && !steps.is_over)
            shutdown(steps.fd, SHUT_RDWR);
        steps.is_over = !is_well;
        pthread_mutex_unlock(&steps.reading);
        if (!is_well)
            break;
        if (f->head.kind == MU_DIRECT_BUILD)
            frame_build(f);
        else if (f->head.kind == MU_DIRECT_RUN)
            frame_run(f, status);
        else
            graph_drop(f->head.id);
        free(f->words);
        f->words = NULL;
    }
    if (f) {
        tensors_free(f);
        free(f->words);
    }
    free(f);
    return arg;
}

void mu_tf_steps(const struct mu_tf_library *library, const char *address, int fd)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    long count = cpus < THREADS_MIN ? THREADS_MIN : cpus > THREADS_MAX ? THREADS_MAX : cpus;
    int size = 4 << 20;

    steps.l = library;
    steps.fd = fd;
    snprintf(steps.target, sizeof steps.target, "grpc://%s", address);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    for (long i = 0; i < count; i++) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, turns_take, NULL))
            break;
        pthread_detach(thread);
    }
}
