/*
 * hold.pml: counted references that outlive any process.
 *
 * Stands for: src/segment/hold.c (mu_hold_take(), mu_hold_drop()), src/segment/hold_dead.c (mu_hold_resolve(),
 * mu_hold_empty()) and dead_slot_finish() in src/segment/scavenge.c.
 *
 * An object's root has a count. Each reference that is counted there has a record somewhere: in its process's ledger, or
 * in an object that contains it. A record is 0, names the object (HELD), or is claimed by the slot that is changing it.
 * Count and record are two words, so the commit that changes the count leaves a mark {slot, number} of its operation:
 *   take:    operation {number, record} into the own slot; record: claimed; commit: count + 1, mark; record: HELD;
 *            operation ends.
 *   drop:    the same; record: HELD -> claimed by CAS; commit: count - 1, mark, and at 0 the object is gone; record: 0.
 *   marks:   every commit drops the marks of operations that have ended, and of slots that are FREE; never others.
 *   resolve: of a DEAD slot whose record is still claimed by its operation: is its mark there? (Gone: a drop was counted,
 *            a take was not.) The record becomes what that says, by CAS of the claim.
 *   finish:  resolve; then one process alone, the heir, drops what the ledger holds. The heir is the first to write
 *            itself into the dead slot's heir word, or the next when that one is dead; it looks again whether the slot
 *            is still that death.
 *            FREE, by the heir, when nothing is left in the ledger, claims included.
 * A number is never used again: it goes on over the owners of a slot.
 *
 * Proved: the count is that of the records; nothing goes while it is held; at the end nothing is left.
 *
 * The protocol:
 * RUN short ok     -DDEATHS=1                   : two tasks, a scavenger, one death
 * RUN full  ok     -DDEATHS=2                   : two deaths, also of a scavenger of the first
 * RUN full  ok     -DDEATHS=1 -DREUSE           : another task takes the dead one's slot
 * RUN full  ok     -DDEATHS=2 -DREUSE -DFIRST=1 -DLAST=3 -DCALM : and that one dies, or an heir does
 * One rule dropped:
 * RUN short assert -DDEATHS=1 -DNO_MARK         : nothing says whether a commit was the dead one's
 * RUN short assert -DDEATHS=1 -DNO_CLAIM        : the record is not claimed before the commit
 * RUN short assert -DDEATHS=1 -DMARKS_GO        : the next commit drops all marks
 * RUN full  assert -DDEATHS=1 -DREUSE -DNO_HEIR  : any scavenger that finds a record of the dead drops it
 * RUN short assert -DDEATHS=2 -DFREE_CLAIMED    : a slot is freed though its ledger has a claim
 * RUN full  assert -DDEATHS=2 -DBLIND_RESOLVE   : a resolver stores without looking whether the claim is still there
 */
#define TASKS   2
#define JANITOR 3
#define SLOTS   4
#ifdef REUSE
#define VICTIMS 4 /* process 3 is the second task of slot 1 */
#define HEIRS   1
#else
#define VICTIMS 3
#define HEIRS   0
#endif
#include "kill.pml"

#define LIVE 1
#define DEAD 2
#define EMPTY 3

#define HELD        1
#define CLAIM(s, n) (10 * (1 + (s)) + (n))

byte count = 1;
bool gone;
byte mark[SLOTS];
byte record[TASKS]; /* one a ledger */
byte state[SLOTS];
byte op[SLOTS];     /* 0, or the number of the operation under way; with it: */
byte op_record[SLOTS];
bool op_takes[SLOTS];
byte number[SLOTS];
byte owner[SLOTS]; /* which process */
byte heir_of[SLOTS], heir[SLOTS]; /* of which dead process, + 1, and which process it is: one word */
byte running = 3 + HEIRS;
bool ended[VICTIMS + 1]; /* without being killed: its slot is another's, or nobody's */

#ifdef MARKS_GO
#define STANDS(s) false
#else
#define STANDS(s) (state[s] != EMPTY && op[s] == mark[s])
#endif

/* Part of the commit: the looks at other slots may be old, but an operation that has ended stays so. */
inline prune()
{
    if :: mark[0] && !STANDS(0) -> mark[0] = 0 :: else fi;
    if :: mark[1] && !STANDS(1) -> mark[1] = 0 :: else fi;
    if :: mark[2] && !STANDS(2) -> mark[2] = 0 :: else fi;
    if :: mark[3] && !STANDS(3) -> mark[3] = 0 :: else fi
}

inline leave_mark(marker)
{
    prune();
#ifndef NO_MARK
    mark[marker] = n
#endif
}

inline begin_op(beginner, of_record, is_take)
{
    number[beginner]++;
    n = number[beginner];
    op_record[beginner] = of_record;
    op_takes[beginner] = is_take;
    op[beginner] = n
}

/* For a task's own empty record. */
inline take(taker, taken)
{
    atomic { begin_op(taker, taken, true) };
#ifndef NO_CLAIM
    record[taken] = CLAIM(taker, n);
#endif
    atomic {
        if
        :: gone -> got = false
        :: else -> count++; got = true; leave_mark(taker)
        fi
    };
    record[taken] = (got -> HELD : 0);
    atomic { op[taker] = 0; n = 0; got = false }
}

