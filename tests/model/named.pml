/*
 * named.pml: a named barrier, used again and again.
 *
 * Stands for: src/barrier/named.c (arrive, open_instance, catch_up, arrive_at, fail_instance, unarrive, cancel, answered,
 * participant_failed, wait_for_end), mu_call_find_fatal() and mu_call_unmark_failed() in src/barrier/failure.c, and
 * mu_barrier_end() in src/barrier/state.c. Every call is for MUSTER_BARRIER_NEXT, but the first of a task that has
 * recovered, which is for 0: the current instance, or the next one when that has passed.
 *
 * The whole state {made, instance, passed, code, who arrived, version of the records up to which all failures have been
 * acted upon, results of the last instances} is one value behind one object word. Arrival, the barrier's timeout,
 * cancellation and a participant's failure are each: copy, change the copy, CAS. An attempt whose CAS fails has no effect
 * and is made again, so each is one step here; what an edit reads of the tasks' records it reads after it has copied the
 * value, so that step is the moment at which it reads them.
 *   arrival: nobody came ever before -> open instance 0; somebody cancelled even that -> open instance 1. The instance has
 *            passed, and this participant had arrived at it -> open the next one, arrive there. It has passed with an
 *            error, this one had not arrived -> its result, and mark it as knowing. Else mark it arrived; the last one
 *            ends the instance with OK. Who opens an instance while a participant is in error ends it at once; who comes to
 *            one that is open first catches up with what nobody may have waited to see: a participant in error, or its time
 *            over, ends it, and the mark of a recoverable one that is in error, or has been replaced, is taken back.
 *   ending:  only an instance that has not passed; its result goes into the history too.
 *   waiter:  load the epoch, copy the value. Its instance has passed -> the result. The barrier is at a later instance ->
 *            the result from the history. Its own mark is gone -> cancelled. Look at the records, if they have changed since
 *            the last look, or that found a recoverable one out, in error or replaced: a participant in error -> end the
 *            instance so; a recoverable one out, and marked in the copy -> take its mark back, if it is out still; it
 *            will come again. The barrier's own time over -> end the instance so. Else sleep on the word copied and the epoch
 *            loaded (wait.pml).
 *
 * Proved: all who return from one instance return the same; OK only if every participant had arrived at it and none was
 * known to have died; the result never changes; nobody is left waiting when a participant dies; a mark is taken back from
 * the dead only.
 *
 * The protocol (3 participants, 2 instances):
 * RUN short ok     -DDEATHS=0                         : nobody dies, nothing fails: always OK
 * RUN short ok     -                                  : one death
 * RUN short ok     -DTIMES_OUT -DINSTANCES=1          : timeout at any moment, one death, one instance
 * RUN short ok     -DCANCELS -DDEATHS=0               : one cancellation, perhaps before anybody has come
 * RUN full  ok     -DTIMES_OUT -DCANCELS              : timeout at any moment, one cancellation, one death
 * RUN full  ok     -DTIMES_OUT -DINSTANCES=3          : three instances, timeout at any moment, one death
 * RUN full  ok     -DDEATHS=2 -DINSTANCES=3           : three instances, two deaths
 * RUN short ok     -DRECOVERABLE -DVICTIM=2           : task 2 is recoverable: it may die, and then its successor comes
 * RUN full  ok     -DRECOVERABLE                      : likewise, any task may die
 * RUN full  ok     -DRECOVERABLE -DVICTIM=2 -DTIMES_OUT -DINSTANCES=1 : likewise, and a timeout at any moment, one instance
 * RUN full  ok     -DRECOVERABLE -DDEATHS=2 -DINSTANCES=1 : likewise, two deaths, one instance
 * One rule dropped:
 * RUN short assert -DTIMES_OUT -DNOT_STICKY           : who ends an instance does not look whether it has passed
 * RUN short assert -DTIMES_OUT -DNO_HISTORY           : a waiter that was overtaken takes the result that it finds
 * RUN short assert -DTIMES_OUT -DDEATHS=0 -DSPLIT     : the result lies in a word of its own, written after the arrivals
 * RUN short stuck  -DERRORS_UNSEEN                    : a waiter does not look whether participants are in error
 * RUN short assert -DRECOVERABLE -DVICTIM=2 -DRECORDS_FIRST : marks are taken back by records read before the value
 * RUN short assert -DRECOVERABLE -DVICTIM=2 -DERROR_ALONE : a mark does not say which of a task's registrations it is of
 * RUN short assert -DNO_CATCHING_UP                   : who arrives looks at no records
 * RUN short assert -DRECOVERABLE -DVICTIM=2 -DNO_CATCHING_UP : likewise, and task 2 is recoverable
 */
