/*
 * pin.pml: values read in place.
 *
 * Stands for: src/segment/pin.c (mu_pin, mu_unpin, mu_pin_others, mu_pin_settle), mu_txn_commit() and free_olds() in
 * src/segment/object.c, and intent_undo() and dead_slot_finish() in src/segment/scavenge.c.
 *
 * The object word names a value {idx, gen} (the root between them changes nothing here: "listed" means that the object's
 * current root names it). Each slot has a pin word {idx, gen}.
 *   reader:    pin := value; fence; the object still lists it? -> read in place. Afterwards, or when it does not: unpin.
 *   freer:     after its commit, fence, looks at the pins of all slots that are LIVE (not DEAD, not EMPTY), the state
 *              read before the pin. Pinned: leave the block. Else: free it, by CAS of the exact word.
 *   unpin:     intent {old = value}; pin := 0; fence; no longer listed, and no other LIVE slot pins it? -> free it, by CAS
 *              of the exact word; clear the intent.
 *   scavenger: slot LIVE -> DEAD; then what the intent names, fresh and old, and what is pinned: no longer listed and no
 *              LIVE slot pins it -> free it.
 *   claimer:   clears intent and pin of a slot before the slot word becomes LIVE.
 * Fences are sequentially consistent here; what a missing fence does is modelled by exchanging the two accesses.
 * The blocks' own life, FREE -> OWNED -> LIVE, and the intent word by word are in commit.pml.
 *
 * Proved: nobody frees a block while a living reader reads it; when all is done, every block not listed is free.
 *
 * The protocol:
 * RUN full  ok     -DREADERS=1 -DDEATHS=2            : one reader, one writer with two overwrites, both may die
 * RUN short ok     -DREADERS=1 -DOPS=1                : one reader, one writer with one overwrite, one death
 * RUN full  ok     -DREADERS=1 -DDEATHS=1 -DREUSE    : the same, one death, and another reader claims the first one's slot
 * RUN full  ok     -DREADERS=2                       : two readers, one writer with two overwrites, one death
 * RUN full  ok     -DREADERS=2 -DOPS=1 -DDEATHS=2    : two readers, one writer with one overwrite, two deaths
 * RUN full  ok     -DREADERS=1 -DWRITERS=2 -DOPS=1   : one reader, two writers with one overwrite each, one death
 * One rule dropped:
 * RUN short assert -DREADERS=1 -DUNPIN_WITHOUT_INTENT                    : unpin clears the pin, frees, has no intent
 * RUN short assert -DREADERS=1 -DPIN_AFTER_CHECK                         : the reader checks, then pins
 * RUN short assert -DREADERS=1 -DSCAN_BEFORE_COMMIT                      : the freer looks at the pins, then commits
 * RUN short assert -DREADERS=1 -DNO_FREE_AT_UNPIN                        : who unpins does not look whether it must free
 * RUN short assert -DREADERS=1 -DDEAD_PINS_COUNT                         : the freer respects pins of DEAD slots
 * RUN short assert -DREADERS=1 -DSCAVENGER_IGNORES_PIN                   : the scavenger does not settle the pin of the dead
 * RUN short assert -DREADERS=1 -DPIN_BEFORE_DEAD                         : the scavenger settles the pin, then marks the slot DEAD
 * RUN short assert -DREADERS=1 -DOLD_IGNORES_PINS                        : the scavenger frees the intent's old block though pinned
 * RUN full  assert -DREADERS=1 -DWRITERS=2 -DOPS=1 -DFRESH_IGNORES_PINS  : the scavenger frees the intent's fresh block though pinned
 * RUN short assert -DREADERS=2 -DOTHERS_IGNORED -DDEATHS=0               : who unpins does not look at the pins of others
 * RUN full  assert -DREADERS=1 -DREUSE -DNO_CLEAR_AT_CLAIM               : the claimer leaves the old pin in place
 * RUN full  assert -DREADERS=1 -DREUSE -DPIN_BEFORE_STATE                : the freer reads a slot's pin before its state
 */
