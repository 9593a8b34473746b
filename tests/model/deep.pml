/*
 * deep.pml: values in parts.
 *
 * Stands for: src/segment/heap.c (mu_heap_free, free_parts), publish() and free_olds() in src/segment/object.c,
 * intent_undo() and owned_sweep() in src/segment/scavenge.c, and copy_parts() in src/segment/table.c.
 *
 * A value is a head block that lists part blocks {idx, gen}; only the head is named by the object and by intents.
 *   publish:   while the intent names the head: parts OWNED -> LIVE, then the head, then the commit.
 *   deep free: parts first, each by CAS of its exact word {LIVE, gen}, the head last. A part's reference is read from the
 *              head, then the head's word is looked at again before the reference counts. Whoever repeats it, at the same
 *              time or after a death, does what is left.
 *   scavenger: walks an intent's head that is OWNED as well as one that is LIVE (its parts may be LIVE already), and
 *              sweeps what is OWNED only after that.
 *   reader:    copies head and parts; the copy counts if the object's word is still the same (nobody has begun to free).
 *              The head's own word is no proof: it changes last.
 *
 * Proved: no block of the listed value is ever free, no private block is taken away, no reader accepts a torn value, and
 * when all is done every block that the listed value does not consist of is free.
 *
 * The protocol:
 * RUN short ok     -DDEATHS=1 -DOPS=2                     : one writer, two overwrites, one part a value
 * RUN full  ok     -DWRITERS=2 -DDEATHS=2                 : two writers, one overwrite each, both may die
 * RUN full  ok     -DWRITERS=2 -DPARTS=2                  : two parts a value, one death
 * RUN short ok     -DREADER -DOPS=2                       : a reader, one writer, two overwrites, one death
 * RUN full  ok     -DREADER -DWRITERS=2 -DDEATHS=0        : a reader, two writers
 * One rule dropped:
 * RUN short assert -DHEAD_FIRST                           : the head is freed before its parts
 * RUN short assert -DLIVE_HEAD_ONLY                       : the scavenger walks only heads that are LIVE
 * RUN short assert -DSWEEP_FIRST                          : the scavenger sweeps before it walks the intent's blocks
 * RUN full  assert -DOPS=2 -DWRITERS=2 -DNO_RECHECK       : a part's reference is believed without looking at the head's word again
 * RUN short assert -DREADER -DWRITERS=2 -DDEATHS=0 -DHEAD_WORD_ONLY : the reader looks again at the head's word only
 */
#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef OPS
#define OPS 1
#endif
#ifndef PARTS
#define PARTS 1
#endif
#define HEADS      (WRITERS + 1)
#define PART_COUNT (HEADS * PARTS)
#define VICTIMS    WRITERS
#include "kill.pml"

#define FREE  0
#define OWNED 1
#define LIVE  2
#define EMPTY 0
#define DEAD  3

typedef Ref { byte idx; byte gen }
typedef Block { byte state; byte gen; byte slot }
typedef Head { Ref part[PARTS + 1]; byte stamp } /* contents: part[1] .. part[PARTS]; whose value it is */
typedef Slot { byte state; byte process; bool intent; Ref fresh; Ref old }

Block head[HEADS + 1];
Block part[PART_COUNT + 1];
Head head_body[HEADS + 1];
byte part_stamp[PART_COUNT + 1];
Ref object; /* the object word (see pin.pml) */
Slot slot[WRITERS];
byte running, values;

#define LISTED(h, g) (object.idx == h && object.gen == g)

inline cas_free(b, g)
{
    if
    :: b.state == LIVE && b.gen == g -> b.state = FREE; b.gen++
    :: else
    fi
}

/* Frees the value {h, g}. Uses k, seen, p, p_gen, checked; leaves them 0. */
inline deep_free(h, g)
{
    atomic {
        seen = head[h].state;
        k = 1;
        if
        :: head[h].gen != g || seen == FREE -> k = PARTS + 2
        :: else
        fi;
#ifdef LIVE_HEAD_ONLY
        if
        :: seen != LIVE -> k = PARTS + 2
        :: else
        fi;
#endif
#ifdef HEAD_FIRST
        if
        :: k == 1 -> cas_free(head[h], g)
        :: else
        fi;
#endif
    };
    do
    :: atomic {
        k <= PARTS && p == 0 ->
        p = head_body[h].part[k].idx;
        p_gen = head_body[h].part[k].gen;
        if
        :: p == 0 -> k++
        :: else
        fi
        }
    :: atomic {
        p != 0 && !checked ->
#if defined(NO_RECHECK) || defined(HEAD_FIRST)
        checked = true
#else
        if
        :: head[h].gen == g && head[h].state == seen -> checked = true
        :: else -> p = 0; p_gen = 0; k = PARTS + 2
        fi
#endif
        }
    :: atomic {
        checked ->
        cas_free(part[p], p_gen);
        checked = false;
        p = 0;
        p_gen = 0;
        k++
        }
    :: atomic { k == PARTS + 1 && p == 0 -> cas_free(head[h], g); k = 0; seen = 0; break }
    :: atomic { k == PARTS + 2 -> k = 0; seen = 0; break }
    od
}

