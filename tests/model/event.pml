/*
 * event.pml: numbered events in a ring of object words.
 *
 * Stands for: src/event/ring.c (find_tail, muster_event_send, muster_event_read, overrun).
 *
 * Event q lies in word q mod CAPACITY, and a word's tag counts the events that were ever written there:
 *   send:   from the hint on, pass over all that are there (tag > q / CAPACITY), move the hint over them (CAS). Load word
 *           q; its tag is q / CAPACITY; a higher one, sent by another meanwhile: begin anew; a lower one, the event a round
 *           before is missing, which nobody ever meets. Fill a private block; CAS of the word to {block, tag + 1}: that
 *           is the sending. Then the hint may move.
 *   read q: tag q / CAPACITY + 1: copy the block, look at the word again; equal: delivered. A higher tag: overrun, go on
 *           with the oldest that can still be there. A lower one: not sent yet, wait.
 * The hint is only a hint: it never passes an event that is not there, and may lag behind.
 * A sender keeps the block that it replaced for its next event (a block recycled as fast as can be); the heap and the
 * intents are in commit.pml.
 *
 * Proved: the sequence has neither holes nor doubles, whoever dies wherever; a reader gets each event whole, in order,
 * under its number, or is told that it lost some, and those are gone; it is never left waiting for an event when all is
 * done.
 *
 * The protocol:
 * RUN full  ok     -DSENDS=2                               : two senders of two events, a reader, one death
 * RUN full  ok     -DSENDS=3                               : two senders of three events, a reader, one death
 * RUN full  ok     -DSENDS=1 -DSENDERS=3 -DDEATHS=2        : three senders of one event, a reader, two deaths
 * RUN short ok     -DSENDS=1                               : two senders of one event, a reader, one death
 * RUN full  ok     -DSENDS=2 -DHINT_STORE                  : the hint is stored, not CASed, and may even go back
 * One rule dropped:
 * RUN short stuck  -DSENDS=2 -DTICKET                      : numbers are handed out by fetch_add
 * RUN short assert -DSENDS=2 -DHINT_FIRST                  : the hint moves before the event is there
 * RUN short assert -DSENDS=2 -DNO_TAG_CHECK                : the word that is loaded is not compared with the number
 * RUN short assert -DSENDS=2 -DNO_SECOND_LOOK              : the reader does not look at the word again
 * RUN short assert -DSENDS=2 -DROUND_AHEAD                 : who is overtaken goes on a round ahead, wherever the tail is
 */
#ifndef SENDERS
#define SENDERS 2
#endif
#define CAPACITY 2
#define VICTIMS  SENDERS
#include "kill.pml"

typedef Word { byte block; byte tag }

Word ring[CAPACITY];
byte contents[CAPACITY + SENDERS]; /* of the blocks: the number that the event carries */
byte hint;
byte running;
byte sent; /* the audit's own count */

#define WORD(q)     ring[(q) % CAPACITY]
#define THERE(q)    (WORD(q).tag == (q) / CAPACITY + 1)
#define REPLACED(q) (WORD(q).tag > (q) / CAPACITY + 1)
#define NOT_YET(q)  (WORD(q).tag < (q) / CAPACITY + 1)

/* Moves q from the hint to the first event that is not there, and the hint with it. */
inline find_tail()
{
    atomic { q = hint; from = hint };
    do
    :: atomic { THERE(q) -> q++ }
    :: atomic { REPLACED(q) -> q = q + CAPACITY * (WORD(q).tag - q / CAPACITY - 1) } /* the hint is rounds behind */
    :: atomic { NOT_YET(q) -> break }
    od;
#ifdef HINT_STORE
    hint = q;
#else
    atomic {
        if
        :: hint == from -> hint = q
        :: else
        fi
    };
#endif
    from = 0
}

proctype Sender(byte me)
{
    byte mine = CAPACITY + me;
    byte q, from, block, tag, sends;

    {
        q = 0;

next:
        atomic {
            if
            :: sends == SENDS -> goto done
            :: else
            fi
        };
#ifdef TICKET
        atomic { q = hint; hint++ };
        (WORD(q).tag == q / CAPACITY); /* its turn */
#else
        find_tail();
#endif
        atomic { block = WORD(q).block; tag = WORD(q).tag };
#ifndef NO_TAG_CHECK
        atomic {
            if
            :: tag != q / CAPACITY -> assert(tag > q / CAPACITY); tag = 0; block = 0; goto next
            :: else
            fi
        };
#endif
        contents[mine] = q;
#ifdef HINT_FIRST
        hint = q + 1;
#endif
        atomic {
            /* the sending */
            if
            :: WORD(q).block == block && WORD(q).tag == tag ->
                WORD(q).block = mine;
                WORD(q).tag++;
#ifndef TICKET
                assert(q == sent);
#endif
                sent++;
                mine = block;
                sends++
            :: else -> goto next
            fi
        };
#ifndef TICKET
        atomic {
            if
            :: hint == q -> hint = q + 1
            :: else
            fi;
#ifndef HINT_STORE
            assert(hint <= sent)
#endif
        };
#endif
        atomic { q = 0; block = 0; tag = 0; goto next };

done:
        skip
    } UNTIL_KILLED(me);
    atomic { mine = 0; q = 0; from = 0; block = 0; tag = 0; sends = 0; running-- }
}

proctype Reader()
{
    byte position, block, tag, got, q, from;

look:
    atomic {
        if
        :: running == 0 && position == sent -> goto done /* all read */
        :: REPLACED(position) -> goto overrun
        :: THERE(position) -> block = WORD(position).block; tag = WORD(position).tag
        fi /* else sleeps on the word */
    };
    got = contents[block];
    atomic {
#ifndef NO_SECOND_LOOK
        if
        :: !(WORD(position).block == block && WORD(position).tag == tag) -> got = 0; goto look
        :: else
        fi;
#endif
        assert(got == position);
        position++;
        got = 0;
        block = 0;
        tag = 0;
        goto look
    };

overrun:
    find_tail();
    atomic {
        /* the oldest that can still be there; at least one is lost */
        if
#ifdef ROUND_AHEAD
        :: position = position + CAPACITY
#else
        :: q > CAPACITY && q - CAPACITY > position + 1 -> position = q - CAPACITY
        :: else -> position++
#endif
        fi;
#ifndef TICKET /* the hint is no hint there */
        assert(position <= sent && REPLACED(position - 1));
#endif
        q = 0;
        goto look
    };

done:
    skip
}

init {
    byte i;

    atomic {
        for (i : 0 .. CAPACITY - 1) {
            ring[i].block = i
        };
        running = SENDERS;
        run Sender(0);
        run Sender(1);
#if SENDERS > 2
        run Sender(2);
#endif
        run Reader();
        run Killer()
    }
}
