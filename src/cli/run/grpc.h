/* cli/run/grpc.h: what `muster run`, `muster agent` and `muster serve` say of the coordination service, from words to
 * agent/agent.h. */
#ifndef MU_CLI_RUN_GRPC_H
#define MU_CLI_RUN_GRPC_H

#include "agent/agent.h"
#include "cli/cli.h"

#define MU_CLI_GRPC_ADDRESS "127.0.0.1:0"

/*
 * Take it, with what it changes in the other options' defaults. Without --grpc, but of `muster serve` that serves
 * nothing else: nothing is taken, and options->grpc stays NULL. 0, or 2 with a complaint printed.
 */
int mu_cli_take_grpc(const struct mu_cli_call *call, struct mu_agent_grpc *grpc, struct mu_agent_options *options);

#define MU_CLI_GRPC_OPTIONS                                                                                            \
    {                                                                                                                  \
        MU_OPT_REGISTER_TIMEOUT,                                                                                       \
        0,                                                                                                             \
        "register-timeout",                                                                                            \
        "D",                                                                                                           \
        NULL,                                                                                                          \
        "all tasks must have registered by then (default 1h)"},                                                        \
        {MU_OPT_REGISTER_BARRIER, 0,                                                                                   \
         "register-barrier",      "[=no]",                                                                             \
         mu_cli_answers,          "registrations wait for each other (default), or do not"},                           \
        {MU_OPT_SHUTDOWN_TIMEOUT,                                                                                      \
         0,                                                                                                            \
         "shutdown-timeout",                                                                                           \
         "D",                                                                                                          \
         NULL,                                                                                                         \
         "a task's shutdown waits so long for the others' (default 5m; 0: not)"},                                      \
        {MU_OPT_GRPC_RECOVERABLE,                                                                                      \
         0,                                                                                                            \
         "grpc-recoverable",                                                                                           \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "a task's failure does not fail, nor end, the others"},                                                       \
        {MU_OPT_GRPC_CERT, 0, "grpc-cert", "FILE", mu_cli_files, "TLS: the service's certificate, in PEM"},            \
        {MU_OPT_GRPC_KEY, 0, "grpc-key", "FILE", mu_cli_files, "TLS: its private key"},                                \
        {MU_OPT_GRPC_CA, 0,                                                                                            \
         "grpc-ca",      "FILE",                                                                                       \
         mu_cli_files,   "TLS: clients must have a certificate that one of these has signed"},                         \
        {MU_OPT_GRPC_PEER_URI, 0, "grpc-peer-uri", "PREFIX", NULL, "and in it a URI that begins with this"},           \
        {MU_OPT_GRPC_INSECURE, 0, "grpc-insecure", NULL, NULL, "serve other machines without TLS"},                    \
        {MU_OPT_GRPC_ANY_USER, 0, "grpc-any-user", NULL, NULL, "serve every user of this machine"},                    \
    {                                                                                                                  \
        MU_OPT_GRPC_WORKERS, 0, "grpc-workers", "LIST", NULL, "tell TensorFlow's workers of errors, at HOST:PORT,..."  \
    }

#endif
