/*
 * extent.pml: runs of an arena's units, each owned by a block, and free when the block is.
 *
 * Stands for: src/segment/arena.c (mu_arena_take()) on src/segment/heap.c, and owned_sweep() in src/segment/scavenge.c.
 *
 * A unit's word is 0 or names a block at one generation; a bit beside it says that the unit's pages are there. A unit is
 * free if its word is 0 or its block is at another generation by now. An allocator
 *   takes a block (OWNED, generation g);
 *   claims the units of a run upward: loads the word, loads its block's word, and by CAS of the very word: {block, g}, the
 *   bit as it was; where it fails it puts 0 and the bit into what it has claimed, and tries another run;
 *   has the pages made that the bits do not vouch for, then sets the bits;
 *   makes the block LIVE, uses the units, and frees the block: generation g + 1. No unit's word is touched.
 * Whoever cleans up after the dead frees its blocks, and nothing else.
 *
 * Proved: no unit is claimed while a living block has it; its word stays until that block is freed; no unit is used
 * without pages; at the end all units are free.
 *
 * The protocol:
 * RUN short ok     -DDEATHS=1                : two allocators, runs of two of three units, one death
 * RUN full  ok     -DDEATHS=1 -DROUNDS=2     : each allocates twice
 * RUN full  ok     -DDEATHS=0 -DALLOCATORS=3 : three allocators
 * One rule dropped:
 * RUN short assert -DDEATHS=0 -DROUNDS=2 -DNO_GENERATION : the word names the block alone
 * RUN short assert -DDEATHS=0 -DNO_CAS                   : a unit that was found free is claimed by a store
 * RUN short assert -DDEATHS=0 -DCLAIM_EARLY              : units are claimed for a block that is not taken yet
 * RUN short assert -DDEATHS=0 -DPUT_BACK_ALL             : the whole run is put back, also what another has
 * RUN short assert -DDEATHS=1 -DROUNDS=2 -DBIT_EARLY     : the bit is set before the pages are there
 */
#ifndef ALLOCATORS
#define ALLOCATORS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#define VICTIMS ALLOCATORS
#include "kill.pml"

#define UNITS  3
#define RUN    2
#define BLOCKS ALLOCATORS

#define FREE  0
#define OWNED 1
#define LIVE  2

#define BIT        128
#define GENERATIONS 16
#ifdef NO_GENERATION
#define NAME(b, g) (1 + (b))
#define BLOCK(w)   (((w) & 127) - 1)
#define STALE(w)   (state[BLOCK(w)] == FREE || BLOCK(w) == b)
#else
#define NAME(b, g) (1 + (b) * GENERATIONS + (g))
#define BLOCK(w)   ((((w) & 127) - 1) / GENERATIONS)
#ifdef CLAIM_EARLY
#define STALE(w)   (generation[BLOCK(w)] != (((w) & 127) - 1) % GENERATIONS || state[BLOCK(w)] == FREE)
#else
#define STALE(w)   (generation[BLOCK(w)] != (((w) & 127) - 1) % GENERATIONS)
#endif
#endif

byte word[UNITS];
bool pages[UNITS];
byte state[BLOCKS], generation[BLOCKS], owner[BLOCKS];
byte running = ALLOCATORS;

/* For the proof alone: which block has the unit, + 1, and at which generation. */
byte has[UNITS], has_generation[UNITS];
#define HELD(u) (has[u] && state[has[u] - 1] != FREE && generation[has[u] - 1] == has_generation[u])
#define OURS(u) (has[u] == b + 1 && has_generation[u] == g && (word[u] & 127) == NAME(b, g))

inline block_choose()
{
    if
    :: state[0] == FREE -> b = 0
    :: state[1] == FREE -> b = 1
#if BLOCKS > 2
    :: state[2] == FREE -> b = 2
#endif
    fi;
    g = generation[b]
}

/* Claim unit u; `won` says whether. */
inline unit_claim()
{
    atomic { seen = word[u]; won = false };
    atomic { won = ((seen & 127) == 0 || STALE(seen)) };
    if
    :: won ->
        atomic {
            if
#ifndef NO_CAS
            :: word[u] != seen -> won = false
            :: else ->
#else
            :: true ->
#endif
                assert(!HELD(u));
                word[u] = NAME(b, g) | (seen & BIT);
                has[u] = b + 1;
                has_generation[u] = g
            fi
        }
    :: else
    fi;
    atomic { seen = 0 }
}

inline run_put_back()
{
#ifdef PUT_BACK_ALL
    end = start + RUN;
#else
    end = u;
#endif
    u = start;
    do
    :: u < end -> atomic { word[u] = word[u] & BIT; has[u] = 0; u++ }
    :: else -> break
    od;
    end = 0
}

inline run_back()
{
    do
    :: u < start + RUN ->
        if
        :: word[u] & BIT
#ifdef BIT_EARLY
        :: else -> word[u] = word[u] | BIT; pages[u] = true
#else
        :: else -> pages[u] = true; word[u] = word[u] | BIT
#endif
        fi;
        u++
    :: else -> break
    od
}

inline run_use()
{
    do
    :: u < start + RUN -> atomic { assert(OURS(u) && pages[u]); u++ }
    :: else -> break
    od
}

proctype Allocator(byte me)
{
    byte b, g, u, start, end, seen, rounds;
    bool won;
    {
        do
        :: rounds < ROUNDS ->
#ifdef CLAIM_EARLY
            atomic { block_choose() };
#else
            atomic { block_choose(); state[b] = OWNED; owner[b] = me };
#endif
            if
            :: start = 0
            :: start = 1
            fi;
            atomic { u = start; won = true };
            do
            :: won && u < start + RUN ->
                unit_claim();
                if
                :: won -> u++
                :: else
                fi
            :: else -> break
            od;
#ifdef CLAIM_EARLY
            atomic {
                if
                :: won && state[b] == FREE && generation[b] == g -> state[b] = OWNED; owner[b] = me
                :: else -> won = false
                fi
            };
#endif
            if
            :: won ->
                atomic { u = start };
                run_back();
                state[b] = LIVE;
                atomic { u = start };
                run_use();
                atomic { u = start };
                run_use() /* still */
            :: else -> run_put_back()
            fi;
            atomic {
                if
                :: state[b] != FREE && owner[b] == me && generation[b] == g -> generation[b]++; state[b] = FREE
                :: else
                fi;
                b = 0; g = 0; u = 0; start = 0; won = false; rounds++
            }
        :: else -> break
        od
    } UNTIL_KILLED(me);
    running--
}

/* Cleans up after the dead at any time, and at the end. */
proctype Janitor()
{
    byte b;

    do
    :: atomic { state[0] != FREE && killed[owner[0]] -> generation[0]++; state[0] = FREE }
    :: atomic { state[1] != FREE && killed[owner[1]] -> generation[1]++; state[1] = FREE }
#if BLOCKS > 2
    :: atomic { state[2] != FREE && killed[owner[2]] -> generation[2]++; state[2] = FREE }
#endif
    :: atomic { running == 0 && state[0] == FREE && state[1] == FREE && state[BLOCKS - 1] == FREE -> break }
    od;
    atomic {
        assert((word[0] & 127) == 0 || STALE(word[0]));
        assert((word[1] & 127) == 0 || STALE(word[1]));
        assert((word[2] & 127) == 0 || STALE(word[2]))
    }
}

init
{
    atomic {
        run Allocator(0);
        run Allocator(1);
#if ALLOCATORS > 2
        run Allocator(2);
#endif
        run Janitor();
        run Killer()
    }
}
