/*
 * pin.pml: values read in place.
 *
 * Stands for: src/segment/object.c (who frees looks at the pins) and src/segment/scavenge.c (the pin of the dead).
 *
 * The object word names a value {idx, gen} (the root between them changes nothing here: "listed" means that the object's
 * current root names it). Each slot has a pin word {idx, gen}.
 *   reader:    pin := value; fence; the object still lists it? -> read in place. Afterwards, or when it does not: unpin.
 *   freer:     after its commit, fence, looks at the pins of all slots that are LIVE (not DEAD, not EMPTY), the state
 *              read before the pin. Pinned: leave the block. Else: free it, by CAS of the exact word.
 *   unpin:     intent {old = value}; pin := 0; fence; no longer listed, and no other LIVE slot pins it? -> free it, by CAS
 *              of the exact word; clear the intent. (Without the intent, death between the last two leaks the block.)
 *   scavenger: slot LIVE -> DEAD; then both the intent's old block and the pinned one: no longer listed and no LIVE slot
 *              pins it -> free it.
 *   claimer:   clears intent and pin of a slot before the slot word becomes LIVE.
 * Fences are sequentially consistent here; what a missing fence does is modelled by exchanging the two accesses.
 *
 * Proved: nobody frees a block while a living reader reads it; when all is done, every block not listed is free.
 *
 * The protocol:
 * RUN short ok     -DREADERS=1 -DDEATHS=2          : one reader, one writer, both may die
 * RUN full  ok     -DREADERS=1 -DOPS=1 -DREUSE     : the same with one overwrite, the reader's slot claimed by another reader
 * RUN full  ok     -DREADERS=2 -DOPS=1             : two readers, one death, one overwrite
 * RUN full  ok     -DREADERS=2 -DOPS=1 -DDEATHS=2  : two readers, two deaths, one overwrite
 * One rule dropped:
 * RUN short assert -DREADERS=1 -DUNPIN_WITHOUT_INTENT             : unpin clears the pin first, no intent
 * RUN short assert -DREADERS=1 -DPIN_AFTER_CHECK                  : the reader checks, then pins
 * RUN short assert -DREADERS=1 -DSCAN_BEFORE_COMMIT               : the freer looks at the pins, then commits
 * RUN short assert -DREADERS=1 -DNO_FREE_AT_UNPIN                 : who unpins does not look whether it must free
 * RUN short assert -DREADERS=1 -DDEAD_PINS_COUNT                  : the freer respects pins of DEAD slots
 * RUN short assert -DREADERS=1 -DSCAVENGER_IGNORES_PIN            : the scavenger does not settle the pin of the dead
 * RUN short assert -DREADERS=1 -DPIN_BEFORE_DEAD                  : the scavenger settles the pin, then marks the slot DEAD
 * RUN short assert -DREADERS=1 -DSCAVENGER_FREES_PINNED           : the scavenger settles the intent without looking at pins
 * RUN short assert -DREADERS=2 -DOTHERS_IGNORED -DDEATHS=0        : who unpins does not look at the pins of others
 * RUN short assert -DREADERS=1 -DREUSE -DNO_CLEAR_AT_CLAIM        : the claimer leaves the old pin in place
 * RUN full  assert -DREADERS=1 -DREUSE -DPIN_BEFORE_STATE         : the freer reads a slot's pin before its state
 */
#ifndef OPS
#define OPS 2 /* overwrites by the writer */
#endif
#define BLOCKS 3
#ifdef REUSE
#define VICTIMS (READERS + 2) /* the last is the second reader on slot 1 */
#else
#define VICTIMS (READERS + 1)
#endif
#define SLOTS (READERS + 1) /* slot 0: the writer's */
#include "kill.pml"

#define FREE  0
#define OWNED 1
#define LIVE  2
#define EMPTY 0
#define DEAD  3

typedef Ref { byte idx; byte gen }
typedef Block { byte state; byte gen; byte slot; byte inc }
typedef Slot { byte state; byte inc; byte process; Ref pin; bool intent; Ref fresh; Ref old }

Block block[BLOCKS + 1];
Ref object; /* the object word: its tag is not needed, for {idx, gen} never comes back */
Slot slot[SLOTS];
byte running;

#define LISTED(b, g)  (object.idx == b && object.gen == g)
#define STILL(s, i)   (slot[s].state == DEAD && slot[s].inc == i)

