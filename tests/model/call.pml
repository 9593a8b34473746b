/*
 * call.pml: calls that become ready, a queue of hints, workers that sleep, and deaths of all of them.
 *
 * Stands for: src/segment/work.c (mu_call_advance(), mu_call_walk(), mu_call_claim(), mu_call_end()),
 * src/segment/crew.c, src/segment/work_dead.c (mu_call_bury(), mu_call_rescan_if_asked()) and worker_next() in
 * src/schedule/worker.c.
 *
 * A call's word says what it is: WAITING for its argument, which is the other call's result, QUEUED, RUNNING, DONE. All
 * else are hints:
 *   queue:   a ring of places {round, hint}: put: place: EMPTY of this round -> hint by CAS, then tail + 1 by CAS;
 *            take: place: hint -> EMPTY of the next round by CAS, then head + 1 by CAS. Who finds the first half done
 *            makes the second. A full queue asks for a rescan.
 *   chain:   the argument's word names the call that waits for it; the commit that ends the argument takes the name, and
 *            the thread that made it sees to the call.
 *   idle:    a worker sets its bit, looks again, sleeps until its bell or the epoch moves; a putter clears the bit of one
 *            by CAS, and rings.
 *   death:   a rescan is asked for, the epoch moves, what the dead one ran is queued again, its bit goes, and a
 *            worker is woken if there are hints: one that was put meanwhile may have rung for the dead.
 *   rescan:  one worker puts a hint of each QUEUED call, advances each WAITING call that is ready, and marks the argument of
 *            one that is not: the end of a marked one asks for another rescan.
 * Sleepers have no timeout here, so whatever is lost shows as a worker that is stuck.
 *
 * Proved, for a submitter that may die and for workers that do not: each call that was submitted ends, once; no call is
 * run by two at a time. With a worker's death the search does not end: tests/crash/kill_test.c kills those.
 *
 * The protocol:
 * RUN full  ok     -DDEATHS=1 -DALONE -DFIRST=0 -DLAST=0   : two calls, one worker, the submitter dies
 * RUN full  ok     -DDEATHS=0                              : two calls, two workers
 * One rule dropped:
 * RUN full  stuck  -DDEATHS=1 -DONE -DNO_RESCAN            : a death asks for no rescan
 * RUN short stuck  -DDEATHS=0 -DONE -DNO_SECOND_LOOK       : a worker sleeps without a look behind its bit
 * RUN short stuck  -DDEATHS=1 -DALONE -DFIRST=0 -DLAST=0 -DNO_MARK : a rescan leaves the argument unmarked
 */
#define VICTIMS 3 /* 0: the submitter; 1, 2: workers */
#include "kill.pml"

#define PLACES 2
#define NONE    0
#define WAITING 1
#define QUEUED  2
#define RUNNING 3
#define DONE    4

#ifdef NO_MARK
#define MARKS false
#else
#define MARKS true
#endif
#define EMPTY(c)   (((c) / PLACES) * 4)
#define FULL(c, h) (((c) / PLACES) * 4 + 1 + (h))

byte call[2];   /* the second one's argument is the first one's result */
byte runner[2];
byte runs;      /* of both, for the proof */
bool waiting;   /* the first names the second */
bool all;       /* MU_WAITING_ALL */
byte place[PLACES];
byte head, tail;
byte rescan, epoch;
bool idle[3];
byte bell[3];
byte at[3];     /* what a worker runs, or is about to claim, + 1: in its slot */
bool submitted, buried[3];

#define OVER ((submitted || buried[0]) && (call[0] == DONE || call[0] == NONE) && (call[1] == DONE || call[1] == NONE))

inline wake()
{
    for (k : 1 .. 2) {
        atomic { if :: idle[k] -> idle[k] = false; got = true :: else -> got = false fi };
        if
        :: got -> atomic { bell[k]++; got = false; break }
        :: else
        fi
    };
    atomic { k = 0; got = false }
}

inline ask()
{
    rescan = 1;
    wake()
}

inline put(c)
{
    do
    :: atomic { t = tail };
       atomic { v = place[t % PLACES] };
       if
       :: v == EMPTY(t) ->
          atomic { if :: place[t % PLACES] == v -> place[t % PLACES] = FULL(t, c); got = true :: else -> got = false fi };
          if
          :: got -> atomic { got = false; if :: tail == t -> tail++ :: else fi; break }
          :: else
          fi
       :: v != EMPTY(t) && (v / 4 == t / PLACES || v == EMPTY(t + PLACES)) ->
          atomic { if :: tail == t -> tail++ :: else fi }
       :: else ->
          atomic { if :: tail == t -> is_full = true :: else fi };
          if
          :: is_full -> atomic { is_full = false; if :: rescan == 0 -> rescan = 2 :: else fi; break }
          :: else
          fi
       fi
    od;
    atomic { t = 0; v = 0; got = false };
    wake()
}

