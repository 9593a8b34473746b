/* cli/status/watch.h: looking again and again: for `muster status --watch` and `muster top`. */
#ifndef MU_CLI_STATUS_WATCH_H
#define MU_CLI_STATUS_WATCH_H

#include <signal.h>
#include <stdbool.h>

#include "cli/cli.h"

#define MU_CLI_WATCH_MIN_NS 20000000u

/*
 * From here on the signals of people and terminals are only taken while mu_cli_watch_pause() sleeps, so none comes
 * between a look at mu_cli_interrupted() and the sleep.
 */
void mu_cli_watch_begin(sigset_t *ret_mask);
/* Until the deadline, a signal, or until `fd` (-1: none) can be read. 1: it can be read. */
int mu_cli_watch_pause(const sigset_t *mask, uint64_t deadline_ns, int fd);

/* The job has ended: its segment is closed, has lost its name, or is not whole. */
bool mu_cli_watch_is_over(struct muster *muster);
/* The file has not been cut: it may be read. */
bool mu_cli_watch_is_whole(struct muster *muster);

/* The option's interval; 2 with a complaint when it is none. */
int mu_cli_watch_interval(const struct mu_cli_call *call, enum mu_cli_option_id id, uint64_t *ret_ns);

#endif
