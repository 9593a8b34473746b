/* cli/status/calls.h: one look at a job's functions, their calls, and the workers that run these. */
#ifndef MU_CLI_STATUS_CALLS_H
#define MU_CLI_STATUS_CALLS_H

#include <stdbool.h>

#include <muster/schedule.h>

#include "cli/cli.h"

enum { MU_CLI_CALLS_MOST = 100000, MU_CLI_FAILED_MOST = 20 };

struct mu_cli_call_row {
    muster_object result, waits_for;
    muster_function function;
    enum muster_call_state state;
    int32_t task;
    uint32_t pid;
};

struct mu_cli_function_row {
    muster_function function;
    char *name;                          /* "": it was read too late */
    uint64_t counts[MUSTER_CALL_FAILED]; /* by state */
};

struct mu_cli_calls {
    struct mu_cli_call_row *calls; /* the first of them; all are counted */
    struct mu_cli_function_row *functions;
    struct muster_worker_look *workers;
    struct muster_call_look *failed; /* the first of them */
    struct muster_resource_look *resources;
    struct muster_lease_look *leases;
    size_t num_calls, num_functions, num_workers, num_failed, num_resources, num_leases;
    uint64_t counts[MUSTER_CALL_FAILED + 1];
    uint64_t objects, object_bytes; /* all objects that hold bytes */
};

enum muster_status mu_cli_calls_take(struct muster *muster, struct mu_cli_calls *ret_calls);
void mu_cli_calls_free(struct mu_cli_calls *calls);

/* The job has functions, or workers. */
bool mu_cli_calls_any(const struct mu_cli_calls *calls);
void mu_cli_calls_print(const struct mu_cli_calls *calls, FILE *out);
/* Members of the object that is open. */
void mu_cli_calls_json(struct mu_cli_json *json, const struct mu_cli_calls *calls);
/* "2 running, 1 queued, 0 waiting; 3 workers: 1 idle, 1 blocked; 7 objects, 1.0 MiB" */
const char *mu_cli_calls_words(const struct mu_cli_calls *calls, char buffer[256]);
/* "3 workers: 1 idle, 1 blocked" */
const char *mu_cli_workers_words(const struct mu_cli_calls *calls, char buffer[96]);
/* Behind the text, why a call's result, "object 0x...", is not there: ", of function f, which is queued: 2 workers:
 * ..."
 */
void mu_cli_calls_why(const struct mu_cli_calls *calls, const char *waiting, char *text, size_t size);

#endif
