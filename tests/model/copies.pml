/*
 * copies.pml: keys on the leader, copies of them on a follower: who learns of a write sees all that came before it (I10).
 *
 * Stands for: src/bridge/kv/copies.c (take_changes, look_again), src/bridge/kv/replica.c (take_batch, mu_replica_up), mu_core_turn() in src/bridge/core/core.c (what goes ahead
 * of what), and the reads of src/kv/read.c on a follower.
 *
 * Key 0 is data, key 1 a flag that is set after it. The leader's agent knows, for each key that the follower asked for,
 * the bucket word that it looked at last. One turn of it:
 *   decide:       what is to be said: the answer to a call, a release that its own tasks have earned, or nothing.
 *   collect:      of each key whose bucket word is not the one seen last, note the word, then take the value.
 *   second look:  if there is anything, look at all words again; what has changed meanwhile goes as GONE, without value.
 *   send:         the batch, and behind it what was decided.
 * The follower's agent deletes all copies that the batch names, then installs the values; a batch of one value is
 * written over the old one. Then it takes what comes behind. When it gets a new connection it deletes all its copies
 * first; the leader begins that connection with no interest. A reader takes the copy, or, where there is none, asks.
 * The connection may break, and the follower's agent be killed, between any two steps, in the middle of a batch too.
 *
 * Proved: a reader who has seen the flag, or the release that follows the data, or the answer to its own write, reads the new data.
 *
 * The protocol:
 * RUN full  ok     -DBREAKS=0 -DKILLS=0                    : two writes, a release, four reads
 * RUN full  ok     -DBREAKS=2 -DKILLS=0                    : two broken connections
 * RUN full  ok     -DBREAKS=1 -DKILLS=1                    : one, and the agent is killed once
 * RUN short ok     -DBREAKS=1 -DKILLS=0 -DOWN_WRITE        : the data is written by the reader, through a call
 * RUN full  ok     -DBREAKS=1 -DKILLS=1 -DOWN_WRITE        : likewise, and the agent is killed once
 * One rule dropped:
 * RUN short assert -DBREAKS=0 -DKILLS=0 -DONE_BY_ONE       : values are installed without deleting the batch's keys first
 * RUN short assert -DBREAKS=0 -DKILLS=0 -DNO_SECOND_LOOK   : what changed while values were taken is not looked for
 * RUN full  assert -DBREAKS=0 -DKILLS=0 -DLOOK_AT_TAKEN    : the second look is at the keys taken, not at all
 * RUN full  assert -DBREAKS=0 -DKILLS=0 -DCOLLECT_FIRST    : collected first, then decided what goes behind
 * RUN full  assert -DBREAKS=0 -DKILLS=0 -DBATCH_LAST       : the batch goes behind what was decided
 * RUN full  assert -DBREAKS=0 -DKILLS=0 -DWORD_LAST        : the word that counts as seen is loaded after the value
 * RUN short assert -DBREAKS=1 -DKILLS=0 -DKEEPS_COPIES     : a new connection begins with the copies of the old one
 * RUN full  assert -DBREAKS=1 -DKILLS=0 -DSTRAYS           : what was under way on the old connection arrives on the new one
 * RUN short assert -DBREAKS=0 -DKILLS=0 -DOWN_WRITE -DBATCH_LAST : the answer to a write arrives before the write does
 */
#define OLD  1
#define NEW  2
#define GONE 3 /* in a batch: no value; 0: not named */

#define NOTHING 0
#define RELEASE 1
#define ANSWER  2

#define IDLE  0 /* the reader's call */
#define ASKED 1
#define SENT  2
#define DONE  3
#define WRITE 2 /* what is asked: the value of key 0, of key 1, or that the data be written */

byte val[2] = OLD;              /* the leader's segment; a value stands for its bucket's word as well */
bool witness, told;             /* its task has seen the data and arrived; the release is on its way */
bool interest[2]; byte seen[2]; /* the leader's agent: of this connection */
bool up_now = true;             /* the connection */
bool turning;                   /* the leader's agent is in a turn: it sees no connection come or go */
byte breaks, kills; bool killed;
byte copy[2];                   /* the follower's segment: 0: none */
bool released;
byte call, question, answer;
chan up = [1] of { byte };
chan down = [2] of { byte, byte, byte, byte }; /* key 0's item, key 1's, what goes behind, its value */

#define CHANGED(k) (interest[k] && val[k] != seen[k])

inline forget_connection()
{
    up_now = false;
    interest[0] = false;
    interest[1] = false;
    seen[0] = 0;
    seen[1] = 0;
    told = false
}

proctype Writer()
{
#ifndef OWN_WRITE
    val[0] = NEW;
#endif
    atomic { val[0] == NEW -> val[1] = NEW }
}

proctype Witness()
{
    atomic { val[0] == NEW -> witness = true }
}

