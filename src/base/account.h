/*
 * base/account.h: the memory that is held for clients, counted together by all their servers: one bound for a process,
 * for all listeners and any number of clients.
 *
 * A holder leaves as much free as it has then. So a newcomer always finds room, and holders of much are the first to
 * find none. A share is kept: it is for the one holder that has its turn (compat/tcpstore_room.c), which therefore
 * comes to an end, frees what it has, and lets the next one have its turn.
 *
 * Plain numbers: all users of an account are one thread.
 */
#ifndef MU_BASE_ACCOUNT_H
#define MU_BASE_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>

struct mu_account {
    size_t most; /* bytes, */
    size_t kept; /* and of them this share */
    size_t held;
};

static inline size_t mu_account_left(const struct mu_account *a, size_t least)
{
    return a->held < a->most - least ? a->most - least - a->held : 0;
}

/* False: the holder, which has `own` of it, gets no more of it now. */
static inline bool mu_account_take(struct mu_account *a, size_t own, size_t bytes)
{
    size_t left = mu_account_left(a, a->kept);

    if (bytes > left || own + bytes > left - bytes)
        return false;
    a->held += bytes;
    return true;
}

/* The same where all but `least` of it may be had: 0 for the one that has its turn. */
static inline bool mu_account_take_kept(struct mu_account *a, size_t bytes, size_t least)
{
    if (bytes > mu_account_left(a, least))
        return false;
    a->held += bytes;
    return true;
}

static inline void mu_account_give(struct mu_account *a, size_t bytes)
{
    a->held -= bytes;
}

#endif
