/*
 * spans.pml: the outcome of one instance of a group that spans hosts.
 *
 * Stands for: src/barrier/span.c (a member that gives up, the wait for the verdict), src/bridge/group/groups.c (what agents say,
 * decide and apply). Arrival, closing and sleeping within a host are group.pml's.
 *
 * Each host has an arrival word for each of its members, and one for its proxy, "the other hosts". Members wait for all
 * of them. The proxy of the leader's host (host 0) is the verdict: e (released) or CLOSED(e) with a reason, by one CAS.
 *   agent of a follower: all of its members have arrived at e: says ARRIVED e. One is closed, or somebody there asks for
 *                        the end: says GIVEN_UP e with a reason. Hears RELEASED or ENDED e: CAS of its proxy.
 *   agent of the leader: all hosts have said ARRIVED e, and its own members have arrived: CAS verdict e-1 -> e. Somebody
 *                        has GIVEN_UP e, or a host is lost: CAS verdict e-1 -> CLOSED(e). Then says the verdict to all.
 *                        To a host that connects it says its last verdict.
 *                        When one host alone is missing, it is entrusted with the verdict: CAS verdict e-1 -> TRUSTED(e-1),
 *                        and it is told. It lets its proxy arrive as soon as it has said ARRIVED e, and is not told
 *                        RELEASED. Until it says something nobody else closes the verdict: who wants that has it asked
 *                        (ASKED e), and if it has not said ARRIVED e, it says GIVEN_UP e, and never ARRIVED e after.
 *   giving up (own deadline, a task in error, somebody closed): closes the members of the own host that are missing. On
 *                        the leader's host also the proxy: that is the verdict. Elsewhere, and where another host is
 *                        entrusted, asks the agent, and waits for the proxy; only when the leader is lost, it returns
 *                        that it does not know.
 * A connection breaks at any time and what is in it is lost; then each follower says anew what is so, first what it has
 * passed. Trust goes with the connection, but stays in the verdict's word. An agent that is killed and replaced is that,
 * too: all that it decided lies in words. A lost host hears nothing any more, and its members end without knowing; the
 * others agree. If it was entrusted, what became of that instance is not known to them.
 *
 * Proved: all who know the result of an instance know the same one, reason included; OK only if every member had begun
 * to arrive; nobody is left waiting.
 *
 * The protocol (a host with one member leads, another has two; HOSTS=3: a third has one):
 * RUN short ok     -DINSTANCES=1 -DCUTS=1                         : one instance, members give up, the connection breaks
 * RUN full  ok     -DCUTS=1                                       : two instances
 * RUN short ok     -DINSTANCES=1 -DRESTARTS=1                     : the leader's agent is killed and replaced at any step
 * RUN full  ok     -DRESTARTS=1 -DCUTS=1                          : two instances, and a connection breaks besides
 * RUN short ok     -DINSTANCES=1 -DLOSSES=1                       : a host is lost
 * RUN short ok     -DINSTANCES=1 -DABSENT                         : the leader's member may stay away; the others have deadlines
 * RUN full  ok     -DPATIENT -DRESTARTS=1 -DCUTS=1                : nobody gives up without a cause: always OK
 * RUN short ok     -DPATIENT -DINSTANCES=1 -DLOSSES=1             : the loss of a host ends the others' waits
 * RUN short ok     -DINSTANCES=1 -DABSENT1                        : all of the host that is entrusted may stay away
 * RUN short ok     -DPATIENT -DCUTS=1                             : two instances, nobody gives up, the connection breaks
 * RUN full  ok     -DHOSTS=3 -DINSTANCES=1                        : three hosts
 * RUN full  ok     -DHOSTS=3 -DINSTANCES=1 -DPATIENT -DCUTS=1     : three hosts, nobody gives up, a connection breaks
 * RUN full  ok     -DHOSTS=3 -DINSTANCES=1 -DPATIENT -DLOSSES=1   : three hosts, and one of them is lost: the others agree
 * One rule dropped:
 * RUN short assert -DINSTANCES=1 -DHOST_CLOSES_PROXY              : who gives up on a follower closes its proxy itself
 * RUN short assert -DINSTANCES=1 -DOWN_REASON                     : who closed a member of its own host knows the reason at once
 * RUN short assert -DINSTANCES=1 -DVERDICT_BY_STORE               : the leader's agent decides by a store
 * RUN short assert -DINSTANCES=1 -DSAYS_BEFORE_CAS                : the leader's agent says RELEASED, then decides
 * RUN short assert -DINSTANCES=1 -DARRIVED_OR_CLOSED              : a host with a closed member says that all are through
 * RUN short stuck  -DINSTANCES=1 -DCUTS=1 -DPATIENT -DNOT_ANEW    : after a break a follower does not say its state anew
 * RUN short stuck  -DINSTANCES=1 -DCUTS=1 -DPATIENT -DNOT_AGAIN   : after a break the leader does not say its last verdict anew
 * RUN short stuck  -DINSTANCES=1 -DLOSSES=1 -DPATIENT -DLOSS_IGNORED : a lost host ends nothing
 * RUN short assert -DINSTANCES=1 -DCLOSES_TRUSTED                 : who gives up on the leader's host closes what is entrusted
 * RUN short assert -DINSTANCES=1 -DARRIVES_AFTER_ALL              : an entrusted host that gave up says ARRIVED after that
 * RUN short assert -DINSTANCES=1 -DCUTS=1 -DKEEPS_TRUST           : trust outlives its connection
 * RUN short assert -DINSTANCES=1 -DLOSSES=1 -DLOST_TRUST          : a lost host that was entrusted has failed the instance
 * RUN short stuck  -DINSTANCES=1 -DCUTS=1 -DPATIENT -DPASSED_IN_SILENCE : after a break a follower does not say what it passed
 * RUN short stuck  -DINSTANCES=1 -DABSENT1 -DNOT_ASKED            : an entrusted host is not asked for the end
 * RUN short stuck  -DINSTANCES=1 -DABSENT -DDEAF                  : who asks for the end of what all of its host arrived at is not heard
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

#ifndef HOSTS
#define HOSTS 2
#endif
#define MEMBERS (HOSTS + 1) /* 0 on host 0; 1 and 2 on host 1; 3 on host 2 */
#if HOSTS > 2
#define IF3(x) x
#else
#define IF3(x)
#endif
#define HOST(m) (m == 0 -> 0 : (m == 3 -> 2 : 1))