#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef OPS
#define OPS 2 /* overwrites by each writer */
#endif
#define BLOCKS (WRITERS + 2)
#define SLOTS  (WRITERS + READERS) /* writers first; process p begins on slot p; process SLOTS is the second reader */
#ifdef REUSE
#define VICTIMS (SLOTS + 1)
#else
#define VICTIMS SLOTS
#endif
#include "kill.pml"

#define FREE  0
#define OWNED 1
#define LIVE  2
#define EMPTY 0
#define DEAD  3

typedef Ref { byte idx; byte gen }
typedef Block { byte state; byte gen; byte slot }
typedef Slot { byte state; byte inc; byte process; Ref pin; bool intent; Ref fresh; Ref old }

Block block[BLOCKS + 1];
Ref object; /* the object word; its tag is left out, for the same {idx, gen} is never listed again */
Slot slot[SLOTS];
byte running;

#define LISTED(b, g) (object.idx == b && object.gen == g)
#define STILL(s, i)  (slot[s].state == DEAD && slot[s].inc == i)
#define NOBODY       99

#ifdef DEAD_PINS_COUNT
#define PIN_COUNTS(p) (slot[p].state != EMPTY)
#else
#define PIN_COUNTS(p) (slot[p].state == LIVE)
#endif

/* CAS of the exact word {LIVE, g} to free; part of a step. */
inline cas_free(b, g)
{
    if
    :: block[b].state == LIVE && block[b].gen == g -> block[b].state = FREE; block[b].gen++
    :: else
    fi
}

/*
 * Looks at the pins of all LIVE slots but `self`, a slot's state before its pin (the writers never pin); `pinned` says
 * what was found. p must be WRITERS, and is again afterwards.
 */
#ifdef PIN_BEFORE_STATE
#define FIRST_LOOK(p, b, g)  (slot[p].pin.idx == b && slot[p].pin.gen == g)
#define SECOND_LOOK(p, b, g) PIN_COUNTS(p)
#else
#define FIRST_LOOK(p, b, g)  PIN_COUNTS(p)
#define SECOND_LOOK(p, b, g) (slot[p].pin.idx == b && slot[p].pin.gen == g)
#endif
inline look_at_pins(b, g, self)
{
    do
    :: atomic {
        p < SLOTS && !half ->
        if
        :: p != self && FIRST_LOOK(p, b, g) -> half = true
        :: else -> p++
        fi
        }
    :: atomic {
        half ->
        half = false;
        if
        :: SECOND_LOOK(p, b, g) -> pinned = true; p = SLOTS
        :: else -> p++
        fi
        }
    :: atomic { p == SLOTS && !half -> p = WRITERS; break }
    od
}

/* What every freer does; the caller has seen that {b, g} is no longer listed. */
inline free_unless_pinned(b, g, self)
{
    look_at_pins(b, g, self);
    atomic {
        if
        :: !pinned -> cas_free(b, g)
        :: else -> pinned = false
        fi
    }
}

proctype Writer(byte me)
{
    byte n, n_gen, old, old_gen, ops;
    byte p = WRITERS;
    bool pinned, half;

    {
        p = WRITERS;

take:
        atomic {
            if
            :: ops == OPS -> goto release
            :: else
            fi;
            n = 1;
            do
            :: n <= BLOCKS && block[n].state != FREE -> n++
            :: else -> break
            od;
            if
            :: n > BLOCKS -> goto release /* full: an error */
            :: else -> block[n].state = OWNED; block[n].slot = me; n_gen = block[n].gen
            fi
        };

again:
        atomic { old = object.idx; old_gen = object.gen };
        atomic {
            slot[me].fresh.idx = n; slot[me].fresh.gen = n_gen;
            slot[me].old.idx = old; slot[me].old.gen = old_gen;
            slot[me].intent = true
        };
        block[n].state = LIVE;
#ifdef SCAN_BEFORE_COMMIT
        look_at_pins(old, old_gen, NOBODY);
#endif
        atomic {
            /* the commit */
            if
            :: LISTED(old, old_gen) -> object.idx = n; object.gen = n_gen
            :: else -> goto again
            fi
        };
#ifdef SCAN_BEFORE_COMMIT
        atomic {
            if
            :: !pinned -> cas_free(old, old_gen)
            :: else -> pinned = false
            fi
        };
#else
        free_unless_pinned(old, old_gen, NOBODY);
#endif
        atomic { slot[me].intent = false; ops++; goto take };

release:
        atomic { slot[me].state = EMPTY; slot[me].inc++ }
    } UNTIL_KILLED(me);
    atomic { n = 0; n_gen = 0; p = 0; ops = 0; old = 0; old_gen = 0; pinned = false; half = false; running-- }
}

