/*
 * schedule/function.c: the job's log of functions.
 *
 * A function is an object, of which a bundle holds the function before it and its code. The log is an alias of the last
 * one, named by the header, and so it lasts. An export is one commit of the log, which names the new function instead
 * of the last one, if that is still the one that the new function names. A SIGKILL before leaves a function that only
 * its exporter held.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/private.h"
#include "segment/wait.h"

enum {
    LIBRARY_MAX = 1023,
    SYMBOL_MAX = 255,
    TEXT_WORDS = (LIBRARY_MAX + SYMBOL_MAX + MUSTER_FUNCTION_NAME_MAX) / 8 + 3
};

/* A function as its bundle has it. */
struct function {
    uint64_t before, code;
    struct mu_function head;
    uint64_t text[TEXT_WORDS];
};
enum { FUNCTION_WORDS = sizeof(struct function) / 8 };

static uint64_t function_log(const struct muster_segment *seg)
{
    return mu_load_acquire(&seg->header->functions); /* acquire: pairs with the CAS in log_open() */
}

static uint32_t text_bytes(const struct mu_function *f)
{
    return (uint32_t)(f->text & 0xffff) + (uint32_t)(f->text >> 16 & 0xffff) + (uint32_t)(f->text >> 32 & 0xffff);
}

/* The function's words; they never change. */
static enum muster_status function_read(const struct muster_segment *seg, uint64_t ref, uint64_t *body,
                                        struct function *ret, int32_t *ret_task)
{
    uint32_t count, words;
    struct mu_object o;
    enum muster_status status = mu_object_look(seg, ref, body, &o);
    uint64_t *to = (uint64_t *)ret;

    if (status)
        return status;
    if (o.state != MU_OBJECT_FUNCTION || !mu_bundle_read(seg, &o, 0, to, 5, &count) || count != 2)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "object 0x%016llx is no function", (unsigned long long)ref);
    words = (text_bytes(&ret->head) + 7) / 8;
    if (words > TEXT_WORDS || !mu_bundle_read(seg, &o, 5, to + 5, words, &count))
        return mu_object_say(seg, ref, MUSTER_DATA_LOSS);
    if (ret_task)
        *ret_task = (int32_t)o.task - 1;
    return MUSTER_OK;
}

void mu_function_name(const struct muster_segment *seg, uint64_t function, uint64_t *body, char *name, size_t size)
{
    struct function f;
    size_t len;

    *name = 0;
    if (function_read(seg, function, body, &f, NULL))
        return;
    len = f.head.text & 0xffff;
    len = len < size ? len : size - 1;
    memcpy(name, f.text, len);
    name[len] = 0;
}

/* The last function; 0: there is none. */
static enum muster_status log_last(const struct muster_segment *seg, uint64_t *body, uint64_t *ret_last,
                                   struct mu_object *ret_log)
{
    uint64_t log = function_log(seg);
    uint32_t count;

    *ret_last = 0;
    if (!log)
        return MUSTER_OK;
    for (;;) {
        enum muster_status status = mu_object_look(seg, log, body, ret_log);

        if (status)
            return status;
        if (ret_log->state == MU_OBJECT_ALIAS && mu_bundle_read(seg, ret_log, 0, ret_last, 1, &count))
            return MUSTER_OK;
        if (ret_log->state != MU_OBJECT_ALIAS)
            return mu_object_say(seg, log, MUSTER_DATA_LOSS);
    }
}

static void info_fill(const struct function *f, uint64_t ref, int32_t task, struct muster_function_info *ret)
{
    const char *text = (const char *)f->text;
    uint32_t name = f->head.text & 0xffff, symbol = f->head.text >> 16 & 0xffff, library = f->head.text >> 32 & 0xffff;

    *ret = (struct muster_function_info){.function = ref,
                                         .number = f->head.number,
                                         .kind = (uint32_t)(f->head.shape >> 32),
                                         .num_results = (uint32_t)(f->head.shape >> 16) & 0xffffu,
                                         .max_retries = (uint32_t)f->head.shape & 0xffffu,
                                         .task = task,
                                         .code = f->code};
    memcpy(ret->name, text, name < sizeof ret->name ? name : sizeof ret->name - 1);
    memcpy(ret->symbol, text + name, symbol < sizeof ret->symbol ? symbol : sizeof ret->symbol - 1);
    memcpy(ret->library, text + name + symbol, library < sizeof ret->library ? library : sizeof ret->library - 1);
}

