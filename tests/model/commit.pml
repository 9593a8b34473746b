/*
 * commit.pml: one object word, blocks, intents, scavengers, slots used again.
 *
 * Stands for: src/segment/heap.c (block words), src/segment/object.c (copy, change, commit, free the old) and
 * src/segment/scavenge.c (a dead slot's intent and its OWNED blocks).
 *
 * An object is one word {idx, tag} naming an immutable block; here the block holds a counter, and an update adds one.
 * A block word {state, gen, slot, inc} changes only by CAS on the whole:
 *     FREE -> OWNED(slot, inc) -> LIVE (before the commit, while the intent names it) -> FREE, gen + 1
 * An intent is {object, fresh, old}; fresh and old are references {idx, gen}, one word each. `object` is written last
 * and cleared first, by the slot's owner only (or by its next owner): object 0 means no intent.
 *
 * Two writers update; one of them may be killed between any two steps; its slot may then be claimed by a third. Two
 * scavengers look at each slot; one of them may be left behind at any step, for ever.
 * Proved: no lost or doubled update, no committed reference to a block that is free, nobody's private block taken away,
 * and, when the dead are scavenged, every block that no object names is free.
 *
 * The protocol:
 * RUN full  ok     -DREUSE -DDEATHS=2                        : one writer, its slot used again, both may die
 * RUN full  ok     -DTWO -DDEATHS=2                          : two writers, both may die
 * RUN full  ok     -DTWO -DDEATHS=2 -DSAME_BLOCK              : the same, a failed attempt's block is filled again, not given back
 * RUN full  ok     -DREUSE -DTWO -DBLOCKS=4                   : two writers, one slot used again, one death
 * RUN short ok     -DOBJECTS=2 -DREUSE                       : one writer, two objects in turn, its slot used again
 * One rule dropped:
 * RUN short assert -DREUSE -DDEATHS=2 -DNO_INC               : no incarnation in the block word: OWNED(slot) only
 * RUN short assert -DREUSE -DDEATHS=2 -DNO_STILL             : the scavenger trusts intent words, not checking that the slot is still that death
 * RUN short assert -DREUSE -DDEATHS=2 -DSCAVENGER_CLEARS     : the scavenger clears the intent
 * RUN short assert -DNO_OLD                                  : the intent does not name the old block
 * RUN short assert -DOWNED_PUBLISHED                         : a block is committed while OWNED
 * RUN short assert -DFALSE_DEATH -DDEATHS=0                  : a stopped process is declared dead
 * RUN full  assert -DREUSE -DTWO -DOPS=2 -DNO_RECHECK        : the old block's word is read, the object's word not looked at again
 * RUN full  assert -DTWO -DNO_GEN -DOPS=2                    : blocks are freed by state alone, whatever their generation
 * RUN short assert -DOBJECTS=2 -DOBJECT_FIRST                : the intent's object is written before its references
 */
#ifndef OBJECTS
#define OBJECTS 1
#endif
#ifndef OPS
#define OPS 1
#endif
#ifndef BLOCKS
#define BLOCKS (2 + OBJECTS) /* beside block 0, which is "none" */
#endif
#define WRITERS 3 /* 0 on slot 0, 1 on slot 1, 2 on slot 0 after 0 */
#define VICTIMS WRITERS
#include "kill.pml"

/* block states */
#define FREE  0
#define OWNED 1
#define LIVE  2

/* slot states (LIVE as above) */
#define EMPTY 0
#define DEAD  3

typedef Ref { byte idx; byte gen }
typedef Block { byte state; byte gen; byte slot; byte inc }
typedef Object { byte idx; byte tag }
typedef Slot {
    byte state; byte inc;         /* the slot word */
    byte process;                 /* whose liveness word it is: the kernel knows when that one is gone */
    byte object; Ref fresh; Ref old /* the intent */
}

Block block[BLOCKS + 1];
byte counter[BLOCKS + 1];         /* what the blocks hold */
Object object[OBJECTS + 1];
Slot slot[2];

