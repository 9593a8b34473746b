/*
 * bridge/link/state.c: the life of one connection as rows (state, event, side, next); what has no row is refused.
 *
 * Frames of the link are events by their number, so a frame in a wrong state needs no code of its own. The test walks
 * every pair; PROTOCOL.md prints the same rows, and another test compares them.
 */
#include "bridge/link/state.h"

#include <stddef.h>

#include "bridge/core/frame.h"

#define L MU_LINK_LEADER
#define F MU_LINK_FOLLOWER
#define B MU_LINK_BOTH
const struct mu_link_row mu_link_rows[] = {
    {MU_LINK_CONNECTING, MU_LINK_OPENED, F, MU_LINK_SECURING},
    {MU_LINK_SECURING, MU_LINK_SECURED, L, MU_LINK_JOINING},
    {MU_LINK_SECURING, MU_LINK_SECURED, F, MU_LINK_WAITING},
    {MU_LINK_SECURING, MU_LINK_REFUSAL, L, MU_LINK_ENDING},
    {MU_LINK_JOINING, (enum mu_link_event)MU_FRAME_JOIN, L, MU_LINK_WAITING},
    {MU_LINK_JOINING, MU_LINK_REFUSAL, L, MU_LINK_ENDING},
    {MU_LINK_WAITING, MU_LINK_ACCEPT, L, MU_LINK_UP},
    {MU_LINK_WAITING, MU_LINK_REFUSAL, L, MU_LINK_ENDING},
    {MU_LINK_WAITING, (enum mu_link_event)MU_FRAME_WELCOME, F, MU_LINK_UP},
    {MU_LINK_WAITING, (enum mu_link_event)MU_FRAME_REFUSE, F, MU_LINK_CLOSED},
    {MU_LINK_WAITING, (enum mu_link_event)MU_FRAME_LEAVE, B, MU_LINK_CLOSED},
    {MU_LINK_WAITING, (enum mu_link_event)MU_FRAME_PING, B, MU_LINK_WAITING},
    {MU_LINK_WAITING, (enum mu_link_event)MU_FRAME_PONG, B, MU_LINK_WAITING},
    {MU_LINK_WAITING, (enum mu_link_event)MU_FRAME_DROP, B, MU_LINK_CLOSED},
    {MU_LINK_WAITING, MU_LINK_DROPPING, B, MU_LINK_ENDING},
    {MU_LINK_WAITING, (enum mu_link_event)MU_FRAME_MOVE, F, MU_LINK_WAITING},
    {MU_LINK_WAITING, (enum mu_link_event)MU_FRAME_STAY, L, MU_LINK_WAITING},
    {MU_LINK_UP, (enum mu_link_event)MU_FRAME_LEAVE, B, MU_LINK_CLOSED},
    {MU_LINK_UP, (enum mu_link_event)MU_FRAME_PING, B, MU_LINK_UP},
    {MU_LINK_UP, (enum mu_link_event)MU_FRAME_PONG, B, MU_LINK_UP},
    {MU_LINK_UP, (enum mu_link_event)MU_FRAME_DROP, B, MU_LINK_CLOSED},
    {MU_LINK_UP, (enum mu_link_event)MU_FRAME_RELAY, B, MU_LINK_UP},
    {MU_LINK_UP, (enum mu_link_event)MU_FRAME_STAY, L, MU_LINK_UP},
    {MU_LINK_UP, (enum mu_link_event)MU_FRAME_VIA, B, MU_LINK_UP},
    {MU_LINK_UP, (enum mu_link_event)MU_FRAME_TRIP, B, MU_LINK_UP},
    {MU_LINK_UP, MU_LINK_OWNERS, B, MU_LINK_UP},
    {MU_LINK_UP, MU_LINK_DROPPING, B, MU_LINK_ENDING},
    {MU_LINK_CONNECTING, MU_LINK_BROKEN, F, MU_LINK_CLOSED},
    {MU_LINK_SECURING, MU_LINK_BROKEN, B, MU_LINK_CLOSED},
    {MU_LINK_JOINING, MU_LINK_BROKEN, L, MU_LINK_CLOSED},
    {MU_LINK_WAITING, MU_LINK_BROKEN, B, MU_LINK_CLOSED},
    {MU_LINK_UP, MU_LINK_BROKEN, B, MU_LINK_CLOSED},
    {MU_LINK_ENDING, MU_LINK_BROKEN, B, MU_LINK_CLOSED},
};
const unsigned mu_link_rows_count = sizeof mu_link_rows / sizeof mu_link_rows[0];

static const char *const state_names[MU_LINK_STATES] = {
    [MU_LINK_CLOSED] = "CLOSED",   [MU_LINK_CONNECTING] = "CONNECTING", [MU_LINK_SECURING] = "SECURING",
    [MU_LINK_JOINING] = "JOINING", [MU_LINK_WAITING] = "WAITING",       [MU_LINK_UP] = "UP",
    [MU_LINK_ENDING] = "ENDING",
};

static const char *const event_names[MU_LINK_EVENTS] = {
    [MU_FRAME_JOIN] = "JOIN",       [MU_FRAME_WELCOME] = "WELCOME", [MU_FRAME_REFUSE] = "REFUSE",
    [MU_FRAME_LEAVE] = "LEAVE",     [MU_FRAME_PING] = "PING",       [MU_FRAME_PONG] = "PONG",
    [MU_FRAME_DROP] = "DROP",       [MU_FRAME_RELAY] = "RELAY",     [MU_FRAME_MOVE] = "MOVE",
    [MU_FRAME_STAY] = "STAY",       [MU_FRAME_VIA] = "VIA",         [MU_FRAME_TRIP] = "TRIP",
    [MU_LINK_OWNERS] = "(owner's)", [MU_LINK_OPENED] = "opened",    [MU_LINK_SECURED] = "secured",
    [MU_LINK_ACCEPT] = "accepted",  [MU_LINK_REFUSAL] = "refused",  [MU_LINK_DROPPING] = "dropping",
    [MU_LINK_BROKEN] = "broken",
};

bool mu_link_step(enum mu_link_state state, enum mu_link_event event, enum mu_link_side side,
                  enum mu_link_state *ret_next)
{
    for (unsigned i = 0; i < mu_link_rows_count; i++) {
        const struct mu_link_row *row = &mu_link_rows[i];

        if (row->state != state || row->event != event || !(row->side & side))
            continue;
        *ret_next = row->next;
        return true;
    }
    return false;
}

enum mu_link_event mu_link_event_of(uint8_t type)
{
    return type < MU_FRAME_OWNER ? (enum mu_link_event)type : MU_LINK_OWNERS;
}

const char *mu_link_state_name(enum mu_link_state state)
{
    return state < MU_LINK_STATES ? state_names[state] : "?";
}

const char *mu_link_event_name(enum mu_link_event event)
{
    return event < MU_LINK_EVENTS && event_names[event] ? event_names[event] : "?";
}