/* ---- export ---- */

/* The log, made by the first export. */
static enum muster_status log_open(struct mu_ledger *ledger, struct mu_ctx *ctx)
{
    struct mu_object o = {.state = MU_OBJECT_ALIAS};
    struct mu_holding *h;
    enum muster_status status;

    if (function_log(ctx->seg))
        return MUSTER_OK;
    status = mu_bundle_new(ctx, 1, 0, &o.data);
    if (!status)
        status = mu_holding_new(ledger, ctx, &o, false, &h);
    if (status)
        return status;
    /* release: the object is there; pairs with function_log(). Failed: another's is the log, and ours goes. */
    mu_cas(&ctx->seg->header->functions, 0, o.ref);
    h->refs = 0;
    mu_holding_let_go(ledger, ctx, h);
    return MUSTER_OK;
}

struct appending {
    uint64_t word, data;
};

static enum muster_status log_appended(struct mu_object *o, void *arg)
{
    const struct appending *a = arg;

    if (!mu_word_same(o->word, a->word))
        return MUSTER_ALREADY_EXISTS;
    o->data = a->data;
    return MUSTER_OK;
}

static void text_pack(const struct muster_function_text *t, struct function *f)
{
    size_t name = strlen(t->name), symbol = t->symbol ? strlen(t->symbol) : 0,
           library = t->library ? strlen(t->library) : 0;
    char *to = (char *)f->text;

    memset(f->text, 0, sizeof f->text);
    f->head.shape = (uint64_t)t->kind << 32 | (uint64_t)t->num_results << 16 | t->max_retries;
    f->head.text = name | symbol << 16 | library << 32;
    memcpy(to, t->name, name);
    if (symbol)
        memcpy(to + name, t->symbol, symbol);
    if (library)
        memcpy(to + name + symbol, t->library, library);
}

/* The function as an object that this process holds, behind `f->before`. */
static enum muster_status function_make(struct mu_ledger *ledger, struct mu_ctx *ctx, int32_t task,
                                        const struct function *f, struct mu_holding **ret_held)
{
    size_t bytes = sizeof f->head + (text_bytes(&f->head) + 7) / 8 * 8;
    struct mu_object o = {.state = MU_OBJECT_FUNCTION, .task = (uint32_t)task + 1};
    enum muster_status status = mu_bundle_new(ctx, 2, bytes, &o.data);

    if (status)
        return status;
    mu_holding_copy_in((uint8_t *)mu_bundle_data(ctx->seg, o.data), &f->head, bytes);
    if (f->before)
        status = mu_bundle_hold(ctx, o.data, 0, f->before);
    if (!status && f->code)
        status = mu_bundle_hold(ctx, o.data, 1, f->code);
    if (!status)
        return mu_holding_new(ledger, ctx, &o, false, ret_held);
    mu_bundle_end(ctx, o.data);
    mu_bundle_finish(ctx);
    return status;
}

/* One try: the log goes on with a new function. ALREADY_EXISTS: another was quicker. */
static enum muster_status log_append(struct mu_ledger *ledger, struct mu_ctx *ctx, int32_t task, struct function *f,
                                     uint64_t *ret_ref)
{
    struct function last;
    struct appending a = {0};
    struct mu_holding *h;
    struct mu_object log;
    enum muster_status status = log_last(ctx->seg, ctx->scratch, &f->before, &log);

    a.word = log.word;
    f->head.number = 1;
    if (!status && f->before) {
        status = function_read(ctx->seg, f->before, ctx->scratch, &last, NULL);
        f->head.number = last.head.number + 1;
    }
    if (!status)
        status = function_make(ledger, ctx, task, f, &h);
    if (status)
        return status;
    *ret_ref = h->ref;
    status = mu_bundle_new(ctx, 1, 0, &a.data);
    if (!status) {
        status = mu_bundle_hold(ctx, a.data, 0, h->ref);
        if (!status)
            status = mu_object_change(ctx, function_log(ctx->seg), a.data, log_appended, &a, true);
        else
            mu_bundle_end(ctx, a.data);
        mu_bundle_finish(ctx);
    }
    h->refs = 0;
    mu_holding_let_go(ledger, ctx, h);
    return status;
}