byte commits[OBJECTS + 1];        /* the audit's own count */
byte running;

#ifdef NO_INC
#define SAME_INC(b, i) true
#else
#define SAME_INC(b, i) (block[b].inc == i)
#endif
#ifdef NO_STILL
#define STILL(s, i)    true
#else
#define STILL(s, i)    (slot[s].state == DEAD && slot[s].inc == i)
#endif
#ifdef NO_GEN
#define SAME_GEN(b, g) true
#else
#define SAME_GEN(b, g) (block[b].gen == g)
#endif
#ifdef OWNED_PUBLISHED
#define IN_USE OWNED
#else
#define IN_USE LIVE
#endif

/* Sets block b free; used inside the step that compared its word. */
inline set_free(b)
{
    block[b].state = FREE;
    block[b].gen++;
    block[b].slot = 0;
    block[b].inc = 0
}

/* CAS of the exact word {in use, gen} to free: who comes late does nothing. */
inline free_exact(b, g)
{
    atomic {
        if
        :: block[b].state == IN_USE && SAME_GEN(b, g) -> set_free(b)
        :: else
        fi
    }
}

/* The unpublished block n is still mine: OWNED by this slot and incarnation, or LIVE with my generation. */
#define STILL_MINE(n, g, s, i)                                                                                         \
    (block[n].gen == g &&                                                                                              \
     (block[n].state == LIVE || (block[n].state == OWNED && block[n].slot == s && SAME_INC(n, i))))

/* Takes a free block; n 0 when there is none: an error, not a wait. */
inline take()
{
    atomic {
        n = 1;
        do
        :: n <= BLOCKS && block[n].state != FREE -> n++
        :: else -> break
        od;
        if
        :: n > BLOCKS -> n = 0
        :: else ->
            block[n].state = OWNED;
            block[n].slot = s;
            block[n].inc = inc;
            n_gen = block[n].gen
        fi;
        published = false
    }
}

inline update(ob)
{
    take();
    do
    :: n == 0 -> break
    :: else ->
        atomic { o = object[ob].idx; tag = object[ob].tag };
        atomic { assert(STILL_MINE(n, n_gen, s, inc)); counter[n] = counter[o] + 1 };
        o_gen = block[o].gen;
#ifndef NO_RECHECK
        atomic { changed = !(object[ob].idx == o && object[ob].tag == tag) };
#endif
        if
        :: changed -> changed = false
        :: else ->
#ifdef OBJECT_FIRST
            slot[s].object = ob;
#endif
            d_step { slot[s].fresh.idx = n; slot[s].fresh.gen = n_gen };
#ifndef NO_OLD
            d_step { slot[s].old.idx = o; slot[s].old.gen = o_gen };
#endif
            if
            :: !published ->
                slot[s].object = ob;
                atomic {
                    assert(STILL_MINE(n, n_gen, s, inc)); /* so this CAS cannot fail */
#ifndef OWNED_PUBLISHED
                    block[n].state = LIVE;
                    block[n].slot = 0;
                    block[n].inc = 0;
#endif
                    published = true
                }
            :: else
            fi;
            atomic {
                /* the commit */
                if
                :: object[ob].idx == o && object[ob].tag == tag ->
                    assert(STILL_MINE(n, n_gen, s, inc));
                    object[ob].idx = n;
                    object[ob].tag++;
                    commits[ob]++;
                    assert(counter[n] == commits[ob]);
                    committed = true
                :: else -> committed = false
                fi
            };
            if
            :: committed ->
                free_exact(o, o_gen);
                break
            :: !committed ->
#ifdef SAME_BLOCK
                skip /* fill it again */
#else
                free_exact(n, n_gen);
                take()
#endif
            :: !committed -> /* or find that there is nothing to do after all: give the block back */
                free_exact(n, n_gen);
                break
            fi
        fi
    od;
    slot[s].object = 0;
    d_step { n = 0; n_gen = 0; o = 0; o_gen = 0; tag = 0; published = false; committed = false }
}