inline free_exact(b, g)
{
    atomic {
        if
        :: block[b].state == LIVE && block[b].gen == g ->
            block[b].state = FREE;
            block[b].gen++
        :: else
        fi
    }
}

#ifdef DEAD_PINS_COUNT
#define PIN_COUNTS(p) (slot[p].state != EMPTY)
#else
#define PIN_COUNTS(p) (slot[p].state == LIVE)
#endif

/* Sets `pinned` if a slot other than `self` that is LIVE pins {b, g}. A slot's state is read before its pin.
   (Slot 0, the writer's, never pins.) */
inline look_at_pins(b, g, self)
{
    p = 1;
    pinned = false;
    do
    :: p == SLOTS -> break
    :: p != SLOTS && p == self -> p++
    :: p != SLOTS && p != self ->
#ifdef PIN_BEFORE_STATE
        atomic { counts = (slot[p].pin.idx == b && slot[p].pin.gen == g) };
        atomic {
            if
            :: counts && PIN_COUNTS(p) -> pinned = true; p = SLOTS
            :: else -> p++
            fi
        }
#else
        atomic { counts = PIN_COUNTS(p) };
        atomic {
            if
            :: counts && slot[p].pin.idx == b && slot[p].pin.gen == g -> pinned = true; p = SLOTS
            :: else -> p++
            fi
        }
#endif
    od;
    p = 0;
    counts = false
}

#define NOBODY 99

/* What every freer does: the block {b, g} is no longer listed, the caller has seen it. */
inline free_unless_pinned(b, g, self)
{
    look_at_pins(b, g, self);
    if
    :: !pinned -> free_exact(b, g)
    :: else
    fi;
    pinned = false
}

proctype Writer(byte me)
{
    byte n, n_gen, p, ops;
    byte old, old_gen;
    bool pinned, counts;

    {
        do
        :: ops < OPS ->
            atomic {
                n = 1;
                do
                :: n <= BLOCKS && block[n].state != FREE -> n++
                :: else -> break
                od;
                if
                :: n > BLOCKS -> n = 0
                :: else -> block[n].state = OWNED; block[n].slot = 0; n_gen = block[n].gen
                fi
            };
            if
            :: n == 0 -> break
            :: else
            fi;
            d_step { old = object.idx; old_gen = object.gen }; /* one writer: the commit cannot fail */
            d_step {
                /* commit.pml has the intent's words one by one */
                slot[0].fresh.idx = n; slot[0].fresh.gen = n_gen;
                slot[0].old.idx = old; slot[0].old.gen = old_gen;
                slot[0].intent = true
            };
            block[n].state = LIVE;
#ifdef SCAN_BEFORE_COMMIT
            look_at_pins(old, old_gen, 0);
#endif
            d_step { object.idx = n; object.gen = n_gen };
#ifdef SCAN_BEFORE_COMMIT
            if
            :: !pinned -> free_exact(old, old_gen)
            :: else
            fi;
#else
            free_unless_pinned(old, old_gen, 0);
#endif
            atomic { slot[0].intent = false; ops++ }
        :: else -> break
        od;
        atomic { slot[0].state = EMPTY; slot[0].inc++ }
    } UNTIL_KILLED(me);
    d_step { n = 0; n_gen = 0; p = 0; ops = 0; old = 0; old_gen = 0; pinned = false; counts = false; running-- }
}

proctype Reader(byte me; byte s)
{
    byte p;
    byte mine, mine_gen;
    bool pinned, counts, good;

    {
        /* claim (slot.pml has it in full) */
#ifndef NO_CLEAR_AT_CLAIM
        slot[s].intent = false;
        d_step { slot[s].pin.idx = 0; slot[s].pin.gen = 0 };
#endif
        atomic { slot[s].process = me; slot[s].state = LIVE };

        d_step { mine = object.idx; mine_gen = object.gen };
#ifdef PIN_AFTER_CHECK
        atomic { good = LISTED(mine, mine_gen) };
        d_step { slot[s].pin.idx = mine; slot[s].pin.gen = mine_gen };
#else
        d_step { slot[s].pin.idx = mine; slot[s].pin.gen = mine_gen };
        atomic { good = LISTED(mine, mine_gen) };
#endif
        if
        :: good ->
            /* read in place, for as long as it likes: at any later moment the block must be what it was */
            assert(block[mine].state == LIVE && block[mine].gen == mine_gen)
        :: else
        fi;
        good = false;
#ifndef UNPIN_WITHOUT_INTENT
        d_step {
            slot[s].fresh.idx = 0;
            slot[s].old.idx = mine; slot[s].old.gen = mine_gen;
            slot[s].intent = true
        };
#endif
        d_step { slot[s].pin.idx = 0; slot[s].pin.gen = 0 };
#ifndef NO_FREE_AT_UNPIN
        if
        :: !LISTED(mine, mine_gen) ->
#ifdef OTHERS_IGNORED
            free_exact(mine, mine_gen)
#else
            free_unless_pinned(mine, mine_gen, s)
#endif
        :: else
        fi;
#endif
        slot[s].intent = false;
        atomic { slot[s].state = EMPTY; slot[s].inc++ }
    } UNTIL_KILLED(me);
    d_step { p = 0; mine = 0; mine_gen = 0; pinned = false; counts = false; good = false; running-- }
}

