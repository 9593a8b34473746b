/*
 * interest.pml: what the leader remembers of a follower's copies: a key that comes, goes and comes again.
 *
 * Stands for: src/bridge/kv/reads.c (want_key), src/bridge/kv/copies.c (say_change, is_forgotten), src/bridge/kv/replica.c (make_room), and the waiting reads of src/kv/read.c.
 *
 * One key. The leader's agent has an entry for each key that the follower asked for: the version that it sent last (0:
 * the follower has none), and whether somebody waits there for a key that is absent.
 *   ask:      present: an entry; the copy goes ahead of the answer, unless that version has been sent. Absent: an entry only
 *             for who waits.
 *   push:     the bucket's word has changed: another version than the one sent goes as a value; no key and one sent, as
 *             GONE, and the entry with it unless somebody waits. Changed while it was looked at: GONE, for this turn.
 *   FORGET v: the follower drops copies to make room, having taken so much of what was sent: the entry goes if v is what was
 *             sent last, and among what was taken. On its way to the leader it is ahead of whatever is asked after the copy
 *             went. Another key of the bucket may change: the copy is then said to be gone, and the same version sent again.
 * The follower counts rounds: a new connection, or copies that it dropped, begin a new one, which wakes its sleepers. A
 * waiting get notes the round, looks, asks if it has not asked in this round, and sleeps until a copy comes or the round
 * ends.
 *
 * Proved: when all is quiet the copy is the leader's value, or there is none; and no waiting get sleeps while there is a value.
 *
 * The protocol:
 * RUN short ok     -DDROPS=0 -DBREAKS=0                    : three writes, one of them a delete; a waiting get, a get
 * RUN full  ok     -DDROPS=1 -DBREAKS=0                    : one copy is dropped
 * RUN full  ok     -DDROPS=1 -DBREAKS=1                    : and the connection breaks
 * RUN full  ok     -DDROPS=0 -DBREAKS=2                    : it breaks twice
 * RUN full  ok     -DDROPS=1 -DBREAKS=0 -DWRITES=2 -DNEIGHBOURS=1 : another key of the bucket changes
 * RUN full  ok     -DDROPS=1 -DBREAKS=0 -DWRITES=2 -DNEIGHBOURS=2 : twice
 * One rule dropped:
 * RUN full  assert -DDROPS=0 -DBREAKS=0 -DVERSION_RESTARTS : versions of a key begin anew when it is inserted again
 * RUN short assert -DDROPS=0 -DBREAKS=0 -DABSENCE_UNSAID   : that a key is gone is not told
 * RUN full  assert -DDROPS=0 -DBREAKS=1 -DKEEPS_COPY       : a new connection begins with the copies of the old one
 * RUN full  assert -DDROPS=1 -DBREAKS=0 -DWRITES=4 -DFORGETS_ANY : FORGET names no version
 * RUN short assert -DDROPS=1 -DBREAKS=0 -DWRITES=2 -DNEIGHBOURS=1 -DFORGETS_ANYWHERE : it does not say how much was taken
 * RUN short stuck  -DDROPS=0 -DBREAKS=0 -DNOT_NOTED        : who waits for an absent key leaves no entry
 * RUN full  stuck  -DDROPS=0 -DBREAKS=0 -DGOES_ANYHOW      : the entry goes with the key though somebody waits
 * RUN full  stuck  -DDROPS=0 -DBREAKS=1 -DASKS_ONCE        : a new connection begins no round
 * RUN full  stuck  -DDROPS=1 -DBREAKS=0 -DDROPS_QUIETLY    : dropped copies begin no round
 * RUN full  stuck  -DDROPS=0 -DBREAKS=1 -DROUND_LATE       : the round is noted after the answer
 */
#ifndef WRITES
#define WRITES 3
#endif

#ifndef NEIGHBOURS
#define NEIGHBOURS 0
#endif

#define GET    0 /* what goes up: who asks, or */
#define WAIT   1
#define FORGET 2

#define NOTHING 0 /* what goes down ahead: nothing, a value (its version is not 0), or */
#define GONE    255
#define FOUND   1 /* and behind it */
#define ABSENT  2

#define IDLE  0 /* a caller's call */
#define ASKED 1
#define SENT  2
#define DONE  3

byte val, version, word;       /* the leader: value (0: absent), its version; the bucket's count of commits */
bool entry, waits; byte sent, seen; /* its agent's, of this connection */
bool up_now = true, turning;   /* as in copies.pml */
byte breaks, drops, writes;
byte at, said;                 /* batches with something in them: sent before that version, and in all */
byte copy, copy_version;       /* the follower */
byte taken;                    /* batches */
byte round;
byte call[2], answer[2];
bool got, looked;              /* the waiting get has its value; the other one is through */
bool no_more;                  /* all is quiet, and there is no value to wait for */
chan up = [2] of { byte, byte, byte };
chan down = [2] of { byte, byte, byte, byte }; /* item, version; answer, to whom */

#define CHANGED (entry && word != seen)

proctype Writer()
{
    do
    :: atomic {
        writes < WRITES ->
        writes++;
        word++;
        if
        :: val && writes == 2 -> val = 0; version = 0
        :: else ->
            val = writes;
#ifdef VERSION_RESTARTS
            version = (version -> version + 1 : 1)
#else
            version = word
#endif
        fi
        }
    :: break
    od;
    writes = WRITES
}

/* Commits of another key of the bucket. */
proctype Neighbour()
{
    byte n;

    do
    :: atomic { n < NEIGHBOURS -> n++; word++ }
    :: break
    od;
    n = 0
}

