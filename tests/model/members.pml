/*
 * members.pml: a change of the membership that its participants agree on, and members that are lost.
 *
 * Stands for: src/segment/members.c (mu_membership_edit), src/segment/members_settle.c (change_settle, losses_settle),
 * and members_await(), change_say() in src/task/membership.c.
 *
 * The whole membership {epoch, members, those of the next epoch, phase, ready, done} is one value behind one
 * object word. An edit copies it, reads the tasks' records behind it, changes the copy, and commits by one CAS; an
 * attempt whose CAS fails has no effect and is made again, so each is one step here, at which it reads the records.
 *   settle:  before and behind what the edit itself wants. A participant (of this epoch, or the next) whose death is
 *            recorded, or a deadline that is over, rolls the change back. All ready: the phase is settling. All done: the
 *            next epoch. Members whose death is recorded are none any more: an epoch more.
 *   saying:  ready, or done, is quiet where nothing follows from it: nobody is woken. What follows wakes those that sleep
 *            on the word; an epoch's end, a rolled back change and the first `ready` move the segment's epoch, too.
 *   waiter:  load the segment's epoch; look. Nothing new: settle, when that epoch has moved since its last settling, or the
 *            deadline is over; then sleep on the value looked at and the epoch loaded (wait.pml).
 *   death:   a scavenger records it, then moves the epoch and wakes all; its own death does the same for it, and for one that
 *            died between a commit and its wake.
 *
 * Two members, or three; one of them is to go. Proved: the change is committed only when each participant had said done and
 * none was known to be dead; nobody is left waiting; at the end nothing is pending, and the members are those that live,
 * but for the one that was to go, if the change was committed.
 *
 * The protocol:
 * RUN short ok     -                          : two members, one death, of a member or a scavenger
 * RUN full  ok     -DDEATHS=2 -DFIRST=1 -DLAST=2 : the one that is to go and a scavenger may both die
 * RUN full  ok     -DTIMES_OUT                : the deadline is over at any moment, one death
 * RUN full  ok     -DMEMBERS=3 -DDEATHS=0     : three members, nobody dies: it is committed
 * One rule dropped:
 * RUN short stuck  -DDEATHS=0 -DLAST_IS_QUIET : what follows from the last `ready` or `done` wakes nobody
 * RUN short stuck  -DNO_LOOK                  : a waiter that is woken by a death does not settle
 * RUN short stuck  -DNO_EPOCH                 : a death that is recorded moves no epoch
 * RUN short assert -DRECORDS_FIRST            : the records are read before the value is copied
 * RUN short assert -DDEATHS=0 -DGOERS_ARE_FREE : a member that is to go need not say anything
 */
#ifndef MEMBERS
#define MEMBERS 2
#endif
#define ALL       ((1 << MEMBERS) - 1)
#define STAYING   (ALL / 2)
#define SCAVENGER MEMBERS
#define VICTIMS   (MEMBERS + 1)
#include "kill.pml"

#define STEADY    0
#define PREPARING 1
#define SETTLING  2

byte version, members = ALL, next = STAYING, phase = PREPARING, ready, done;
bool committed;
byte dead;          /* records */
byte epoch;         /* the segment's */
bool asleep[MEMBERS];
bool over;          /* the deadline */
bool buried[VICTIMS + 1];
byte finished;

#ifdef GOERS_ARE_FREE
#define PARTICIPANTS next
#else
#define PARTICIPANTS (members | next)
#endif
#ifdef RECORDS_FIRST
#define KNOWN known
#else
#define KNOWN dead
#endif

/* Part of an edit's step. loud: 1 wakes the word's sleepers, 2 moves the epoch, too. */
inline settle()
{
    if
    :: phase != STEADY && ((PARTICIPANTS & KNOWN) || over) ->
        phase = STEADY; next = 0; ready = 0; done = 0; loud = 2; changed = true
    :: else
    fi;
    if
    :: phase == PREPARING && (ready & PARTICIPANTS) == PARTICIPANTS ->
        phase = SETTLING; loud = (loud < 1 -> 1 : loud); changed = true
    :: else
    fi;
    if
    :: phase == SETTLING && (done & PARTICIPANTS) == PARTICIPANTS ->
        assert(done == (members | next) && !((members | next) & dead));
        members = next; phase = STEADY; next = 0; ready = 0; done = 0; committed = true; loud = 2; changed = true
    :: else
    fi;
    if
    :: members & KNOWN -> members = members & ~KNOWN; loud = 2; changed = true
    :: else
    fi
}

