/*
 * cli/executor/executor.c: `muster executor`: TensorFlow's own kernels and variables for a task, in a process without
 * Python: a server of its WorkerService, which muster's master tells what to run.
 *
 * It is begun blank: which task it is comes with each session. With --ops it says which ops and kernels there are.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "bridge/link/address.h"
#include "cli/cli.h"
#include "cli/executor/library.h"

/* A list with its length in front: eight bytes, the low one first. */
static int list_write(const struct mu_tf_buffer *list)
{
    uint8_t head[8];

    for (int i = 0; i < 8; i++)
        head[i] = (uint8_t)((uint64_t)list->length >> (8 * i));
    return fwrite(head, 1, sizeof head, stdout) == sizeof head &&
                   fwrite(list->data, 1, list->length, stdout) == list->length
               ? 0
               : -1;
}

static int ops_write(struct mu_cli_call *call, const struct mu_tf_library *l)
{
    void *status = l->new_status();
    const struct mu_tf_buffer *ops = l->op_list(), *kernels = l->kernels(status);

    if (!ops || !kernels || l->get_code(status) || list_write(ops) || list_write(kernels))
        return mu_cli_fail(call, mu_fail(MUSTER_INTERNAL, "the lists of ops and kernels cannot be written"));
    return mu_cli_finish(call, 0);
}

/* A ServerDef of a cluster of one: {job {name "muster", tasks {0: ADDRESS}}}, "muster", 0, "grpc". */
static size_t server_def_write(const char *address, uint8_t *def)
{
    size_t len = strlen(address);
    uint8_t *at = def;

    *at++ = 1 << 3 | 2;
    *at++ = (uint8_t)(len + 16);
    *at++ = 1 << 3 | 2;
    *at++ = (uint8_t)(len + 14);
    memcpy(at, "\x0a\x06muster\x12", 9);
    at += 9;
    *at++ = (uint8_t)(len + 4);
    memcpy(at, "\x08\x00\x12", 3);
    at += 3;
    *at++ = (uint8_t)len;
    memcpy(at, address, len);
    at += len;
    memcpy(at, "\x12\x06muster\x2a\x04grpc", 14);
    return (size_t)(at - def) + 14;
}

static int server_run(struct mu_cli_call *call, const struct mu_tf_library *l, const char *address)
{
    uint8_t def[256];
    void *status = l->new_status(), *server;
    int domain = 0;
    socklen_t len = sizeof domain;

    server = l->new_server(def, server_def_write(address, def), status);
    if (server && l->get_code(status) == 0)
        l->server_start(server, status);
    if (!server || l->get_code(status))
        return mu_cli_fail(call, mu_fail(MUSTER_UNAVAILABLE, "TensorFlow %s cannot serve at %s: %s", l->version(),
                                         address, l->message(status)));
    puts(address);
    fflush(stdout);
    if (l->has_sessions && getsockopt(STDIN_FILENO, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX)
        mu_tf_steps(l, address, STDIN_FILENO);
    l->server_join(server, status);
    return 0;
}

static int executor_run(struct mu_cli_call *call)
{
    const char *address = call->values[MU_OPT_ADDRESS];
    struct mu_link_name name;
    struct mu_tf_library library;
    char why[4300];

    if (!call->values[MU_OPT_OPS] && !address)
        return mu_cli_usage(call, "say --address HOST:PORT, where it is to serve");
    if (call->values[MU_OPT_OPS] && address)
        return mu_cli_usage(call, "--address and --ops exclude each other: --ops writes its lists and ends");
    if (address &&
        (mu_link_name_parse(address, &name) || !name.host[0] || strcmp(name.port, "0") == 0 || strlen(address) > 100))
        return mu_cli_wrong(call, MU_OPT_ADDRESS, address, "is no HOST:PORT");
    setenv("TF_CPP_MIN_LOG_LEVEL", "2", 0);
    if (address && (strcmp(name.host, "127.0.0.1") == 0 || strcmp(name.host, "localhost") == 0))
        mu_tf_stay_home();
    if (mu_tf_open(call->values[MU_OPT_LIBTENSORFLOW], &library, why, sizeof why))
        return mu_cli_fail(call, mu_fail(MUSTER_NOT_FOUND, "no TensorFlow here: %.900s", why));
    return call->values[MU_OPT_OPS] ? ops_write(call, &library) : server_run(call, &library, address);
}

static const struct mu_cli_option executor_options[] = {
    {MU_OPT_ADDRESS, 0, "address", "HOST:PORT", NULL, "where it serves; at 127.0.0.1 this machine alone"},
    {MU_OPT_LIBTENSORFLOW, 0, "libtensorflow", "PATH", mu_cli_files,
     "TensorFlow's library, or its package's folder (default: python3's)"},
    {MU_OPT_OPS, 0, "ops", NULL, NULL, "write the lists of ops and kernels instead"},
    MU_CLI_END,
};

const struct mu_cli_verb mu_cli_executor = {
    .name = "executor",
    .operands = "",
    .summary = "Run TensorFlow's kernels for the tasks of a master (run --tf-master starts them)",
    .options = executor_options,
    .run = executor_run,
};
