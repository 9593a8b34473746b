/*
 * named.pml: a named barrier, used again and again.
 *
 * Stands for: src/barrier/rules.c (mu_rules_arrive, open_instance, mu_rules_catch_up, arrive_at, mu_rules_answered),
 * src/barrier/edits.c (fail_instance, unarrive, cancel, give_up, participant_failed), wait_for_end() in src/barrier/named.c, mu_named_find_fatal() and mu_named_unmark_failed() in
 * src/barrier/failure.c, and mu_barrier_end() in src/barrier/state.c. Every call is for MUSTER_BARRIER_NEXT, but the first of a task that has
 * recovered, which is for 0: the current instance, or the next one when that has passed.
 *
 * The whole state {made, instance, passed, code, who arrived, who has not been told, version of the records up to
 * which all failures have been acted upon, results of the last instances} is one value behind one object word. Arrival, the
 * barrier's timeout, cancellation, a participant's failure and giving up are each: copy, change the copy, CAS. An attempt
 * whose CAS fails has no effect and is made again, so each is one step here; what an edit reads of the tasks' records it
 * reads after it has copied the value, so that step is the moment at which it reads them.
 *   arrival: first catches up with what nobody may have waited to see, if an instance is open: a participant in error, or
 *            its time over, ends it, and the mark of a recoverable one that is in error, or has been replaced, is taken
 *            back. Only then it chooses the instance: what catching up has ended has passed. Nobody came ever before ->
 *            open instance 0; somebody cancelled even that -> open instance 1. The instance has passed, and this participant
 *            had arrived at it and been told, or it has recovered -> open the next one, arrive there. It has passed, and
 *            this one had not been told, or not arrived (then it failed) -> its result, and mark it as told. Else mark it
 *            arrived; the last one ends the instance with OK. Who opens an instance while a participant is in error ends it
 *            at once. A recoverable one that is in error itself as it arrives sets the version back: its death will change
 *            no records, and who comes next must look all the same.
 *   cancelling: catches up likewise. What that ends has passed, and is not cancelled.
 *   ending:  only an instance that has not passed; its result goes into the history too.
 *   waiter:  load the epoch, copy the value. Its instance has passed -> the result. The barrier is at a later instance ->
 *            the result from the history. Its own mark is gone -> cancelled. Look at the records, if they have changed since
 *            the last look, or that found a recoverable one out, in error or replaced: a participant in error -> end the
 *            instance so; a recoverable one out, and marked in the copy -> take its mark back, if it is out still; it
 *            will come again. The barrier's own time over -> end the instance so. Else sleep on the word copied and the epoch
 *            loaded (wait.pml).
 *   giving up: its instance has passed, or the barrier is at a later one -> the result, as for a waiter. Else the mark stays,
 *            and says that its task has not been told.
 *
 * Proved: all who return from one instance return the same; OK only if every participant had arrived at it and none was
 * known to have died; the result never changes; nobody is left waiting when a participant dies; a mark is taken back from
 * the dead, or from one in error, only. Who gave up is told the result of that instance by its next call, once, unless the
 * next instance has begun since; it never opens that itself before it has been told. Who has recovered is never told of an
 * instance that has passed, though nobody may have acted upon that before it came; and none is cancelled that a participant's
 * failure has ended.
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
 * RUN full  ok     -DRECOVERABLE -DVICTIM=2 -DTIMES_OUT -DTIMED=1 : likewise, two instances, of which the first has a timeout
 * RUN full  ok     -DRECOVERABLE -DDEATHS=2 -DINSTANCES=1 : likewise, two deaths, one instance
 * RUN full  ok     -DRECOVERABLE -DVICTIM=2 -DCANCELS -DINSTANCES=1 : likewise, one cancellation, one instance
 * A caller that gives up once, by its own deadline or an interrupt, and calls again (GIVES_UP: which task):
 * RUN short ok     -DGIVES_UP=0                       : one death
 * RUN short ok     -DGIVES_UP=0 -DTIMES_OUT -DDEATHS=0 : timeout at any moment
 * RUN full  ok     -DGIVES_UP=0 -DTIMES_OUT -DCANCELS : timeout at any moment, one cancellation, one death
 * RUN full  ok     -DGIVES_UP=0 -DDEATHS=0 -DINSTANCES=3 -DTIMES_OUT : three instances, timeout at any moment
 * RUN full  ok     -DGIVES_UP=2 -DRECOVERABLE -DVICTIM=2 : the recoverable one gives up; it may die before it has been told
 * RUN full  ok     -DGIVES_UP=0 -DRECOVERABLE -DVICTIM=2 : another gives up while that one may die
 * Task 2 is recoverable, is set in error, goes on, and dies:
 * RUN full  ok     -DRECOVERABLE -DIN_ERROR -DDEATHS=0 : at any moment
 * One rule dropped:
 * RUN short assert -DRECOVERABLE -DVICTIM=2 -DTIMES_OUT -DINSTANCES=1 -DCHOOSES_FIRST : who arrives chooses its instance, and then catches up
 * RUN short assert -DCANCELS -DINSTANCES=1 -DCANCELS_BLINDLY : who cancels does not catch up
 * RUN short assert -DTIMES_OUT -DNOT_STICKY           : who ends an instance does not look whether it has passed
 * RUN short assert -DTIMES_OUT -DNO_HISTORY           : a waiter that was overtaken takes the result that it finds
 * RUN short assert -DTIMES_OUT -DDEATHS=0 -DSPLIT     : the result lies in a word of its own, written after the arrivals
 * RUN short stuck  -DERRORS_UNSEEN                    : a waiter does not look whether participants are in error
 * RUN short assert -DRECOVERABLE -DVICTIM=2 -DRECORDS_FIRST : marks are taken back by records read before the value
 * RUN short assert -DRECOVERABLE -DVICTIM=2 -DERROR_ALONE : a mark does not say which of a task's registrations it is of
 * RUN short assert -DNO_CATCHING_UP                   : who arrives looks at no records
 * RUN short assert -DRECOVERABLE -DVICTIM=2 -DNO_CATCHING_UP : likewise, and task 2 is recoverable
 * RUN short assert -DRECOVERABLE -DIN_ERROR -DDEATHS=0 -DINSTANCES=1 -DVERSION_KEPT : who arrives in error leaves the version as it is
 * RUN short assert -DGIVES_UP=0 -DDEATHS=0 -DNO_UNTOLD : who gives up leaves its mark as it is
 * RUN short assert -DGIVES_UP=0 -DDEATHS=0 -DBLIND    : who gives up does not look whether there is an answer by now
 * RUN short assert -DGIVES_UP=0 -DDEATHS=0 -DTELLS_AGAIN : who has been told stays marked as not told
 */