/* results */
#define NONE    0
#define OK      1
#define LOST    2
#define TIMEOUT 3

/* what is said */
#define ARRIVED  1
#define GIVEN_UP 2
#define RELEASED 3
#define ENDED    4
#define UNKNOWN  5 /* ended, one way or the other */
#define ENTRUSTED 6
#define ASKED    7

typedef Word { byte epoch; bool closed; bool late; bool trusted; bool unknown }

Word arrival[MEMBERS];
Word proxy[HOSTS];       /* proxy[0]: the verdict */
byte plea[HOSTS];        /* the instance whose end somebody of this host asks for */
bool plea_late[HOSTS];
byte said[HOSTS];        /* a follower's agent, in its own memory: the last instance it said ARRIVED of, */
byte told[HOSTS];        /* and GIVEN_UP of */
byte there[HOSTS];       /* the leader's agent, in its own memory: the last instance that the host said ARRIVED of */
byte passed_on[HOSTS];   /* likewise: the last verdict said to it: 2 e, or 2 e + 1 when closed */
byte keeper;             /* of a verdict that is trusted: the host */
byte trusting;           /* the leader's agent, in its own memory: the last instance that it told a host it is entrusted with, */
byte asked;              /* and whose end it asked for; */
byte wanted;             /* the last one whose end another host wants, */
bool wanted_late;        /* with its reason */
byte trust[HOSTS];       /* a follower's agent, likewise: the last instance it is entrusted with */
bool anew[HOSTS];        /* and that it has said on this connection what it had passed */
bool lost[HOSTS];        /* the leader has given it up, and it the leader */
byte era[HOSTS];         /* of its connection */
chan up1 = [2] of { byte, byte, bool };
chan up2 = [2] of { byte, byte, bool };
chan down1 = [2] of { byte, byte, bool };
chan down2 = [2] of { byte, byte, bool };
byte finished;