#ifndef INSTANCES
#define INSTANCES 2
#endif
#define TASKS   3
#define VICTIMS TASKS
#include "kill.pml"

/* results */
#define NONE      0
#define OK        1
#define LOST      2 /* a participant is in error */
#define LATE      3
#define CANCELLED 4

typedef Barrier {
    byte tag; /* of the object's word */
    byte version; /* of the records, as far as failures have been acted upon */
    bool made; /* there are participants */
    byte instance; bool passed; byte code;
    bool arrived[TASKS];
    bool successor; /* task 2's mark is its */
    byte history[INSTANCES + 1]
}

Barrier barrier;
bool error[TASKS]; /* the tasks' records */
bool renewed;      /* likewise: task 2's is that of the successor */
byte version;      /* of the records; the epoch moves with it (group.pml, wait.pml: behind it) */
byte running;

byte begun[TASKS]; /* audit: 1 + the last instance that each arrived at */
byte verdict[INSTANCES + 1];
bool cause;

/* The CAS moved the word's tag. */
inline changed()
{
#ifdef RECOVERABLE
    barrier.tag++
#else
    skip
#endif
}

/* Ends the current instance; part of a step. */
inline end_with(result)
{
    barrier.passed = true;
    barrier.code = result;
    barrier.history[barrier.instance] = result;
    changed()
}

inline all_arrived(is)
{
    is = barrier.arrived[0] && barrier.arrived[1] && barrier.arrived[2]
}

/* An error that stays may as well be seen together with the value that the waiter copied: ending an instance that has
   passed meanwhile does nothing. One that goes again may not: then copy, records and sleep are steps of their own. */
#ifdef RECOVERABLE
#define ANY_ERROR (error[0] || error[1])
#define ANY_COPY  true
#else
#define ANY_ERROR (error[0] || error[1] || error[2])
#define ANY_COPY  false
#endif
/* The recoverable task's mark is of one that is in error, or that another has replaced. */
#ifdef ERROR_ALONE
#define REPLACED false
#else
#define REPLACED (renewed && !barrier.successor)
#endif
#define OUT (barrier.arrived[TASKS - 1] && (error[TASKS - 1] || REPLACED))
#ifdef RECORDS_FIRST
#define TO_UNMARK barrier.arrived[TASKS - 1]
#else
#define TO_UNMARK OUT
#endif

inline returns(result)
{
    assert(verdict[mine] == NONE || verdict[mine] == result);
    verdict[mine] = result;
    assert(result == OK || cause);
    assert(result != OK || (begun[0] > mine && begun[1] > mine && begun[2] > mine));
    tag = 0;
    epoch = 0;
    marked = false;
    old = false;
    checked = 0
}

