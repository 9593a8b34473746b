/*
 * shortcut.pml: barriers of two hosts that meet by datagrams between tasks, and by their agents when that does not do.
 *
 * Stands for: the shortcut of a group on two hosts, the leader's L (0) and a follower's F (1): src/barrier (a speaker's commit
 * and pass, who asks the agents), src/bridge/group/groups_lead.c, groups_follow.c (what agents say then). Reasons, three hosts
 * and the verdict without a shortcut are spans.pml's; arrival within a host is group.pml's.
 *
 * Each host has an arrival word for each of its members and one for its proxy, "the other host". L's proxy is the verdict.
 *   speaker, one member of each host: all of its host have arrived at n, and nobody has asked the agents (ask < n): CAS of
 *       its proxy n-1 -> COMMITTED(n-1), then a datagram D(n), which may be lost, doubled, late; then it looks at ask
 *       again. Committed, and it has heard D(n) of the other: proxy -> n.
 *   ask: who has waited long enough, and an agent that hears of n, raises it to n; then the agents are called. The last
 *       to arrive calls them when ask >= n.
 *   agent of F: silent about n while ask < n and nobody has given up; but what it passed that was asked for it says, always.
 *       Before anything of n, ARRIVED n-1, once a connection. All there, or committed: ARRIVED n. Somebody has given up:
 *       CAS n-1 -> BARRED(n-1), which no speaker commits, then FAILED n; if it is committed, ARRIVED n comes first.
 *       TRUSTED n: the proxy arrives when ARRIVED n was what it said first of n on this connection; passed: ARRIVED n.
 *   agent of L: before anything of n, RELEASED n-1, unless it said TRUSTED n-1, once a connection. All there and asked: CAS n-1 ->
 *       COMMITTED(n-1); committed, by whomever: TRUSTED n, and ASKED n when somebody gave up. ARRIVED n: at once, before
 *       the next frame, the proxy arrives, or ask is raised; passed: RELEASED n, when not said. FAILED n: open, or
 *       committed and ARRIVED n not heard: closed.
 *   giving up: on L the proxy is closed, unless committed. Elsewhere a wish, and a wait for the proxy.
 * A connection breaks at any time and all that is in it is lost, the datagrams too; then F says ARRIVED of what it has
 * passed and is committed to, L says RELEASED of what it has passed. An agent that is killed and replaced forgets all but
 * the words. A lost host: L closes, "not known" when it was committed; F's members end without knowing.
 *
 * Proved: neither host passes what the other has failed, but when the host is lost and L says "not known"; OK only if every
 * member had arrived; nobody is left waiting; frames come in order of instances.
 *
 * Not needed by this: that datagrams of an older connection are not taken (OLD_DATAGRAMS holds: what they say stands in
 * the sender's word for ever); it is for causality, which this model leaves out.
 *
 * The protocol (one member a host, unless LEADS, FOLLOWS say more; GIVES=1: one gives up by itself, which the others follow;
 * CALLED: the agents are called once more):
 * RUN short ok     -DPATIENT -DINSTANCES=1                        : nobody gives up without a cause: always OK
 * RUN full  ok     -DPATIENT -DINSTANCES=1 -DCUTS=1               : the connection breaks
 * RUN full  ok     -DPATIENT -DINSTANCES=1 -DRESTARTS=1           : an agent is killed and replaced at any step
 * RUN full  ok     -DPATIENT -DINSTANCES=1 -DDEATHS=1             : a member dies at any step
 * RUN short ok     -DINSTANCES=1 -DGIVES=1                        : one gives up
 * RUN full  ok     -DPATIENT -DINSTANCES=1 -DLEADS=2              : two members on the leader's host
 * RUN full  ok     -DINSTANCES=1                                  : all may give up
 * RUN full  ok     -DINSTANCES=1 -DLOSSES=1                       : a host is lost
 * RUN full  ok     -DINSTANCES=1 -DDEATHS=1                       : a member dies
 * RUN full  ok     -DINSTANCES=1 -DCUTS=1                         : the connection breaks
 * RUN full  ok     -DINSTANCES=1 -DRESTARTS=1                     : an agent is killed and replaced
 * RUN full  ok     -DPATIENT                                      : two instances, nobody gives up
 * RUN full  ok     -DINSTANCES=1 -DGIVES=1 -DCUTS=1 -DOLD_DATAGRAMS : datagrams of an older connection are taken: as good
 * One rule dropped:
 * RUN full  stuck  -DINSTANCES=1 -DGIVES=1 -DCALLED -DNO_BAR      : F says FAILED and does not bar the instance
 * RUN full  stuck  -DINSTANCES=1 -DGIVES=1 -DFAILED_FIRST         : F is committed and says FAILED without ARRIVED
 * RUN short stuck  -DPATIENT -DINSTANCES=1 -DNOT_ANSWERED         : L does not answer ARRIVED of what it passed
 * RUN short stuck  -DINSTANCES=1 -DGIVES=1 -DANSWERED_AT_ONCE     : L does so only when the frame comes, not when it passes later
 * RUN short stuck  -DPATIENT -DINSTANCES=1 -DNOT_LATER            : F does not say ARRIVED of what was passed while it was asked for
 * RUN short stuck  -DPATIENT -DINSTANCES=1 -DNOT_RAISED           : agents do not raise ask
 * RUN full  stuck  -DPATIENT -DINSTANCES=1 -DLEADS=2 -DNO_SECOND_LOOK : a speaker does not look at ask again
 * RUN full  assert -DPATIENT -DNOT_FIRST                          : F does not say ARRIVED n-1 before it speaks of n
 * RUN full  stuck  -DPATIENT -DNOT_RELEASED_FIRST                 : L does not say RELEASED n-1 before TRUSTED n
 * RUN full  assert -DPATIENT -DDEFERS                             : L takes more frames before it acts on ARRIVED
 * RUN short assert -DINSTANCES=1 -DGIVES=1 -DDEFERS -DCLOSES_THOUGH_ARRIVED : and closes on FAILED though ARRIVED came before
 */
