/*
 * value.pml: a bucket: one object word, a page that lists the values of two keys, and readers.
 *
 * Stands for: src/segment/edit.c (an edit keeps its neighbours' references), mu_txn_commit() in src/segment/object.c,
 * mu_object_reaches(), intent_undo() in src/segment/scavenge.c, and the unpinned read of src/segment/table.c.
 *
 * The object word {idx, tag} names a page {value of key 0, value of key 1}; a value is in use if and only if the current
 * page lists it. Writer d sets key d again and again: copy the page, put the new value in, commit; then free the old page
 * and the old value. Its intent names new and old page, new and old value. Deleting a key is the same with no new value.
 *   read old:  the old page's generation comes from its block word, read before the last look at the object's word.
 *   scavenger: frees what the intent names and the object does not reach: reads word, page, and the word again.
 *   reader:    finds the value's reference in the page; looks at the bucket's word again (so the reference is the page's);
 *              copies; looks at the value's own block word: LIVE at that generation.
 *
 * Proved: no value or page of the committed state is ever free, no private block is taken away, no reader accepts a value
 * that is torn or was never committed, and when all is done exactly what the object reaches is not free.
 *
 * The protocol:
 * RUN full  ok     -                                       : two writers, one set each, one death
 * RUN full  ok     -DDEATHS=2                              : two writers, one set each, two deaths
 * RUN full  ok     -DOPS=2                                 : two writers, two sets each, one death
 * RUN short ok     -DDELETE                                : one of them deletes; one death
 * RUN full  ok     -DREADER                                : and a reader; one death
 * One rule dropped:
 * RUN short assert -DNO_OLD_VALUE                          : the intent does not name the old value
 * RUN full  assert -DOPS=2 -DREACH_ONCE                    : the scavenger does not look at the object's word again after it read the page
 * RUN short assert -DWORD_ONLY                             : a value counts as unreached when the object's word does not name it
 * RUN short assert -DREADER -DOPS=2 -DDEATHS=0 -DNO_GENERATION : the reader does not look at the value's block word again
 * RUN full  assert -DREADER -DOPS=2 -DDEATHS=0 -DBLIND_REFERENCE : the reader does not look at the bucket's word again
 */
#ifndef OPS
#define OPS 1
#endif
#define WRITERS 2
#define PAGES   3
#define VALUES  4
#define VICTIMS WRITERS
#include "kill.pml"

#define FREE  0
#define OWNED 1
#define LIVE  2
#define EMPTY 0
#define DEAD  3

typedef Ref { byte idx; byte gen }
typedef Block { byte state; byte gen; byte slot }
typedef Page { Ref key[2] }
typedef Slot { byte state; bool intent; Ref new_page; Ref new_value; Ref old_page; Ref old_value }

Block page[PAGES + 1];
Block value[VALUES + 1];
Page page_body[PAGES + 1];
byte first_half[VALUES + 1], second_half[VALUES + 1]; /* what a value holds: equal halves, unless torn */
byte idx, tag;                                        /* the object word */
Slot slot[WRITERS];
byte running;
byte committed[VALUES + 1];                           /* audit: generation + 1 of the last that was ever committed */

inline cas_free(b, g)
{
    if
    :: b.state == LIVE && b.gen == g -> b.state = FREE; b.gen++
    :: else
    fi
}

