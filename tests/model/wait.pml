/*
 * wait.pml: sleeping until an object changes, or an error comes.
 *
 * Stands for: src/segment/wait.c (mu_wait_look, mu_wait_on), mu_txn_commit() in src/segment/object.c (the wake), and
 * dead_slot_bury() in src/segment/scavenge.c and mu_epoch_move() in src/segment/segment.c.
 *
 * The object word is {state, tag, S}; here its state counts the commits, and a waiter waits for all of them.
 *   waiter:    e0 := epoch; then look: the object's word gives the answer, or a task that it needs is in error -> return.
 *              Else set S by CAS in exactly the word that was looked at; futex_waitv {object word, epoch}, expecting that
 *              word with S and e0. After that, from the beginning.
 *   commit:    one CAS, which clears S; if S was set: FUTEX_WAKE of all on the object's word.
 *   scavenger: slot LIVE -> DEAD; raise the error; epoch + 1; wake all on the epoch; and the slot is freed last. Whoever
 *              finds the slot DEAD does all of it again. So a waker that dies between commit and wake is made good.
 * There is no recheck timer here: who is lost is lost for ever. futex_waitv compares and sleeps in one step: a wake that
 * comes while it does is one that comes just after.
 *
 * One or two waiters, one or two wakers, two scavengers, one of which may die as well.
 * Proved: nobody is left asleep; and when all have gone, dead or alive, a commit pays for at most one futile wake.
 *
 * The protocol:
 * RUN short ok     -DWAKERS=1                              : two waiters, one waker, one death
 * RUN full  ok     -DWAKERS=2                              : two waiters, two wakers, one death
 * RUN full  ok     -DWAKERS=1 -DDEATHS=2                   : two waiters, one waker, two deaths
 * RUN full  ok     -DWAKERS=2 -DWAITERS=1 -DDEATHS=2       : one waiter, two wakers, two deaths
 * RUN short ok     -DWAKERS=2 -DDEATHS=0                   : nobody dies
 * One rule dropped:
 * RUN short stuck  -DWAKERS=1 -DEPOCH_LATE                 : the epoch is loaded after the look
 * RUN short stuck  -DWAKERS=2 -DNO_EPOCH                   : the scavenger does not move the epoch
 * RUN short stuck  -DWAKERS=1 -DERROR_AFTER_EPOCH          : the scavenger moves the epoch, then raises the error
 * RUN full  stuck  -DWAKERS=1 -DDEATHS=2 -DFREED_FIRST     : the scavenger frees the slot before it has woken anybody
 * RUN short stuck  -DWAKERS=2 -DDEATHS=0 -DBLIND_OR        : S is set by fetch_or, and what comes of it is slept on
 * RUN short stuck  -DWAKERS=1 -DDEATHS=0 -DNO_WAKE         : the commit clears S and does not wake
 * RUN short stuck  -DWAKERS=1 -DDEATHS=0 -DCOUNT -DCOUNT_EARLY : a count of waiters instead of S, read before the commit
 * RUN short assert -DWAKERS=1 -DCOUNT                      : a count of waiters instead of S: that of the dead stays
 */
#ifndef WAITERS
#define WAITERS 2
#endif
#define VICTIMS (WAKERS + WAITERS + 1) /* wakers, waiters, a scavenger */
#include "kill.pml"

#define LIVE  0
#define DEAD  1
#define EMPTY 2

byte commits; bool sleepers; /* the object word: state and tag in one, and S */
byte epoch;
byte slot[WAKERS];           /* the wakers' slot words: whom the waiters need */
bool error;                  /* the record of a task that they need says so */
byte count;                  /* of waiters, for COUNT */
bool asleep[2];
byte running;

inline wake_all()
{
    asleep[0] = false;
    asleep[1] = false
}