static enum muster_status name_check(const char *name)
{
    return name && *name && strlen(name) <= MUSTER_FUNCTION_NAME_MAX
               ? MUSTER_OK
               : mu_fail(MUSTER_INVALID_ARGUMENT, "a function's name has 1 to %u bytes", MUSTER_FUNCTION_NAME_MAX);
}

static enum muster_status text_check(const struct muster_function_text *t)
{
    enum muster_status status = name_check(t->name);

    if (status)
        return status;
    if (t->kind != MUSTER_FUNCTION_LIBRARY && t->kind != MUSTER_FUNCTION_IMAGE && t->kind < MUSTER_FUNCTION_OWN)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "function %s: kind %u is none", t->name, t->kind);
    if (t->num_results > MUSTER_RESULTS_MAX || t->max_retries > MUSTER_RETRIES_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "function %s: %u results, %u retries; %u and %u are the most", t->name,
                       t->num_results, t->max_retries, MUSTER_RESULTS_MAX, MUSTER_RETRIES_MAX);
    if ((t->library && strlen(t->library) > LIBRARY_MAX) || (t->symbol && strlen(t->symbol) > SYMBOL_MAX))
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "function %s: the path of its library has at most %d bytes, its symbol %d", t->name, LIBRARY_MAX,
                       SYMBOL_MAX);
    if (t->kind < MUSTER_FUNCTION_OWN && (!t->symbol || (t->kind == MUSTER_FUNCTION_IMAGE && !t->code_len)))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "function %s: it needs a symbol, and an image its bytes", t->name);
    return MUSTER_OK;
}

static enum muster_status function_export(struct muster *m, struct mu_ctx *ctx, const struct muster_function_text *t,
                                          uint64_t code, uint64_t *ret_ref)
{
    struct function f = {.code = code};
    struct mu_ledger *ledger;
    enum muster_status status = mu_ledger_lock(m, &ledger);

    if (status)
        return status;
    text_pack(t, &f);
    status = log_open(ledger, ctx);
    while (!status && (status = log_append(ledger, ctx, m->task_id, &f, ret_ref)) == MUSTER_ALREADY_EXISTS)
        status = MUSTER_OK;
    mu_ledger_unlock(ledger);
    if (!status)
        mu_crew_moved(m->seg); /* muster_function_wait() */
    return status;
}

enum muster_status muster_function_export(struct muster *muster, const struct muster_function_text *text,
                                          muster_function *ret_function)
{
    muster_object code = 0;
    struct mu_ctx *ctx;
    enum muster_status status = text_check(text);

    if (!status && text->code_len)
        status = muster_object_put(muster, text->code, text->code_len, NULL, 0, 0, &code);
    if (status)
        return status;
    status = mu_enter(muster, &ctx);
    if (!status) {
        status = function_export(muster, ctx, text, code, ret_function);
        mu_exit(ctx);
    }
    if (code)
        muster_object_drop(muster, &code, 1);
    return status;
}

/* ---- looks ---- */

enum muster_status mu_function_shape(struct muster *m, struct mu_ctx *ctx, uint64_t function,
                                     struct mu_function_shape *ret_shape)
{
    static _Thread_local struct {
        uint64_t handle, function;
        struct mu_function_shape shape;
    } last;
    struct function f;
    enum muster_status status;

    if (last.handle == m->id && last.function == function && function) {
        *ret_shape = last.shape;
        return MUSTER_OK;
    }
    status = function_read(m->seg, function, ctx->scratch, &f, NULL);
    if (status)
        return status;
    last.shape = (struct mu_function_shape){(uint32_t)(f.head.shape >> 32), (uint32_t)(f.head.shape >> 16) & 0xffffu,
                                            (uint32_t)f.head.shape & 0xffffu};
    last.handle = m->id;
    last.function = function;
    *ret_shape = last.shape;
    return MUSTER_OK;
}

/* The newest of the name, in *ret; NOT_FOUND without a sentence. */
static enum muster_status function_find(const struct muster_segment *seg, const char *name, uint64_t *body,
                                        uint64_t *ret_ref)
{
    size_t len = strlen(name);
    struct mu_object log;
    struct function f;
    enum muster_status status = log_last(seg, body, &f.before, &log);

    while (!status && f.before) {
        *ret_ref = f.before;
        status = function_read(seg, f.before, body, &f, NULL);
        if (!status && (f.head.text & 0xffff) == len && !memcmp(f.text, name, len))
            return MUSTER_OK;
    }
    return status ? status : MUSTER_NOT_FOUND;
}

