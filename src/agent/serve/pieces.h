/* agent/serve/pieces.h: long messages of the agents, in pieces. */
#ifndef MU_AGENT_SERVE_PIECES_H
#define MU_AGENT_SERVE_PIECES_H

#include "agent/serve/gather.h"

enum { MU_PIECES_MAX = 256 << 20 };

/* What comes in pieces from a host. */
struct mu_pieces {
    uint8_t *bytes;
    uint32_t len, got;
    char name[MU_GATHER_NAME_MAX + 1];
};

void mu_pieces_say(mu_gathers_tell *tell, void *arg, uint32_t host, const char *name, const struct mu_pack *whole);
/* The next piece of something. True: it is whole, and the caller's to free. */
bool mu_pieces_hear(struct mu_pieces *pieces, struct mu_unpack *u);

#endif
