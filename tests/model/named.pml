/*
 * named.pml: a named barrier, used again and again.
 *
 * Stands for: src/barrier/named.c (arrive, open_instance, arrive_at, fail_instance, answered, participant_failed) and
 * mu_barrier_end() in src/barrier/state.c.
 *
 * The whole state {instance, passed, code, who arrived, results of the last instances} is one value behind one object
 * word. Arrival, the barrier's timeout, cancellation and a participant's failure are each: copy, change the copy, CAS. An
 * attempt whose CAS fails has no effect and is made again, so each is one step here.
 *   arrival: the instance has passed, and this participant had arrived at it -> open the next one, arrive there. It has
 *            passed with an error, this one had not arrived -> its result, and mark it as knowing. Else mark it arrived;
 *            the last one ends the instance with OK.
 *   ending:  only an instance that has not passed; its result goes into the history too.
 *   waiter:  its instance has passed -> the result. The barrier is at a later instance -> the result from the history.
 *            A participant in error, the barrier's own time over -> end the instance so. Else sleep (wait.pml).
 *
 * Proved: all who return from one instance return the same; OK only if every participant had arrived at it; the result
 * never changes; nobody is left waiting when a participant dies.
 *
 * The protocol (3 participants, 2 instances):
 * RUN short ok     -DDEATHS=0                         : nobody dies, nothing fails: always OK
 * RUN short ok     -                                  : one death
 * RUN short ok     -DTIMES_OUT -DINSTANCES=1          : timeout at any moment, one death, one instance
 * RUN full  ok     -DTIMES_OUT -DCANCELS              : timeout at any moment, one cancellation, one death
 * RUN full  ok     -DTIMES_OUT -DCANCELS -DDEATHS=2 -DINSTANCES=3 : three instances, two deaths
 * One rule dropped:
 * RUN short assert -DTIMES_OUT -DNOT_STICKY           : who ends an instance does not look whether it has passed
 * RUN short assert -DTIMES_OUT -DNO_HISTORY           : a waiter that was overtaken takes the result that it finds
 * RUN short assert -DTIMES_OUT -DDEATHS=0 -DSPLIT     : the result lies in a word of its own, written after the arrivals
 * RUN short stuck  -DERRORS_UNSEEN                    : a waiter does not look whether participants are in error
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
    byte instance; bool passed; byte code;
    bool arrived[TASKS];
    byte history[INSTANCES + 1]
}

Barrier barrier;
bool error[TASKS];   /* the tasks' records */
byte running;

byte begun[TASKS];   /* audit: 1 + the last instance that each arrived at */
byte verdict[INSTANCES + 1];
bool cause;

/* Ends the current instance; part of a step. */
inline end_with(result)
{
    barrier.passed = true;
    barrier.code = result;
    barrier.history[barrier.instance] = result
}

inline all_arrived(is)
{
    is = barrier.arrived[0] && barrier.arrived[1] && barrier.arrived[2]
}

#define ANY_ERROR (error[0] || error[1] || error[2])

inline returns(result)
{
    assert(verdict[mine] == NONE || verdict[mine] == result);
    verdict[mine] = result;
    assert(result == OK || cause);
    assert(result != OK || (begun[0] > mine && begun[1] > mine && begun[2] > mine))
}

/* Each label is one step: one edit of the value, or one look at it. */
proctype Task(byte me)
{
    byte mine;
    bool last;

    {
        mine = 0;

arrive:
        atomic {
            if
            :: barrier.passed && barrier.arrived[me] ->
                if
                :: barrier.instance + 1 == INSTANCES -> goto done
                :: else
                fi;
                /* open the next */
                barrier.instance++;
                barrier.passed = false;
                barrier.code = NONE;
                barrier.arrived[0] = false;
                barrier.arrived[1] = false;
                barrier.arrived[2] = false;
                if
                :: ANY_ERROR -> end_with(LOST)
                :: else
                fi
            :: else
            fi;
            mine = barrier.instance;
            barrier.arrived[me] = true;
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
            :: last -> end_with(OK)
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
            if
#ifdef NO_HISTORY
            :: barrier.passed -> returns(barrier.code); goto arrive
            :: !barrier.passed && barrier.instance != mine -> goto look
#else
            :: barrier.instance == mine && barrier.passed -> returns(barrier.code); goto arrive
            :: barrier.instance != mine -> returns(barrier.history[mine]); goto arrive
#endif
#ifndef ERRORS_UNSEEN
            :: barrier.instance == mine && !barrier.passed && ANY_ERROR -> goto lost
#endif
#ifdef TIMES_OUT
            :: barrier.instance == mine && !barrier.passed -> goto late
#endif
            fi /* else sleeps */
        };

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
    } UNTIL_KILLED(me);
    atomic { mine = 0; last = false; running-- }
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

/* Whoever finds a death raises the error; the epoch wakes those who sleep. */
active proctype Scavenger()
{
end:
    do
    :: atomic { killed[0] && !error[0] -> error[0] = true; cause = true }
    :: atomic { killed[1] && !error[1] -> error[1] = true; cause = true }
    :: atomic { killed[2] && !error[2] -> error[2] = true; cause = true }
    od
}

init {
    atomic {
        running = TASKS;
        run Task(0);
        run Task(1);
        run Task(2);
#ifdef CANCELS
        run Canceller();
#endif
        run Killer()
    };
    (running == 0)
}
