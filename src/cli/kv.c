/*
 * cli/kv.c: `muster kv`: the job's key-value store from outside.
 *
 * A value comes from the command line or, for "-", from stdin, byte for byte; it goes to stdout the same way, with a
 * newline behind it only on a terminal. Looking without waiting is read-only.
 */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment/hosts.h"

/* All of stdin, or one byte more than a value may have: the library then says what is wrong. */
static int read_stdin(const struct mu_cli_call *call, char **ret_data, size_t *ret_len)
{
    size_t len = 0, cap = 65536;
    char *data = malloc(cap);
    ssize_t n;

    while (data && len <= MUSTER_VALUE_MAX) {
        n = read(0, data + len, cap - len);
        if (n < 0 && errno == EINTR && !mu_cli_interrupted())
            continue;
        if (n < 0) {
            fprintf(stderr, "%s: cannot read stdin: %s\n", call->path, strerror(errno));
            free(data);
            return MU_CLI_EXIT_FAILURE;
        }
        if (n == 0)
            break;
        len += (size_t)n;
        if (len == cap) {
            char *more = realloc(data, cap *= 2);

            if (!more)
                free(data);
            data = more;
        }
    }
    if (!data)
        abort();
    *ret_data = data;
    *ret_len = len < MUSTER_VALUE_MAX ? len : len > MUSTER_VALUE_MAX ? (size_t)MUSTER_VALUE_MAX + 1 : len;
    return 0;
}

static int take_value(const struct mu_cli_call *call, const char *operand, char **ret_data, size_t *ret_len)
{
    if (strcmp(operand, "-") == 0)
        return read_stdin(call, ret_data, ret_len);
    *ret_len = strlen(operand);
    *ret_data = strdup(operand);
    if (!*ret_data)
        abort();
    return 0;
}

static void json_entry(struct mu_cli_json *json, const char *key, size_t key_len, const void *value, size_t value_len,
                       uint64_t version)
{
    mu_cli_json_open(json, NULL, '{');
    mu_cli_json_text_n(json, "key", key, key_len);
    mu_cli_json_bytes(json, "value", value, value_len);
    mu_cli_json_unsigned(json, "version", version);
    mu_cli_json_close(json, '}');
}

static void print_value(const struct mu_cli_call *call, const char *key, const void *value, size_t len,
                        uint64_t version)
{
    struct mu_cli_json json;

    if (call->values[MU_OPT_JSON]) {
        mu_cli_json_start(&json, stdout);
        json_entry(&json, key, strlen(key), value, len, version);
        mu_cli_json_end(&json);
        return;
    }
    fwrite(value, 1, len, stdout);
    if (isatty(1) && (len == 0 || ((const char *)value)[len - 1] != '\n'))
        putchar('\n');
}

/* try_get into malloc()ed memory: the length may change between the two looks. */
static enum muster_status get_now(struct muster *muster, const char *key, void **ret_value, size_t *ret_len,
                                  uint64_t *ret_version)
{
    size_t capacity = 4096;

    for (;;) {
        void *buffer = malloc(capacity);
        enum muster_status status;

        if (!buffer)
            abort();
        status = muster_kv_try_get(muster, key, MUSTER_NTS, buffer, capacity, ret_len, ret_version);
        if (status == MUSTER_OK) {
            *ret_value = buffer;
            return status;
        }
        free(buffer);
        if (status != MUSTER_OUT_OF_RANGE)
            return status;
        capacity = *ret_len + 1;
    }
}

/* To look without waiting: read-only, but where only the leader's host knows: it is asked from a slot. */
static int join_to_look(struct mu_cli_call *call, struct muster **ret_muster)
{
    int code = mu_cli_join(call, MUSTER_JOIN_READ_ONLY, -1, ret_muster);

    if (code || !mu_is_follower(muster_segment_of(*ret_muster)))
        return code;
    muster_leave(*ret_muster);
    return mu_cli_join(call, MUSTER_JOIN_OBSERVER, -1, ret_muster);
}