byte begun[MEMBERS]; /* audit */
byte verdict[INSTANCES + 1];
bool cause;

#define REACHED(w, e)    ((!w.closed && w.epoch >= e) || (w.closed && w.epoch > e))
#define CLOSED_FOR(w, e) (w.closed && w.epoch <= e)
#define MISSING(w, e)    (!w.closed && w.epoch < e)
#ifdef ARRIVED_OR_CLOSED
#define THROUGH(w, e) (w.epoch >= e)
#else
#define THROUGH(w, e) REACHED(w, e)
#endif
#define NEXT(h) (proxy[h].closed -> proxy[h].epoch : proxy[h].epoch + 1)

inline returns(result)
{
    assert(verdict[e] == NONE || verdict[e] == result);
    verdict[e] = result;
    assert(result == OK || cause);
    assert(result != OK || (begun[0] >= e && begun[1] >= e && begun[2] >= e IF3(&& begun[3] >= e)))
}

/* Each label is one step: one access to one shared word. */
proctype Member(byte me)
{
    byte e = 1, h = HOST(me);
    bool late, closed_own;

arrive:
    atomic {
        late = false;
        closed_own = false;
        if
        :: e > INSTANCES -> goto done
#ifdef ABSENT
        :: e <= INSTANCES && me == 0 -> cause = true; goto done /* alive, busy elsewhere for ever */
#endif
#ifdef ABSENT1
        :: e <= INSTANCES && me > 0 -> cause = true; goto done
#endif
        :: e <= INSTANCES
        fi;
        begun[me] = e;
        if
        :: arrival[me].closed -> goto give_up
        :: else -> arrival[me].epoch = e
        fi
    };

wait:
    atomic {
        if
        :: REACHED(proxy[h], e) ->
            /* a verdict of OK comes after all of this host: whoever looks finds them there */
            assert((h != 1 || (REACHED(arrival[1], e) && REACHED(arrival[2], e))));
            returns(OK);
            e++;
            goto arrive
        :: CLOSED_FOR(proxy[h], e) -> goto give_up
        :: h == 1 && (CLOSED_FOR(arrival[1], e) || CLOSED_FOR(arrival[2], e)) -> goto give_up
#ifndef PATIENT
        :: MISSING(proxy[h], e) -> cause = true; late = true; goto give_up /* its own deadline */
        :: MISSING(proxy[h], e) -> cause = true; goto give_up              /* a task in error that has not come, or has */
#endif
        :: lost[h] && MISSING(proxy[h], e) -> goto give_up
        fi
    };

give_up: /* close whom of the own host is missing: one word besides the own, which has arrived or is closed */
    atomic {
        if
        :: me == 1 && MISSING(arrival[2], e) -> arrival[2].closed = true; arrival[2].epoch = e; arrival[2].late = late; closed_own = true
        :: me == 2 && MISSING(arrival[1], e) -> arrival[1].closed = true; arrival[1].epoch = e; arrival[1].late = late; closed_own = true
        :: else
        fi
    };
#ifdef HOST_CLOSES_PROXY
    atomic {
        if
        :: MISSING(proxy[h], e) -> proxy[h].closed = true; proxy[h].epoch = e; proxy[h].late = late
        :: else
        fi
    };
#endif
#ifdef OWN_REASON
    atomic {
        if
        :: closed_own -> if :: late -> returns(TIMEOUT) :: else -> returns(LOST) fi; goto done
        :: else
        fi
    };
#endif
    atomic {
        if
#ifdef CLOSES_TRUSTED
        :: h == 0 && MISSING(proxy[0], e) -> proxy[0].trusted = false;
            proxy[0].closed = true; proxy[0].epoch = e; proxy[0].late = late
#endif
        :: h == 0 && MISSING(proxy[0], e) && !proxy[0].trusted -> proxy[0].closed = true; proxy[0].epoch = e; proxy[0].late = late
        :: (h != 0 || (MISSING(proxy[0], e) && proxy[0].trusted)) && plea[h] < e -> plea[h] = e; plea_late[h] = late
        :: else
        fi
    };

    /* the verdict */
    atomic {
        if
        :: REACHED(proxy[h], e) -> returns(OK); e++; goto arrive
        :: CLOSED_FOR(proxy[h], e) && proxy[h].unknown /* likewise: see below */
        :: CLOSED_FOR(proxy[h], e) && !proxy[h].unknown && proxy[h].late -> returns(TIMEOUT)
        :: CLOSED_FOR(proxy[h], e) && !proxy[h].unknown && !proxy[h].late -> returns(LOST)
        :: lost[h] && MISSING(proxy[h], e) /* it does not know */
        fi
    };
done:
    atomic { e = 0; finished++ }
}

