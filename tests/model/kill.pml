/*
 * kill.pml: what a death is, in every model here.
 *
 * A process is killed between any two of its steps: the body of its proctype ends with `UNTIL_KILLED(me)`, and from the
 * moment the Killer sets killed[me] it takes no further step of that body. What is inside one atomic{} is one step: it
 * stands for at most one access to shared memory (a load, a store, a compare-and-swap), or for several to memory that
 * nobody else can reach. A blocked process can be killed too.
 *
 * A model defines VICTIMS, the number of processes that may be killed (they are numbered from 0), and DEATHS, how many
 * of them at most die in one history; VICTIM=n narrows it to process n, FIRST=n and LAST=n to those
 * between. The Killer may stop early, so a history in which nobody dies is always one of those examined: a process
 * that waits for a death that never comes is reported as stuck.
 *
 * A process stopped by SIGSTOP needs nothing of its own: the exploration already lets any process rest between two
 * steps for as long as everybody else has something to do.
 */
#ifndef DEATHS
#define DEATHS 1
#endif

#ifdef VICTIM
#define MAY_DIE(p) (p == VICTIM && !killed[p])
#elif defined FIRST
#define MAY_DIE(p) (p >= FIRST && p <= LAST && !killed[p])
#else
#define MAY_DIE(p) (!killed[p])
#endif

bool killed[VICTIMS + 1]; /* one more, for a process that lives on */

#define UNTIL_KILLED(me) unless { killed[me] }

proctype Killer()
{
    byte deaths = 0;

    do
    :: deaths < DEATHS ->
        if
        :: break
        :: atomic { MAY_DIE(0) -> killed[0] = true; deaths++ }
#if VICTIMS > 1
        :: atomic { MAY_DIE(1) -> killed[1] = true; deaths++ }
#endif
#if VICTIMS > 2
        :: atomic { MAY_DIE(2) -> killed[2] = true; deaths++ }
#endif
#if VICTIMS > 3
        :: atomic { MAY_DIE(3) -> killed[3] = true; deaths++ }
#endif
#if VICTIMS > 4
        :: atomic { MAY_DIE(4) -> killed[4] = true; deaths++ }
#endif
        fi
    :: else -> break
    od
}