proctype Writer(byte me; byte s)
{
    byte inc, n, n_gen, o, o_gen, tag, ops;
    bool published, committed, changed;

    {
        /* claim (slot.pml has it in full): nobody else holds this slot; clear, then take it */
        inc = slot[s].inc;
        slot[s].object = 0;
        atomic { slot[s].process = me; slot[s].state = LIVE };
        do
        :: ops < OPS ->
            update(1);
#if OBJECTS > 1
            update(2);
#endif
            ops++
        :: else -> break
        od;
        atomic { slot[s].state = EMPTY; slot[s].inc++ }
    } UNTIL_KILLED(me);
    d_step { n = 0; n_gen = 0; o = 0; o_gen = 0; tag = 0; ops = 0; inc = 0; published = false; committed = false; changed = false; running-- }
}

/* What an intent's reference asks for: free the block if the intent's object does not name it. */
inline settle(s, reference)
{
    atomic { b = reference.idx; g = reference.gen };
    atomic { still = STILL(s, death) };
    if
    :: still && b != 0 && object[ob].idx != b -> free_exact(b, g)
    :: else
    fi
}

/* Everything a scavenger does for one slot. Any number may do it at once; each may stop anywhere. */
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
        atomic {
            if
            :: slot[s].state == LIVE && slot[s].inc == death -> slot[s].state = DEAD
            :: else
            fi
        };
        ob = slot[s].object;
        if
        :: ob != 0 ->
            settle(s, slot[s].fresh);
            settle(s, slot[s].old)
        :: else
        fi;
        n = 1;
        do
        :: n <= BLOCKS ->
            atomic {
                if
                :: block[n].state == OWNED && block[n].slot == s && SAME_INC(n, death) -> set_free(n)
                :: else
                fi;
                n++
            }
        :: else -> break
        od;
#ifdef SCAVENGER_CLEARS
        slot[s].object = 0;
#endif
        atomic {
            if
            :: slot[s].state == DEAD && slot[s].inc == death ->
                slot[s].state = EMPTY;
                slot[s].inc++
            :: else
            fi
        }
    :: else
    fi;
    d_step { b = 0; g = 0; ob = 0; n = 0; death = 0; still = false; found = false }
}

/* A second scavenger, which nobody waits for: it may be anywhere when the audit comes. */
active proctype Scavenger()
{
    byte b, g, ob, n, death;
    bool still, found;

    scavenge(0);
#ifdef TWO
    scavenge(1)
#endif
}

/* At no moment does an object name a free block. */
active proctype Monitor()
{
end:
    atomic { object[1].idx != 0 && block[object[1].idx].state == FREE -> assert(false) }
}

#ifdef FALSE_DEATH
active proctype Liar()
{
end:
    atomic { slot[0].state == LIVE -> slot[0].state = DEAD }
}
#endif

init {
    byte b, g, ob, n, death;
    bool still, found;

    atomic {
        /* each object starts with a committed block: the last ones */
        object[1].idx = BLOCKS;
        block[BLOCKS].state = IN_USE;
#if OBJECTS > 1
        object[2].idx = BLOCKS - 1;
        block[BLOCKS - 1].state = IN_USE;
#endif
        running = 1;
        run Writer(0, 0);
#ifdef TWO
        running++;
        run Writer(1, 1);
#endif
        run Killer()
    };
#ifdef REUSE
    scavenge(0);
    if
    :: atomic { slot[0].state == EMPTY && slot[0].inc > 0 -> running++; run Writer(2, 0) }
    :: skip
    fi;
#endif
    (running == 0);
    scavenge(0);
#ifdef TWO
    scavenge(1);
#endif
    atomic {
        /* the audit */
        n = 1;
        do
        :: n <= BLOCKS ->
#if OBJECTS > 1
            assert((n == object[1].idx || n == object[2].idx) == (block[n].state != FREE));
#else
            assert((n == object[1].idx) == (block[n].state != FREE));
#endif
            n++
        :: else -> break
        od;
        assert(counter[object[1].idx] == commits[1]);
        assert(slot[0].state == EMPTY && slot[1].state == EMPTY)
    }
}
