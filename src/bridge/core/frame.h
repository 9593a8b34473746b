/*
 * bridge/core/frame.h: how messages lie in a stream of bytes: a header, then at most 64 KiB; longer ones in several
 * frames.
 *
 * PROTOCOL.md says every byte. Reading is incremental and bounded: a header is judged before anything is allocated for
 * what it announces, and a message in one piece is handed over where it lies.
 */
#ifndef MU_BRIDGE_CORE_FRAME_H
#define MU_BRIDGE_CORE_FRAME_H

#include "base/pack.h"

#define MU_BRIDGE_VERSION 7u      /* raised as PROTOCOL.md says */
#define MU_FRAME_MAGIC    0x754du /* 'M', 'u' */
#define MU_FRAME_HEADER   16u
#define MU_FRAME_PAYLOAD  65536u      /* most in one frame */
#define MU_FRAME_MESSAGE  (65u << 20) /* most in one message */
#define MU_FRAME_MORE     1u          /* flag: the message goes on in the next frame; this one is full */

/* The link's own; those from 16 on are in bridge/core/core.h. */
enum mu_link_frame {
    MU_FRAME_JOIN = 1,
    MU_FRAME_WELCOME = 2,
    MU_FRAME_REFUSE = 3,
    MU_FRAME_LEAVE = 4,
    MU_FRAME_PING = 5,
    MU_FRAME_PONG = 6,
    MU_FRAME_DROP = 7,
    MU_FRAME_RELAY = 8,
    MU_FRAME_MOVE = 9,
    MU_FRAME_STAY = 10,
    MU_FRAME_VIA = 11,
    MU_FRAME_TRIP = 12,
    MU_FRAME_OWNER = 16, /* this and all above belong to the link's owner */
};

struct mu_frame_header {
    uint16_t magic;
    uint8_t version, type, flags;
    uint32_t length, sequence;
    uint32_t zero; /* the three bytes behind the flags */
};
void mu_frame_put(uint8_t to[MU_FRAME_HEADER], const struct mu_frame_header *h);
void mu_frame_get(const uint8_t from[MU_FRAME_HEADER], struct mu_frame_header *ret_header);

enum mu_frame_fault {
    MU_FRAME_SOUND = 0,
    MU_FRAME_BAD_MAGIC,
    MU_FRAME_BAD_VERSION,
    MU_FRAME_BAD_FLAGS,
    MU_FRAME_BAD_LENGTH,
    MU_FRAME_BAD_SEQUENCE,
    MU_FRAME_BAD_PART,
    MU_FRAME_TOO_LONG,
    MU_FRAME_NO_MEMORY,
};

struct mu_frame_reader {
    size_t most;       /* of one message; may be changed between messages */
    uint32_t sequence; /* of the next frame */
    uint64_t frames;
    enum mu_frame_fault fault; /* sticks */
    struct mu_frame_header header;
    uint8_t head[MU_FRAME_HEADER];
    size_t head_len;
    size_t part_left; /* of this frame's payload */
    bool is_parted, is_told;
    uint8_t *body; /* what has come of a message that does not lie in one piece */
    size_t body_len, body_capacity;
};

struct mu_message {
    uint8_t type;
    const uint8_t *bytes; /* good until the next read, or while what was read from stays */
    size_t len;
};

void mu_frame_reader_init(struct mu_frame_reader *r, size_t most);
void mu_frame_reader_done(struct mu_frame_reader *r);
/* Takes from *at what belongs to the next message. 1: it is whole; 0: all is taken and more is needed; -1: a fault. */
int mu_frame_read(struct mu_frame_reader *r, const uint8_t **at, size_t *left, struct mu_message *ret_message);
/* Where the rest of a payload belongs that has come in part, and how much that is. A caller that reads it there at once
 * says how much, before the next mu_frame_read(), which need not have any bytes then. NULL: nowhere. */
uint8_t *mu_frame_room(struct mu_frame_reader *r, size_t *ret_size);
void mu_frame_fill(struct mu_frame_reader *r, size_t len);
/* The message goes on behind the frame that is under way. */
static inline bool mu_frame_goes_on(const struct mu_frame_reader *r)
{
    return r->head_len == MU_FRAME_HEADER && (r->header.flags & MU_FRAME_MORE);
}
/* What was wrong, to follow "it": "sent a frame of 4294967295 bytes; the most is 65536". */
void mu_frame_say(const struct mu_frame_reader *r, char *why, size_t size);

#endif