#ifndef INSTANCES
#define INSTANCES 2
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef GIVES
#define GIVES MEMBERS
#endif
#ifndef LEADS
#define LEADS 1 /* members on the leader's host */
#endif
#ifndef FOLLOWS
#define FOLLOWS 1
#endif
#define MEMBERS (LEADS + FOLLOWS)

/* what is said */
#define ARRIVED  1
#define FAILED   2
#define RELEASED 3
#define TRUSTED  4
#define ASKED    5
#define UNKNOWN  6 /* FAILED, one way or the other */

typedef Word { byte epoch; bool closed; bool trusted; bool barred; bool unknown }

byte arrival[MEMBERS];
bool closed[MEMBERS]; /* at the instance after it */
Word proxy[2];
byte ask[2];
byte wish[2];
#ifdef CALLED
bool bell[2] = true; /* the agents are called once more, for whatever */
#else
bool bell[2];
#endif
byte air[2];    /* a bit for each D(n) of this connection that the host's speaker has sent */

byte said;      /* F's agent, of this connection: the last ARRIVED said */
byte told;      /* and FAILED */
byte trust;     /* and TRUSTED heard */
byte there;     /* L's agent: the last ARRIVED heard */
byte passed_on; /* the last RELEASED said */
byte ended;     /* and FAILED */
byte trusting;  /* and TRUSTED */
byte asked;     /* and ASKED */
bool fresh[2];  /* a new connection, or a new agent: what it was about to do it does not */
bool lost;
chan up = [10] of { byte, byte };
chan down = [10] of { byte, byte };
byte finished;
byte deaths;

byte gives;

#define PASSED(h, n)  (proxy[h].epoch >= n)
#define CLOSED(h, n)  (proxy[h].closed && proxy[h].epoch < n)
#define OPEN(h, n)    (!proxy[h].closed && proxy[h].epoch == n - 1)
#define SHUT(m, n)    (closed[m] && arrival[m] < n)

