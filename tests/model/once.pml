/*
 * once.pml: a follower's call that changes a key is carried out once, whatever agents and connections die (I11).
 *
 * Stands for: src/bridge/call/calls.c (collecting, sending again, the table of answers, acknowledging), the records of calls that were
 * done in src/segment/edit.c, and src/segment/remote.c (a call and its answer are one edit each).
 *
 * A task numbers its calls: the next one when it has the answer to the last. Its agent sends the open one, and again after
 * every connection, and after its own restart. The leader's agent:
 *   looks at its table {number, answer}: the same number: answers as before; a lower one: a stray, ignored.
 *   looks at the page: the record there is of that number: answers with its result. Else one CAS puts the new value and the
 *   record {number, result} there; then the table; then the answer.
 * A record goes when the caller has acknowledged it, with the agent's next commit there; whoever else commits keeps it. Tasks
 * of the leader's host change the key as they always do. The table, not the page, dies with the leader's agent.
 *
 * Proved: each call is carried out once, and its answer is what it did.
 *
 * The protocol:
 * RUN short ok     -DLEADERS=1 -DFOLLOWERS=0 -DBREAKS=0    : two calls, a local change, the leader's agent dies once
 * RUN full  ok     -DLEADERS=2 -DFOLLOWERS=0 -DBREAKS=1    : it dies twice, the connection breaks once
 * RUN full  ok     -DLEADERS=1 -DFOLLOWERS=1 -DBREAKS=1    : either agent dies once, the connection breaks once
 * RUN full  ok     -DLEADERS=1 -DFOLLOWERS=1 -DBREAKS=2    : likewise, and it breaks twice
 * One rule dropped:
 * RUN short assert -DLEADERS=1 -DFOLLOWERS=0 -DBREAKS=0 -DNO_RECORD : the table alone says what was done
 * RUN short assert -DLEADERS=1 -DFOLLOWERS=0 -DBREAKS=0 -DRECORD_APART : the record is put there by a commit of its own
 * RUN full  assert -DLEADERS=0 -DFOLLOWERS=0 -DBREAKS=1 -DNO_TABLE -DNO_RECORD : nothing says what was done
 * RUN short assert -DLEADERS=1 -DFOLLOWERS=0 -DBREAKS=0 -DLOCALS_FORGET : who commits for itself drops the record
 * RUN full  assert -DLEADERS=1 -DFOLLOWERS=0 -DBREAKS=1 -DFORGETS_ANSWERED : a record goes when it has been answered
 * RUN full  assert -DLEADERS=1 -DFOLLOWERS=0 -DBREAKS=1 -DSTRAYS : a frame of an old connection arrives after the new one has begun
 */
#define CALLS 2

byte val, record, result;       /* the page; record 0: none */
byte tag;                       /* its word */
byte table, table_result;       /* the leader's agent: number of the last call answered, and the answer */
byte acked;                     /* and how far the follower has acknowledged */
bool up_now = true;
byte leaders, followers, breaks;
bool leader_dies, follower_dies;
byte open, answered, answer;    /* the follower's segment: the call, the answer: numbers, and what it says */
bool sent; byte told;           /* the follower's agent, of this connection */
byte done, locals;              /* the audit's count of what was carried out */
byte effect[CALLS + 1];         /* what each call did */
chan up = [2] of { bool, byte };     /* a call, or an acknowledgement, of this number */
chan down = [2] of { byte, byte };

/* A frame that the network holds back, for STRAYS. */
byte held;

inline lose_connection()
{
    up_now = false;
    do
    :: down?_, _
    :: up?_, _
    :: empty(down) && empty(up) -> break
    od;
    sent = false
}

proctype Leader()
{
    bool is_call;
    byte q, v, t, r, rr;

    {
end:
        do
        :: up?is_call, q ->
            if
            :: !is_call -> acked = (q > acked -> q : acked); goto next
            :: else
            fi;

again:
            atomic {
#ifndef NO_TABLE
                if
                :: q == table -> rr = table_result; goto reply
                :: q < table -> goto next
                :: else
                fi;
#endif
                v = val; t = tag; r = record; rr = result
            };
#ifndef NO_RECORD
            if
            :: r == q -> goto note
            :: r > q -> goto next
            :: else
            fi;
#endif
            atomic {
                /* the commit */
                if
                :: tag == t ->
                    tag++;
                    val = v + 1;
                    rr = v + 1;
                    done++;
                    assert(effect[q] == 0); /* else it was carried out before */
                    effect[q] = rr;
#if !defined NO_RECORD && !defined RECORD_APART
                    record = q;
                    result = rr
#endif
                :: else -> v = 0; t = 0; r = 0; rr = 0; goto again
                fi
            };
#ifdef RECORD_APART
            atomic { record = q; result = rr; tag++ };
#endif

note:
            atomic { table = q; table_result = rr };

reply:
            atomic {
                if
                :: up_now && len(down) < 2 -> down!q, rr
                :: !up_now
                fi;
#ifdef FORGETS_ANSWERED
                acked = (q > acked -> q : acked);
#endif
            };

next:
            atomic { is_call = false; q = 0; v = 0; t = 0; r = 0; rr = 0 }
        :: atomic { record && record <= acked -> record = 0; result = 0; tag++ } /* with its next commit there */
        od
    } unless {
        atomic {
            leader_dies ->
            leader_dies = false;
            is_call = false; q = 0; v = 0; t = 0; r = 0; rr = 0;
            table = 0; table_result = 0; acked = 0;
            lose_connection();
            run Leader()
        }
    }
}

proctype Follower()
{
    byte q, x;

    {
end:
        do
        :: atomic { up_now && open > answered && !sent && len(up) < 2 -> up!true, open; sent = true }
        :: atomic { up_now && answered > told && len(up) < 2 -> up!false, answered; told = answered }
        :: down?q, x ->
            atomic {
                /* dropped when the caller has gone on */
                if
                :: q == open && answered < q -> answered = q; answer = x; sent = false
                :: else
                fi;
                q = 0; x = 0
            }
        :: atomic { !up_now -> up_now = true; sent = false; told = 0 }
#ifdef STRAYS
        :: atomic { held && up_now && len(up) < 2 -> up!true, held; held = 0 }
#endif
        od
    } unless {
        atomic {
            follower_dies ->
            follower_dies = false;
            q = 0; x = 0; told = 0;
            lose_connection();
            run Follower()
        }
    }
}

active proctype Task()
{
    byte n;

    for (n : 1 .. CALLS) {
        open = n;
        atomic { answered == n -> assert(answer == effect[n]); answer = 0 }
    }
}

active proctype Local()
{
    atomic {
        val++;
        tag++;
        locals++;
#ifdef LOCALS_FORGET
        record = 0;
        result = 0
#endif
    }
}

active proctype Misfortune()
{
end:
    do
    :: atomic { leaders < LEADERS && !leader_dies -> leaders++; leader_dies = true }
    :: atomic { followers < FOLLOWERS && !follower_dies -> followers++; follower_dies = true }
    :: atomic {
        breaks < BREAKS && up_now ->
        breaks++;
#ifdef STRAYS
        if
        :: sent -> held = open
        :: else
        fi;
#endif
        lose_connection()
        }
    :: break
    od
}

init {
    atomic {
        run Leader();
        run Follower()
    };
    atomic {
        timeout ->
        assert(val == CALLS + 1 && done == CALLS)
    }
}