proctype Writer(byte me)
{
    byte v, v_gen, p, p_gen, o, o_gen, x, x_gen, t, ops, k, k_gen;

    {
        v = 0;

take:   /* a new value (none to delete), filled in two steps; a new page */
        atomic {
            if
            :: ops == OPS -> goto release
            :: else
            fi;
#ifdef DELETE
            if
            :: me == 1 -> goto take_page
            :: else
            fi;
#endif
            v = 1;
            do
            :: v <= VALUES && value[v].state != FREE -> v++
            :: else -> break
            od;
            if
            :: v > VALUES -> v = 0; goto release
            :: else
            fi;
            value[v].state = OWNED;
            value[v].slot = me;
            v_gen = value[v].gen
        };
#ifdef READER
        first_half[v] = v_gen + 1;
        second_half[v] = v_gen + 1;
#endif

take_page:
        atomic {
            p = 1;
            do
            :: p <= PAGES && page[p].state != FREE -> p++
            :: else -> break
            od;
            if
            :: p > PAGES && v != 0 -> value[v].state = FREE; value[v].gen++; goto release
            :: p > PAGES && v == 0 -> goto release
            :: else
            fi;
            page[p].state = OWNED;
            page[p].slot = me;
            p_gen = page[p].gen
        };

again:
        atomic { o = idx; t = tag };
        /* the copy, in one step: it counts only if the word is the same at the commit */
        atomic {
            x = page_body[o].key[me].idx; x_gen = page_body[o].key[me].gen;
            k = page_body[o].key[1 - me].idx; k_gen = page_body[o].key[1 - me].gen
        };
        o_gen = page[o].gen;
        atomic {
            if
            :: idx != o || tag != t -> goto again
            :: else
            fi;
            assert(page[p].gen == p_gen && page[p].state != FREE);
            page_body[p].key[me].idx = v; page_body[p].key[me].gen = v_gen;
            page_body[p].key[1 - me].idx = 0
        };
        atomic {
            /* the page is filled in two steps: who still looks at its last life may see half of this one */
            page_body[p].key[1 - me].idx = k; page_body[p].key[1 - me].gen = k_gen;
            k = 0; k_gen = 0;
            slot[me].new_page.idx = p; slot[me].new_page.gen = p_gen;
            slot[me].new_value.idx = v; slot[me].new_value.gen = v_gen
        };
        atomic {
            slot[me].old_page.idx = o; slot[me].old_page.gen = o_gen;
#ifndef NO_OLD_VALUE
            slot[me].old_value.idx = x; slot[me].old_value.gen = x_gen
#endif
        };
        slot[me].intent = true;
        atomic {
            if
            :: v != 0 && value[v].state == OWNED -> assert(value[v].gen == v_gen); value[v].state = LIVE
            :: else
            fi
        };
        atomic {
            if
            :: page[p].state == OWNED -> assert(page[p].gen == p_gen); page[p].state = LIVE
            :: else
            fi
        };
        atomic {
            /* the commit */
            if
            :: idx == o && tag == t ->
                assert(page[p].state == LIVE && page[p].gen == p_gen);
                assert(v == 0 || (value[v].state == LIVE && value[v].gen == v_gen));
                idx = p;
                tag++;
                committed[v] = v_gen + 1;
                t = 0
            :: else -> goto again
            fi
        };
        atomic { cas_free(page[o], o_gen); o = 0; o_gen = 0; p = 0; p_gen = 0 };
        atomic {
            if
            :: x != 0 -> cas_free(value[x], x_gen)
            :: else
            fi;
            x = 0; x_gen = 0; v = 0; v_gen = 0
        };
        atomic { slot[me].intent = false; ops++; goto take };

release:
        atomic { slot[me].state = EMPTY }
    } UNTIL_KILLED(me);
    atomic {
        v = 0; v_gen = 0; p = 0; p_gen = 0; o = 0; o_gen = 0; x = 0; x_gen = 0; t = 0; ops = 0; k = 0; k_gen = 0;
        running--
    }
}

#ifdef READER
proctype Reader()
{
    byte o, t, v, gen, first;
    bool torn;

again:
    atomic { o = idx; t = tag };
    atomic { v = page_body[o].key[0].idx; gen = page_body[o].key[0].gen };
#ifndef BLIND_REFERENCE
    atomic {
        if
        :: idx != o || tag != t -> goto again
        :: else
        fi
    };
#endif
    first = first_half[v];
    torn = (second_half[v] != first);
    atomic {
#ifdef NO_GENERATION
        assert(!torn);
#else
        if
        :: v != 0 && value[v].state == LIVE && value[v].gen == gen -> assert(!torn && first == gen + 1 && committed[v] == gen + 1)
        :: else
        fi;
#endif
        o = 0; t = 0; v = 0; gen = 0; first = 0; torn = false
    }
}
#endif

