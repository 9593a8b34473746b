/* Stands in for src/base/error.h: a model has no sentences, only statuses. */
#ifndef MU_BASE_ERROR_H
#define MU_BASE_ERROR_H

#include <muster/status.h>

#define mu_fail(status, ...) (status)

/* Sentences are none here, so nothing of them is kept. */
#define MU_SENTENCE_MAX 8u
static inline void mu_error_keep(char kept[MU_SENTENCE_MAX])
{
    kept[0] = 0;
}
static inline void mu_error_restore(const char *kept)
{
    (void)kept;
}

#endif