proctype Writer(byte me)
{
    byte h, h_gen, old, old_gen, k, seen, p, p_gen, stamp, ops;
    Ref mine[PARTS + 1];
    bool checked;

    {
        k = 1;

take:   /* the parts, then the head; a full heap is an error: the sweep would find what was taken (here: give it back) */
        do
        :: atomic {
            k <= PARTS ->
            if
            :: ops == OPS -> goto release
            :: else
            fi;
            p = 1;
            do
            :: p <= PART_COUNT && part[p].state != FREE -> p++
            :: else -> break
            od;
            if
            :: p > PART_COUNT -> goto give_back
            :: else
            fi;
            part[p].state = OWNED;
            part[p].slot = me;
            mine[k].idx = p;
            mine[k].gen = part[p].gen;
            p = 0;
            k++
            }
        :: atomic {
            k == PARTS + 1 ->
            h = 1;
            do
            :: h <= HEADS && head[h].state != FREE -> h++
            :: else -> break
            od;
            if
            :: h > HEADS -> h = 0; goto give_back
            :: else
            fi;
            head[h].state = OWNED;
            head[h].slot = me;
            h_gen = head[h].gen;
            k = 1;
            break
            }
        od;
        /* fill: the parts are nobody else's yet, so one step; the head's words one by one */
        atomic { values++; stamp = values };
        do
        :: atomic { k <= PARTS -> part_stamp[mine[k].idx] = stamp; k++ }
        :: atomic { k == PARTS + 1 -> head_body[h].stamp = stamp; k = 1; break }
        od;
        do
        :: atomic {
            k <= PARTS ->
            head_body[h].part[k].idx = mine[k].idx;
            head_body[h].part[k].gen = mine[k].gen;
            k++
            }
        :: atomic { k == PARTS + 1 -> k = 1; break }
        od;

again:
        atomic { old = object.idx; old_gen = object.gen };
        atomic {
            slot[me].fresh.idx = h; slot[me].fresh.gen = h_gen;
            slot[me].old.idx = old; slot[me].old.gen = old_gen;
            slot[me].intent = true;
            if
            :: head[h].state == LIVE -> goto commit
            :: else
            fi
        };
        do
        :: atomic {
            k <= PARTS ->
            assert(part[mine[k].idx].state == OWNED && part[mine[k].idx].gen == mine[k].gen);
            part[mine[k].idx].state = LIVE;
            k++
            }
        :: atomic {
            k == PARTS + 1 ->
            assert(head[h].state == OWNED && head[h].gen == h_gen);
            head[h].state = LIVE;
            k = 0;
            break
            }
        od;

commit:
        atomic {
            if
            :: LISTED(old, old_gen) ->
                object.idx = h;
                object.gen = h_gen;
                assert(head[h].state == LIVE && head[h].gen == h_gen);
                assert(part[mine[1].idx].state == LIVE && part[mine[1].idx].gen == mine[1].gen)
            :: else -> goto again
            fi
        };
        deep_free(old, old_gen);
        atomic { slot[me].intent = false; ops++; k = 1; goto take };

give_back:
        do
        :: atomic { k > 1 -> k--; part[mine[k].idx].state = FREE; part[mine[k].idx].gen++ }
        :: else -> break
        od;

release:
        atomic { slot[me].state = EMPTY }
    } UNTIL_KILLED(me);
    atomic {
        h = 0; h_gen = 0; old = 0; old_gen = 0; k = 0; seen = 0; p = 0; p_gen = 0; ops = 0; stamp = 0; checked = false;
        mine[1].idx = 0; mine[1].gen = 0; mine[PARTS].idx = 0; mine[PARTS].gen = 0;
        running--
    }
}