#define ALL_OF(h, e)   ((h == 1 && THROUGH(arrival[1], e) && THROUGH(arrival[2], e)) IF3(|| (h == 2 && THROUGH(arrival[3], e))))
#define ANY_CLOSED(h, e) ((h == 1 && (CLOSED_FOR(arrival[1], e) || CLOSED_FOR(arrival[2], e))) IF3(|| (h == 2 && CLOSED_FOR(arrival[3], e))))
#ifdef DEAF
#define WISHED(h, e) ANY_CLOSED(h, e)
#else
#define WISHED(h, e) (ANY_CLOSED(h, e) || plea[h] == e)
#endif

#ifdef ARRIVES_AFTER_ALL
#define MAY_ARRIVE(h) true
#else
#define MAY_ARRIVE(h) (told[h] < NEXT(h))
#endif

/* What it says is read from words that cannot change back; so a look and the saying are one step. */
proctype Follower(byte h; chan up, down)
{
    byte e, kind;
    bool late;

end:
    do
    :: atomic { !lost[h] && len(up) < 2 && !anew[h] -> anew[h] = true;
#ifndef PASSED_IN_SILENCE
           if
           :: !proxy[h].closed && proxy[h].epoch > 0 -> up!ARRIVED(proxy[h].epoch, false)
           :: proxy[h].closed && proxy[h].epoch > 1 -> up!ARRIVED(proxy[h].epoch - 1, false)
           :: else
           fi
#endif
       }
    :: atomic { !lost[h] && len(up) < 2 && anew[h] && !proxy[h].closed && said[h] < NEXT(h) && MAY_ARRIVE(h) && ALL_OF(h, NEXT(h)) ->
           e = NEXT(h); said[h] = e; up!ARRIVED(e, false);
           if
           :: trust[h] == e -> proxy[h].epoch = e
           :: else
           fi;
           e = 0 }
    :: atomic { !lost[h] && len(up) < 2 && anew[h] && !proxy[h].closed && told[h] < NEXT(h) && WISHED(h, NEXT(h)) ->
           e = NEXT(h); told[h] = e; late = plea_late[h]; up!GIVEN_UP(e, late); e = 0; late = false }
    :: atomic { !lost[h] && len(down) > 0 && len(up) < 2 ->
           down?kind(e, late);
           if
           :: kind == ENTRUSTED && MISSING(proxy[h], e) && proxy[h].epoch == e - 1 ->
               trust[h] = e;
               if
               :: said[h] == e -> proxy[h].epoch = e
               :: else
               fi
           :: kind == ASKED && MISSING(proxy[h], e) && said[h] < e && told[h] < e -> told[h] = e; up!GIVEN_UP(e, late)
           :: kind < ENTRUSTED && MISSING(proxy[h], e) && proxy[h].epoch == e - 1 ->
               proxy[h].epoch = e;
               if
               :: kind >= ENDED -> proxy[h].closed = true; proxy[h].late = late; proxy[h].unknown = (kind == UNKNOWN)
               :: else
               fi
           :: else
           fi;
           kind = 0; e = 0; late = false }
    od
}