/* One reference of the dead: free its block unless the object lists it or a living slot pins it. */
inline settle(s, reference)
{
    atomic { b = reference.idx; g = reference.gen };
    if
    :: b != 0 -> atomic { still = STILL(s, death) }
    :: else -> still = false
    fi;
    if
    :: still && !LISTED(b, g) ->
#ifdef SCAVENGER_FREES_PINNED
        free_exact(b, g)
#else
        free_unless_pinned(b, g, NOBODY)
#endif
    :: else
    fi
}

inline scavenge(s)
{
    atomic {
        death = slot[s].inc;
        if
        :: slot[s].state == DEAD -> found = true
        :: slot[s].state == LIVE && killed[slot[s].process] -> found = true
        :: else -> found = false
        fi
    };
    if
    :: found ->
#ifdef PIN_BEFORE_DEAD
        atomic { b = slot[s].pin.idx; g = slot[s].pin.gen };
        if
        :: b != 0 && !LISTED(b, g) -> free_unless_pinned(b, g, s)
        :: else
        fi;
#endif
        atomic {
            if
            :: slot[s].state == LIVE && slot[s].inc == death -> slot[s].state = DEAD
            :: else
            fi
        };
        if
        :: slot[s].intent ->
            settle(s, slot[s].fresh);
            settle(s, slot[s].old)
        :: else
        fi;
        if
        :: s == 0 ->
            n = 1;
            do
            :: n <= BLOCKS ->
                atomic {
                    if
                    :: block[n].state == OWNED -> block[n].state = FREE; block[n].gen++ /* only slot 0 allocates */
                    :: else
                    fi;
                    n++
                }
            :: else -> break
            od
        :: else
        fi;
#if !defined(SCAVENGER_IGNORES_PIN) && !defined(PIN_BEFORE_DEAD)
        settle(s, slot[s].pin);
#endif
        atomic {
            if
            :: STILL(s, death) -> slot[s].state = EMPTY; slot[s].inc++
            :: else
            fi
        }
    :: else
    fi;
    d_step { b = 0; g = 0; n = 0; p = 0; death = 0; still = false; found = false; pinned = false; counts = false }
}

/* A second scavenger, which nobody waits for: it may be anywhere when the audit comes. */
active proctype Scavenger()
{
    byte b, g, n, p, death;
    bool still, found, pinned, counts;

#if READERS > 1
    scavenge(2)
#else
    scavenge(1);
    scavenge(0)
#endif
}

init {
    byte b, g, n, p, death;
    bool still, found, pinned, counts;

    atomic {
        object.idx = BLOCKS;
        block[BLOCKS].state = LIVE;
        slot[0].state = LIVE; /* the writer is process 0 on slot 0 */
        running = 1 + READERS;
        run Writer(0);
        run Reader(1, 1);
#if READERS > 1
        run Reader(2, 2);
#endif
        run Killer()
    };
#ifdef REUSE
    scavenge(1);
    if
    :: atomic { slot[1].state == EMPTY && slot[1].inc > 0 -> running++; run Reader(READERS + 1, 1) }
    :: skip
    fi;
#endif
    (running == 0);
    scavenge(0);
    scavenge(1);
#if READERS > 1
    scavenge(2);
#endif
    atomic {
        n = 1;
        do
        :: n <= BLOCKS -> assert((n == object.idx) == (block[n].state != FREE)); n++
        :: else -> break
        od
    }
}