#if LEADS == 1
#define ALL0(n) (arrival[0] >= n)
#define ANY0(n) (SHUT(0, n))
#define OTHER0(m) m
#else
#define ALL0(n) (arrival[0] >= n && arrival[1] >= n)
#define ANY0(n) (SHUT(0, n) || SHUT(1, n))
#define OTHER0(m) (1 - m)
#endif
#define F0 LEADS /* F's speaker */
#if FOLLOWS == 1
#define ALL1(n) (arrival[F0] >= n)
#define ANY1(n) (SHUT(F0, n))
#define OTHER1(m) m
#else
#define ALL1(n) (arrival[F0] >= n && arrival[F0 + 1] >= n)
#define ANY1(n) (SHUT(F0, n) || SHUT(F0 + 1, n))
#define OTHER1(m) (2 * F0 + 1 - m)
#endif
#define ALL(h, n) ((h == 0 && ALL0(n)) || (h == 1 && ALL1(n)))
#define ANY(h, n) ((h == 0 && ANY0(n)) || (h == 1 && ANY1(n)))
#define IS_SPEAKER (me == 0 || me == F0)
/* F: what it passed is said: before it speaks of the next, and when it was asked for */
#ifdef NOT_LATER
#define SAYS_LAST(n) (ask[1] >= n || wished)
#elif defined(NOT_FIRST)
#define SAYS_LAST(n) (!(ask[1] >= n || wished) && ask[1] >= n - 1)
#else
#define SAYS_LAST(n) (ask[1] >= n - 1 || wished)
#endif
#define RAISE(w, n) w = (w < n -> n : w)

/* What stands in the words does not change again. */
inline returns_ok()
{
    assert(ALL(0, n) && ALL(1, n));
    assert(!(CLOSED(0, n) && !proxy[0].unknown) && !(CLOSED(1, n) && !proxy[1].unknown))
}

inline returns_failed()
{
#ifdef PATIENT
    assert(deaths > 0 || lost);
#endif
    assert(!PASSED(0, n) && !PASSED(1, n))
}

/* What stands in the two words never contradicts itself. */
inline look_at_words()
{
    assert(!(proxy[0].closed && !proxy[0].unknown && proxy[1].epoch > proxy[0].epoch));
    assert(!(proxy[1].closed && proxy[0].epoch > proxy[1].epoch && !proxy[1].unknown));
    assert(!proxy[0].unknown || lost)
}

inline move_on(h, n)
{
    proxy[h].epoch = n; proxy[h].trusted = false; proxy[h].barred = false;
    look_at_words()
}

inline close(h, is_unknown)
{
    proxy[h].unknown = is_unknown; proxy[h].closed = true; proxy[h].trusted = false; proxy[h].barred = false;
    look_at_words()
}

#ifdef DEATHS
#define MAY_DIE deaths < DEATHS
#else
#define MAY_DIE false
#endif

