/* bridge/link/state.h: what one connection is, and what may happen to it then: a table that PROTOCOL.md repeats. */
#ifndef MU_BRIDGE_LINK_STATE_H
#define MU_BRIDGE_LINK_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum mu_link_state {
    MU_LINK_CLOSED = 0,
    MU_LINK_CONNECTING, /* follower: TCP is on its way */
    MU_LINK_SECURING,   /* TLS, or nothing in the clear */
    MU_LINK_JOINING,    /* leader: nothing is known of it but the key */
    MU_LINK_WAITING,    /* JOIN is sent; the answer may take as long as other hosts do */
    MU_LINK_UP,
    MU_LINK_ENDING, /* our last word is on its way; what it says is read and thrown away */
    MU_LINK_STATES,
};

/* Below MU_LINK_OPENED: a frame of that type has come; MU_LINK_OWNERS: any that is the owner's. */
enum mu_link_event {
    MU_LINK_OWNERS = 16,
    MU_LINK_OPENED,
    MU_LINK_SECURED,
    MU_LINK_ACCEPT,
    MU_LINK_REFUSAL, /* by the leader's decision */
    MU_LINK_DROPPING,
    MU_LINK_BROKEN,
    MU_LINK_EVENTS,
};

enum mu_link_side { MU_LINK_LEADER = 1, MU_LINK_FOLLOWER = 2, MU_LINK_BOTH = 3 };

struct mu_link_row {
    enum mu_link_state state;
    enum mu_link_event event;
    enum mu_link_side side;
    enum mu_link_state next;
};
extern const struct mu_link_row mu_link_rows[];
extern const unsigned mu_link_rows_count;

/* Whether it may happen, and what the connection is then. */
bool mu_link_step(enum mu_link_state state, enum mu_link_event event, enum mu_link_side side,
                  enum mu_link_state *ret_next);
enum mu_link_event mu_link_event_of(uint8_t type);
const char *mu_link_state_name(enum mu_link_state state);
const char *mu_link_event_name(enum mu_link_event event);

#endif
