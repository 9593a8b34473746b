/*
 * cli/object.c: `muster object`: which objects a job's tasks hold, and how large they are. Looks only: an observer
 * holds nothing, so an object that is listed may be gone by the time it is asked about.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "cli/cli.h"

struct listing {
    struct mu_cli_json *json; /* NULL: for people */
    uint64_t objects, bytes, unsealed, errors;
};

static const char *object_state_word(const struct muster_object_info *info)
{
    if (info->code)
        return muster_status_name(info->code);
    return info->sealed ? "SEALED" : "WRITING";
}

static void json_object(struct mu_cli_json *json, const char *key, const struct muster_object_info *info)
{
    char text[32];

    snprintf(text, sizeof text, "0x%016" PRIx64, info->object);
    mu_cli_json_open(json, key, '{');
    mu_cli_json_text(json, "object", text);
    mu_cli_json_text(json, "state", info->code ? "ERROR" : object_state_word(info));
    if (info->code)
        mu_cli_json_text(json, "error", muster_status_name(info->code));
    mu_cli_json_signed(json, "task", info->task);
    mu_cli_json_unsigned(json, "bytes", info->len);
    mu_cli_json_unsigned(json, "metadata_bytes", info->meta_len);
    mu_cli_json_unsigned(json, "holders", info->holders);
    mu_cli_json_close(json, '}');
}

/* Of what made it; a worker has no number. */
static const char *object_task_word(const struct muster_object_info *info, char text[16])
{
    snprintf(text, 16, info->task < 0 ? "-" : "%d", (int)info->task);
    return text;
}

static void print_object(const struct muster_object_info *info)
{
    char task[16];

    printf("0x%016" PRIx64 "  %-18s %6s %10" PRIu64 " %9" PRIu64 " %8u\n", info->object, object_state_word(info),
           object_task_word(info, task), info->len, info->meta_len, info->holders);
}

static int list_one(void *arg, const struct muster_object_info *info)
{
    struct listing *l = arg;

    if (!l->json && !l->objects)
        printf("%-18s  %-18s %6s %10s %9s %8s\n", "OBJECT", "STATE", "TASK", "BYTES", "METADATA", "HOLDERS");
    l->objects++;
    l->bytes += info->len + info->meta_len;
    l->unsealed += !info->sealed;
    l->errors += info->code != MUSTER_OK;
    if (l->json)
        json_object(l->json, NULL, info);
    else
        print_object(info);
    return 0;
}

static int list_run(struct mu_cli_call *call)
{
    struct listing l = {0};
    struct mu_cli_json json;
    struct muster *muster;
    enum muster_status status;
    int code = mu_cli_join(call, MUSTER_JOIN_READ_ONLY, -1, &muster);

    if (code)
        return code;
    if (call->values[MU_OPT_JSON]) {
        l.json = &json;
        mu_cli_json_start(&json, stdout);
        mu_cli_json_open(&json, NULL, '{');
        mu_cli_json_open(&json, "objects", '[');
    }
    status = muster_object_list(muster, list_one, &l);
    if (l.json) {
        mu_cli_json_close(&json, ']');
        mu_cli_json_close(&json, '}');
        mu_cli_json_end(&json);
    } else if (status == MUSTER_OK) {
        printf("%" PRIu64 " object%s of %" PRIu64 " bytes: %" PRIu64 " not sealed, %" PRIu64 " errors\n", l.objects,
               l.objects == 1 ? "" : "s", l.bytes, l.unsealed, l.errors);
    }
    if (status != MUSTER_OK)
        code = mu_cli_fail(call, status);
    return mu_cli_leave(call, muster, code);
}

static int show_run(struct mu_cli_call *call)
{
    struct muster_object_info info;
    struct mu_cli_json json;
    struct muster *muster;
    enum muster_status status;
    muster_object object;
    char *end;
    int code;

    errno = 0;
    object = strtoull(call->operands[0], &end, 0);
    if (errno || *end || end == call->operands[0] || call->operands[0][0] == '-')
        return mu_cli_usage(call, "'%.100s' is no reference to an object: write it as 'muster object list' does",
                            call->operands[0]);
    code = mu_cli_join(call, MUSTER_JOIN_READ_ONLY, -1, &muster);
    if (code)
        return code;
    status = muster_object_info(muster, object, &info);
    if (status != MUSTER_OK)
        return mu_cli_leave(call, muster, mu_cli_fail(call, status));
    if (call->values[MU_OPT_JSON]) {
        mu_cli_json_start(&json, stdout);
        json_object(&json, NULL, &info);
        mu_cli_json_end(&json);
    } else {
        char task[16];

        printf("state     %s\ntask      %s\nbytes     %" PRIu64 "\nmetadata  %" PRIu64 "\nholders   %u\n",
               object_state_word(&info), object_task_word(&info, task), info.len, info.meta_len, info.holders);
    }
    return mu_cli_leave(call, muster, code);
}

static const struct mu_cli_option options[] = {MU_CLI_JOB, MU_CLI_JSON, MU_CLI_END};

static const struct mu_cli_verb verbs[] = {
    {"list", "", "List the objects in shared memory: state, size, how many hold it", options, 0, 0, 0, list_run, NULL,
     NULL},
    {"show", "OBJECT", "Print one object's state", options, 1, 1, 0, show_run, NULL, NULL},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL},
};

const struct mu_cli_verb mu_cli_object = {
    .name = "object",
    .operands = "list|show ...",
    .summary = "List the objects that a job's tasks hold",
    .verbs = verbs,
};