proctype Member(byte me)
{
    byte n = 1, heard = 0, h = (me >= F0 -> 1 : 0);
    byte other = (me >= F0 -> OTHER1(me) : OTHER0(me));

arrive:
    atomic {
        if
        :: n > INSTANCES -> goto done
        :: n <= INSTANCES && MAY_DIE -> deaths++; goto done
        :: n <= INSTANCES
        fi;
        if
        :: closed[me] -> goto give_up
        :: else -> arrival[me] = n
        fi
    };
    atomic { /* the last one calls the agent, if that is asked for */
        if
        :: ask[h] >= n && ALL(h, n) -> bell[h] = true
        :: else
        fi
    };

wait:
    atomic {
        if
        :: PASSED(h, n) -> assert(ALL(h, n)); returns_ok(); n++; heard = (heard < n -> 0 : heard); goto arrive
        :: CLOSED(h, n) -> goto give_up
        :: !PASSED(h, n) && ANY(h, n) -> goto give_up
#ifndef PATIENT
        :: gives < GIVES && !PASSED(h, n) && !CLOSED(h, n) -> gives++; goto give_up
#endif
        :: (deaths > 0 || lost) && !PASSED(h, n) -> goto give_up
#ifdef DEATHS
        :: !PASSED(h, n) && ask[h] < n -> ask[h] = n; goto ring
#else
        :: !PASSED(h, n) && ask[h] < n -> ask[h] = n; bell[h] = true; goto wait /* in one step: nobody dies between */
#endif
        :: IS_SPEAKER && OPEN(h, n) && heard < n && (air[1 - h] & (1 << n)) -> heard = n; goto wait
        :: IS_SPEAKER && OPEN(h, n) && heard == n && proxy[h].trusted -> move_on(h, n); goto wait
        :: IS_SPEAKER && OPEN(h, n) && !proxy[h].trusted && !proxy[h].barred && ask[h] < n && ALL(h, n) /* commits: below */
        :: MAY_DIE && !PASSED(h, n) -> deaths++; goto done
        fi
    };

    atomic {
        if
        :: OPEN(h, n) && !proxy[h].trusted && !proxy[h].barred -> proxy[h].trusted = true
        :: else -> goto wait
        fi
    };
    atomic {
        if
        :: MAY_DIE -> deaths++; goto done
        :: air[h] = air[h] | (1 << n)
        :: true /* lost */
        fi
    };
#ifdef NO_SECOND_LOOK
    goto wait;
#else
    atomic {
        if
        :: ask[h] >= n -> bell[h] = true
        :: else
        fi;
        goto wait
    };
#endif

ring:
    atomic {
        if
        :: MAY_DIE -> deaths++; goto done
        :: bell[h] = true; goto wait
        fi
    };

give_up: /* whom of the own host is missing is closed */
    atomic {
        if
        :: other != me && arrival[other] < n && !closed[other] -> closed[other] = true
        :: else
        fi
    };
    atomic {
        if
        :: h == 0 && OPEN(0, n) && !proxy[0].trusted -> close(0, false)
        :: (h != 0 || (OPEN(0, n) && proxy[0].trusted)) && wish[h] < n -> wish[h] = n
        :: else
        fi
    };
    atomic { bell[h] = true };
    atomic {
        if
        :: PASSED(h, n) -> returns_ok(); n++; heard = (heard < n -> 0 : heard); goto arrive
        :: CLOSED(h, n) && proxy[h].unknown -> assert(lost)
        :: CLOSED(h, n) && !proxy[h].unknown -> returns_failed()
        :: lost && !PASSED(h, n) && h == 1 /* it does not know */
        fi
    };
done:
    atomic { n = 0; heard = 0; other = 0; finished++ }
}

inline say_arrived(i) { assert(nfull(up)); up!ARRIVED(i); said = i }

