/*
 * cli/session.c: `muster session`: the sessions of a job's TensorFlow master, and an end to one of them. It asks the
 * master itself, at the address that the job's agent has noted.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "agent/agent.h"
#include "cli/cli.h"
#include "rpc/stub.h"
#include "session/master.pb-c.h"

enum { ANSWER_MS = 10000 };

struct asking {
    struct mu_cli_call *call;
    Mu__Session__SessionList *list;
    int code;
    bool is_done;
};

static void on_session_answer(void *arg, const struct mu_stub_answer *a)
{
    struct asking *asking = arg;

    asking->is_done = true;
    if (a->status) {
        fprintf(stderr, "%s: ", asking->call->path);
        mu_cli_print_line(stderr, a->text);
        putc('\n', stderr);
        asking->code = a->status == MUSTER_NOT_FOUND ? MU_CLI_EXIT_NOT_FOUND : MU_CLI_EXIT_FAILURE;
        return;
    }
    asking->list = mu__session__session_list__unpack(NULL, a->len, a->bytes);
    if (!asking->list)
        asking->code = MU_CLI_EXIT_FAILURE;
}

/* Where the job's master is: the first word of the note. */
static int master_find(struct mu_cli_call *call, char address[160])
{
    struct muster *muster;
    size_t len = 0;
    char text[160] = "";
    enum muster_status status;
    int code = mu_cli_join(call, MUSTER_JOIN_READ_ONLY, -1, &muster);

    if (code)
        return code;
    status = muster_kv_try_get(muster, MU_AGENT_TF_KEY, MUSTER_NTS, text, sizeof text - 1, &len, NULL);
    if (status == MUSTER_OK)
        text[len < sizeof text ? len : sizeof text - 1] = 0;
    snprintf(address, 160, "%.*s", (int)strcspn(text, " "), text);
    if (!address[0]) {
        fprintf(stderr, "%s: the job has no TensorFlow master here: see --tf-master in muster-run(1)\n", call->path);
        code = MU_CLI_EXIT_NOT_FOUND;
    }
    return mu_cli_leave(call, muster, code);
}

static void on_session_late(uv_timer_t *timer)
{
    struct asking *asking = timer->data;

    if (!asking->is_done)
        fprintf(stderr, "%s: the master does not answer\n", asking->call->path);
    asking->is_done = true;
    asking->code = MU_CLI_EXIT_FAILURE;
}

/* Asks, and waits for the answer. The timer keeps the loop alive. */
static int master_ask(struct mu_cli_call *call, const char *path, void *message, size_t len,
                      Mu__Session__SessionList **ret_list)
{
    struct asking asking = {.call = call};
    struct mu_stub *stub = NULL;
    char address[160];
    uv_timer_t timer;
    uv_loop_t loop;
    int code = message ? master_find(call, address) : MU_CLI_EXIT_FAILURE;

    if (code || uv_loop_init(&loop)) {
        free(message);
        return code ? code : MU_CLI_EXIT_FAILURE;
    }
    uv_timer_init(&loop, &timer);
    timer.data = &asking;
    uv_timer_start(&timer, on_session_late, 2 * ANSWER_MS, 0);
    if (mu_stub_open(&loop, address, NULL, NULL, &stub)) {
        free(message);
        asking.code = mu_cli_fail(call, MUSTER_UNAVAILABLE);
    } else if (!mu_stub_call(stub, path, message, len, ANSWER_MS, ANSWER_MS, on_session_answer, &asking)) {
        asking.code = MU_CLI_EXIT_FAILURE;
    }
    while (!asking.code && !asking.is_done)
        uv_run(&loop, UV_RUN_ONCE);
    mu_stub_close(stub);
    uv_close((uv_handle_t *)&timer, NULL);
    while (uv_run(&loop, UV_RUN_DEFAULT))
        ;
    uv_loop_close(&loop);
    *ret_list = asking.list;
    return asking.code;
}

static void json_session(struct mu_cli_json *json, const Mu__Session__SessionInfo *s)
{
    mu_cli_json_open(json, NULL, '{');
    mu_cli_json_text(json, "session", s->handle);
    mu_cli_json_text(json, "state", s->state);
    mu_cli_json_text(json, "client", s->client);
    mu_cli_json_text(json, "tasks", s->tasks);
    mu_cli_json_unsigned(json, "age_ms", s->age_ms);
    mu_cli_json_unsigned(json, "connections", s->connections);
    mu_cli_json_unsigned(json, "nodes", s->nodes);
    mu_cli_json_signed(json, "version", s->version);
    mu_cli_json_unsigned(json, "steps", s->steps);
    mu_cli_json_unsigned(json, "steps_per_s", s->rate);
    mu_cli_json_unsigned(json, "running", s->running);
    mu_cli_json_unsigned(json, "subgraphs", s->subgraphs);
    mu_cli_json_unsigned(json, "bytes", s->bytes);
    if (s->error && s->error[0])
        mu_cli_json_text(json, "error", s->error);
    else
        mu_cli_json_null(json, "error");
    mu_cli_json_close(json, '}');
}