/* Sets `reached`: does the object's page list value {b, g}? */
inline reaches(b, g)
{
    do
    :: atomic { o = idx; t = tag };
        atomic {
            reached = (page_body[o].key[0].idx == b && page_body[o].key[0].gen == g) ||
                (page_body[o].key[1].idx == b && page_body[o].key[1].gen == g)
        };
        if
#ifdef REACH_ONCE
        :: true -> break
#else
        :: atomic { idx == o && tag == t -> break }
        :: else -> reached = false
#endif
        fi
    od;
    o = 0;
    t = 0
}

/* Settles slot after slot of the dead, `todo` by `todo`; may stop anywhere, for ever. */
proctype Scavenger(bool awaited; byte s)
{
    byte b, g, o, t, todo;
    bool reached;

    do
    :: atomic {
        s < WRITERS && todo == 0 ->
        if
        :: slot[s].state == DEAD || (slot[s].state == LIVE && killed[s]) -> slot[s].state = DEAD; todo = 1
        :: else -> s++
        fi
        }
    :: atomic {
        (todo == 1 || todo == 2) ->
        if
        :: !slot[s].intent -> b = 0; g = 0
        :: slot[s].intent && todo == 1 -> b = slot[s].new_page.idx; g = slot[s].new_page.gen
        :: slot[s].intent && todo == 2 -> b = slot[s].old_page.idx; g = slot[s].old_page.gen
        fi
        };
        atomic {
            if
            :: b != 0 && idx == b -> b = 0; g = 0 /* it is the current page, or a later one in its place */
            :: else
            fi
        };
        atomic {
            if
            :: b != 0 -> cas_free(page[b], g)
            :: else
            fi;
            b = 0; g = 0; todo++
        }
    :: atomic {
        (todo == 3 || todo == 4) ->
        if
        :: !slot[s].intent -> b = 0; g = 0
        :: slot[s].intent && todo == 3 -> b = slot[s].new_value.idx; g = slot[s].new_value.gen
        :: slot[s].intent && todo == 4 -> b = slot[s].old_value.idx; g = slot[s].old_value.gen
        fi
        };
        if
        :: b != 0 ->
#ifdef WORD_ONLY
            reached = (idx == b)
#else
            reaches(b, g)
#endif
        :: else
        fi;
        atomic {
            if
            :: b != 0 && !reached -> cas_free(value[b], g)
            :: else
            fi;
            b = 0; g = 0; reached = false; todo++
        }
    :: atomic {
        todo == 5 ->
        /* the sweep in one step: commit.pml has it block by block */
        b = 1;
        do
        :: b <= PAGES ->
            if
            :: page[b].state == OWNED && page[b].slot == s -> page[b].state = FREE; page[b].gen++
            :: else
            fi;
            b++
        :: else -> break
        od;
        b = 1;
        do
        :: b <= VALUES ->
            if
            :: value[b].state == OWNED && value[b].slot == s -> value[b].state = FREE; value[b].gen++
            :: else
            fi;
            b++
        :: else -> break
        od;
        b = 0;
        slot[s].state = EMPTY; /* no slot is used again here: see commit.pml */
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

/* The committed state is whole at every moment. */
active proctype Monitor()
{
end:
    atomic {
        idx != 0 && (page[idx].state != LIVE ||
            (page_body[idx].key[0].idx != 0 && value[page_body[idx].key[0].idx].state != LIVE) ||
            (page_body[idx].key[1].idx != 0 && value[page_body[idx].key[1].idx].state != LIVE)) -> assert(false)
    }
}

init {
    byte n;

    atomic {
        page[1].state = LIVE;
        page_body[1].key[0].idx = 1;
        page_body[1].key[1].idx = 2;
        value[1].state = LIVE; first_half[1] = 1; second_half[1] = 1; committed[1] = 1;
        value[2].state = LIVE; first_half[2] = 1; second_half[2] = 1; committed[2] = 1;
        idx = 1;
        running = WRITERS;
        slot[0].state = LIVE;
        slot[1].state = LIVE;
        run Writer(0);
        run Writer(1);
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
        :: n <= PAGES -> assert((n == idx) == (page[n].state != FREE)); n++
        :: else -> break
        od;
        n = 1;
        do
        :: n <= VALUES ->
            assert((n == page_body[idx].key[0].idx || n == page_body[idx].key[1].idx) == (value[n].state != FREE));
            n++
        :: else -> break
        od
    }
}
