/*
 * stream.pml: the stream barrier: GPUs that write and wait for themselves, and hosts that let them go when one is lost.
 *
 * Stands for: src/accel/stream_lines.c, and barrier_look() in src/accel/stream_watch.c.
 *
 * A member is a stream and a host. Its line has two words, used in turn for EPOCH rounds each; a word is {arrived,
 * released}.
 *   stream:  round n, number m in its epoch e: at m == RESET arrived of word e+1 := 0; arrived of word e := m; wait for
 *            word e of each other: released, or arrived >= m. It knows nothing of hosts: its own may be dead, and then
 *            it goes on, or stops at any step, for good. Behind a failure no more rounds may come: its queue ends.
 *   host:    finds a member lost, or the barrier failed. good := the least round that all have arrived at, read one after
 *            the other; failed := good by one CAS, if it was not set; then released := 1 in every word. May be killed at
 *            any step.
 * A member is lost because its host is killed or because it is in error; in error both its halves go on.
 * Two members; more are in tests/stream/stream_lines_test.c, under a seeded scheduler.
 * Proved: the streams of the living run empty; a round that some stream passed before all had arrived at it is later than
 * the number in `failed`, which is set by then and never changes.
 *
 * The protocol:
 * RUN short ok     -DROUNDS=13 -DLOSSES=0                   : two members through three epochs
 * RUN short ok     -DROUNDS=2 -DLOSSES=1                    : two members, one is lost
 * RUN full  ok     -DROUNDS=4 -DLOSSES=1                    : the same, for longer
 * RUN full  ok     -DROUNDS=3 -DLOSSES=1 -DFIRST=4          : across the end of an epoch
 * One rule dropped:
 * RUN short assert -DROUNDS=13 -DLOSSES=0 -DNO_RESET        : the other word is not set back
 * RUN short stuck  -DROUNDS=13 -DLOSSES=0 -DRESET=1         : it is set back while it may be waited on
 * RUN short stuck  -DROUNDS=4 -DLOSSES=1 -DONE_HALF         : a release is a large number in the low half
 * RUN short assert -DROUNDS=4 -DLOSSES=1 -DRELEASED_FIRST   : waits are opened, then good is read and told
 * RUN short assert -DROUNDS=3 -DLOSSES=2 -DTOLD_AGAIN       : a second host writes its own number
 * RUN short stuck  -DROUNDS=2 -DLOSSES=2 -DFINDER_ONLY      : who finds it failed leaves the rest to the first
 */
#define MEMBERS 2
#define EPOCH   4
#ifndef RESET
#define RESET 2
#endif
#ifndef FIRST
#define FIRST 1
#endif
#define LAST        (FIRST + ROUNDS - 1)
#define FAR         100
#define WORD(i, n)  ((i) * 2 + ((((n) - 1) / EPOCH) % 2))
#define OTHER(i, n) ((i) * 2 + (((((n) - 1) / EPOCH) + 1) % 2))
#define NUMBER(n)   ((((n) - 1) % EPOCH) + 1)

byte arrived[MEMBERS * 2];
bool released[MEMBERS * 2];
byte at[MEMBERS]; /* the round arrived at; what mu_stream_arrived() finds out from the words */
byte failed;      /* good + 1 */
byte early;       /* the first round that was passed too early; 0: none */
bool dead[MEMBERS], erring[MEMBERS];
byte losses;

#define ANY_LOST   (dead[0] || erring[0] || dead[1] || erring[1])
#define ALL_AT(n)  (at[0] >= n && at[1] >= n)

proctype Stream(byte me)
{
    byte n = FIRST, peer;

    do
    :: n > LAST -> break
    :: n <= LAST && (failed || erring[me]) -> break /* nothing more was enqueued */
    :: dead[me] -> goto stopped
    :: n <= LAST ->
#ifndef NO_RESET
        if
        :: NUMBER(n) == RESET ->
            atomic {
                if
                :: dead[me] -> goto stopped
                :: arrived[OTHER(me, n)] = 0
                fi
            }
        :: else
        fi;
#endif
        atomic {
            if
            :: dead[me] -> goto stopped
            :: arrived[WORD(me, n)] = NUMBER(n); at[me] = n
            fi
        };
        peer = (me + 1) % MEMBERS;
        do
        :: atomic { peer == me -> break }
        :: atomic {
            peer != me && (released[WORD(peer, n)] || arrived[WORD(peer, n)] >= NUMBER(n)) ->
            peer = (peer + 1) % MEMBERS
            }
        :: dead[me] -> goto stopped
        od;
        atomic {
            if
            :: ALL_AT(n)
            :: else ->
                assert(failed); /* who was let go by force sees it */
                if
                :: early == 0 || n < early -> early = n
                :: else
                fi;
                assert(early >= failed)
            fi;
            n++
        }
    od;
stopped:
    atomic { n = 0; peer = 0 }
}

proctype Host(byte me)
{
    byte good = 255, i;

end:
    if
    :: dead[me] -> goto out
    :: ANY_LOST
    :: failed
    fi;
#ifdef FINDER_ONLY
    if
    :: failed -> goto out
    :: else
    fi;
#endif
#ifdef RELEASED_FIRST
    i = 0;
    do
    :: atomic { !dead[me] && i < MEMBERS * 2 -> released[i] = true; i++ }
    :: atomic { i == MEMBERS * 2 -> i = 0; break }
    :: dead[me] -> goto out
    od;
#endif
    do
    :: atomic {
        !dead[me] && i < MEMBERS ->
        if
        :: at[i] < good -> good = at[i]
        :: else
        fi;
        i++
        }
    :: atomic { i == MEMBERS -> i = 0; break }
    :: dead[me] -> goto out
    od;
    atomic {
        if
        :: dead[me] -> goto out
#ifdef TOLD_AGAIN
        :: else -> failed = good + 1
#else
        :: !dead[me] && failed == 0 -> failed = good + 1
        :: !dead[me] && failed
#endif
        fi;
        /* what is told holds for all who have passed since */
        assert(early == 0 || early >= failed)
    };
    do
    :: atomic {
        !dead[me] && i < MEMBERS * 2 ->
#ifdef ONE_HALF
        arrived[i] = FAR;
#else
        released[i] = true;
#endif
        i++
        }
    :: atomic { i == MEMBERS * 2 -> break }
    :: dead[me] -> goto out
    od;
out:
    atomic { good = 0; i = 0 }
}

proctype Fate()
{
end:
    do
    :: losses < LOSSES ->
        atomic {
            if
            :: !dead[0] -> dead[0] = true
            :: !dead[1] -> dead[1] = true
            :: !erring[0] -> erring[0] = true
            fi;
            losses++
        }
    :: losses == LOSSES -> break
    od
}

init {
    byte i;

    atomic {
        for (i : 0 .. MEMBERS - 1) {
            at[i] = FIRST - 1;
#if FIRST > 1
            arrived[WORD(i, FIRST - 1)] = NUMBER(FIRST - 1);
#endif
        };
        i = 0;
        for (i : 0 .. MEMBERS - 1) {
            run Stream(i);
            run Host(i)
        };
        run Fate();
        i = 0
    }
}