static void session_print(const Mu__Session__SessionInfo *s)
{
    char bytes[32];

    printf("%-16s  %-8s %-22s %8.1f %7u %5" PRId64 " %9" PRIu64 " %7" PRIu64 " %4u %10s  ", s->handle, s->state,
           s->client, (double)s->age_ms / 1000, s->nodes, s->version, s->steps, s->rate, s->running,
           mu_cli_bytes(s->bytes, bytes));
    mu_cli_print_line(stdout, s->error && s->error[0] ? s->error : "-");
    putchar('\n');
}

static int sessions_list(struct mu_cli_call *call)
{
    Mu__Session__SessionList *list = NULL;
    struct mu_cli_json json;
    int code = master_ask(call, "/muster.Sessions/List", malloc(1), 0, &list);

    if (code)
        return code;
    if (call->values[MU_OPT_JSON]) {
        mu_cli_json_start(&json, stdout);
        mu_cli_json_open(&json, NULL, '{');
        mu_cli_json_open(&json, "sessions", '[');
        for (size_t i = 0; i < list->n_session; i++)
            json_session(&json, list->session[i]);
        mu_cli_json_close(&json, ']');
        mu_cli_json_close(&json, '}');
        mu_cli_json_end(&json);
    } else if (list->n_session) {
        printf("%-16s  %-8s %-22s %8s %7s %5s %9s %7s %4s %10s  %s\n", "SESSION", "STATE", "CLIENT", "AGE", "NODES",
               "VER", "STEPS", "PER S", "RUN", "MEMORY", "LAST ERROR");
        for (size_t i = 0; i < list->n_session; i++)
            session_print(list->session[i]);
    }
    mu__session__session_list__free_unpacked(list, NULL);
    return mu_cli_finish(call, 0);
}

static void session_show(const Mu__Session__SessionInfo *s)
{
    char bytes[32];

    printf("session      %s\nstate        %s\nclient       %s\ntasks        %s\n", s->handle, s->state, s->client,
           s->tasks);
    printf("age          %.1f s\nconnections  %u\nnodes        %u\nversion      %" PRId64 "\n",
           (double)s->age_ms / 1000, s->connections, s->nodes, s->version);
    printf("steps        %" PRIu64 ", %" PRIu64 " a second\nrunning      %u\nsubgraphs    %u\nmemory       %s\n",
           s->steps, s->rate, s->running, s->subgraphs, mu_cli_bytes(s->bytes, bytes));
    printf("last error   ");
    mu_cli_print_line(stdout, s->error && s->error[0] ? s->error : "-");
    putchar('\n');
}

static int session_show_run(struct mu_cli_call *call)
{
    Mu__Session__SessionList *list = NULL;
    const Mu__Session__SessionInfo *found = NULL;
    struct mu_cli_json json;
    int code = master_ask(call, "/muster.Sessions/List", malloc(1), 0, &list);

    if (code)
        return code;
    for (size_t i = 0; i < list->n_session && !found; i++)
        if (strcmp(list->session[i]->handle, call->operands[0]) == 0)
            found = list->session[i];
    if (!found) {
        fprintf(stderr, "%s: there is no session %.100s\n", call->path, call->operands[0]);
        code = MU_CLI_EXIT_NOT_FOUND;
    } else if (call->values[MU_OPT_JSON]) {
        mu_cli_json_start(&json, stdout);
        json_session(&json, found);
        mu_cli_json_end(&json);
    } else {
        session_show(found);
    }
    mu__session__session_list__free_unpacked(list, NULL);
    return mu_cli_finish(call, code);
}

static int session_close_run(struct mu_cli_call *call)
{
    Mu__Session__CloseSessionRequest r = MU__SESSION__CLOSE_SESSION_REQUEST__INIT;
    Mu__Session__SessionList *list = NULL;
    uint8_t *message;
    int code;

    r.session_handle = (char *)(uintptr_t)call->operands[0];
    message = malloc(mu__session__close_session_request__get_packed_size(&r) + 1);
    code = master_ask(call, "/muster.Sessions/Close", message,
                      message ? mu__session__close_session_request__pack(&r, message) : 0, &list);
    if (list)
        mu__session__session_list__free_unpacked(list, NULL);
    return mu_cli_finish(call, code);
}

static const struct mu_cli_option session_options[] = {MU_CLI_JOB, MU_CLI_JSON, MU_CLI_END};
static const struct mu_cli_option close_options[] = {MU_CLI_JOB, MU_CLI_END};

static const struct mu_cli_verb session_verbs[] = {
    {"ls", "", "List the sessions: client, graph, steps, memory, last error", session_options, 0, 0, 0, sessions_list,
     NULL, NULL},
    {"show", "SESSION", "Print one session", session_options, 1, 1, 0, session_show_run, NULL, NULL},
    {"close", "SESSION", "Close a session: its steps end with ABORTED", close_options, 1, 1, 0, session_close_run, NULL,
     NULL},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL},
};

const struct mu_cli_verb mu_cli_session = {
    .name = "session",
    .operands = "ls|show|close ...",
    .summary = "List and close the sessions of TensorFlow's clients",
    .verbs = session_verbs,
};