#ifndef INSTANCES
#define INSTANCES 2
#endif
#ifndef TIMED
#define TIMED INSTANCES /* so many instances have a timeout, the first ones */
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
#ifdef GIVES_UP
    bool untold; /* its mark's other bit */
#endif
    byte history[INSTANCES + 1]
}

Barrier barrier;
bool error[TASKS]; /* the tasks' records */
bool renewed;      /* likewise: task 2's is that of the successor */
byte version;      /* of the records; the epoch moves with it (group.pml, wait.pml: behind it) */
bool recorded[TASKS]; /* the deaths that have been found */
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
/* Who gives up has not been told of the instance that it arrived at. */
#ifdef GIVES_UP
#define TOLD(task) (task != GIVES_UP || !barrier.untold)
#else
#define TOLD(task) true
#endif
#ifdef RECORDS_FIRST
#define TO_UNMARK barrier.arrived[TASKS - 1]
#else
#define TO_UNMARK OUT
#endif

inline returns(result)
{
    assert(verdict[mine] == NONE || verdict[mine] == result);
    verdict[mine] = result;
#ifdef GIVES_UP
    assert(mine + 1 > told); /* no result twice */
    told = mine + 1;
#endif
    assert(result == OK || cause);
    assert(result != OK || (begun[0] > mine && begun[1] > mine && begun[2] > mine));
    tag = 0;
    epoch = 0;
    marked = false;
    old = false;
    checked = 0
}

#ifdef GIVES_UP
#define FORGET_PATIENCE told = 0; gave_up = false;
#else
#define FORGET_PATIENCE
#endif

/* Takes the recoverable one's mark back, or says that nothing is left to look for; part of a step. */
inline bring_up_to_date()
{
    if
    :: error[TASKS - 1] || OUT -> barrier.arrived[TASKS - 1] = false
    :: else -> barrier.version = version
    fi
}

/* What happened to an open instance while nobody waited in it; part of a step. */
#define BEHIND (barrier.made && !barrier.passed && barrier.version != version)
inline catch_up()
{
    if
#ifndef NO_CATCHING_UP
    :: BEHIND && ANY_ERROR -> end_with(LOST)
    :: BEHIND && !ANY_ERROR -> bring_up_to_date()
#endif
    :: else
    fi;
#ifdef TIMES_OUT
    if
    :: barrier.made && !barrier.passed && barrier.instance < TIMED -> cause = true; end_with(LATE)
    :: skip
    fi
#endif
}