/* The second call. */
inline advance()
{
    do
    :: atomic {
           if
           :: call[1] != WAITING -> break
           :: call[1] == WAITING && call[0] == DONE -> ready = true
           :: else -> ready = false; seen = waiting; seen_all = all
           fi
       };
       if
       :: ready ->
          atomic { ready = false; if :: call[1] == WAITING -> call[1] = QUEUED; got = true :: else -> got = false fi };
          if
          :: got -> got = false; put(1); break
          :: else -> break
          fi
       :: else ->
          atomic {
              if
              :: call[0] != DONE && waiting == seen && all == seen_all -> waiting = true; break
              :: else
              fi
          }
       fi
    od;
    atomic { ready = false; seen = false; seen_all = false }
}

inline look_at_all()
{
    atomic { got = (call[0] == QUEUED) };
    if :: got -> got = false; put(0) :: else fi;
    atomic { got = (call[1] == QUEUED) };
    if :: got -> got = false; put(1) :: else fi;
    atomic { got = (call[1] == WAITING) };
    if
    :: got ->
       atomic { got = (call[0] == DONE); if :: !got && MARKS -> all = true :: else fi };
       if :: got -> got = false; advance() :: else fi
    :: else
    fi
}

proctype Submitter()
{
    byte t, v, k;
    bool got, is_full, ready, seen, seen_all;

    {
        call[0] = QUEUED;
        put(0);
#ifndef ONE
        call[1] = WAITING;
        advance();
#endif
        submitted = true
    } UNTIL_KILLED(0)
}

inline run_call()
{
    at[me] = c;
    atomic {
        if
#ifdef BLIND_CLAIM
        :: assert(call[c - 1] == QUEUED || call[c - 1] == DONE);
#else
        :: call[c - 1] == QUEUED ->
#endif
           call[c - 1] = RUNNING; runner[c - 1] = me; got = true
#ifndef BLIND_CLAIM
        :: else -> got = false
#endif
        fi
    };
    if
    :: got ->
       got = false;
       atomic {
           assert(call[c - 1] == RUNNING && runner[c - 1] == me);
           call[c - 1] = DONE;
           if :: c == 1 -> taken = waiting; taken_all = all; waiting = false; all = false :: else fi
       };
       at[me] = 0;
       if :: taken_all -> taken_all = false; ask() :: else fi;
       if :: taken -> taken = false; advance() :: else fi
    :: else -> at[me] = 0
    fi;
    c = 0
}

proctype Worker(byte me)
{
    byte t, v, k, c, heard, moment;
    bool got, is_full, ready, seen, seen_all, taken, taken_all, waits;

    {
        do
        :: OVER -> break
        :: else ->
           atomic { heard = bell[me]; moment = epoch };
           atomic {
               if
               :: rescan == 1 || (rescan == 2 && waits) -> rescan = 0; got = true
               :: else -> got = false
               fi
           };
           if :: got -> got = false; look_at_all() :: else fi;
           /* take */
           do
           :: atomic { t = head };
              atomic { v = place[t % PLACES] };
              if
              :: v == EMPTY(t) -> atomic { if :: head == t -> break :: else fi }
              :: v != EMPTY(t) && v / 4 == t / PLACES ->
                 atomic {
                     if
                     :: place[t % PLACES] == v -> place[t % PLACES] = EMPTY(t + PLACES); c = v % 4
                     :: else
                     fi
                 };
                 if
                 :: c -> atomic { if :: head == t -> head++ :: else fi; break }
                 :: else
                 fi
              :: else -> atomic { if :: head == t -> head++ :: else fi }
              fi
           od;
           atomic { t = 0; v = 0 };
           if
           :: c -> atomic { idle[me] = false; waits = false }; run_call()
#ifdef NO_SECOND_LOOK
           :: !c ->
              idle[me] = true; waits = true;
#else
           :: !c && (!waits || !idle[me]) -> atomic { idle[me] = true; waits = true }
           :: !c && waits && idle[me] ->
#endif
              atomic { (bell[me] != heard || epoch != moment || OVER) -> heard = 0; moment = 0 }
           fi
        od
    } UNTIL_KILLED(me)
}

/* The scavenger. */
proctype Janitor()
{
    byte t, v, k, c, d;
    bool got, is_full;

    do
    :: atomic { killed[0] && !buried[0] -> d = 0 }; goto bury
    :: atomic { killed[1] && !buried[1] -> d = 1 }; goto bury
    :: atomic { killed[2] && !buried[2] -> d = 2 }; goto bury
    :: OVER -> break
bury:
#ifndef NO_RESCAN
       ask();
#endif
       epoch++;
       atomic { c = at[d] };
#ifndef NO_BURIAL
       if
       :: c ->
          atomic {
              if
              :: call[c - 1] == RUNNING && runner[c - 1] == d -> call[c - 1] = QUEUED; got = true
              :: else -> got = false
              fi
          };
          if :: got -> got = false; put(c - 1) :: else fi
       :: else
       fi;
#endif
       idle[d] = false;
#ifndef NO_WAKE_AT_BURIAL
       if :: head != tail -> wake() :: else fi;
#endif
       atomic { buried[d] = true; c = 0; d = 0 }
    od
}

init
{
    atomic {
        run Submitter();
        run Worker(1);
#ifndef ALONE
        run Worker(2);
#endif
        run Janitor();
        run Killer()
    }
}
