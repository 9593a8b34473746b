/*
 * group.pml: the group barrier, flat.
 *
 * Stands for: src/barrier/collective.c (arrive, scan, mu_group_close, wait_slowly), mu_group_report() in
 * src/barrier/group_fault.c and group_leave() in src/barrier/group.c, with the sleeping of src/segment/wait.c.
 *
 * Each member has one arrival word {instance, S, CLOSED, reason}, which only it moves forward, and two signs, one for odd
 * and one for even instances, which only it writes:
 *   arrive at e:  CAS e-1 -> e on the own word; if S is set there, clear it in the same CAS. CLOSED(e) found there: give up.
 *                 Then store e in the sign of e's parity; then wake, if S was set. It may die between any two of these.
 *   wait:         read the members' signs or words in turn until all have reached e; who has once been seen there need not
 *                 be looked at again. A sign of e or more says so for sure; any other says nothing, and the word decides.
 *                 CLOSED(e) anywhere: give up. To sleep on a missing member: load the error epoch; no member in error (else
 *                 give up); set S by CAS in exactly the word read; futex_waitv {its word, error epoch}.
 *                 Who spins looks at signs only. That is a wait in which the word was never looked at: one of those here.
 *   give up (own deadline, a member in error, somebody closed): close every member that is missing, CAS e-1 -> CLOSED(e)
 *                 with the reason, waking its sleepers. None closed, by whomever: all had arrived, OK. Else the instance
 *                 failed; who is closed cannot change any more, and the reason is that of the first of them.
 *   leave:        close the own word for the instance after the last.
 * CLOSED(e) says: arrived at e-1, never at e. So it has reached every instance before e, and none from e on.
 * After a failure the group is dead, its members stop. A death raises the error, then moves the error epoch and wakes it.
 * futex_waitv compares and sleeps in one step here; there is no recheck timer: who is lost is lost for ever.
 *
 * Proved: all who return from one instance return the same; OK only if every member had begun to arrive; nobody is left
 * waiting, whoever dies wherever; and nobody gives up without a cause.
 *
 * The protocol:
 * RUN full  ok     -DMEMBERS=3                                        : 3 members, 2 instances, one death
 * RUN short ok     -DMEMBERS=3 -DINSTANCES=1                          : 3 members, one instance, one death
 * RUN short ok     -DMEMBERS=3 -DDEATHS=0                             : nobody dies, no deadline: always OK
 * RUN full  ok     -DMEMBERS=3 -DDEADLINES=1                          : one death, and member 0 may pass its deadline
 * RUN full  ok     -DMEMBERS=3 -DDEADLINES=2                          : two givers-up at once, and a death
 * RUN short ok     -DMEMBERS=3 -DDEADLINES=1 -DABSENT -DDEATHS=0      : member 2 may stay away, alive; member 0 has a deadline
 * RUN full  ok     -DMEMBERS=3 -DLEAVES                               : member 2 may leave in good order, and a death
 * RUN full  ok     -DMEMBERS=3 -DANY_MISSING                          : a sleeper picks any of the missing, and a death
 * RUN full  ok     -DMEMBERS=4 -DINSTANCES=1 -DVICTIM=0               : 4 members, one instance, death of the first
 * RUN full  ok     -DMEMBERS=4 -DINSTANCES=1 -DVICTIM=3               : 4 members, one instance, death of the last
 * RUN full  ok     -DMEMBERS=4 -DINSTANCES=1 -DDEADLINES=2 -DDEATHS=0 : 4 members, two givers-up
 * RUN full  ok     -DMEMBERS=3 -DINSTANCES=1 -DDEATHS=2 -DDEADLINES=1 : two deaths
 * One rule dropped:
 * RUN short assert -DMEMBERS=3 -DSTORE_ARRIVAL                             : arrival by a plain store
 * RUN short assert -DMEMBERS=3 -DERROR_WITHOUT_CLOSING                     : who sees an error fails, closing nobody
 * RUN short assert -DMEMBERS=3 -DCLOSE_ONLY_DEAD                           : only the members in error are closed
 * RUN short assert -DMEMBERS=3 -DDEADLINES=2 -DOWN_CLOSES_COUNT            : who gives up counts only those that it closed itself
 * RUN full  assert -DMEMBERS=4 -DINSTANCES=1 -DDEADLINES=1 -DVICTIM=1 -DREASON_AT_ONCE : who meets a closed member reports its reason, closing nobody
 * RUN short assert -DMEMBERS=3 -DCLOSED_AHEAD_FAILS                        : CLOSED(e+1) is taken for a failure of e
 * RUN short assert -DMEMBERS=3 -DCLOSED_IS_ARRIVED                         : CLOSED(e) is taken for an arrival at e
 * RUN short assert -DMEMBERS=3 -DSIGN_FIRST                                : the sign is stored before the CAS
 * RUN short assert -DMEMBERS=3 -DSIGN_THOUGH_CLOSED -DDEADLINES=1 -DDEATHS=0 : the sign is stored though the CAS found the word closed
 * RUN short assert -DMEMBERS=3 -DSIGN_OF_BEFORE -DDEATHS=0                 : the sign of the instance before is trusted
 * RUN short assert -DMEMBERS=3 -DUNSIGNED_IS_MISSING                       : who gives up takes a member without a sign for one that it must close
 * RUN short stuck  -DMEMBERS=3 -DSIGN_ALONE -DDEATHS=0                     : who sleeps waits for the sign, whatever the word says
 * RUN short stuck  -DMEMBERS=3 -DDEADLINES=1 -DABSENT -DDEATHS=0 -DCLOSE_WITHOUT_WAKE : closing does not wake
 * RUN short stuck  -DMEMBERS=3 -DARRIVE_WITHOUT_WAKE -DDEATHS=0            : arrival clears S, does not wake
 * RUN short stuck  -DMEMBERS=3 -DSLEEPERS_BLIND_OR -DDEATHS=0              : S is set by fetch_or, and what comes of it is slept on
 * RUN short stuck  -DMEMBERS=3 -DEPOCH_LATE                                : the error epoch is loaded after the look at the errors
 * RUN short stuck  -DMEMBERS=3 -DNO_EPOCH                                  : a death raises the error but does not move the epoch
 */