proctype Waker(byte me)
{
    bool need_wake;

    {
#ifdef COUNT_EARLY
        need_wake = (count > 0);
#endif
        atomic {
            /* a CAS that fails is tried again from the new word: only the one that succeeds is a step here */
            commits++;
#ifndef COUNT
            need_wake = sleepers;
            sleepers = false;
#endif
        };
#if defined(COUNT) && !defined(COUNT_EARLY)
        need_wake = (count > 0);
#endif
#ifndef NO_WAKE
        if
        :: atomic { need_wake -> wake_all() }
        :: else
        fi;
#endif
        slot[me] = EMPTY
    } UNTIL_KILLED(me);
    atomic { need_wake = false; running-- }
}

proctype Waiter(byte me; byte process)
{
    byte e0, seen;
    bool seen_s;

    {
        e0 = 0;

again:
#ifndef EPOCH_LATE
        e0 = epoch;
#endif
        atomic {
            if
            :: commits == WAKERS -> goto done
            :: else -> seen = commits; seen_s = sleepers
            fi
        };
        atomic {
            if
            :: error -> goto done
            :: else
            fi
        };
#ifdef EPOCH_LATE
        e0 = epoch;
#endif
#ifdef COUNT
        count++;
#else
#ifdef BLIND_OR
        atomic { sleepers = true; seen = commits };
#else
        atomic {
            if
            :: commits == seen && sleepers == seen_s -> sleepers = true
            :: else -> goto again
            fi
        };
#endif
#endif
        atomic {
            /* futex_waitv */
            if
#ifdef COUNT
            :: commits == seen && epoch == e0 -> asleep[me] = true
#else
            :: commits == seen && sleepers && epoch == e0 -> asleep[me] = true
#endif
            :: else
            fi;
            e0 = 0;
            seen = 0;
            seen_s = false
        };
        (!asleep[me]);
#ifdef COUNT
        count--;
#endif
        goto again;

done:
        skip
    } UNTIL_KILLED(process);
    atomic { e0 = 0; seen = 0; seen_s = false; asleep[me] = false; running-- }
}

/* Waits for deaths: the kernel tells it. What it does for waker d's slot: `todo`, in this order. */
#ifdef ERROR_AFTER_EPOCH
#define ERROR 4
#define EPOCH 2
#define WAKE  3
#else
#define ERROR 2
#define EPOCH 3
#define WAKE  4
#endif

proctype Scavenger(byte process)
{
    byte d, todo;

    {
end:
        do
        :: atomic { todo == 0 && killed[0] && slot[0] != EMPTY -> d = 0; todo = 1 }
#if WAKERS > 1
        :: atomic { todo == 0 && killed[1] && slot[1] != EMPTY -> d = 1; todo = 1 }
#endif
        :: atomic {
            todo == 1 ->
            if
            :: slot[d] == LIVE -> slot[d] = DEAD
            :: else
            fi;
            todo = 2
            }
#ifdef FREED_FIRST
            ;
            slot[d] = EMPTY
#endif
        :: atomic { todo == ERROR -> error = true; todo++ }
        :: atomic {
            todo == EPOCH ->
#ifndef NO_EPOCH
            epoch++;
#endif
            todo++
            }
        :: atomic {
            todo == WAKE ->
#ifndef NO_EPOCH
            wake_all();
#endif
            todo++
            }
        :: atomic { todo == 5 -> slot[d] = EMPTY; d = 0; todo = 0 }
        od
    } UNTIL_KILLED(process)
}

init {
    bool futile;

    atomic {
        running = WAKERS + WAITERS;
        run Waker(0);
#if WAKERS > 1
        run Waker(1);
#endif
        run Waiter(0, WAKERS);
#if WAITERS > 1
        run Waiter(1, WAKERS + 1);
#endif
        run Scavenger(WAKERS + WAITERS);
        run Scavenger(VICTIMS);
        run Killer()
    };
    atomic {
        /* everybody has gone: of two more commits the second has nobody to wake */
        running == 0 ->
        sleepers = false;
#ifdef COUNT
        futile = (count > 0);
#else
        futile = sleepers;
#endif
        assert(!futile)
    }
}