inline wake_all()
{
    asleep[0] = false; asleep[1] = false;
#if MEMBERS > 2
    asleep[2] = false
#endif
}

/* What a commit is followed by: steps of its own. The first wakes the word's sleepers, the second all. */
inline tell()
{
    if
    :: loud > 0 -> d_step { wake_all() }
    :: else
    fi;
    if
    :: loud > 1 -> d_step { epoch++; wake_all(); loud = 0 }
    :: else -> loud = 0
    fi
}

/* One edit: says `own` in `what`. */
inline say(what, own)
{
#ifdef RECORDS_FIRST
    known = dead;
#endif
    atomic {
        settle();
        if
        :: phase != STEADY && !(what & own) ->
            if :: !ready -> loud = 2 :: else fi;
            what = what | own; changed = true;
#ifdef LAST_IS_QUIET
            settle(); loud = 0
#else
            settle()
#endif
        :: else
        fi;
        if :: changed -> version++ :: else fi;
        changed = false
    }
    tell()
}

inline look()
{
#ifdef RECORDS_FIRST
    known = dead;
#endif
    atomic { settle(); if :: changed -> version++ :: else fi; changed = false };
    tell()
}

/* Until the phase is another than `from`. */
inline await(from)
{
    settled = 255;
    do
    :: seen_epoch = epoch;
       if
       :: atomic { phase != from -> at = phase; seen_epoch = 0; settled = 0 }; break
       :: atomic { phase == from -> seen = version }
#ifndef NO_LOOK
          if
          :: settled != seen_epoch || over -> settled = seen_epoch; look()
          :: else
          fi;
#endif
          atomic {
              if
              :: seen == version && seen_epoch == epoch && !over -> asleep[me] = true
              :: else
              fi;
              seen = 0
          };
          (!asleep[me])
       fi
    od
}

proctype Member(byte me)
{
    byte seen, at, seen_epoch, settled, loud, known;
    bool changed;

    {
        say(ready, (1 << me));
        await(PREPARING);
        if
        :: at == SETTLING ->
            say(done, (1 << me));
            await(SETTLING)
        :: else
        fi;
        assert(phase == STEADY)
    } UNTIL_KILLED(me);
    finished++
}

/* A death is recorded, and then all are told of it; a scavenger that dies has perhaps done the one and not the other. */
inline bury()
{
    dead = dead | ((1 << p) & ALL);
#ifndef NO_EPOCH
    d_step { epoch++; wake_all() };
#endif
    buried[p] = true
}

proctype Scavenger()
{
    byte p;

    {
        do
        :: p < MEMBERS && killed[p] && !buried[p] -> bury()
        :: p < MEMBERS -> p++
        :: p == MEMBERS -> break
        od
    } UNTIL_KILLED(SCAVENGER)
}

#define UNBURIED(q) (killed[q] && !buried[q])
proctype Last()
{
    byte p, loud, known;
    bool changed;

    do
    :: atomic { UNBURIED(0) -> p = 0 }; bury()
    :: atomic { UNBURIED(1) -> p = 1 }; bury()
    :: atomic { UNBURIED(2) -> p = 2 }; bury()
#if MEMBERS > 2
    :: atomic { UNBURIED(3) -> p = 3 }; bury()
#endif
    :: atomic {
           finished == MEMBERS && !UNBURIED(0) && !UNBURIED(1) && !UNBURIED(2) ->
           settle();
           assert(phase == STEADY && members == ((committed -> STAYING : ALL) & ~dead));
           break
       }
    od
}

#ifdef TIMES_OUT
proctype Clock() /* sleepers wake by themselves then */
{
    atomic { over = true; wake_all() }
}
#endif

init
{
    atomic {
        run Member(0); run Member(1);
#if MEMBERS > 2
        run Member(2);
#endif

        run Scavenger(); run Last(); run Killer();
#ifdef TIMES_OUT
        run Clock();
#endif
    }
}
