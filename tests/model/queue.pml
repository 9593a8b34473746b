/*
 * queue.pml: a queue of messages: a chain of objects, the anchors that hold it, and deaths of writer and readers.
 *
 * Stands for: src/queue/queue.c, open.c, write.c (message_commit(), readers_await()), read.c (message_await()); counts and
 * ledgers are one step each here: hold.pml has them.
 *
 * A message to come is a node that is not written; node 0 is there from the beginning. Counts of a node: by the writer's
 * anchor, by readers' anchors, by the node before it.
 *   write:  wait until no living reader is DEPTH behind; then one commit: the node is written, and holds its successor,
 *           which comes into being with it. Then the anchor follows: hold the new one, tell it, drop the old.
 *   come:   take a line; position: the floor; hold the anchor that the writer tells, or again; walk to the node that is
 *           not written; position: that.
 *   read:   is the writer dead? Then look at the node: written: on; else, and dead: the end. Before a sleep the anchor
 *           follows.
 *   death:  the dead one's anchors are dropped; the node that it was to write stays as it is. A line with a dead owner
 *           counts for nobody.
 * A node goes when its count is 0, and then the next one loses one.
 *
 * Proved: what a reader looks at is never gone; a reader gets every message from its coming on, in order, all that the
 * writer wrote before it died; the writer waits for no dead reader, and knows of what each living one holds; at the end
 * nothing is left.
 *
 * The protocol:
 * RUN short ok     -DKILL_WRITER               : a writer that may die anywhere
 * RUN short ok     -DKILL_READER               : a reader that may
 * RUN full  ok     -DKILL_WRITER -DKILL_READER : both
 * One rule dropped:
 * RUN short assert -DKILL_WRITER -DLOOK_FIRST  : the reader looks at the node before it asks for the writer
 * RUN short stuck  -DKILL_READER -DDEAD_COUNT  : a dead reader's line counts
 * RUN short assert -DKILL_READER -DDROP_FIRST  : a reader drops its anchor before it holds the next
 * RUN short assert -DKILL_READER -DHOLD_FIRST  : a reader that comes tells its position behind its anchor
 */
#define MESSAGES 3
#define NODES    4 /* MESSAGES + 1 */
#define DEPTH    1
#define READERS  2
#define NONE     15

byte count[NODES];
bool written[NODES], gone[NODES], ended[NODES];
byte told = 0;          /* the anchor that the writer tells */
byte next_node = 0;     /* of the writer */
bool writer_dead, writer_done;
byte line[READERS];     /* 0: nobody; 1: somebody */
byte position[READERS]; /* messages that were read; NONE: left */
byte held[READERS];     /* the reader's anchor; NONE: none */
byte writer_held = 0;
bool dead[READERS], over[READERS];

inline let_go(node)
{
    count[node]--;
    n = node;
    do
    :: n < NODES && count[n] == 0 && !gone[n] ->
        gone[n] = true;
        if
        :: written[n] && n + 1 < NODES -> n++; count[n]--
        :: else -> break
        fi
    :: else -> break
    od;
    n = 0
}

#ifdef DEAD_COUNT
#define COUNTS(i) (line[i] && position[i] != NONE)
#else
#define COUNTS(i) (line[i] && position[i] != NONE && !dead[i])
#endif
#define BEHIND(i) (COUNTS(i) && next_node - position[i] >= DEPTH)

proctype writer()
{
    byte n, node;

    do
    :: next_node < MESSAGES ->
        !BEHIND(0) && !BEHIND(1);
        atomic { /* the commit */
#ifdef KILL_WRITER
            if :: true :: goto died fi;
#endif
            node = next_node;
            assert(!gone[node]);
            written[node] = true;
            count[node + 1] = 1;
            next_node++
        };
        atomic {
#ifdef KILL_WRITER
            if :: true :: goto died fi;
#endif
            assert(!gone[next_node]);
            count[next_node]++
        };
        atomic {
#ifdef KILL_WRITER
            if :: true :: n = next_node; goto died_twice fi;
#endif
            told = next_node
        };
        atomic { node = writer_held; writer_held = next_node; let_go(node); node = 0 }
    :: else -> break
    od;
    atomic { told = NONE; ended[next_node] = true; writer_done = true; let_go(writer_held); writer_held = NONE }
    goto end;
died_twice:
    atomic { node = n; writer_dead = true; let_go(node); let_go(writer_held); writer_held = NONE; goto end }
died:
    atomic { writer_dead = true; let_go(writer_held); writer_held = NONE };
end:
    skip
}

proctype reader(byte me)
{
    byte n, node, old;
    bool was_dead, last;
    byte expects;

    atomic { line[me] = 1; position[me] = NONE };
#ifndef HOLD_FIRST
    /* the floor: at most the anchor's number */
    atomic {
        if :: told == NONE -> goto leave :: else -> position[me] = told fi
    };
#endif
again:
    atomic {
        if :: told == NONE || writer_dead -> goto leave :: else -> node = told fi
    };
    atomic {
        if
        :: gone[node] -> node = 0; goto again
        ::  else ->
            assert(position[me] != NONE && position[me] <= node); /* the writer knows what is held here */
            count[node]++;
            held[me] = node
        fi
    };
#ifdef KILL_READER
    if :: true :: me == 1 -> goto died fi;
#endif
    do
    :: atomic { assert(!gone[node]); if :: written[node] -> node++ :: else -> break fi }
    od;
    expects = node;
    position[me] = node;
    do
    ::
#ifdef KILL_READER
        if :: true :: me == 1 -> goto died fi;
#endif
#ifdef LOOK_FIRST
        atomic { assert(!gone[node]); last = written[node] };
        was_dead = writer_dead;
#else
        was_dead = writer_dead;
        atomic { assert(!gone[node]); last = written[node] };
#endif
        if
        :: last -> /* read it, and on */
            assert(node == expects);
            node++;
            expects++;
            position[me] = node
        :: !last && ended[node] -> break
        :: !last && was_dead ->
            assert(!written[node]); /* nothing that was written is lost */
            break
        :: else -> /* the anchor follows, then it sleeps */
#ifdef DROP_FIRST
            atomic { old = held[me]; held[me] = NONE; let_go(old) };
            atomic { assert(!gone[node]); count[node]++; held[me] = node };
#else
            atomic { assert(!gone[node]); count[node]++; old = held[me]; held[me] = node };
            atomic { let_go(old); old = 0 };
#endif
            written[node] || ended[node] || writer_dead
        fi
    od;
leave:
    position[me] = NONE;
    line[me] = 0;
died:
    atomic {
        if :: line[me] -> dead[me] = true :: else fi;
        if :: held[me] != NONE -> old = held[me]; held[me] = NONE; let_go(old) :: else fi;
        old = 0;
        over[me] = true
    }
}

active proctype watch()
{
    atomic { (writer_done || writer_dead) && over[0] && over[1];
             assert(gone[0] && (next_node < 1 || gone[1]) && (next_node < 2 || gone[2]) && (next_node < 3 || gone[3]))
    }
}

init
{
    atomic {
        count[0] = 1;
        held[0] = NONE;
        held[1] = NONE;
        run writer();
        run reader(0);
        run reader(1)
    }
}