proctype Follower()
{
    byte n, kind;
    bool is_asked, all, wished;

top:
    atomic { n = 0; kind = 0; is_asked = false; all = false; wished = false };
end:
    atomic {
        if
        :: bell[1] && !lost -> bell[1] = false; goto look
        :: fresh[1] && !lost -> fresh[1] = false;
            if
            :: proxy[1].epoch > 0 -> say_arrived(proxy[1].epoch)
            :: else
            fi;
            if
            :: !proxy[1].closed && proxy[1].trusted -> say_arrived(proxy[1].epoch + 1)
            :: else
            fi;
            goto look
        :: !fresh[1] && len(down) > 0 && !lost -> down?kind(n)
        fi;

        if
        :: kind == RELEASED ->
            if
            :: OPEN(1, n) -> move_on(1, n)
            :: else
            fi;
            goto look
        :: kind == FAILED || kind == UNKNOWN ->
            assert(kind == UNKNOWN || !PASSED(1, n));
            if
            :: OPEN(1, n) -> close(1, kind == UNKNOWN)
            :: else
            fi;
            goto look
        :: kind == TRUSTED && PASSED(1, n) ->
            if
            :: said < n -> say_arrived(n)
            :: else
            fi;
            goto look
        :: kind == TRUSTED && OPEN(1, n) -> trust = n
        :: kind == ASKED && PASSED(1, n) ->
            if
            :: said < n -> say_arrived(n)
            :: else
            fi;
            goto look
        :: kind == ASKED && OPEN(1, n) && said < n && told < n -> is_asked = true; goto bar
        :: else -> goto look
        fi
    };
#ifndef NOT_RAISED
    atomic {
        if
        :: fresh[1] -> goto top
        :: else -> RAISE(ask[1], n)
        fi
    };
#endif
    atomic {
        if
        :: fresh[1] -> goto top
        :: else -> if :: said == n && OPEN(1, n) && trust == n -> move_on(1, n) :: else fi
        fi
    };

look:
    atomic {
        kind = 0; n = 0; is_asked = false; all = false; wished = false;
        if
        :: fresh[1] || proxy[1].closed -> goto top
        :: else
        fi;
        n = proxy[1].epoch + 1;
#ifndef WISH_FIRST
        all = proxy[1].trusted || ALL(1, n)
#else
        all = (wish[1] >= n)
#endif
    };
    atomic {
        if
        :: fresh[1] -> goto top
        :: else
        fi;
#ifdef WISH_FIRST
        wished = all || ANY(1, n); all = proxy[1].trusted || ALL(1, n);
#else
        wished = wish[1] >= n || ANY(1, n);
#endif
        if
        :: SAYS_LAST(n) && said < n - 1 -> say_arrived(n - 1)
        :: else
        fi;
        if
#ifdef FAILED_FIRST
        :: !wished && ask[1] >= n && all && said < n && told < n -> say_arrived(n)
        :: wished && told < n -> goto bar
#else
        :: (ask[1] >= n || wished) && all && said < n && told < n -> say_arrived(n)
        :: wished && told < n && !(all && said < n) -> goto bar
#endif
        :: else -> goto top
        fi
    };
    atomic { /* the leader trusts it */
        if
        :: fresh[1] -> goto top
        :: !fresh[1] && trust == n && said == n && OPEN(1, n) -> move_on(1, n); goto look
        :: else -> goto look
        fi
    };

bar:
    atomic {
        if
        :: fresh[1] -> goto top
        :: !fresh[1] && !OPEN(1, n) -> goto look
        :: else
        fi;
#ifndef NOT_FIRST
        if
        :: said < n - 1 -> say_arrived(n - 1)
        :: else
        fi;
#endif
        if
#ifdef NO_BAR
        :: true
#else
        :: !proxy[1].trusted -> proxy[1].barred = true
        :: proxy[1].trusted ->
#ifndef FAILED_FIRST
            if
            :: said < n -> say_arrived(n)
            :: else
            fi;
#endif
            if
            :: is_asked -> goto look
            :: else
            fi
#endif
        fi
    };
    atomic {
        if
        :: fresh[1] -> goto top
        :: else -> assert(nfull(up)); up!FAILED(n); told = n; goto look
        fi
    }
}

inline say(what, i) { assert(nfull(down)); down!what(i) }
inline say_released(i) { say(RELEASED, i); passed_on = i }

