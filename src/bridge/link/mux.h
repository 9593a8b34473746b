/*
 * bridge/link/mux.h: messages for hosts behind a relay, as they cross the connection between the leader and that relay.
 *
 * A host behind a relay is a channel there. What is said to several channels in the same words crosses once, for all
 * of them, where that changes the order of no channel's messages. Nothing here knows of sockets.
 */
#ifndef MU_BRIDGE_LINK_MUX_H
#define MU_BRIDGE_LINK_MUX_H

#include "base/pack.h"

enum { MU_MUX_HEAD = 3 }; /* type 1, channels 2; then 4 a channel */

struct mu_mux_route { /* one channel, as its sender sees it; zeroed but for the channel */
    uint32_t channel;
    uint64_t last; /* the last item that has it; items count from 1 */
};

struct mu_mux_item {
    uint64_t hash;
    size_t at, len;              /* in the batch's bytes */
    uint32_t next;               /* older item of the same slot of the table, + 1 */
    uint32_t first, last, count; /* its channels */
    uint8_t type;
};
struct mu_mux_channel {
    uint32_t channel, next;
};

/* What was said since it was last sent. Zeroed at first. */
struct mu_mux_batch {
    struct mu_pack bytes, items, channels, head;
    uint64_t sent;       /* items of earlier batches */
    uint32_t slots[256]; /* newest item, + 1 */
};

/* False: no memory. */
bool mu_mux_add(struct mu_mux_batch *batch, struct mu_mux_route *route, uint8_t type, const void *head, size_t head_len,
                const void *payload, size_t len);
/* All of it, in order; ends when `send` gives false. Empty afterwards. */
bool mu_mux_send(struct mu_mux_batch *batch,
                 bool (*send)(void *arg, const void *head, size_t head_len, const void *payload, size_t len),
                 void *arg);
void mu_mux_done(struct mu_mux_batch *batch);

struct mu_mux_message {
    uint8_t type;
    uint32_t count;
    const uint8_t *channels; /* mu_mux_channel() reads them */
    const uint8_t *payload;
    size_t len;
};
bool mu_mux_read(const void *bytes, size_t len, struct mu_mux_message *ret_message);
uint32_t mu_mux_channel(const struct mu_mux_message *message, uint32_t i);

#endif