static int get_run(struct mu_cli_call *call)
{
    const char *key = call->operands[0];
    struct muster *muster;
    muster_deadline deadline = 0;
    uint64_t version = 0;
    void *value = NULL;
    size_t len = 0;
    int waits = call->values[MU_OPT_WAIT] != NULL, code = mu_cli_deadline(call, MU_OPT_WAIT, &deadline);
    enum muster_status status;

    if (!code)
        code = waits ? mu_cli_join(call, MUSTER_JOIN_OBSERVER, -1, &muster) : join_to_look(call, &muster);
    if (code)
        return code;
    status = waits ? muster_kv_get_alloc(muster, key, MUSTER_NTS, deadline, &value, &len, &version)
                   : get_now(muster, key, &value, &len, &version);
    if (status == MUSTER_OK)
        print_value(call, key, value, len, version);
    else
        code = mu_cli_fail(call, status);
    free(value);
    return mu_cli_leave(call, muster, code);
}

/* set, insert, append: they differ in one call. */
static int store_run(struct mu_cli_call *call)
{
    const char *key = call->operands[0], *verb = call->verb->name;
    struct muster *muster;
    struct mu_cli_json json;
    char *value;
    size_t len, total = 0;
    uint64_t version = 0;
    enum muster_status status;
    int code = take_value(call, call->operands[1], &value, &len);

    if (code)
        return code;
    code = mu_cli_join(call, MUSTER_JOIN_OBSERVER, -1, &muster);
    if (code) {
        free(value);
        return code;
    }
    mu_cli_json_start(&json, stdout);
    if (strcmp(verb, "insert") == 0)
        status = muster_kv_insert(muster, key, MUSTER_NTS, value, len);
    else if (strcmp(verb, "append") == 0)
        status = muster_kv_append(muster, key, MUSTER_NTS, value, len, &total);
    else
        status = muster_kv_set(muster, key, MUSTER_NTS, value, len, &version);
    if (status != MUSTER_OK) {
        code = mu_cli_fail(call, status);
    } else if (call->values[MU_OPT_JSON]) {
        mu_cli_json_open(&json, NULL, '{');
        mu_cli_json_text(&json, "key", key);
        if (version)
            mu_cli_json_unsigned(&json, "version", version);
        if (strcmp(verb, "append") == 0)
            mu_cli_json_unsigned(&json, "length", total);
        mu_cli_json_close(&json, '}');
        mu_cli_json_end(&json);
    }
    free(value);
    return mu_cli_leave(call, muster, code);
}

/* delete, count, increment: a key and a number that comes back. */
static int number_run(struct mu_cli_call *call)
{
    const char *key = call->count > 0 ? call->operands[0] : "", *verb = call->verb->name;
    int counts = strcmp(verb, "count") == 0, increments = strcmp(verb, "increment") == 0, code;
    struct muster *muster;
    struct mu_cli_json json;
    int64_t by = 1, sum = 0;
    size_t number = 0;
    enum muster_status status;

    if (increments && call->count > 1 && mu_cli_parse_signed(call->operands[1], &by))
        return mu_cli_usage(call, "'%s' is no number", call->operands[1]);
    code = counts ? join_to_look(call, &muster) : mu_cli_join(call, MUSTER_JOIN_OBSERVER, -1, &muster);
    if (code)
        return code;
    if (increments)
        status = muster_kv_increment(muster, key, MUSTER_NTS, by, &sum);
    else if (counts)
        status = muster_kv_count(muster, key, MUSTER_NTS, &number);
    else
        status = muster_kv_delete(muster, key, MUSTER_NTS, &number);
    if (!increments)
        sum = (int64_t)number;
    if (status != MUSTER_OK) {
        code = mu_cli_fail(call, status);
    } else if (call->values[MU_OPT_JSON]) {
        mu_cli_json_start(&json, stdout);
        mu_cli_json_open(&json, NULL, '{');
        mu_cli_json_text(&json, "key", key);
        mu_cli_json_signed(&json, increments ? "value" : counts ? "count" : "deleted", sum);
        mu_cli_json_close(&json, '}');
        mu_cli_json_end(&json);
    } else {
        printf("%" PRId64 "\n", sum);
    }
    return mu_cli_leave(call, muster, code);
}