#define ENDING (proxy[0].unknown -> UNKNOWN : ENDED)
#define VERDICT (2 * proxy[0].epoch + proxy[0].closed)

/* What was released, then its end. Who is entrusted lets itself through. */
inline pass_on(h, down)
{
    e = proxy[0].epoch - proxy[0].closed;
    if
    :: passed_on[h] < 2 * e ->
        passed_on[h] = 2 * e;
        if
        :: trusting == e && keeper == h
        :: else -> down!RELEASED(e, false)
        fi
    :: else -> passed_on[h] = VERDICT; down!ENDING,proxy[0].epoch,proxy[0].late
    fi;
    e = 0
}

/* The instance is under way. */
#define OPEN(e) (!proxy[0].closed && proxy[0].epoch == e - 1)
inline hear(h, up)
{
    up?kind(e, late);
    if
    :: kind == ARRIVED && e > there[h] ->
        there[h] = e;
        if
        :: OPEN(e) && proxy[0].trusted && keeper == h -> proxy[0].trusted = false; proxy[0].epoch = e
        :: else
        fi
    :: kind == GIVEN_UP && OPEN(e) && !proxy[0].trusted ->
        proxy[0].closed = true; proxy[0].epoch = e; proxy[0].late = late
    :: kind == GIVEN_UP && OPEN(e) && proxy[0].trusted && keeper == h ->
        proxy[0].trusted = false; proxy[0].closed = true; proxy[0].epoch = e; proxy[0].late = late
    :: kind == GIVEN_UP && OPEN(e) && proxy[0].trusted && keeper != h && wanted < e ->
        wanted = e; wanted_late = late
    :: else
    fi;
    kind = 0; e = 0; late = false
}

/* What is missing is that host alone. */
#define TRUSTS(h) (!proxy[0].closed && !proxy[0].trusted && !lost[h] && passed_on[h] == VERDICT && THROUGH(arrival[0], proxy[0].epoch + 1) && \
                   (there[1] >= proxy[0].epoch + 1) == (h != 1) IF3(&& (there[2] >= proxy[0].epoch + 1) == (h != 2)))
#define WANTS     (!proxy[0].closed && proxy[0].trusted && asked < proxy[0].epoch + 1 && \
                   (plea[0] == proxy[0].epoch + 1 || wanted == proxy[0].epoch + 1))
#define WHY       (plea[0] == proxy[0].epoch + 1 -> plea_late[0] : wanted_late)
#define ALL_THERE(e) (!proxy[0].trusted && THROUGH(arrival[0], e) && there[1] >= e IF3(&& there[2] >= e))

