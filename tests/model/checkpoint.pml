/*
 * checkpoint.pml: the newest whole generation of all ranks, one word, and ranks that are killed and replaced.
 *
 * Stands for: src/checkpoint/head.c, save.c (begin, commit), mu_checkpoint_await() and head_take() in checkpoint.c.
 *
 * Each rank has two parts and a row; `whole` is {count of withdrawals, generation}.
 *   save:      wait until the last generation is whole; g is the next; tear the part of g - 2, write it, row = g; settle.
 *   settle:    read whole, then the rows, one after the other; all done with the next: CAS.
 *   waiting:   settles again whenever it looks (each 100 ms): so it goes on when whole has moved, or settling moves it. A
 *              successor settles as well, so a dead one's last row is counted by both.
 *   open:      settle; read whole; a row beyond it is set back; then the count moves by CAS, and the generation that is
 *              in the word then is what the new process loads, and goes on from.
 *   death:     of a rank's first process at any step; its successor opens.
 *
 * Proved: the parts of the generation that `whole` names are whole, always; a generation that is committed has no part
 * of a process whose successor went back behind it; nobody is left waiting.
 *
 * The protocol:
 * RUN short ok     -                     : two generations; one of the ranks dies
 * RUN full  ok     -DLAST_GENERATION=3   : three
 * RUN full  ok     -DDEATHS=2            : both ranks may die
 * One rule dropped:
 * RUN short assert -DNO_WITHDRAWAL       : a row of a dead process stays as it is
 * RUN short assert -DNO_COUNT            : the row is set back, and the word does not move
 * RUN short assert -DCOUNT_FIRST         : the word moves before the row is set back
 * RUN short assert -DBEGIN_EARLY -DLAST_GENERATION=3 : a rank begins before its last generation is whole
 * RUN short assert -DROW_FIRST           : the row is written before the part
 */
#ifndef RANKS
#define RANKS 2
#endif
#ifndef LAST_GENERATION
#define LAST_GENERATION 2
#endif
#define VICTIMS RANKS
#include "kill.pml"

byte whole, count;
byte done[RANKS];
byte part[RANKS * 2];  /* the generation that lies there; 0: torn */
byte saver[RANKS * 2]; /* the life that wrote it */
byte life[RANKS];      /* that has opened */
byte behind[RANKS];    /* where it went on */

#define AT(rank, generation) ((rank) * 2 + (generation) % 2)
#define ALL_DONE(generation) (done[0] >= (generation) && done[1] >= (generation) && (RANKS < 3 || done[RANKS - 1] >= (generation)))

/* The parts of a generation: by no process whose successor knows nothing of them. */
inline check(rank, generation)
{
    assert(part[AT(rank, generation)] == generation);
    assert(saver[AT(rank, generation)] == life[rank] || generation <= behind[rank])
}

inline settle()
{
    do
    :: d_step { seen = whole; seen_count = count; i = 0 }
        do
        :: i < RANKS && done[i] >= seen + 1 -> i++
        :: else -> break
        od;
        if
        :: i < RANKS -> break
        :: else ->
            d_step {
                if
                :: whole == seen && count == seen_count ->
                    whole = seen + 1;
                    check(0, whole); check(1, whole); check(RANKS - 1, whole)
                :: else
                fi;
                i = 0
            }
        fi
    od;
    i = 0
}

inline withdraw_row()
{
#ifdef NO_WITHDRAWAL
    skip
#else
    if
    :: done[me] > seen -> done[me] = seen
    :: else
    fi
#endif
}

inline move_count()
{
    /* the CAS, made again until it succeeds: what it finds is where this process goes on */
    atomic {
#ifndef NO_COUNT
        count++;
#endif
        mine = whole; life[me] = now_life; behind[me] = whole
    }
}

/* From the opening to the last generation. */
inline live()
{
    settle();
    seen = whole;
#ifdef COUNT_FIRST
    move_count();
    withdraw_row();
#else
    withdraw_row();
    move_count();
#endif
    do
    :: mine < LAST_GENERATION ->
        /* no look settles in vain: the next one does */
#ifdef BEGIN_EARLY
        g = mine + 1;
#else
        (whole >= mine || ALL_DONE(whole + 1));
        settle();
        if :: whole < mine -> goto again :: else fi;
        g = whole + 1;
#endif
#ifdef ROW_FIRST
        done[me] = g;
#endif
        /* what a load sees at any moment is never torn */
        d_step { assert(whole == 0 || AT(me, g) != AT(me, whole)); part[AT(me, g)] = 0 };
        d_step { part[AT(me, g)] = g; saver[AT(me, g)] = now_life };
        done[me] = g;
        settle();
        mine = g;
again:  skip
    :: else -> break
    od;
    do
    :: whole >= mine -> break
    :: whole < mine && ALL_DONE(whole + 1) -> settle()
    od
}

proctype First(byte me)
{
    byte seen, seen_count, i, g, mine, now_life = 1;

    { live() } UNTIL_KILLED(me);
    if
    :: killed[me] -> run Second(me)
    :: else
    fi
}

proctype Second(byte me)
{
    byte seen, seen_count, i, g, mine, now_life = 2;

    live()
}

init
{
    atomic {
        run First(0);
        run First(1);
#if RANKS > 2
        run First(2);
#endif
        run Killer()
    }
}