proctype Leader()
{
    byte n, kind;
    bool all;

top:
    atomic { n = 0; kind = 0 };
end:
    atomic {
        if
        :: bell[0] && !lost -> bell[0] = false; goto look
        :: fresh[0] && !lost -> fresh[0] = false;
            if
            :: proxy[0].epoch > 0 -> say_released(proxy[0].epoch)
            :: else
            fi;
            goto look
        :: lost && !proxy[0].closed && proxy[0].epoch < INSTANCES -> close(0, proxy[0].trusted); goto top
        :: !fresh[0] && len(up) > 0 && !lost -> goto more
        fi
    };

more:
    atomic {
        if
        :: lost || fresh[0] -> goto top
        :: else -> up?kind(n)
        fi;
        if
        :: kind == FAILED && !proxy[0].closed ->
            assert(n <= proxy[0].epoch + 1);
            if
#ifdef CLOSES_THOUGH_ARRIVED
            :: OPEN(0, n) -> close(0, false)
#else
            :: OPEN(0, n) && !(proxy[0].trusted && there >= n) -> close(0, false)
#endif
            :: else
            fi;
            goto look
        :: kind == ARRIVED && PASSED(0, n) ->
#ifndef NOT_ANSWERED
            if
            :: passed_on < n && trusting < n -> say_released(n)
            :: else
            fi;
#endif
            goto look
        :: kind == ARRIVED && OPEN(0, n) -> there = n
        :: else -> assert(kind != ARRIVED || proxy[0].closed); goto look
        fi
    };
#ifndef NOT_RAISED
    atomic {
        if
        :: fresh[0] -> goto top
        :: else -> RAISE(ask[0], n)
        fi
    };
#endif
#ifdef DEFERS
    atomic { /* it may take more before it looks */
        kind = 0; all = false; n = 0;
        if
        :: fresh[0] -> goto top
        :: !fresh[0] && len(up) > 0 && !lost -> goto more
        :: true
        fi
    };
#endif

look:
    atomic {
        kind = 0; all = false; n = 0;
        if
        :: fresh[0] -> goto top
        :: !fresh[0] && proxy[0].closed ->
            n = proxy[0].epoch + 1;
            if
            :: ended < n ->
#ifndef NOT_RELEASED_BEFORE_END
                if
                :: passed_on < n - 1 && n > 1 -> say_released(n - 1)
                :: else
                fi;
#endif
                ended = n;
                if
                :: proxy[0].unknown -> say(UNKNOWN, n)
                :: else -> say(FAILED, n)
                fi
            :: else
            fi;
            goto top
        :: else
        fi;
        n = proxy[0].epoch + 1;
        all = ALL(0, n)
    };
    atomic {
        if
        :: fresh[0] -> goto top
        :: else
        fi;
#ifndef ANSWERED_AT_ONCE
        if
        :: n > 1 && there >= n - 1 && passed_on < n - 1 && trusting < n - 1 -> say_released(n - 1)
        :: else
        fi;
#endif
        if
        :: there >= n && all /* below */
        :: there < n && OPEN(0, n) && proxy[0].trusted && (ask[0] >= n || wish[0] >= n) && trusting < n ->
#ifndef NOT_RELEASED_FIRST
            if
            :: passed_on < n - 1 && n > 1 -> say_released(n - 1)
            :: else
            fi;
#endif
            say(TRUSTED, n); trusting = n; goto look
        :: there < n && OPEN(0, n) && proxy[0].trusted && wish[0] >= n && trusting == n && asked < n -> say(ASKED, n); asked = n; goto top
        :: there < n && !proxy[0].trusted && all && ask[0] >= n -> goto trusts
        :: else -> goto top
        fi
    };
    atomic {
        if
        :: fresh[0] -> goto top
        :: !fresh[0] && OPEN(0, n) -> move_on(0, n)
        :: else -> goto look
        fi
    };
    atomic {
        if
        :: fresh[0] -> goto top
        :: else ->
            if
            :: trusting < n && passed_on < n -> say_released(n)
            :: else
            fi;
            goto look
        fi
    };

trusts:
    atomic {
        if
        :: fresh[0] -> goto top
        :: !fresh[0] && OPEN(0, n) && !proxy[0].trusted -> proxy[0].trusted = true; goto look
        :: else -> goto top /* whoever was faster calls */
        fi
    }
}

inline drain(c)
{
    do
    :: len(c) > 0 -> c?_,_
    :: else -> break
    od
}

inline cut()
{
    drain(up);
    drain(down);
    said = 0; told = 0; trust = 0;
    passed_on = 0; ended = 0; trusting = 0; asked = 0;
    fresh[0] = true; fresh[1] = true;
#ifndef OLD_DATAGRAMS
    air[0] = 0; air[1] = 0;
#endif
}

proctype World()
{
    byte cuts, restarts;

end:
    do
    :: atomic { cuts < CUTS && !lost -> cuts++; cut();
#ifdef THERE_ENDS
           there = 0
#endif
       }
    :: atomic { restarts < RESTARTS && !lost -> restarts++; cut(); there = 0 }
    :: atomic { LOSSES > 0 && !lost -> lost = true; drain(up); drain(down) }
    od
}

init {
    atomic {
        byte i;
        for (i : 0 .. MEMBERS - 1) { run Member(i) }
        i = 0;
        run Follower();
        run Leader();
        run World()
    };
    (finished == MEMBERS)
}
