/*
 * slot.pml: claiming and releasing slots, and the testimony of death.
 *
 * Stands for: src/segment/slot.c (claim_one, mu_slot_release, mu_slot_is_dead), dead_slot_bury() and dead_slot_finish()
 * in src/segment/scavenge.c.
 *
 * The slot word is {state, incarnation, who}; the liveness word is a robust futex: 0, or its owner. The kernel clears it
 * some time after the owner's death, and nothing else tells of a death.
 *   claim:     slot word EMPTY? try-lock the liveness word; look at the slot word again: not EMPTY -> unlock, go on; clear
 *              what the last owner left; CAS EMPTY -> LIVE.
 *   release:   CAS LIVE -> EMPTY, incarnation + 1; unlock.
 *   scavenger: slot word LIVE, read first; liveness word without owner, read second -> CAS of exactly that word to DEAD.
 *              A slot found DEAD is as good. What the intent names is settled, if the slot is still that death. Last,
 *              CAS DEAD -> EMPTY, incarnation + 1.
 *
 * An owner at work leaves a debt for a while (an intent that names a block): it must be settled, by itself or by a
 * scavenger, before anybody clears it.
 * Proved: nobody who lives is declared dead or loses the slot, no debt is forgotten, and when all is done every slot can
 * be claimed again.
 *
 * The protocol:
 * RUN full  ok     -DDEATHS=2                       : one slot, three claimers in any order, two deaths
 * RUN full  ok     -DDEATHS=3                       : one slot, all may die
 * RUN full  ok     -DSLOTS=2 -DDEATHS=2             : two slots, three claimers, two deaths
 * RUN full  ok     -DDEATHS=1 -DROUNDS=2            : each claims twice, one death
 * RUN full  ok     -DSCAVENGERS=2                   : three claimers, three scavengers, one death
 * RUN full  ok     -DCLAIMERS=2 -DSCAVENGERS=2 -DDEATHS=2 : two claimers, three scavengers, two deaths
 * RUN short ok     -DCLAIMERS=2 -DDEATHS=2         : two claimers, two scavengers, two deaths
 * One rule dropped:
 * RUN short assert -DCLAIMERS=2 -DLIVENESS_FIRST    : the scavenger reads the liveness word before the slot word
 * RUN short assert -DCLAIMERS=2 -DCLAIM_FIRST       : the slot word is claimed before the liveness word is locked
 * RUN short assert -DDEATHS=2 -DNO_SECOND_LOOK      : the claimer does not look at the slot word again under the lock
 * RUN short assert -DCLAIMERS=2 -DUNLOCK_FIRST      : the release unlocks before the slot word is EMPTY
 * RUN full  assert -DDEATHS=2 -DNO_INC              : slot words are compared by state alone
 * RUN short assert -DCLAIMERS=2 -DSCAVENGERS=2 -DNO_STILL : the scavenger believes the intent without looking at the slot word again
 * RUN short assert -DCLAIMERS=2 -DONLY_LIVE         : scavengers leave DEAD slots to whoever marked them
 */
#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef CLAIMERS
#define CLAIMERS 3
#endif
#ifndef SCAVENGERS
#define SCAVENGERS 1 /* beside the one that comes when all is done */
#endif
#define VICTIMS  CLAIMERS
#include "kill.pml"

#define EMPTY 0
#define LIVE  1
#define DEAD  2

#define NOBODY 0 /* in the liveness word; else process + 1 */

typedef Slot {
    byte state; byte inc; byte who; /* the slot word */
    byte owner;                     /* the liveness word */
    bool intent; byte debt          /* the intent, and whose it is: incarnation + 1 of who left it, 0 when settled */
}

Slot slot[SLOTS];
byte running;

#ifdef NO_INC
#define SAME_INC(s, i) true
#else
#define SAME_INC(s, i) (slot[s].inc == i)
#endif
#ifdef NO_STILL
#define STILL(s, i) true
#else
#define STILL(s, i) (slot[s].state == DEAD && slot[s].inc == i)
#endif