inline decide()
{
    atomic {
        if
        :: up?q ->
            tail = ANSWER;
            if
            :: q == WRITE -> val[0] = NEW
            :: else -> interest[q] = true
            fi
        :: empty(up) && witness && !told -> tail = RELEASE; told = true
        :: empty(up) && (!witness || told) -> tail = NOTHING
        fi
    };
    atomic {
        if
        :: tail == ANSWER -> value = val[q % WRITE]; q = 0
        :: else
        fi
    }
}

inline collect(k)
{
    atomic {
        if
        :: CHANGED(k) -> item[k] = GONE
        :: else
        fi;
#ifndef WORD_LAST
        if
        :: item[k] -> seen[k] = val[k]
        :: else
        fi
#endif
    };
    atomic {
        if
        :: item[k] && interest[k] -> item[k] = val[k]
        :: else
        fi
    };
#ifdef WORD_LAST
    atomic {
        if
        :: item[k] -> seen[k] = val[k]
        :: else
        fi
    }
#endif
}

inline look_again(k)
{
    atomic {
        if
#ifdef LOOK_AT_TAKEN
        :: item[k] && CHANGED(k) -> item[k] = GONE
#else
        :: (item[0] || item[1]) && CHANGED(k) -> item[k] = GONE
#endif
        :: else
        fi
    }
}

proctype Leader()
{
    byte item[2];
    byte tail, value, q;

end:
    do
    :: atomic {
        up_now && nfull(down) && (nempty(up) || (witness && !told) || CHANGED(0) || CHANGED(1)) ->
        turning = true
        };
#ifndef COLLECT_FIRST
        decide();
#endif
        collect(0);
        collect(1);
#ifndef NO_SECOND_LOOK
        look_again(0);
        look_again(1);
#endif
#ifdef COLLECT_FIRST
        decide();
#endif
        atomic {
            if
            :: item[0] || item[1] || tail -> down!item[0], item[1], tail, value
            :: else
            fi;
            turning = false;
            item[0] = 0;
            item[1] = 0;
            tail = 0;
            value = 0
        }
    od
}

inline install()
{
#ifdef BATCH_LAST
    hear();
#endif
#ifndef ONE_BY_ONE
    if
    :: (i0 && i1) || i0 == GONE || i1 == GONE -> /* more than one value to write over */
        if
        :: i0 -> copy[0] = 0
        :: else
        fi;
        if
        :: i1 -> copy[1] = 0
        :: else
        fi
    :: else
    fi;
#endif
    if
    :: i1 == OLD || i1 == NEW -> copy[1] = i1
    :: i1 == GONE -> copy[1] = 0
    :: else
    fi;
    if
    :: i0 == OLD || i0 == NEW -> copy[0] = i0
    :: i0 == GONE -> copy[0] = 0
    :: else
    fi;
#ifndef BATCH_LAST
    hear();
#endif
    atomic { i0 = 0; i1 = 0; tail = 0; value = 0 }
}

inline hear()
{
    atomic {
        if
        :: tail == RELEASE -> released = true
        :: tail == ANSWER && call == SENT -> answer = value; call = DONE
        :: else
        fi
    }
}

/* One life of the follower's agent. */
proctype Follower()
{
    byte i0, i1, tail, value;

    {
end:
        do
        :: down?i0, i1, tail, value -> install()
        :: atomic { up_now && call == ASKED && nfull(up) -> up!question; call = SENT }
        :: !up_now && !turning ->
#ifndef KEEPS_COPIES
            copy[0] = 0;
            copy[1] = 0;
#endif
            atomic {
#ifndef STRAYS
                do
                :: down?_, _, _, _
                :: up?_
                :: empty(down) && empty(up) -> break
                od;
#endif
                if
                :: call == SENT -> call = ASKED /* again: none of these does harm twice; once.pml is about that */
                :: else
                fi;
                up_now = true
            }
        od
    } unless {
        atomic {
            /* its sockets go with it; the next one begins with a connection */
            killed && !turning ->
            killed = false;
            do
            :: down?_, _, _, _
            :: empty(down) -> break
            od;
            i0 = 0; i1 = 0; tail = 0; value = 0;
            forget_connection();
            run Follower()
        }
    }
}

proctype Misfortune()
{
end:
    do
    :: atomic { breaks < BREAKS && up_now && !turning -> breaks++; forget_connection() }
    :: atomic { kills < KILLS && !killed -> kills++; killed = true }
    :: break
    od
}

inline ask(what)
{
    atomic { call == IDLE -> question = what; call = ASKED };
    atomic { call == DONE -> x = answer; answer = 0; question = 0; call = IDLE }
}

inline get(k)
{
    atomic { x = copy[k] };
    if
    :: x == 0 -> ask(k)
    :: else
    fi
}

active proctype Reader()
{
    byte x;
    bool learned;

    get(0); /* so that there is a copy */
#ifdef OWN_WRITE
    ask(WRITE);
    learned = true;
#else
    get(1);
    learned = (x == NEW);
    if
    :: true -> get(1); learned = learned || x == NEW
    :: atomic { released -> learned = true }
    fi;
#endif
    get(0);
    assert(!learned || x == NEW)
}

init {
    atomic {
        run Writer();
        run Witness();
        run Leader();
        run Follower();
        run Misfortune()
    }
}