proctype Reader(byte me; byte s)
{
    byte mine, mine_gen;
    byte p = WRITERS;
    bool pinned, half;

    {
        p = WRITERS;

        /* claim (slot.pml has it in full) */
#ifndef NO_CLEAR_AT_CLAIM
        atomic { slot[s].intent = false; slot[s].pin.idx = 0; slot[s].pin.gen = 0 };
#endif
        atomic { slot[s].process = me; slot[s].state = LIVE };

        atomic { mine = object.idx; mine_gen = object.gen };
#ifdef PIN_AFTER_CHECK
        atomic {
            if
            :: !LISTED(mine, mine_gen) -> goto unpin
            :: else
            fi
        };
        atomic { slot[s].pin.idx = mine; slot[s].pin.gen = mine_gen };
#else
        atomic { slot[s].pin.idx = mine; slot[s].pin.gen = mine_gen };
        atomic {
            if
            :: !LISTED(mine, mine_gen) -> goto unpin
            :: else
            fi
        };
#endif
        /* read in place, for as long as one likes: at any later moment the block must be what it was */
        atomic { assert(block[mine].state == LIVE && block[mine].gen == mine_gen) };

unpin:
#ifndef UNPIN_WITHOUT_INTENT
        atomic {
            slot[s].fresh.idx = 0;
            slot[s].old.idx = mine; slot[s].old.gen = mine_gen;
            slot[s].intent = true
        };
#endif
        atomic { slot[s].pin.idx = 0; slot[s].pin.gen = 0 };
#ifndef NO_FREE_AT_UNPIN
        atomic {
            if
            :: LISTED(mine, mine_gen) -> goto release
            :: else
            fi
        };
#ifdef OTHERS_IGNORED
        atomic { cas_free(mine, mine_gen) };
#else
        free_unless_pinned(mine, mine_gen, s);
#endif
#endif

release:
        slot[s].intent = false;
        atomic { slot[s].state = EMPTY; slot[s].inc++ }
    } UNTIL_KILLED(me);
    atomic { p = 0; mine = 0; mine_gen = 0; pinned = false; half = false; running-- }
}

#ifdef PIN_BEFORE_DEAD
#define MARK  2
#define PIN   1
#else
#define MARK  1
#define PIN   6
#endif

/*
 * Looks at slot after slot, and settles those whose owner is dead. Any number may run; each may stop anywhere, for ever.
 * What it does for one slot, by `todo`: mark it DEAD, settle the intent's fresh and old blocks, sweep what is OWNED,
 * settle the pin, free the slot.
 */
