/* base/error.h: the sentence behind a failed call. */
#ifndef MU_BASE_ERROR_H
#define MU_BASE_ERROR_H

#include <muster/status.h>

/*
 * Record the calling thread's sentence and return `status`, so that a failure is one line:
 *     return mu_fail(MUSTER_NOT_FOUND, "key %s not found", key);
 * Saves and restores errno. The sentence has no final period and no newline.
 */
enum muster_status mu_fail(enum muster_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * The thread's sentence, kept over calls of which no failure is reported: a call that succeeds leaves it as it was. The
 * copy is short where the sentence is.
 */
#define MU_SENTENCE_MAX 1024u
void mu_error_keep(char kept[MU_SENTENCE_MAX]);
void mu_error_restore(const char *kept);

#endif
