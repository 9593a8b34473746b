/*
 * barrier/call.h: what the files about named barriers share: rules.c (what a call does), edits.c (its commits),
 * failure.c (which task is at fault), named.c (the calls of this process's task), remote.c (those that the leader's
 * host answers).
 */
#ifndef MU_BARRIER_CALL_H
#define MU_BARRIER_CALL_H

#include "barrier/named_steps.h"
#include "segment/handle.h"

/* When traced: that it came, at `came`, and that it returns with a status. */
void mu_barrier_call_note_entry(const struct mu_named *n, const struct mu_call *c, uint64_t came);
void mu_barrier_call_note_exit(const struct mu_named *n, const struct mu_call *c, enum muster_status status);

/*
 * For a task of a host that is not the leader's: the whole call, made by the leader. MUSTER_OK: it has been answered,
 * as c->result says. Nothing is waited for beyond the deadline but a short answer whether it had ended by then.
 */
enum muster_status mu_barrier_call_remote(struct muster *m, const struct mu_named *n, struct mu_call *c,
                                          muster_deadline deadline);
enum muster_status mu_cancel_remote(struct muster *m, const struct mu_named *n, struct mu_call *c);

/* rules.c: they return whether the copy was changed, so that it must be put; the first one does not. */
bool mu_rules_answer(struct mu_call *c, enum muster_status result, const char *text);
bool mu_rules_arrive(struct mu_named *n, struct mu_call *c, struct mu_barrier *b, enum muster_status *ret_status);
bool mu_rules_mark_untold(const struct mu_call *c, struct mu_barrier *b);
enum muster_status mu_rules_catch_up(struct mu_named *n, struct mu_barrier *b);
/* Has its instance an answer for it in this state? */
bool mu_rules_answered(struct mu_call *c, const struct mu_barrier *b, const char *id);

/* A participant in a propagated error, or that has ended, and a sentence about it. Only looks when any task is. */
bool mu_named_find_failed(const struct mu_named *n, const struct mu_barrier *b, char *text, size_t size);

/* All task records as of now, into n->records. */
enum muster_status mu_named_read_records(struct mu_named *n, struct mu_cluster *ret_cluster);

/*
 * Which task's failure or departure ends the instance? Sets n->fail_*; false when none's. n->records were read after
 * *b. *ret_out: a recoverable participant is in error or has left, or a transient one has left: that only takes its
 * arrival back.
 */
bool mu_named_find_fatal(struct mu_named *n, const struct mu_barrier *b, bool *ret_out);

/* Such a participant has not arrived: it may come again. Whether that took any mark back. */
bool mu_named_unmark_failed(const struct mu_named *n, struct mu_barrier *b);

/* Sets n->fail_* for a deadline that has passed: how many came, which was first, which are missing, and their state. */
void mu_named_compose_timeout(struct mu_named *n, const struct mu_barrier *b);

/* Returns `status`; behind the last sentence come those that had not arrived when n->b was read. */
enum muster_status mu_named_say_missing(struct mu_named *n, enum muster_status status);

#endif