proctype Leader()
{
    byte e, kind;
    bool late, seen;

end:
    do
    :: atomic { len(up1) > 0 && !lost[1] -> hear(1, up1) }
#if HOSTS > 2
    :: atomic { len(up2) > 0 && !lost[2] -> hear(2, up2) }
#endif
    :: atomic { !proxy[0].closed && ALL_THERE(proxy[0].epoch + 1) -> e = proxy[0].epoch + 1 };
#ifdef SAYS_BEFORE_CAS
       atomic { if :: !lost[1] && len(down1) < 2 -> down1!RELEASED(e, false) :: else fi };
#endif
#ifdef VERDICT_BY_STORE
       atomic { proxy[0].epoch = e; proxy[0].closed = false; e = 0 }
#else
       atomic { if :: !proxy[0].closed && proxy[0].epoch == e - 1 -> proxy[0].epoch = e; proxy[0].trusted = false :: else fi; e = 0 }
#endif
    :: atomic { TRUSTS(1) -> proxy[0].trusted = true; keeper = 1 };
       atomic { if :: len(down1) < 2 && proxy[0].trusted && keeper == 1 && !lost[1] && passed_on[1] == VERDICT -> trusting = proxy[0].epoch + 1; down1!ENTRUSTED(trusting, false) :: else fi }
#if HOSTS > 2
    :: atomic { TRUSTS(2) -> proxy[0].trusted = true; keeper = 2 };
       atomic { if :: len(down2) < 2 && proxy[0].trusted && keeper == 2 && !lost[2] && passed_on[2] == VERDICT -> trusting = proxy[0].epoch + 1; down2!ENTRUSTED(trusting, false) :: else fi }
#endif
#ifndef NOT_ASKED
    :: atomic { WANTS && keeper == 1 && !lost[1] && len(down1) < 2 -> asked = proxy[0].epoch + 1; down1!ASKED,asked,WHY }
#if HOSTS > 2
    :: atomic { WANTS && keeper == 2 && !lost[2] && len(down2) < 2 -> asked = proxy[0].epoch + 1; down2!ASKED,asked,WHY }
#endif
#endif
    :: atomic { !lost[1] && len(down1) < 2 && passed_on[1] < VERDICT -> pass_on(1, down1) }
#if HOSTS > 2
    :: atomic { !lost[2] && len(down2) < 2 && passed_on[2] < VERDICT -> pass_on(2, down2) }
#endif
#ifndef LOSS_IGNORED
    :: atomic { (lost[1] IF3(|| lost[2])) && !proxy[0].closed && proxy[0].epoch < INSTANCES && (!proxy[0].trusted || lost[keeper]) ->
#ifndef LOST_TRUST
           proxy[0].unknown = proxy[0].trusted;
#endif
           proxy[0].trusted = false; proxy[0].closed = true; proxy[0].epoch++; proxy[0].late = false }
    :: atomic { (lost[1] IF3(|| lost[2])) && !proxy[0].closed && proxy[0].trusted && !lost[keeper] && wanted < proxy[0].epoch + 1 ->
           wanted = proxy[0].epoch + 1; wanted_late = false }
#endif
    od
}

inline drain(c)
{
    do
    :: len(c) > 0 -> c?_,_,_
    :: else -> break
    od
}

/* The connection of a host breaks and is made again; or its agent is killed and another adopts: the same here. */
inline cut(h, up, down)
{
    drain(up);
    drain(down);
#ifndef NOT_ANEW
    said[h] = 0;
    told[h] = 0;
    anew[h] = false;
#endif
#ifndef KEEPS_TRUST
    trust[h] = 0;
#endif
    if
    :: keeper == h -> trusting = 0; asked = 0
    :: else
    fi;
#ifndef NOT_AGAIN
    passed_on[h] = 0 /* at the beginning of a connection the last verdict is said */
#endif
}

proctype World()
{
    byte cuts, restarts, losses;

end:
    do
    :: atomic { cuts < CUTS && !lost[1] -> cuts++; cut(1, up1, down1) }
#if HOSTS > 2
    :: atomic { cuts < CUTS && !lost[2] -> cuts++; cut(2, up2, down2) }
#endif
    :: atomic { restarts < RESTARTS -> restarts++;
           wanted = 0; trusting = 0; asked = 0; there[1] = 0; passed_on[1] = 0; cut(1, up1, down1);
#if HOSTS > 2
           there[2] = 0; passed_on[2] = 0; cut(2, up2, down2)
#endif
       }
#if HOSTS > 2
    :: atomic { losses < LOSSES -> losses++; cause = true; lost[2] = true; drain(up2); drain(down2) }
#endif
    :: atomic { losses < LOSSES -> losses++; cause = true; lost[1] = true; drain(up1); drain(down1) }
    od
}

init {
    atomic {
        run Member(0);
        run Member(1);
        run Member(2);
        run Follower(1, up1, down1);
#if HOSTS > 2
        run Member(3);
        run Follower(2, up2, down2);
#endif
        run Leader();
        run World()
    };
    (finished == MEMBERS)
}
