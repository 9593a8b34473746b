/* kv/setters.h: which tasks could still set the key that is waited for. */
#ifndef MU_KV_SETTERS_H
#define MU_KV_SETTERS_H

#include "segment/handle.h"

/* UNAVAILABLE, with a sentence that names the tasks: none is left that could, as far as that can be known. */
enum muster_status mu_setters_look(struct muster *m, const char *what);

#endif
