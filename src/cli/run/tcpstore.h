/* cli/run/tcpstore.h: what `muster run`, `muster agent` and `muster serve` say of PyTorch's store, from words to
 * agent/agent.h. */
#ifndef MU_CLI_RUN_TCPSTORE_H
#define MU_CLI_RUN_TCPSTORE_H

#include "agent/agent.h"
#include "cli/cli.h"

#define MU_CLI_TCPSTORE_ADDRESS "127.0.0.1:0"

/*
 * Take it. Without --tcpstore, and without MUSTER_TCPSTORE where that counts (it is the launchers'): options->tcpstore
 * stays NULL. 0, or 2 with a complaint printed.
 */
int mu_cli_take_tcpstore(const struct mu_cli_call *call, struct mu_agent_tcpstore *store,
                         struct mu_agent_options *options);
/* A command's own variables may not say where else a store is. */
int mu_cli_check_tcpstore(const struct mu_cli_call *call, const struct mu_agent_options *options);

#define MU_CLI_TCPSTORE_OPTIONS                                                                                        \
    {MU_OPT_TCPSTORE, 0,    "tcpstore",                                                                                \
     "[=ADDR]",       NULL, "serve PyTorch's TCPStore at ADDR, as in :4711 (default 127.0.0.1:0)"},                    \
        {MU_OPT_TCPSTORE_INSECURE, 0, "tcpstore-insecure", NULL, NULL, "serve it to other machines, too"},             \
    {                                                                                                                  \
        MU_OPT_CLIENT_MEMORY, 0, "client-memory", "SIZE", NULL,                                                        \
            "memory held for clients of all services (default: 1/16 of it, 256M to 1G)"                                \
    }

#endif