proctype Scavenger(bool awaited; byte s)
{
    byte b, g, death, todo;
    byte p = WRITERS;
    bool pinned, half;

    do
    :: atomic {
        s < SLOTS && todo == 0 ->
        death = slot[s].inc;
        if
        :: slot[s].state == DEAD -> todo = 1
        :: slot[s].state == LIVE && killed[slot[s].process] -> todo = 1
        :: else -> s++
        fi
        }
    :: atomic {
        todo == MARK ->
        if
        :: slot[s].state == LIVE && slot[s].inc == death -> slot[s].state = DEAD
        :: else
        fi;
        todo = 3
        }
    :: atomic {
        todo == 3 ->
        todo = 4;
        if
        :: slot[s].intent -> b = slot[s].fresh.idx; g = slot[s].fresh.gen
        :: else
        fi
        };
        if
        :: atomic { b == 0 || !STILL(s, death) || LISTED(b, g) -> b = 0; g = 0 }
        :: else ->
#ifdef FRESH_IGNORES_PINS
            atomic { cas_free(b, g); b = 0; g = 0 }
#else
            free_unless_pinned(b, g, NOBODY);
            atomic { b = 0; g = 0 }
#endif
        fi
    :: atomic {
        todo == 4 ->
        todo = 5;
        if
        :: slot[s].intent -> b = slot[s].old.idx; g = slot[s].old.gen
        :: else
        fi
        };
        if
        :: atomic { b == 0 || !STILL(s, death) || LISTED(b, g) -> b = 0; g = 0 }
        :: else ->
#ifdef OLD_IGNORES_PINS
            atomic { cas_free(b, g); b = 0; g = 0 }
#else
            free_unless_pinned(b, g, NOBODY);
            atomic { b = 0; g = 0 }
#endif
        fi
    :: atomic {
        todo == 5 ->
        /* the sweep in one step: commit.pml has it block by block */
        b = 1;
        do
        :: b <= BLOCKS && block[b].state == OWNED && block[b].slot == s && STILL(s, death) ->
            block[b].state = FREE; block[b].gen++; b++
        :: b <= BLOCKS && !(block[b].state == OWNED && block[b].slot == s && STILL(s, death)) -> b++
        :: b > BLOCKS -> break
        od;
        b = 0;
        todo = 6
        }
    :: atomic {
        todo == PIN ->
#ifdef PIN_BEFORE_DEAD
        todo = 2;
#else
        todo = 7;
#endif
        b = slot[s].pin.idx; g = slot[s].pin.gen
        };
        if
#ifdef SCAVENGER_IGNORES_PIN
        :: atomic { true -> b = 0; g = 0 }
#else
#ifdef PIN_BEFORE_DEAD
        :: atomic { b == 0 || LISTED(b, g) -> b = 0; g = 0 }
#else
        :: atomic { b == 0 || !STILL(s, death) || LISTED(b, g) -> b = 0; g = 0 }
#endif
        :: else ->
            free_unless_pinned(b, g, s);
            atomic { b = 0; g = 0 }
#endif
        fi
#ifdef PIN_BEFORE_DEAD
    :: atomic { todo == 6 -> todo = 7 }
#endif
    :: atomic {
        todo == 7 ->
        todo = 0;
        s++;
        if
        :: STILL(s - 1, death) -> slot[s - 1].state = EMPTY; slot[s - 1].inc++
        :: else
        fi;
        death = 0
        }
    :: atomic { s == SLOTS && todo == 0 -> s = 0; p = 0; break }
    od;
    atomic {
        if
        :: awaited -> running--
        :: else
        fi
    }
}

init {
    byte n;

    atomic {
        object.idx = BLOCKS;
        block[BLOCKS].state = LIVE;
        running = SLOTS;
        slot[0].state = LIVE; slot[0].process = 0;
        run Writer(0);
#if WRITERS > 1
        slot[1].state = LIVE; slot[1].process = 1;
        run Writer(1);
#endif
        run Reader(WRITERS, WRITERS);
#if READERS > 1
        run Reader(WRITERS + 1, WRITERS + 1);
#endif
        run Killer();
        run Scavenger(false, 0) /* nobody waits for it: it may be anywhere when the audit comes */
    };
#ifdef REUSE
    if
    :: atomic {
        slot[WRITERS].state == EMPTY && slot[WRITERS].inc > 0 -> running++; run Reader(SLOTS, WRITERS)
        }
    :: skip
    fi;
#endif
    atomic { running == 0 -> running++; run Scavenger(true, 0) };
    atomic {
        running == 0 ->
        n = 1;
        do
        :: n <= BLOCKS -> assert((n == object.idx) == (block[n].state != FREE)); n++
        :: else -> break
        od
    }
}
