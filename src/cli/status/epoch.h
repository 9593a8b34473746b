/* cli/status/epoch.h: the membership of a job that has one, for people: its epoch, and the change that is pending. */
#ifndef MU_CLI_STATUS_EPOCH_H
#define MU_CLI_STATUS_EPOCH_H

#include "cli/cli.h"
#include "muster/membership.h"

struct mu_cli_epoch {
    bool is_there; /* the job has a membership */
    bool is_anew;  /* each epoch is begun anew by the launcher, in another segment */
    struct muster_membership now;
    struct muster_member *members; /* of this epoch, and of the pending change; malloc()ed */
    size_t count;
    uint32_t wanted; /* members of the next epoch, while a change is pending */
};

enum muster_status mu_cli_epoch_take(struct muster *muster, struct mu_cli_epoch *ret_epoch);
void mu_cli_epoch_free(struct mu_cli_epoch *epoch);
/* The participant's word is missing for the phase to go on. */
bool mu_cli_epoch_awaits(const struct mu_cli_epoch *epoch, const struct muster_member *member);
/* "3: 4 tasks (2 to 6)", and of a pending change: to how many, since when, which tasks are missing; of what has ended
 * how. */
const char *mu_cli_epoch_words(const struct mu_cli_epoch *epoch, char buffer[768]);
/* The same in a few words: "epoch 3 of 4 tasks, preparing for 6". */
const char *mu_cli_epoch_brief(const struct mu_cli_epoch *epoch, char buffer[96]);
void mu_cli_epoch_json(struct mu_cli_json *json, const struct mu_cli_epoch *epoch);

#endif
