/*
 * agent/serve/pieces.c: what is too long for one message of agents, in pieces: a name, the whole's length, where,
 * bytes.
 *
 * They come in order, or something of them is lost with a connection: then what has come counts for nothing.
 */
#include "agent/serve/pieces.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 256 << 10 };

void mu_pieces_say(mu_gathers_tell *tell, void *arg, uint32_t host, const char *name, const struct mu_pack *whole)
{
    for (size_t at = 0; at < whole->len; at += PIECE) {
        size_t len = whole->len - at < PIECE ? whole->len - at : PIECE;
        struct mu_pack what = {.bytes = NULL};

        mu_pack_text(&what, name);
        mu_pack_u32(&what, (uint32_t)whole->len);
        mu_pack_u32(&what, (uint32_t)at);
        mu_pack_blob(&what, whole->bytes + at, len);
        tell(arg, host, &what);
        mu_pack_done(&what);
    }
}

bool mu_pieces_hear(struct mu_pieces *pieces, struct mu_unpack *u)
{
    char name[sizeof pieces->name];
    uint32_t whole, at;
    const void *bytes;
    size_t len;

    mu_unpack_text(u, name, sizeof name);
    whole = mu_unpack_u32(u);
    at = mu_unpack_u32(u);
    bytes = mu_unpack_blob(u, PIECE, &len);
    if (u->failed || whole == 0 || whole > MU_PIECES_MAX || at > whole || len > whole - at || len == 0)
        return false;
    if (at == 0) {
        free(pieces->bytes);
        *pieces = (struct mu_pieces){.bytes = malloc(whole), .len = whole};
        memcpy(pieces->name, name, sizeof name);
    }
    if (!pieces->bytes || at != pieces->got || whole != pieces->len || strcmp(name, pieces->name) != 0)
        return false;
    memcpy(pieces->bytes + at, bytes, len);
    pieces->got += (uint32_t)len;
    return pieces->got == pieces->len;
}