/* Each label is one step: one edit of the value, or one look at it, or at the records. */
proctype Task(byte me; byte life)
{
    byte mine, tag, epoch, checked;
    bool last, marked, old, again;
#ifdef GIVES_UP
    byte told; /* audit: 1 + the last instance that it was told of */
    bool gave_up;
#endif

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
#ifndef CHOOSES_FIRST
            catch_up();
#endif
            if
            :: (barrier.passed && ((barrier.arrived[me] && TOLD(me)) || !barrier.made || again)) ||
               (!barrier.passed && !barrier.made) ->
#ifdef GIVES_UP
                assert(!barrier.made || again || told == barrier.instance + 1); /* else it is ahead of its peers */
#endif
                if
                :: barrier.passed && barrier.instance + 1 == INSTANCES -> goto done /* what it has ended stays so */
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
#ifdef CHOOSES_FIRST
                catch_up();
#endif
                assert(!again || !barrier.passed) /* else 0 was not the next one */
            fi;
            again = false;
            mine = barrier.instance;
            barrier.arrived[me] = true;
#ifdef GIVES_UP
            if
#ifdef TELLS_AGAIN
            :: me == GIVES_UP && !barrier.passed -> barrier.untold = false
#else
            :: me == GIVES_UP -> barrier.untold = false
#endif
            :: else
            fi;
#endif
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
#if defined IN_ERROR && !defined VERSION_KEPT
            if
            :: me == TASKS - 1 && error[me] -> barrier.version = 0
            :: else
            fi;
#endif
            begun[me] = mine + 1;
            all_arrived(last);
#ifndef SPLIT
            if
            :: last -> assert(!ANY_ERROR && (!recorded[TASKS - 1] || barrier.successor)); end_with(OK)
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
#ifdef IN_ERROR
            :: barrier.instance == mine && !barrier.passed && !barrier.arrived[me] -> assert(error[me]); goto cancelled
            :: barrier.instance == mine && !barrier.passed && barrier.arrived[me]
#else
            :: barrier.instance == mine && !barrier.passed && ANY_COPY -> assert(barrier.arrived[me])
#endif
#if !defined RECOVERABLE && !defined ERRORS_UNSEEN
            :: barrier.instance == mine && !barrier.passed && ANY_ERROR -> goto lost
#endif
#ifdef TIMES_OUT
            :: barrier.instance == mine && !barrier.passed && mine < TIMED -> goto late
#endif
#if defined GIVES_UP && !defined RECOVERABLE
            :: barrier.instance == mine && !barrier.passed && me == GIVES_UP && !gave_up -> goto give_up
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
        :: atomic { barrier.instance == mine && mine < TIMED -> goto late }
#endif
#ifdef GIVES_UP
        :: atomic { me == GIVES_UP && !gave_up -> goto give_up }
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

#ifdef GIVES_UP
give_up:
        atomic {
            if
#ifndef BLIND
            :: barrier.instance == mine && barrier.passed -> returns(barrier.code)
            :: barrier.instance != mine -> returns(barrier.history[mine])
            :: barrier.instance == mine && !barrier.passed ->
#else
            :: true ->
#endif
                assert(barrier.instance == mine); /* else the next one has begun: its next call is too late to hear */
#ifndef NO_UNTOLD
                barrier.untold = true;
#endif
                changed();
                gave_up = true;
                tag = 0;
                epoch = 0;
                marked = false;
                old = false;
                checked = 0
            fi;
            goto arrive
        };
#endif

#ifdef IN_ERROR
cancelled: /* it might call again, and be cancelled again; here it waits for its death */
        (false);
#endif

done:
        skip
    } UNTIL_KILLED(life);
    atomic {
        mine = 0; tag = 0; epoch = 0; checked = 0; last = false; marked = false; old = false; again = false;
        FORGET_PATIENCE
        running--
    }
}

/* Anybody may cancel, once. */
#ifdef CANCELS
proctype Canceller()
{
    if
    :: atomic {
        !barrier.passed ->
#ifndef CANCELS_BLINDLY
        catch_up();
#endif
        if
        :: barrier.passed -> skip /* its answer: that has passed */
        :: else ->
            assert(!barrier.made || !ANY_ERROR); /* else that has ended it */
            cause = true;
            end_with(CANCELLED)
        fi
        }
    :: skip /* does not come, or finds that it has passed, be it by its time only */
    fi
}
#endif

/* Whoever finds a death raises the error; the epoch wakes those who sleep. A death is recorded once. */
active proctype Scavenger()
{
end:
    do
    :: atomic { killed[0] && !recorded[0] -> recorded[0] = true; error[0] = true; version++; cause = true }
    :: atomic { killed[1] && !recorded[1] -> recorded[1] = true; error[1] = true; version++; cause = true }
    :: atomic {
        killed[2] && !recorded[2] ->
        recorded[2] = true;
        if
        :: error[2] /* changes nothing */
        :: else -> error[2] = true; version++
        fi;
#ifdef RECOVERABLE
        running++;
        run Task(2, TASKS) /* its successor, which lives */
#else
        cause = true
#endif
        }
    od
}

/* Task 2 is set in error, goes on, and dies. */
#ifdef IN_ERROR
proctype Reporter()
{
    atomic { error[2] = true; version++ };
    killed[2] = true
}
#endif

init {
    atomic {
        running = TASKS;
        run Task(0, 0);
        run Task(1, 1);
        run Task(2, 2);
#ifdef CANCELS
        run Canceller();
#endif
#ifdef IN_ERROR
        run Reporter();
#endif
        run Killer()
    };
    (running == 0)
}
