/*
 * checkpoint_hosts.pml: checkpoints of a job of two hosts: rows that agents tell each other, and the job started again.
 *
 * Stands for: src/checkpoint/hosts.c, src/agent/hosts/checkpoints.c and stay.c. Settling on one host is checkpoint.pml's.
 *
 * Host 0 leads. Each host has one rank, and a head with a row for both; the rank writes its own row, the agent the other
 * one, as it hears it. Talk between the agents is in order.
 *   rank:      wait until the generation that it has saved is whole on its host; tear the part of the one before that,
 *              write it, its row; settle. It may be killed at any step; then its agent ends the other one.
 *   agent:     tells a row that has changed; hears: writes the row, settles.
 *   the end:   no rank lives: each follower looks once more, tells, then says DONE. The leader has heard that: its head
 *              has the job's newest, which both take over; what is beyond it counts no more. The second attempt loads
 *              that and goes on.
 *
 * Proved: what a rank found whole, on any host, is not lost by the restart; both parts of what the restart finds are
 * whole and of one generation; in the second attempt both come to the last generation.
 *
 * The protocol:
 * RUN short ok     -                     : three generations; a rank dies at any step, or none
 * RUN full  ok     -DLAST_GENERATION=4   : four
 * One rule dropped:
 * RUN short stuck  -DNO_LAST_LOOK        : a row whose rank has not rung is not told before DONE
 * RUN short assert -DOWN_WORD            : a follower goes on from what its own head says
 * RUN full  assert -DNO_REWIND           : rows beyond the newest stay as they are
 * RUN full  assert -DBEGIN_EARLY         : a rank begins before its last generation is whole
 */
#ifndef LAST_GENERATION
#define LAST_GENERATION 3
#endif
#define HOSTS 2

byte done[HOSTS * HOSTS]; /* host * HOSTS + rank */
byte whole[HOSTS];
byte part[HOSTS * 2]; /* rank * 2 + generation % 2: what lies there; 0: torn */
byte told[HOSTS];     /* the row of the host's own rank */
byte found;           /* the newest generation that a rank has found whole */
bool ended[HOSTS], failed, is_over;
byte attempt;
chan talk0 = [4] of { byte }; /* to the leader; 255: DONE */
chan talk1 = [4] of { byte };

#define DONE 255
#define ROW(host, rank)       done[(host) * HOSTS + (rank)]
#define PART(rank, generation) part[(rank) * 2 + (generation) % 2]
#define ALL_DONE(host) (ROW(host, 0) > whole[host] && ROW(host, 1) > whole[host])

inline settle(host)
{
    atomic {
        do
        :: ALL_DONE(host) ->
            whole[host] = whole[host] + 1;
            assert(PART(0, whole[host]) == whole[host] && PART(1, whole[host]) == whole[host])
        :: else -> break
        od
    }
}

proctype Rank(byte me)
{
    byte mine = whole[me], g;

    do
    :: mine < LAST_GENERATION ->
#ifndef BEGIN_EARLY
        if
        :: whole[me] >= mine
        :: attempt == 1 && failed -> goto over
        fi;
#endif
        atomic {
            if
            :: whole[me] > found -> found = whole[me]
            :: else
            fi
        };
        g = mine + 1;
        PART(me, g) = 0;
        if
        :: attempt == 1 -> failed = true; goto over
        :: true
        fi;
        PART(me, g) = g;
        ROW(me, me) = g;
        if
        :: attempt == 1 -> failed = true; goto over
        :: true
        fi;
        settle(me);
        mine = g
    :: else -> break
    od;
    if
    :: whole[me] >= mine
    :: attempt == 1 && failed
    fi;
over:
    ended[me] = true
}

inline tell(host)
{
    atomic {
        if
        :: host == 0 && told[0] != ROW(0, 0) && len(talk1) < 4 -> told[0] = ROW(0, 0); talk1!told[0]
        :: host == 1 && told[1] != ROW(1, 1) && len(talk0) < 4 -> told[1] = ROW(1, 1); talk0!told[1]
        :: else
        fi
    }
}

proctype Leader()
{
    byte row;

    do
    :: told[0] != ROW(0, 0) && len(talk1) < 4 -> settle(0); tell(0)
    :: talk0?row ->
        if
        :: row == DONE -> break
        :: else -> ROW(0, 1) = row; settle(0); tell(0)
        fi
    od;
    ended[0];
    settle(0);
    is_over = true
}

proctype Follower()
{
    byte row;

    do
    :: !ended[1] && told[1] != ROW(1, 1) && len(talk0) < 4 -> tell(1)
    :: talk1?row -> ROW(1, 0) = row; settle(1)
    :: ended[1] -> break
    od;
#ifndef NO_LAST_LOOK
    if
    :: told[1] != ROW(1, 1) -> told[1] = ROW(1, 1); talk0!told[1]
    :: else
    fi;
#endif
    talk0!DONE;
    do
    :: talk1?row -> ROW(1, 0) = row; settle(1)
    :: is_over && len(talk1) == 0 -> break
    od
}

inline run_attempt()
{
    atomic {
        attempt++; ended[0] = false; ended[1] = false; is_over = false; told[0] = 0; told[1] = 0;
        run Leader(); run Follower(); run Rank(0); run Rank(1)
    };
    _nr_pr == 1
}

init
{
    byte newest;

    run_attempt();
    atomic {
        newest = whole[0];
        assert(newest >= found);
#ifndef OWN_WORD
        whole[1] = newest;
#endif
#ifndef NO_REWIND
        ROW(0, 0) = newest; ROW(0, 1) = newest; ROW(1, 0) = newest; ROW(1, 1) = newest;
#endif
        assert(whole[0] == whole[1]);
        assert(newest == 0 || (PART(0, newest) == newest && PART(1, newest) == newest))
    };
    run_attempt();
    assert(whole[0] == LAST_GENERATION && whole[1] == LAST_GENERATION)
}
