/*
 * cli/event.c: `muster event`: send and read the job's numbered events.
 */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* The payload operand; "-" is stdin. At most one byte more than an event may carry, for the library to refuse. */
static int take_payload(const struct mu_cli_call *call, char *buffer, size_t size, const char **ret_data,
                        size_t *ret_len)
{
    const char *operand = call->count > 0 ? call->operands[0] : "";
    ssize_t n;

    *ret_data = operand;
    *ret_len = strlen(operand);
    if (strcmp(operand, "-") != 0)
        return 0;
    *ret_data = buffer;
    for (*ret_len = 0; *ret_len < size; *ret_len += (size_t)n) {
        n = read(0, buffer + *ret_len, size - *ret_len);
        if (n < 0) {
            fprintf(stderr, "%s: cannot read stdin: %s\n", call->path, strerror(errno));
            return MU_CLI_EXIT_FAILURE;
        }
        if (n == 0)
            break;
    }
    return 0;
}

static int send_run(struct mu_cli_call *call)
{
    static char buffer[MUSTER_EVENT_MAX + 1];
    struct muster *muster;
    struct mu_cli_json json;
    const char *payload;
    size_t len;
    uint64_t type = 0, sequence;
    enum muster_status status;
    int code = mu_cli_unsigned(call, MU_OPT_TYPE, UINT32_MAX, &type);

    if (!code)
        code = take_payload(call, buffer, sizeof buffer, &payload, &len);
    if (!code)
        code = mu_cli_join(call, MUSTER_JOIN_OBSERVER, -1, &muster);
    if (code)
        return code;
    status = muster_event_send(muster, (uint32_t)type, payload, len, &sequence);
    if (status != MUSTER_OK) {
        code = mu_cli_fail(call, status);
    } else if (call->values[MU_OPT_JSON]) {
        mu_cli_json_start(&json, stdout);
        mu_cli_json_open(&json, NULL, '{');
        mu_cli_json_unsigned(&json, "sequence", sequence);
        mu_cli_json_close(&json, '}');
        mu_cli_json_end(&json);
    } else {
        printf("%" PRIu64 "\n", sequence);
    }
    return mu_cli_leave(call, muster, code);
}

static void print_event(const struct mu_cli_call *call, const struct muster_event *event, const char *payload)
{
    struct mu_cli_json json;
    char age[32];

    if (!call->values[MU_OPT_JSON]) {
        printf("%" PRIu64 "\t%s ago\ttask %d\ttype %u\t", event->sequence, mu_cli_age(event->time_ns, age),
               (int)event->task_id, event->type);
        mu_cli_print_text(stdout, payload, event->len);
        putchar('\n');
    } else {
        mu_cli_json_start(&json, stdout);
        mu_cli_json_open(&json, NULL, '{');
        mu_cli_json_unsigned(&json, "sequence", event->sequence);
        mu_cli_json_unsigned(&json, "time_ns", event->time_ns);
        mu_cli_json_signed(&json, "task", event->task_id);
        mu_cli_json_unsigned(&json, "type", event->type);
        mu_cli_json_bytes(&json, "payload", payload, event->len);
        mu_cli_json_close(&json, '}');
        mu_cli_json_end(&json);
    }
    fflush(stdout);
}

/* What is there now (waits: and what comes until the deadline), at most `limit` events. */
static enum muster_status read_events(const struct mu_cli_call *call, struct muster *muster, uint64_t position,
                                      int waits, muster_deadline deadline, uint64_t limit)
{
    static char payload[MUSTER_EVENT_MAX];
    struct muster_event event;
    uint64_t lost, number = 0;
    enum muster_status status = MUSTER_OK;

    while (status == MUSTER_OK && number < limit && !ferror(stdout)) {
        status = muster_event_read(muster, &position, deadline, &event, payload, sizeof payload, &lost);
        if (status == MUSTER_OK) {
            print_event(call, &event, payload);
            number++;
        } else if (status == MUSTER_OUT_OF_RANGE) {
            fflush(stdout);
            fprintf(stderr, "%s: %" PRIu64 " event%s lost: overwritten before they were read\n", call->path, lost,
                    lost == 1 ? "" : "s");
            status = MUSTER_OK;
        } else if (status == MUSTER_DEADLINE_EXCEEDED && !waits) {
            return MUSTER_OK; /* all that there is */
        }
    }
    return status;
}

static int read_run(struct mu_cli_call *call)
{
    struct muster *muster;
    int waits = call->values[MU_OPT_FOLLOW] || call->values[MU_OPT_WAIT];
    muster_deadline deadline = waits ? MUSTER_FOREVER : 0;
    uint64_t from = 0, limit = UINT64_MAX;
    enum muster_status status = MUSTER_OK;
    int code = mu_cli_deadline(call, MU_OPT_WAIT, &deadline);

    if (!code)
        code = mu_cli_unsigned(call, MU_OPT_FROM, UINT64_MAX - 1, &from);
    if (!code)
        code = mu_cli_unsigned(call, MU_OPT_COUNT, UINT64_MAX, &limit);
    if (!code)
        code = mu_cli_join(call, waits ? MUSTER_JOIN_OBSERVER : MUSTER_JOIN_READ_ONLY, -1, &muster);
    if (code)
        return code;
    if (call->values[MU_OPT_FOLLOW] && !call->values[MU_OPT_FROM]) /* only what comes */
        status = muster_event_next(muster, &from);
    if (status == MUSTER_OK)
        status = read_events(call, muster, from, waits, deadline, limit);
    if (status != MUSTER_OK)
        code = mu_cli_fail(call, status);
    return mu_cli_leave(call, muster, code);
}

static const struct mu_cli_option send_options[] = {
    {MU_OPT_TYPE, 0, "type", "N", NULL, "the event's type number (default 0)"}, MU_CLI_JOB, MU_CLI_JSON, MU_CLI_END};
static const struct mu_cli_option read_options[] = {
    {MU_OPT_FOLLOW, 'f', "follow", NULL, NULL, "wait for what comes; without --from only that"},
    {MU_OPT_FROM, 0, "from", "N", NULL, "begin with event N (default: the oldest left)"},
    {MU_OPT_COUNT, 0, "count", "N", NULL, "end after N events"},
    {MU_OPT_WAIT, 0, "wait", "D", NULL, "wait for events no longer than D"},
    MU_CLI_JOB,
    MU_CLI_JSON,
    MU_CLI_END};

static const struct mu_cli_verb verbs[] = {
    {"send", "[PAYLOAD|-]", "Send an event to all readers and print its number", send_options, 0, 1, 0, send_run, NULL,
     NULL},
    {"read", "", "Print the events that are still there", read_options, 0, 0, 0, read_run, NULL, NULL},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL},
};

const struct mu_cli_verb mu_cli_event = {
    .name = "event",
    .operands = "send|read ...",
    .summary = "Send and read a job's events",
    .verbs = verbs,
};
