/* Stands in for src/base/error.h: a model has no sentences, only statuses. */
#ifndef MU_BASE_ERROR_H
#define MU_BASE_ERROR_H

#include <muster/status.h>

#define mu_fail(status, ...) (status)

#endif