proctype Claimer(byte me)
{
    byte s, inc, rounds;

    {
        s = 0;

next:
        atomic {
            if
            :: s == SLOTS || rounds == ROUNDS -> goto done /* full: an error; or enough */
            :: else
            fi;
            if
            :: slot[s].state != EMPTY -> s++; goto next
            :: else -> inc = slot[s].inc
            fi
        };
#ifdef CLAIM_FIRST
        atomic {
            if
            :: slot[s].state == EMPTY && SAME_INC(s, inc) -> slot[s].state = LIVE; slot[s].who = me
            :: else -> s++; goto next
            fi
        };
        (slot[s].owner == NOBODY);
        slot[s].owner = me + 1;
        slot[s].intent = false;
#else
        atomic {
            if
            :: slot[s].owner != NOBODY -> s++; goto next
            :: else -> slot[s].owner = me + 1
            fi
        };
#ifndef NO_SECOND_LOOK
        atomic {
            if
            :: slot[s].state == EMPTY -> inc = slot[s].inc; goto clean
            :: else
            fi
        };
        atomic { slot[s].owner = NOBODY; s++; goto next };
#endif

clean:
        atomic { assert(slot[s].debt == 0); slot[s].intent = false };
        atomic {
            if
            :: slot[s].state == EMPTY && SAME_INC(s, inc) -> slot[s].state = LIVE; slot[s].who = me; goto work
            :: else
            fi
        };
        atomic { slot[s].owner = NOBODY; s++; goto next };
#endif

work:
        atomic { assert(slot[s].state == LIVE && slot[s].who == me); slot[s].intent = true; slot[s].debt = slot[s].inc + 1 };
        atomic { assert(slot[s].state == LIVE && slot[s].who == me); slot[s].debt = 0 };
        slot[s].intent = false;

#ifdef UNLOCK_FIRST
        slot[s].owner = NOBODY;
#endif
        atomic {
            /* nobody else may have changed it */
            assert(slot[s].state == LIVE && slot[s].who == me);
            slot[s].state = EMPTY;
            slot[s].inc++
        };
#ifndef UNLOCK_FIRST
        slot[s].owner = NOBODY;
#endif
        atomic { rounds++; s = 0; inc = 0; goto next };

done:
        skip
    } UNTIL_KILLED(me);
    atomic { s = 0; inc = 0; rounds = 0; running-- }
}

/* The kernel, some time after a death. */
active proctype Kernel()
{
end:
    do
    :: atomic { slot[0].owner != NOBODY && killed[slot[0].owner - 1] -> slot[0].owner = NOBODY }
#if SLOTS > 1
    :: atomic { slot[1].owner != NOBODY && killed[slot[1].owner - 1] -> slot[1].owner = NOBODY }
#endif
    od
}

/* Looks at slot after slot, once; `todo` is its next step for slot s. Each may stop anywhere, for ever. */
proctype Scavenger(bool awaited)
{
    byte s, inc, todo;
    bool lives, debt;

look:
    do
    :: atomic {
        todo == 0 ->
        if
        :: s == SLOTS -> break
        :: else
        fi;
#ifdef LIVENESS_FIRST
        lives = (slot[s].owner != NOBODY);
#else
        inc = slot[s].inc;
        if
        :: slot[s].state == LIVE
#ifndef ONLY_LIVE
        :: slot[s].state == DEAD -> todo = 1 /* past the next step */
#endif
        :: else -> s++; todo = 0; inc = 0; goto look
        fi;
#endif
        todo++
        }
    :: atomic {
        todo == 1 ->
#ifdef LIVENESS_FIRST
        inc = slot[s].inc;
        if
        :: slot[s].state == DEAD -> todo = 3
        :: slot[s].state == LIVE && !lives -> todo = 2
        :: else -> todo = 0; s++
        fi
#else
        if
        :: slot[s].owner != NOBODY -> todo = 0; s++
        :: else -> todo = 2
        fi
#endif
        }
    :: atomic {
        todo == 2 ->
        if
        :: slot[s].state == LIVE && SAME_INC(s, inc) ->
            assert(killed[slot[s].who]); /* nobody who lives is declared dead */
            slot[s].state = DEAD;
            todo = 3
        :: slot[s].state == DEAD && SAME_INC(s, inc) -> todo = 3
        :: else -> todo = 0; s++
        fi
        }
    :: atomic { todo == 3 -> debt = slot[s].intent; todo = 4 }
    :: atomic {
        todo == 4 ->
        /* still that death: then the intent was the dead one's, and what it names is settled, once (exact words) */
        if
        :: debt && STILL(s, inc) && slot[s].debt == inc + 1 -> slot[s].debt = 0
        :: debt && STILL(s, inc) && slot[s].debt != inc + 1 -> assert(slot[s].debt == 0)
        :: else
        fi;
        debt = false;
        todo = 5
        }
    :: atomic {
        todo == 5 ->
        if
        :: slot[s].state == DEAD && SAME_INC(s, inc) -> slot[s].state = EMPTY; slot[s].inc++
        :: else
        fi;
        todo = 0;
        inc = 0;
        s++
        }
    od;
    atomic {
        s = 0;
        if
        :: awaited -> running--
        :: else
        fi
    }
}

init {
    byte s;

    atomic {
        running = CLAIMERS;
        run Claimer(0);
        run Claimer(1);
#if CLAIMERS > 2
        run Claimer(2);
#endif
        run Killer();
#if SCAVENGERS > 1
        run Scavenger(false);
#endif
        run Scavenger(false) /* nobody waits for it */
    };
    /* when everybody has finished or died, and the kernel has noticed */
    atomic {
        running == 0 && (slot[0].owner == NOBODY || !killed[slot[0].owner - 1]) &&
            (slot[SLOTS - 1].owner == NOBODY || !killed[slot[SLOTS - 1].owner - 1]) ->
        running++;
        run Scavenger(true)
    };
    atomic {
        running == 0 ->
        do
        :: s < SLOTS -> assert(slot[s].state == EMPTY && slot[s].owner == NOBODY && slot[s].debt == 0); s++
        :: else -> break
        od
    }
}