#ifndef MEMBERS
#define MEMBERS 3
#endif
#ifndef INSTANCES
#define INSTANCES 2
#endif
#ifndef DEADLINES
#define DEADLINES 0 /* members 0 .. DEADLINES-1 may pass their deadline while they wait */
#endif
#define VICTIMS MEMBERS
#include "kill.pml"

/* results */
#define NONE    0
#define OK      1
#define LOST    2
#define TIMEOUT 3

typedef Word { byte epoch; bool sleepers; bool closed; bool late }

Word arrival[MEMBERS];
byte sign[2 * MEMBERS];   /* a member's two, by the instance's parity */
bool error[MEMBERS];      /* the task's record says so */
byte error_epoch;
byte sleeps_on[MEMBERS];  /* kernel: 1 + member whose word; 0 awake */
byte finished;

byte begun[MEMBERS];      /* audit: last instance that each began */
byte verdict[INSTANCES + 1];
bool cause;               /* audit: somebody died, stayed away, or passed a deadline */

/* What a word says about instance e. */
#ifdef CLOSED_IS_ARRIVED
#define REACHED(w, e) (w.epoch >= e)
#else
#ifdef CLOSED_AHEAD_FAILS
#define REACHED(w, e) (!w.closed && w.epoch >= e)
#else
#define REACHED(w, e) ((!w.closed && w.epoch >= e) || (w.closed && w.epoch > e))
#endif
#endif
#define SIGN(m, e)       sign[2 * (m) + (e) % 2]
#ifdef SIGN_OF_BEFORE
#define SIGNED(m, e)     (SIGN(m, e - 1) >= e - 1)
#else
#define SIGNED(m, e)     (SIGN(m, e) >= e)
#endif
#ifdef SIGN_ALONE /* in the eyes of who waits; who closes looks at the word */
#define SEEN(m, e)       false
#define AWAITED(m, e)    (!CLOSED_FOR(arrival[m], e) && !SIGNED(m, e))
#else
#define SEEN(m, e)       REACHED(arrival[m], e)
#define AWAITED(m, e)    MISSING(arrival[m], e)
#endif
#define CLOSED_FOR(w, e) (w.closed && !REACHED(w, e))
#define MISSING(w, e)    (!w.closed && w.epoch < e)

#ifdef CLOSE_ONLY_DEAD
#define TO_CLOSE(k) error[k]
#else
#define TO_CLOSE(k) true
#endif