static enum muster_status function_await(struct muster *m, struct mu_ctx *ctx, const char *name,
                                         muster_deadline deadline, uint64_t *ret_ref)
{
    enum muster_status status;
    char what[MUSTER_FUNCTION_NAME_MAX + 16];
    struct mu_wait w;

    snprintf(what, sizeof what, "function %s", name);
    mu_wait_begin(&w, m->seg, ctx, deadline, what);
    do {
        uint64_t seen = mu_load_acquire(&m->seg->header->workers); /* acquire: pairs with mu_crew_moved() */

        mu_wait_look(&w);
        status = function_find(m->seg, name, ctx->scratch, ret_ref);
        if (status != MUSTER_NOT_FOUND)
            break;
        status = mu_wait_on(&w, &m->seg->header->workers, seen);
    } while (!status);
    mu_wait_end(&w);
    return status;
}

enum muster_status muster_function_wait(struct muster *muster, const char *name, muster_deadline deadline,
                                        muster_function *ret_function)
{
    struct mu_ctx *ctx;
    enum muster_status status = name_check(name);

    if (!status)
        status = mu_enter(muster, &ctx);
    if (status)
        return status;
    status = function_await(muster, ctx, name, deadline, ret_function);
    mu_exit(ctx);
    return status;
}

enum muster_status muster_function_find(struct muster *muster, const char *name, muster_function *ret_function)
{
    struct mu_ctx *ctx;
    enum muster_status status = name_check(name);

    if (!status)
        status = mu_enter(muster, &ctx);
    if (status)
        return status;
    status = function_find(muster->seg, name, ctx->scratch, ret_function);
    if (status == MUSTER_NOT_FOUND)
        mu_fail(status, "job %s has no function %s", muster->seg->job, name);
    mu_exit(ctx);
    return status;
}

static uint64_t *look_buffer(void)
{
    uint64_t *body = malloc(MU_CHUNK);

    if (!body)
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to look at functions");
    return body;
}

/* Without a slot: people and tools ask, too. */
enum muster_status muster_function_info(struct muster *muster, muster_function function,
                                        struct muster_function_info *ret_info)
{
    enum muster_status status = mu_enter_read(muster);
    struct function f;
    uint64_t *body;
    int32_t task = -1;

    if (status)
        return status;
    body = look_buffer();
    status = body ? function_read(muster->seg, function, body, &f, &task) : MUSTER_RESOURCE_EXHAUSTED;
    if (!status)
        info_fill(&f, function, task, ret_info);
    free(body);
    mu_exit_read();
    return status;
}

/* The references of those with a number above `after`, the newest first. */
static enum muster_status functions_collect(struct muster *m, uint64_t *body, uint64_t after, uint64_t **ret_refs,
                                            size_t *ret_count)
{
    struct mu_object log;
    struct function f;
    enum muster_status status = log_last(m->seg, body, &f.before, &log);
    uint64_t *refs = NULL;
    size_t count = 0;

    while (!status && f.before) {
        uint64_t ref = f.before, *grown;

        status = function_read(m->seg, ref, body, &f, NULL);
        if (status || f.head.number <= after)
            break;
        if ((count & (count - 1)) == 0) {
            grown = realloc(refs, (count ? 2 * count : 1) * sizeof *refs);
            if (!grown) {
                status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to list functions");
                break;
            }
            refs = grown;
        }
        refs[count++] = ref;
    }
    *ret_refs = refs;
    *ret_count = count;
    return status;
}

enum muster_status muster_function_list(struct muster *muster, uint64_t after,
                                        int (*visit)(void *arg, const struct muster_function_info *info), void *arg)
{
    uint64_t *refs = NULL, *body;
    size_t count = 0;
    enum muster_status status = mu_enter_read(muster);

    if (status)
        return status;
    body = look_buffer();
    status = body ? functions_collect(muster, body, after, &refs, &count) : MUSTER_RESOURCE_EXHAUSTED;
    free(body);
    mu_exit_read();
    while (!status && count-- > 0) {
        struct muster_function_info info;

        status = muster_function_info(muster, refs[count], &info);
        if (!status && visit(arg, &info))
            break;
    }
    free(refs);
    return status;
}