static int kv_list_run(struct mu_cli_call *call)
{
    const char *directory = call->count > 0 ? call->operands[0] : "";
    struct muster *muster;
    struct muster_kv_list *list;
    struct mu_cli_json json;
    enum muster_status status;
    int code = join_to_look(call, &muster);

    if (code)
        return code;
    status = muster_kv_get_dir(muster, directory, MUSTER_NTS, &list);
    if (status != MUSTER_OK)
        return mu_cli_leave(call, muster, mu_cli_fail(call, status));
    if (call->values[MU_OPT_JSON]) {
        mu_cli_json_start(&json, stdout);
        mu_cli_json_open(&json, NULL, '[');
        for (size_t i = 0; i < list->count; i++)
            json_entry(&json, list->entries[i].key, list->entries[i].key_len, list->entries[i].value,
                       list->entries[i].value_len, list->entries[i].version);
        mu_cli_json_close(&json, ']');
        mu_cli_json_end(&json);
    }
    for (size_t i = 0; i < list->count && !call->values[MU_OPT_JSON]; i++) {
        mu_cli_print_text(stdout, list->entries[i].key, list->entries[i].key_len);
        if (call->values[MU_OPT_VALUES]) {
            putchar('\t');
            mu_cli_print_text(stdout, list->entries[i].value, list->entries[i].value_len);
        }
        putchar('\n');
    }
    muster_kv_list_free(list);
    return mu_cli_leave(call, muster, code);
}

/* ---- watch ------------------------------------------------------------------------------------------------------- */

/* muster_kv_watch() into a buffer that grows as needed. */
static enum muster_status watch_once(struct muster *muster, const char *key, uint64_t after, muster_deadline deadline,
                                     char **buffer, size_t *capacity, size_t *ret_len, uint64_t *ret_version)
{
    for (;;) {
        enum muster_status status =
            muster_kv_watch(muster, key, MUSTER_NTS, after, deadline, *buffer, *capacity, ret_len, ret_version);

        if (status != MUSTER_OUT_OF_RANGE)
            return status;
        *capacity = *ret_len + 1;
        *buffer = realloc(*buffer, *capacity);
        if (!*buffer)
            abort();
    }
}

static void print_change(const struct mu_cli_call *call, const char *key, const char *value, size_t len,
                         uint64_t version)
{
    if (call->values[MU_OPT_JSON]) {
        print_value(call, key, value, len, version);
    } else {
        printf("%" PRIu64 "\t", version);
        mu_cli_print_text(stdout, value, len);
        putchar('\n');
    }
    fflush(stdout);
}

static void print_deleted(const struct mu_cli_call *call, const char *key)
{
    struct mu_cli_json json;

    if (call->values[MU_OPT_JSON]) {
        mu_cli_json_start(&json, stdout);
        mu_cli_json_open(&json, NULL, '{');
        mu_cli_json_text(&json, "key", key);
        mu_cli_json_bool(&json, "deleted", 1);
        mu_cli_json_close(&json, '}');
        mu_cli_json_end(&json);
    } else {
        puts("deleted");
    }
    fflush(stdout);
}

static enum muster_status kv_watch(struct mu_cli_call *call, struct muster *muster, uint64_t after,
                                   muster_deadline deadline)
{
    const char *key = call->operands[0];
    int follow = call->values[MU_OPT_FOLLOW] != NULL;
    size_t capacity = 4096, len;
    char *buffer = malloc(capacity);
    enum muster_status status;
    uint64_t version;

    if (!buffer)
        abort();
    do {
        status = watch_once(muster, key, after, deadline, &buffer, &capacity, &len, &version);
        if (status == MUSTER_OK) {
            print_change(call, key, buffer, len, version);
            after = version;
        } else if (status == MUSTER_NOT_FOUND && follow) {
            print_deleted(call, key);
            after = 0;
            status = MUSTER_OK;
        }
    } while (follow && status == MUSTER_OK && !ferror(stdout));
    free(buffer);
    return status;
}