/* FUTEX_WAKE of everybody on member m's arrival word; part of a step. */
inline wake_word(m)
{
    x = 0;
    do
    :: x < MEMBERS ->
        if
        :: sleeps_on[x] == m + 1 -> sleeps_on[x] = 0
        :: else
        fi;
        x++
    :: else -> break
    od;
    x = 0
}

/* Member `me` returns `result` from instance e: the audit. */
inline returns(result)
{
    assert(verdict[e] == NONE || verdict[e] == result);
    verdict[e] = result;
    assert(result == OK || cause);
    x = 0;
    do
    :: x < MEMBERS -> assert(result != OK || begun[x] >= e); x++
    :: else -> break
    od;
    x = 0
}

/* Each label is one step: one access to one shared word, and what follows from it. */
proctype Member(byte me)
{
    byte e = 1;
    byte j, k, x, e0, target;
    bool closed_any, need_wake, late;

    {
        j = 0;

arrive:
        atomic {
            if
            :: e > INSTANCES -> goto done
#ifdef ABSENT
            :: e <= INSTANCES && me == MEMBERS - 1 -> cause = true; goto done /* alive, busy elsewhere for ever */
#endif
#ifdef LEAVES
            :: e <= INSTANCES && me == MEMBERS - 1 && !arrival[me].closed ->
                cause = true;
                arrival[me].closed = true;
                arrival[me].epoch = e;
                need_wake = arrival[me].sleepers;
                arrival[me].sleepers = false;
                goto left
#endif
            :: e <= INSTANCES
            fi;
            /* CAS e-1 -> e, from the word with S or without; one that fails because S was set meanwhile is tried again */
            begun[me] = e;
#ifdef SIGN_FIRST
            SIGN(me, e) = e
        };
        atomic {
#endif
#ifndef STORE_ARRIVAL
            if
            :: arrival[me].closed ->
#ifdef SIGN_THOUGH_CLOSED /* nobody looks between the two */
                SIGN(me, e) = e;
#endif
                goto closed
            :: else -> assert(arrival[me].epoch == e - 1)
            fi;
#endif
            need_wake = arrival[me].sleepers;
            arrival[me].epoch = e;
            arrival[me].closed = false;
            arrival[me].sleepers = false
        };
        atomic {
            SIGN(me, e) = e;
            if
            :: need_wake -> need_wake = false
            :: else -> goto scan
            fi
        };
#ifndef ARRIVE_WITHOUT_WAKE
        atomic { wake_word(me) };
#endif

scan: /* member j; those before it have been seen there. A sign that says nothing has no effect: not a step of its own */
        atomic {
            if
            :: j == MEMBERS -> goto passed
            :: j == me -> j++; goto scan /* its own word was decided by its own CAS */
            :: j < MEMBERS && j != me && SIGNED(j, e) -> j++; goto scan
            :: j < MEMBERS && j != me && SEEN(j, e) -> j++; goto scan
            :: j < MEMBERS && j != me && CLOSED_FOR(arrival[j], e) -> k = j; goto closed
            :: j < MEMBERS && j != me && AWAITED(j, e)
            :: j < MEMBERS && j != me && AWAITED(j, e) && me < DEADLINES -> late = true; goto give_up
            fi;
            target = j;
#ifdef ANY_MISSING
            do
            :: target < MEMBERS - 1 && target + 1 != me && AWAITED(target + 1, e) -> target++
            :: break
            od;
#endif
#ifndef EPOCH_LATE
            e0 = error_epoch /* a step of its own; the word is read again below */
#endif
        };

        /* Somebody in error and missing: give up. In error, but arrived: as one likes. One step stands for a load each:
           errors are never taken back, so who saw none saw what there was when it began to look. */
        atomic {
            k = 0;
            do
            :: k < MEMBERS ->
                if
                :: error[k] && MISSING(arrival[k], e) -> goto give_up
                :: error[k] && !MISSING(arrival[k], e) -> goto give_up
                :: error[k] && !MISSING(arrival[k], e)
                :: else
                fi;
                k++
            :: else -> break
            od;
            k = 0
        };
#ifdef EPOCH_LATE
        e0 = error_epoch;
#endif

        /* Read the word again and set S by CAS in exactly that; a CAS that fails begins anew. */
        atomic {
#ifndef SLEEPERS_BLIND_OR
            if
            :: AWAITED(target, e)
            :: else -> e0 = 0; target = 0; goto scan
            fi;
#endif
            arrival[target].sleepers = true;
            k = arrival[target].epoch
        };

        /* futex_waitv: both words as expected, or return at once */
        atomic {
            if
            :: arrival[target].epoch == k && arrival[target].sleepers && !arrival[target].closed && error_epoch == e0 ->
                sleeps_on[me] = target + 1;
                k = 0;
                target = 0;
                e0 = 0
            :: else -> k = 0; e0 = 0; target = 0; goto scan
            fi
        };
        if
        :: atomic { sleeps_on[me] == 0 -> goto scan }
        :: atomic { sleeps_on[me] != 0 && me < DEADLINES -> sleeps_on[me] = 0; late = true }
        fi;

give_up:
        atomic { k = 0; e0 = 0; target = 0; closed_any = false; cause = true };
#ifdef ERROR_WITHOUT_CLOSING
        atomic { returns(LOST); goto done };
#endif

close:  /* member k: CAS of exactly the word read; one that fails reads again */
        atomic {
            if
            :: k == MEMBERS -> goto outcome
            :: k < MEMBERS && MISSING(arrival[k], e) && TO_CLOSE(k) ->
                arrival[k].closed = true;
                arrival[k].late = late;
                arrival[k].epoch = e;
                need_wake = arrival[k].sleepers;
                arrival[k].sleepers = false;
                closed_any = true
#ifndef OWN_CLOSES_COUNT
            :: k < MEMBERS && CLOSED_FOR(arrival[k], e) -> closed_any = true
#endif
#ifdef UNSIGNED_IS_MISSING
            :: k < MEMBERS && REACHED(arrival[k], e) && !SIGNED(k, e) -> closed_any = true
#endif
            :: else
            fi;
            k++;
            if
            :: need_wake -> need_wake = false
            :: else -> goto close
            fi
        };
        atomic {
#ifndef CLOSE_WITHOUT_WAKE
            wake_word(k - 1);
#endif
            goto close
        };

closed: /* somebody is closed: me, or member k */
        atomic {
#ifdef REASON_AT_ONCE
            if
            :: arrival[me].closed -> k = me
            :: else
            fi;
            if
            :: arrival[k].late -> returns(TIMEOUT)
            :: else -> returns(LOST)
            fi;
            goto done
#else
            goto give_up
#endif
        };

outcome: /* the first of the closed says why; a load each, but they cannot change any more */
        atomic {
            k = 0;
            if
            :: !closed_any -> goto passed
            :: else
            fi;
            do
            :: k < MEMBERS && !CLOSED_FOR(arrival[k], e) -> k++
            :: else -> break
            od;
#ifdef UNSIGNED_IS_MISSING
            if
            :: k == MEMBERS -> returns(LOST); goto done
            :: else
            fi;
#endif
            assert(k < MEMBERS);
            if
            :: arrival[k].late -> returns(TIMEOUT)
            :: else -> returns(LOST)
            fi;
            goto done
        };

passed:
        atomic { returns(OK); j = 0; e++; late = false; goto arrive };

#ifdef LEAVES
left:
        atomic {
            if
            :: need_wake -> need_wake = false; wake_word(me)
            :: else
            fi
        };
#endif

done:
        skip
    } UNTIL_KILLED(me);
    atomic {
        e = 0; j = 0; k = 0; x = 0; e0 = 0; target = 0; closed_any = false; need_wake = false; late = false;
        sleeps_on[me] = 0;
        finished++
    }
}

/* Whoever finds a death: the error, then the epoch, and the wake (a sleeper that is woken later may as well be thought
   of as slow to run, so epoch and wake are one step; wait.pml has the scavenger die between them). */
inline scavenge(d)
{
    atomic { cause = true; error[d] = true };
#ifndef NO_EPOCH
    atomic {
        error_epoch++;
        x = 0;
        do
        :: x < MEMBERS -> sleeps_on[x] = 0; x++
        :: else -> break
        od;
        x = 0
    }
#endif
}

active proctype Scavenger()
{
    byte x;

end:
    do
    :: killed[0] && !error[0] -> scavenge(0)
    :: killed[1] && !error[1] -> scavenge(1)
    :: killed[2] && !error[2] -> scavenge(2)
#if MEMBERS > 3
    :: killed[3] && !error[3] -> scavenge(3)
#endif
    od
}

init {
    atomic {
        run Member(0);
        run Member(1);
        run Member(2);
#if MEMBERS > 3
        run Member(3);
#endif
        run Killer()
    };
    (finished == MEMBERS)
}
