/*
 * cli/run/grpc.c: what `muster run`, `muster agent` and `muster serve` say of the coordination service.
 */
#include "cli/run/grpc.h"

#include <string.h>
#include <unistd.h>

#define REGISTER_NS 3600000000000ull
#define SHUTDOWN_NS 300000000000ull
#define BEATS_NS    100000000000ull /* JAX's own, of which its processes send two in this time */

/* What means nothing where the service is not asked for. */
static int grpc_refuse_others(const struct mu_cli_call *call)
{
    static const enum mu_cli_option_id need[] = {
        MU_OPT_REGISTER_TIMEOUT, MU_OPT_SHUTDOWN_TIMEOUT, MU_OPT_REGISTER_BARRIER, MU_OPT_GRPC_RECOVERABLE,
        MU_OPT_GRPC_CERT,        MU_OPT_GRPC_KEY,         MU_OPT_GRPC_CA,          MU_OPT_GRPC_PEER_URI,
        MU_OPT_GRPC_INSECURE,    MU_OPT_GRPC_ANY_USER,    MU_OPT_GRPC_WORKERS};

    for (size_t i = 0; i < sizeof need / sizeof need[0]; i++)
        for (const struct mu_cli_option *option = call->verb->options; call->values[need[i]] && option->name; option++)
            if (option->id == need[i])
                return mu_cli_usage(call, "--%s needs --grpc", option->name);
    return 0;
}

/* Certificate and key come together; a server that knows its clients by a CA must have a certificate itself. */
static int take_tls(const struct mu_cli_call *call, struct mu_agent_grpc *grpc)
{
    const char *files[] = {call->values[MU_OPT_GRPC_CERT], call->values[MU_OPT_GRPC_KEY], call->values[MU_OPT_GRPC_CA]};
    const char *prefix = call->values[MU_OPT_GRPC_PEER_URI];

    if (!files[0] != !files[1])
        return mu_cli_usage(call, "--grpc-%s needs --grpc-%s", files[0] ? "cert" : "key", files[0] ? "key" : "cert");
    if (files[2] && !files[0])
        return mu_cli_usage(call, "--grpc-ca needs --grpc-cert and --grpc-key");
    if (prefix && !files[2])
        return mu_cli_usage(call, "--grpc-peer-uri needs --grpc-ca");
    if (prefix && (!*prefix || prefix[strlen(prefix) - 1] != '/'))
        return mu_cli_usage(call, "--grpc-peer-uri '%s' must end in '/', as in spiffe://example.org/job/", prefix);
    for (int i = 0; i < 3; i++)
        if (files[i] && access(files[i], R_OK))
            return mu_cli_usage(call, "cannot read %s: %m", files[i]);
    grpc->cert = files[0];
    grpc->key = files[1];
    grpc->ca = files[2];
    grpc->peer_uri = prefix;
    grpc->insecure = call->values[MU_OPT_GRPC_INSECURE] != NULL;
    if (grpc->cert && grpc->insecure)
        return mu_cli_usage(call, "--grpc-cert and --grpc-insecure exclude each other");
    return 0;
}

/* What the service calls has no TLS. */
static int take_workers(const struct mu_cli_call *call, struct mu_agent_grpc *grpc)
{
    grpc->workers = call->values[MU_OPT_GRPC_WORKERS];
    if (grpc->workers && grpc->cert)
        return mu_cli_usage(call, "--grpc-workers and --grpc-cert exclude each other: TensorFlow's workers are called "
                                  "in the clear, for they know no TLS");
    if (grpc->workers && !*grpc->workers)
        return mu_cli_usage(call, "--grpc-workers wants HOST:PORT of each task, as in n0:2222,n1:2222 or n{rank}:2222");
    return 0;
}

int mu_cli_take_grpc(const struct mu_cli_call *call, struct mu_agent_grpc *grpc, struct mu_agent_options *options)
{
    const char *address = call->values[MU_OPT_GRPC];
    size_t answer = 0;
    int code;

    if (!address && (call->verb->is_command || call->values[MU_OPT_TCPSTORE] || call->values[MU_OPT_MINDSPORE] ||
                     call->values[MU_OPT_RAY] || call->values[MU_OPT_TF_MASTER]))
        return grpc_refuse_others(call);
    *grpc = (struct mu_agent_grpc){
        .address = address && *address ? address : MU_CLI_GRPC_ADDRESS,
        .register_timeout_ns = REGISTER_NS,
        .shutdown_timeout_ns = SHUTDOWN_NS,
        .recoverable = call->values[MU_OPT_GRPC_RECOVERABLE] != NULL,
        .any_user = call->values[MU_OPT_GRPC_ANY_USER] != NULL,
    };
    options->grpc = grpc;
    options->heartbeat_timeout_ns = BEATS_NS;
    code = mu_cli_duration(call, MU_OPT_REGISTER_TIMEOUT, &grpc->register_timeout_ns);
    if (!code && grpc->register_timeout_ns == 0)
        code = mu_cli_usage(call, "--register-timeout 0 leaves no time to register in");
    if (!code)
        code = mu_cli_duration(call, MU_OPT_SHUTDOWN_TIMEOUT, &grpc->shutdown_timeout_ns);
    if (!code)
        code = mu_cli_word(call, MU_OPT_REGISTER_BARRIER, &answer);
    grpc->register_barrier = answer == 0;
    if (!code)
        code = take_tls(call, grpc);
    return code ? code : take_workers(call, grpc);
}