proctype Leader()
{
    byte what, arg, much, to, tail, item, ver;

end:
    do
    :: atomic { up_now && nfull(down) && (nempty(up) || CHANGED) -> turning = true };
        atomic {
            if
            :: up?what, arg, much ->
                if
                :: what == FORGET ->
#ifdef FORGETS_ANY
                    entry = false; sent = 0; waits = false
#else
                    if
#ifdef FORGETS_ANYWHERE
                    :: entry && sent == arg -> entry = false; sent = 0; waits = false
#else
                    :: entry && sent == arg && at < much -> entry = false; sent = 0; waits = false
#endif
                    :: else
                    fi
#endif
                :: else ->
                    to = what;
                    tail = (val -> FOUND : ABSENT);
#ifdef NOT_NOTED
                    if
                    :: val && !entry -> entry = true; seen = 255
                    :: else
                    fi
#else
                    if
                    :: val || what == WAIT ->
                        if
                        :: !entry -> entry = true; seen = 255
                        :: else
                        fi;
                        waits = waits || (what == WAIT)
                    :: else
                    fi
#endif
                fi;
                what = 0; arg = 0; much = 0
            :: empty(up)
            fi
        };
        atomic {
            if
            :: CHANGED -> seen = word; ver = 1
            :: else
            fi
        };
        atomic {
            if
            :: ver && val && version != sent -> ver = version; item = val; sent = version; at = said
#ifndef ABSENCE_UNSAID
            :: ver && !val && sent -> ver = 0; item = GONE; sent = 0
#endif
            :: else -> ver = 0
            fi;
            if
#ifdef GOES_ANYHOW
            :: entry && seen == word && !val -> entry = false; waits = false
#else
            :: entry && seen == word && !val && !waits -> entry = false
#endif
            :: else
            fi
        };
        atomic {
            /* the second look */
            if
            :: CHANGED && sent -> item = GONE; ver = 0; sent = 0
            :: else
            fi
        };
        atomic {
            if
            :: item || tail -> down!item, ver, tail, to; said = said + (item -> 1 : 0)
            :: else
            fi;
            turning = false;
            item = 0; ver = 0; tail = 0; to = 0
        }
    od
}

proctype Follower()
{
    byte item, ver, tail, to;

end:
    do
    :: atomic {
        down?item, ver, tail, to ->
        /* a batch of one: nothing is deleted first */
        taken = taken + (item -> 1 : 0);
        if
        :: item == GONE -> copy = 0; copy_version = 0
        :: item && item != GONE -> copy = item; copy_version = ver
        :: else
        fi
        };
        atomic {
            if
            :: tail && call[to] == SENT -> answer[to] = tail; call[to] = DONE
            :: else
            fi;
            item = 0; ver = 0; tail = 0; to = 0
        }
    :: atomic { up_now && call[GET] == ASKED && nfull(up) -> up!GET, 0, 0; call[GET] = SENT }
    :: atomic { up_now && call[WAIT] == ASKED && nfull(up) -> up!WAIT, 0, 0; call[WAIT] = SENT }
    :: atomic { up_now && copy && drops < DROPS && nfull(up) -> drops++; up!FORGET, copy_version, taken };
        atomic { copy = 0; copy_version = 0 };
#ifndef DROPS_QUIETLY
        round++
#endif
    :: !up_now && !turning ->
#ifndef KEEPS_COPY
        atomic { copy = 0; copy_version = 0 };
#endif
        atomic {
            do
            :: down?_, _, _, _
            :: up?_, _, _
            :: empty(down) && empty(up) -> break
            od;
            taken = 0;
            call[GET] = (call[GET] == SENT -> ASKED : call[GET]);
            call[WAIT] = (call[WAIT] == SENT -> ASKED : call[WAIT]);
#ifndef ASKS_ONCE
            round++;
#endif
            up_now = true
        }
    od
}

proctype Network()
{
    do
    :: atomic {
        breaks < BREAKS && up_now && !turning ->
        breaks++;
        up_now = false;
        entry = false;
        waits = false;
        sent = 0;
        seen = 0;
        at = 0;
        said = 0
        }
    :: break
    od;
    breaks = BREAKS
}

/* muster_kv_get() with a deadline that never comes. */
proctype Waiter()
{
    byte now, asked;

    do
    :: atomic { now = round + 1 };
        if
        :: atomic { copy -> break }
        :: atomic { !copy && asked != now -> call[WAIT] = ASKED; asked = now };
            atomic { call[WAIT] == DONE -> call[WAIT] = IDLE };
            atomic {
                if
                :: answer[WAIT] == FOUND && !copy -> asked = 0 /* it went again, or goes with the next batch */
                :: else
                fi;
                answer[WAIT] = 0;
#ifdef ROUND_LATE
                asked = (asked -> round + 1 : 0)
#endif
            }
        :: atomic { !copy && asked == now } ->
            if
            :: atomic { copy || round + 1 != now }
            :: atomic { no_more -> break }
            fi
        fi
    od;
    atomic { got = true; now = 0; asked = 0 }
}

/* muster_kv_try_get() */
proctype Getter()
{
    if
    :: atomic { copy }
    :: atomic { !copy -> call[GET] = ASKED };
        atomic { call[GET] == DONE -> call[GET] = IDLE; answer[GET] = 0 }
    fi;
    looked = true
}

init {
    atomic {
        run Writer();
        run Neighbour();
        run Leader();
        run Follower();
        run Network();
        run Waiter();
        run Getter()
    };
    atomic {
        timeout ->
        assert(!copy || copy == val);
        no_more = (val == 0)
    }
}