static int kv_watch_run(struct mu_cli_call *call)
{
    struct muster *muster;
    muster_deadline deadline = MUSTER_FOREVER;
    uint64_t after = 0;
    size_t len;
    enum muster_status status = MUSTER_OK;
    int code = mu_cli_deadline(call, MU_OPT_WAIT, &deadline);

    if (!code)
        code = mu_cli_unsigned(call, MU_OPT_AFTER, UINT64_MAX, &after);
    if (!code)
        code = mu_cli_join(call, MUSTER_JOIN_OBSERVER, -1, &muster);
    if (code)
        return code;
    if (!call->values[MU_OPT_AFTER]) { /* from what is there now */
        status = muster_kv_try_get(muster, call->operands[0], MUSTER_NTS, NULL, 0, &len, &after);
        if (status == MUSTER_NOT_FOUND)
            after = 0;
        if (status == MUSTER_NOT_FOUND || status == MUSTER_OUT_OF_RANGE)
            status = MUSTER_OK;
    }
    if (status == MUSTER_OK)
        status = kv_watch(call, muster, after, deadline);
    if (status != MUSTER_OK)
        code = mu_cli_fail(call, status);
    return mu_cli_leave(call, muster, code);
}

static const struct mu_cli_option plain_options[] = {MU_CLI_JOB, MU_CLI_JSON, MU_CLI_END};
static const struct mu_cli_option get_options[] = {
    {MU_OPT_WAIT, 0, "wait", "D", NULL, "wait up to D for the key to appear"}, MU_CLI_JOB, MU_CLI_JSON, MU_CLI_END};
static const struct mu_cli_option list_options[] = {
    {MU_OPT_VALUES, 0, "values", NULL, NULL, "print the values too, behind a tab, escaped"},
    MU_CLI_JOB,
    MU_CLI_JSON,
    MU_CLI_END};
static const struct mu_cli_option watch_options[] = {
    {MU_OPT_AFTER, 0, "after", "VERSION", NULL, "wait for a version above this one (default: the present one)"},
    {MU_OPT_FOLLOW, 'f', "follow", NULL, NULL, "print every change, not only the first"},
    {MU_OPT_WAIT, 0, "wait", "D", NULL, "wait no longer than D"},
    MU_CLI_JOB,
    MU_CLI_JSON,
    MU_CLI_END};

static const struct mu_cli_verb verbs[] = {
    {"get", "KEY", "Print the value of a key", get_options, 1, 1, 0, get_run, NULL, NULL},
    {"set", "KEY VALUE|-", "Set a key; - reads the value from stdin", plain_options, 2, 2, 0, store_run, NULL, NULL},
    {"insert", "KEY VALUE|-", "Set a key that must be absent", plain_options, 2, 2, 0, store_run, NULL, NULL},
    {"append", "KEY VALUE|-", "Append to the value of a key", plain_options, 2, 2, 0, store_run, NULL, NULL},
    {"delete", "KEY", "Delete a key and everything under it", plain_options, 1, 1, 0, number_run, NULL, NULL},
    {"increment", "KEY [NUMBER]", "Add to a decimal number and print the sum", plain_options, 1, 2, 0, number_run, NULL,
     NULL},
    {"list", "[DIRECTORY]", "List the keys under a directory", list_options, 0, 1, 0, kv_list_run, NULL, NULL},
    {"count", "[DIRECTORY]", "Count the keys under a directory", plain_options, 0, 1, 0, number_run, NULL, NULL},
    {"watch", "KEY", "Wait for a change of a key and print it", watch_options, 1, 1, 0, kv_watch_run, NULL, NULL},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL},
};

const struct mu_cli_verb mu_cli_kv = {
    .name = "kv",
    .operands = "get|set|insert|append|delete|increment|list|count|watch ...",
    .summary = "Read and write a job's key-value store",
    .verbs = verbs,
};