inline drop(dropper, dropped)
{
    atomic { begin_op(dropper, dropped, false) };
    atomic {
        if
#ifdef NO_CLAIM
        :: record[dropped] == HELD -> got = true
#else
        :: record[dropped] == HELD -> record[dropped] = CLAIM(dropper, n); got = true
#endif
        :: else -> got = false
        fi
    };
    if
    :: got ->
        atomic {
            assert(!gone && count > 0);
            count--;
            leave_mark(dropper);
            if
            :: count == 0 -> gone = true; mark[0] = 0; mark[1] = 0; mark[2] = 0; mark[3] = 0;
                             assert((dropped == 0 || record[0] != HELD) && (dropped == 1 || record[1] != HELD))
            :: else
            fi
        };
        record[dropped] = 0
    :: else
    fi;
    atomic { op[dropper] = 0; n = 0; got = false }
}

/* Process 3 is the later owner of slot 1. */
#define LATER(h) (d == 1 && whose == 1 && (h) == 4)
#define THAT_DEATH (state[d] == DEAD && owner[d] == whose)

/* The dead one's operation is read, then its slot looked at again: it may have another owner by now. */
inline resolve()
{
    atomic { q = op[d]; r = op_record[d]; takes = op_takes[d] };
    atomic { if :: !THAT_DEATH -> q = 0 :: else fi };
    if
    :: q ->
        atomic { mine = (record[r] == CLAIM(d, q)) };
#ifdef NO_CLAIM
        mine = true;
#endif
        if
        :: mine ->
            atomic { counted = (gone -> !takes : mark[d] == q) };
            atomic {
                if
#if defined BLIND_RESOLVE || defined NO_CLAIM
                :: record[r] = (takes == counted -> HELD : 0)
#else
                :: record[r] == CLAIM(d, q) -> record[r] = (takes == counted -> HELD : 0)
                :: else
#endif
                fi
            }
        :: else
        fi
    :: else
    fi;
    atomic { q = 0; r = 0; takes = false; mine = false; counted = false }
}

/* Clean up after slot d of process `whose`, as slot `cleaner`. */
inline finish(cleaner)
{
    resolve();
#ifdef NO_HEIR
    mine = true;
#else
    atomic {
        if
        :: !LATER(heir_of[d]) && (heir_of[d] != whose + 1 || killed[heir[d]] || ended[heir[d]]) -> heir_of[d] = whose + 1; heir[d] = me_process; mine = true
        :: else -> mine = (heir[d] == me_process)
        fi
    };
    atomic { if :: mine && !THAT_DEATH -> mine = false :: else fi };
#endif
    if
    :: mine && d < TASKS && THAT_DEATH -> drop(cleaner, d)
    :: else
    fi;
    atomic {
        if
#ifdef FREE_CLAIMED
        :: mine && THAT_DEATH && (d >= TASKS || record[d] != HELD) -> state[d] = EMPTY
#else
        :: mine && THAT_DEATH && (d >= TASKS || record[d] == 0) -> state[d] = EMPTY
#endif
        :: else
        fi;
        mine = false
    }
}

/* Looks at each slot once. */
inline scavenge(looker)
{
    atomic { d = 0 };
    do
    :: d < SLOTS ->
        atomic {
            if
            :: d != looker && state[d] == LIVE && owner[d] != me_process && killed[owner[d]] -> state[d] = DEAD
            :: else
            fi;
            whose = owner[d]
        };
        if
        :: d != looker && state[d] == DEAD -> finish(looker)
        :: else
        fi;
        d++
    :: else -> break
    od;
    atomic { d = 0; whose = 0 }
}

#define LOCALS byte n, d, q, r, whose; bool got, takes, mine, counted

proctype Task(byte me; byte me_process)
{
    LOCALS;
    bool holds;
    {
        /* the first has made the object; the other finds it, or not */
        if
        :: me == 0
        :: me == 1 -> take(1, 1)
        fi;
        atomic { holds = (record[me] == HELD) };
#ifdef CALM /* the first cleans up after nobody: fewer histories */
        if
        :: me != 0 -> scavenge(me)
        :: else
        fi;
#else
        scavenge(me);
#endif
        if
        :: holds -> assert(record[me] == HELD); drop(me, me) /* nobody takes what the living hold */
        :: else
        fi;
        atomic { state[me] = EMPTY; ended[me_process] = true }
    } UNTIL_KILLED(me_process);
    running--
}

proctype Scavenger()
{
    LOCALS;
    byte me_process = 2;
    {
        scavenge(2);
        atomic { state[2] = EMPTY; ended[2] = true }
    } UNTIL_KILLED(2);
    running--
}

/* Takes slot 1 over when it is free, if that happens before the end. */
proctype Heir()
{
    bool came;

    atomic {
        if
        :: state[1] == EMPTY -> owner[1] = 3; state[1] = LIVE; op[1] = 0; came = true
        :: running == HEIRS -> came = false
        fi
    };
    if
    :: came -> run Task(1, 3)
    :: else -> running--
    fi
}

/* Lives on, and finishes what is left; then nothing is. */
proctype Janitor()
{
    LOCALS;
    byte me_process = VICTIMS;

    running == 0;
    do
    :: state[0] == EMPTY && state[1] == EMPTY && state[2] == EMPTY -> break
    :: else -> scavenge(JANITOR)
    od;
    assert(gone && count == 0 && record[0] == 0 && record[1] == 0)
}

init
{
    atomic {
        state[0] = LIVE; state[1] = LIVE; state[2] = LIVE; state[3] = LIVE;
        owner[0] = 0; owner[1] = 1; owner[2] = 2; owner[3] = VICTIMS;
        record[0] = HELD;
        run Task(0, 0);
        run Task(1, 1);
        run Scavenger();
#ifdef REUSE
        run Heir();
#endif
        run Janitor();
        run Killer()
    }
}
