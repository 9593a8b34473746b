/* tests/fuzz/session.h: what the fuzz target of bridged sessions and its short form share. */
#ifndef TEST_SESSION_H
#define TEST_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the program's bytes say: a byte is the step of its remainder by SESSION_STEPS, and lets as many ticks pass as
 * its upper half says. What else a step needs is taken from the bytes behind it.
 */
enum session_step {
    SESSION_UP,        /* a host */
    SESSION_DOWN,      /* a host */
    SESSION_LOST,      /* SESSION_REALLY, a host */
    SESSION_ANY_FRAME, /* type, length, bytes, a host */
    SESSION_KNOWN,     /* which kind of frame, length, bytes, a host */
    SESSION_KNOWN_TOO,
    SESSION_CALL, /* what is in its head, length, bytes, a host */
    SESSION_CALL_TOO,
    SESSION_ACT, /* which key, what, a character */
    SESSION_TURN,
    SESSION_SAID,  /* a host, a type, length (2), bytes: a frame as it was recorded (record_main.c) */
    SESSION_ASKS,  /* which asker, what (enum mu_op), length (2), bytes: a call of a task of this host */
    SESSION_TELLS, /* a host or all, a kind, length (2), bytes: what this agent tells others */
    SESSION_LANE, /* which lane, how (enum session_how) and for which task, length (2), what, bytes: what the agent asks
                   */
    SESSION_GROUP, /* which group, what (enum session_member): what this host's members do in the segment */
    SESSION_STEPS
};
enum { SESSION_REALLY = 7, SESSION_EVENT = 2, SESSION_ASKERS = 4, SESSION_LANES = 16, SESSION_FRAME_MOST = 2000 };
/* A call by a lane: the task's number + 1 is the rest. */
enum session_how { SESSION_LANE_ASK, SESSION_LANE_AGAIN, SESSION_LANE_DROP, SESSION_LANE_TAKE, SESSION_HOWS };
enum session_member {
    SESSION_COME,   /* all of them come to the next instance */
    SESSION_OFFER,  /* their speaker has the socket that the agent wants */
    SESSION_COMMIT, /* it commits to the instance */
    SESSION_PASS,   /* it has heard that the other host has, too */
    SESSION_ASK,    /* the agents shall do it */
    SESSION_MEMBERS
};
/* In the first byte, beside which host it is. */
#define SESSION_LATENCY 2u
/* An answer to a lane has this in place of the slot, the lane in its lowest byte; the number is what is asked there. */
#define SESSION_TO_LANE 0x6e614c00u
/* A frame of control names the agent that it is for: where that is the one that it came to, these are the bytes. */
#define SESSION_SELF 0x7365535f666c6553u
enum { SESSION_SELF_AT = 24 };
/* Which agent this is: the first that its module of control has. */
#define SESSION_SELF_OF(core) (*(const uint64_t *)(core)->state[MU_M_CONTROL])
#define SESSION_TICK_NS       10000000u

/* The byte of a step before which so many ticks pass, at most 15. */
static inline uint8_t session_step_at(enum session_step step, unsigned ticks)
{
    unsigned first = ticks << 4;

    return (uint8_t)(first + (step + SESSION_STEPS - first % SESSION_STEPS) % SESSION_STEPS);
}

struct session_sum {
    bool has_room;                 /* said by the caller: the queues never are full */
    unsigned taken, refused, sent; /* frames */
    unsigned asked;                /* calls of this host's tasks */
    unsigned lanes, answered;      /* calls of the agent itself */
    unsigned live;                 /* acts of members while their shortcut was live */
};

/*
 * The bytes as a program of what happens to one host's end of a bridge: hosts that come, break and are lost, frames of
 * any content, changes of its own tasks, turns. abort() when the segment is not sound afterwards, or when a frame is
 * sent that the other side would refuse by its length.
 */
void session_try(const uint8_t *data, size_t size, struct session_sum *sum);

#endif