/* A reader: any moment of the histories above. */
#ifdef READER
proctype Reader()
{
    byte h, h_gen, k, stamp;
    bool torn;
    Ref r;

again:
    atomic { h = object.idx; h_gen = object.gen };
    atomic { stamp = head_body[h].stamp; k = 1 };
    do
    :: k <= PARTS ->
        atomic { r.idx = head_body[h].part[k].idx };
        atomic { torn = torn || r.idx == 0 || part_stamp[r.idx] != stamp; k++ }
    :: else -> break
    od;
    atomic {
#ifdef HEAD_WORD_ONLY
        if
        :: head[h].state == LIVE && head[h].gen == h_gen -> assert(!torn)
        :: else
        fi
#else
        if
        :: LISTED(h, h_gen) -> assert(!torn)
        :: else
        fi
#endif
    }
}
#endif

/* What a scavenger does for one slot, by `todo`. SWEEP_FIRST exchanges two of the steps. */
#ifdef SWEEP_FIRST
#define SWEEP 2
#define FRESH 3
#define OLD   4
#else
#define FRESH 2
#define OLD   3
#define SWEEP 4
#endif

proctype Scavenger(bool awaited; byte s)
{
    byte b, g, k, seen, p, p_gen, todo;
    bool checked;

    do
    :: atomic {
        s < WRITERS && todo == 0 ->
        if
        :: slot[s].state == DEAD -> todo = 1
        :: slot[s].state == LIVE && killed[slot[s].process] -> todo = 1
        :: else -> s++
        fi
        }
    :: atomic {
        todo == 1 ->
        if
        :: slot[s].state == LIVE -> slot[s].state = DEAD
        :: else
        fi;
        todo = 2
        }
    :: (todo == FRESH || todo == OLD) ->
        atomic {
            if
            :: slot[s].intent && todo == FRESH -> b = slot[s].fresh.idx; g = slot[s].fresh.gen
            :: slot[s].intent && todo == OLD -> b = slot[s].old.idx; g = slot[s].old.gen
            :: else
            fi
        };
        if
        :: atomic { b == 0 || slot[s].state != DEAD || LISTED(b, g) -> b = 0; g = 0 }
        :: else -> deep_free(b, g)
        fi;
        atomic { b = 0; g = 0; todo++ }
    :: atomic { todo == SWEEP -> b = 1 };
        do
        :: atomic {
            b <= PART_COUNT ->
            if
            :: part[b].state == OWNED && part[b].slot == s -> part[b].state = FREE; part[b].gen++
            :: else
            fi;
            b++
            }
        :: atomic {
            b > PART_COUNT && b <= PART_COUNT + HEADS ->
            if
            :: head[b - PART_COUNT].state == OWNED && head[b - PART_COUNT].slot == s ->
                head[b - PART_COUNT].state = FREE; head[b - PART_COUNT].gen++
            :: else
            fi;
            b++
            }
        :: atomic { b > PART_COUNT + HEADS -> b = 0; todo++; break }
        od
    :: atomic {
        todo == 5 ->
        if
        :: slot[s].state == DEAD -> slot[s].state = EMPTY
        :: else
        fi;
        todo = 0;
        s++
        }
    :: atomic { s == WRITERS && todo == 0 -> s = 0; break }
    od;
    atomic {
        if
        :: awaited -> running--
        :: else
        fi
    }
}

/* The listed value is whole at every moment. */
active proctype Monitor()
{
end:
    atomic {
        object.idx != 0 && (head[object.idx].state != LIVE || head[object.idx].gen != object.gen ||
            part[head_body[object.idx].part[1].idx].state != LIVE) -> assert(false)
    }
}

init {
    byte n, k;

    atomic {
        k = 1;
        do
        :: k <= PARTS ->
            part[k].state = LIVE;
            part_stamp[k] = 1;
            head_body[1].part[k].idx = k;
            k++
        :: else -> break
        od;
        head_body[1].stamp = 1;
        values = 1;
        head[1].state = LIVE;
        object.idx = 1;
        running = WRITERS;
        slot[0].state = LIVE; slot[0].process = 0;
        run Writer(0);
#if WRITERS > 1
        slot[1].state = LIVE; slot[1].process = 1;
        run Writer(1);
#endif
#ifdef READER
        run Reader();
#endif
        run Killer();
        run Scavenger(false, 0) /* nobody waits for it */
    };
    atomic { running == 0 -> running++; run Scavenger(true, 0) };
    atomic {
        running == 0 ->
        n = 1;
        do
        :: n <= HEADS -> assert((n == object.idx) == (head[n].state != FREE)); n++
        :: else -> break
        od;
        n = 1;
        do
        :: n <= PART_COUNT ->
            assert((n == head_body[object.idx].part[1].idx || n == head_body[object.idx].part[PARTS].idx) ==
                (part[n].state != FREE));
            n++
        :: else -> break
        od
    }
}