/* Each label is one step: one edit of the value, or one look at it, or at the records. */
proctype Task(byte me; byte life)
{
    byte mine, tag, epoch, checked;
    bool last, marked, old, again;

    {
        mine = 0;
#ifdef RECOVERABLE
        if
        :: atomic { life != me && error[me] -> error[me] = false; renewed = true; version++; again = true } /* registers */
        :: life == me
        fi;
#endif

arrive:
        atomic {
            if
            :: (barrier.passed && (barrier.arrived[me] || !barrier.made || again)) || (!barrier.passed && !barrier.made) ->
                if
                :: barrier.passed && barrier.instance + 1 == INSTANCES -> goto done
                :: barrier.passed && barrier.instance + 1 < INSTANCES -> barrier.instance++
                :: else
                fi;
                /* open it */
                barrier.made = true;
                barrier.passed = false;
                barrier.code = NONE;
                barrier.arrived[0] = false;
                barrier.arrived[1] = false;
                barrier.arrived[2] = false;
                barrier.version = version;
                if
                :: ANY_ERROR -> end_with(LOST)
                :: else
                fi
            :: else ->
                if
#ifndef NO_CATCHING_UP
                :: !barrier.passed && barrier.version != version ->
                    if
                    :: ANY_ERROR -> end_with(LOST)
                    :: else ->
                        if
                        :: OUT -> barrier.arrived[TASKS - 1] = false
                        :: else
                        fi;
                        barrier.version = version
                    fi
#endif
                :: else
                fi;
#ifdef TIMES_OUT
                if
                :: !barrier.passed -> cause = true; end_with(LATE)
                :: skip
                fi
#endif
            fi;
            again = false;
            mine = barrier.instance;
            barrier.arrived[me] = true;
#ifdef RECOVERABLE
            if
            :: me == TASKS - 1 -> barrier.successor = (life != me)
            :: else
            fi;
#endif
            changed();
            if
            :: barrier.passed -> /* failed before it came */
                returns(barrier.code);
                goto arrive
            :: else
            fi;
            begun[me] = mine + 1;
            all_arrived(last);
#ifndef SPLIT
            if
            :: last -> assert(!ANY_ERROR && !error[TASKS - 1] && (!renewed || barrier.successor)); end_with(OK)
            :: else
            fi
#endif
        };
#ifdef SPLIT
        if
        :: last ->
            end_with(OK);
            last = false
        :: else
        fi;
#endif

look:
        atomic {
            last = false;
#ifdef RECOVERABLE
            tag = barrier.tag;
            epoch = version;
            marked = barrier.arrived[TASKS - 1];
            old = !barrier.successor;
#endif
            if
#ifdef NO_HISTORY
            :: barrier.passed -> returns(barrier.code); goto arrive
            :: !barrier.passed && barrier.instance != mine -> goto look
#else
            :: barrier.instance == mine && barrier.passed -> returns(barrier.code); goto arrive
            :: barrier.instance != mine -> returns(barrier.history[mine]); goto arrive
#endif
            :: barrier.instance == mine && !barrier.passed && ANY_COPY -> assert(barrier.arrived[me])
#if !defined RECOVERABLE && !defined ERRORS_UNSEEN
            :: barrier.instance == mine && !barrier.passed && ANY_ERROR -> goto lost
#endif
#ifdef TIMES_OUT
            :: barrier.instance == mine && !barrier.passed -> goto late
#endif
            fi /* else sleeps */
        };

#ifdef RECOVERABLE
        atomic {
            if
            :: checked == version + 1 -> goto sleep
            :: else -> checked = (error[TASKS - 1] || (marked && renewed && old) -> 0 : version + 1)
            fi;
            if
            :: ANY_ERROR -> goto lost
            :: !ANY_ERROR && marked && (error[TASKS - 1] || (renewed && old)) -> goto unarrive
            :: else
            fi
        };

sleep:
        if
        :: atomic { barrier.tag != tag || version != epoch -> goto look }
#ifdef TIMES_OUT
        :: atomic { barrier.instance == mine -> goto late }
#endif
        fi;

unarrive:
        atomic {
            if
            :: barrier.instance == mine && !barrier.passed && TO_UNMARK ->
                barrier.arrived[TASKS - 1] = false;
                changed()
            :: else
            fi;
            goto sleep
        };
#endif

lost:
        atomic {
            if
#ifdef NOT_STICKY
            :: barrier.instance == mine -> end_with(LOST)
#else
            :: barrier.instance == mine && !barrier.passed -> end_with(LOST)
#endif
            :: else
            fi;
            goto look
        };

#ifdef TIMES_OUT
late:
        atomic {
            cause = true;
            if
#ifdef NOT_STICKY
            :: barrier.instance == mine -> end_with(LATE)
#else
            :: barrier.instance == mine && !barrier.passed -> end_with(LATE)
#endif
            :: else
            fi;
            goto look
        };
#endif

done:
        skip
    } UNTIL_KILLED(life);
    atomic { mine = 0; tag = 0; epoch = 0; checked = 0; last = false; marked = false; old = false; again = false; running-- }
}

/* Anybody may cancel, once. */
#ifdef CANCELS
proctype Canceller()
{
    if
    :: atomic {
        !barrier.passed ->
        cause = true;
        end_with(CANCELLED)
        }
    :: skip
    fi
}
#endif

/* Whoever finds a death raises the error; the epoch wakes those who sleep. A death is recorded once. */
bool recorded[TASKS];
active proctype Scavenger()
{
end:
    do
    :: atomic { killed[0] && !recorded[0] -> recorded[0] = true; error[0] = true; version++; cause = true }
    :: atomic { killed[1] && !recorded[1] -> recorded[1] = true; error[1] = true; version++; cause = true }
    :: atomic {
        killed[2] && !recorded[2] ->
        recorded[2] = true;
        error[2] = true;
        version++;
#ifdef RECOVERABLE
        running++;
        run Task(2, TASKS) /* its successor, which lives */
#else
        cause = true
#endif
        }
    od
}

init {
    atomic {
        running = TASKS;
        run Task(0, 0);
        run Task(1, 1);
        run Task(2, 2);
#ifdef CANCELS
        run Canceller();
#endif
        run Killer()
    };
    (running == 0)
}
