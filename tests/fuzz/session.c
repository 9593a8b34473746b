/*
 * tests/fuzz/session.c: a core of the bridge, over a real segment of its own, and a hostile world around it.
 *
 * The first byte says whether it leads or follows. Then each byte is an event; what it needs is taken from the bytes
 * behind it. Frames are drawn three ways: of any type and content; of a known type; and calls of a known operation with
 * a sound head, so that the bytes behind it are read by that operation. A fourth way are frames as real agents have
 * sent them, with what the tasks of this host and its agent had asked: record_main.c. A task of this host acts, too.
 */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/muster.h>

#include "bridge/core/control.h"
#include "bridge/core/core.h"
#include "bridge/group/groups.h"
#include "bridge/call/lanes_private.h"
#include "segment/file.h"
#include "task/task.h"

enum { HOSTS = 3, TASKS = 6, FRAME_MAX = SESSION_FRAME_MOST };

static const uint32_t tasks[HOSTS] = {2, 3, 1};

struct lane_call {
    struct mu_lane_call call;
    struct world *w;
};
struct world {
    struct mu_core core;
    struct mu_lanes *lanes;
    struct lane_call calls[SESSION_LANES]; /* by the lane that was recorded */
    struct muster_segment *seg;
    struct muster *agent, *askers[SESSION_ASKERS];
    uint32_t slots[SESSION_ASKERS]; /* theirs */
    struct mu_unpack program;
    struct session_sum *sum;
    uint64_t now;
    bool broken; /* the wire has been told to break, and the core not yet that it is */
};

_Noreturn static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, muster_last_error());
    abort();
}

static bool wire_send(void *arg, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    struct world *w = arg;

    if (host >= HOSTS || (w->core.leader ? !host : host))
        die("a frame to nobody");
    for (size_t i = 0; i < mu_frame_kinds_count; i++)
        if (mu_frame_kinds[i].type == type) {
            if (len < mu_frame_kinds[i].min_len || len > mu_frame_kinds[i].max_len)
                die("a frame that its own table calls too short or too long");
            if (!(mu_frame_kinds[i].from & (w->core.leader ? MU_FROM_LEADER : MU_FROM_FOLLOWER)))
                die("a frame that this side does not send");
            w->sum->sent++;
            return w->sum->has_room || len == 0 ||
                   ((const uint8_t *)payload)[len - 1] != 0xa5; /* now and then the queue is full */
        }
    die("a frame of no kind");
}

static void wire_drop(void *arg, uint32_t host, const char *why)
{
    struct world *w = arg;

    if (!why || !*why || host >= HOSTS)
        die("a connection is broken without a reason");
    w->sum->refused++;
}

static bool wire_path(void *arg, uint32_t host, struct sockaddr_storage *ret_own, struct sockaddr_storage *ret_peer)
{
    (void)arg;
    (void)host;
    *ret_own = *ret_peer = (struct sockaddr_storage){.ss_family = AF_INET};
    return true;
}

/* ---- the program ---- */

static uint8_t next(struct world *w)
{
    return w->program.left ? mu_unpack_u8(&w->program) : 0;
}

static uint32_t some_host(struct world *w)
{
    uint8_t b = next(w);

    return w->core.leader ? b % (HOSTS + 1) : b % 5 == 4; /* also one that there is not */
}

/* Up to so many bytes of the program, in place. */
static const uint8_t *take(struct world *w, size_t most, size_t *ret_len)
{
    size_t len = next(w) * (next(w) % 8 == 7 ? 8u : 1u);

    len = len < most ? len : most;
    len = len < w->program.left ? len : w->program.left;
    *ret_len = len;
    return mu_unpack_raw(&w->program, len);
}

/* From memory of its exact size, so that the sanitizer sees a read past the end. */
static void deliver_from(struct world *w, uint32_t host, uint8_t type, const uint8_t *bytes, size_t len)
{
    uint8_t *exact = malloc(len ? len : 1);

    if (len)
        memcpy(exact, bytes, len);
    w->sum->taken++;
    mu_core_frame(&w->core, host, type, exact, len, w->now);
    free(exact);
}

static void deliver(struct world *w, uint8_t type, const uint8_t *bytes, size_t len)
{
    deliver_from(w, some_host(w), type, bytes, len);
}

static void any_frame(struct world *w)
{
    uint8_t type = next(w);
    size_t len;
    const uint8_t *bytes = take(w, FRAME_MAX, &len);

    deliver(w, type, bytes, len);
}

static void known_frame(struct world *w)
{
    const struct mu_frame_kind *kind = &mu_frame_kinds[next(w) % mu_frame_kinds_count];
    uint8_t room[FRAME_MAX] = {0};
    size_t len, least = kind->min_len < FRAME_MAX ? kind->min_len : FRAME_MAX;
    const uint8_t *bytes = take(w, FRAME_MAX, &len);

    if (len)
        memcpy(room, bytes, len);
    deliver(w, kind->type, room, len > least ? len : least);
}

/* A call as a follower sends it: bridge/call/calls.c. */
static void call_frame(struct world *w)
{
    struct mu_pack p = {0};
    size_t len;
    const uint8_t *bytes;

    mu_pack_u32(&p, next(w) % 4);                                           /* slot */
    mu_pack_u64(&p, 1 + next(w) % 8);                                       /* number */
    mu_pack_u32(&p, (uint32_t)mu_op_kinds[next(w) % mu_op_kinds_count].op); /* what */
    mu_pack_u32(&p, next(w) % (TASKS + 1));                                 /* whose */
    mu_pack_u32(&p, next(w) % 64);                                          /* flags */
    mu_pack_u32(&p, next(w) % 3);                                           /* attempt */
    mu_pack_u64(&p, next(w));                                               /* incarnation */
    mu_pack_u8(&p, next(w) % 2);                                            /* resent */
    bytes = take(w, FRAME_MAX, &len);
    mu_pack_raw(&p, bytes, len);
    deliver(w, MU_FRAME_CALL, p.bytes, p.len);
    mu_pack_done(&p);
}

static const uint8_t *take_exactly(struct world *w, size_t *ret_len)
{
    size_t len = next(w);

    len |= (size_t)next(w) << 8;
    len = len < FRAME_MAX ? len : FRAME_MAX;
    len = len < w->program.left ? len : w->program.left;
    *ret_len = len;
    return mu_unpack_raw(&w->program, len);
}

/* What is answered there is what is asked there now; when nothing is, it is passed over. */
static void to_lane(const struct world *w, uint8_t *bytes)
{
    const struct mu_lane_call *call = &w->calls[bytes[0] % SESSION_LANES].call;
    uint32_t slot = MU_FRAME_SLOTS - (call->lane ? call->lane : 1);
    uint64_t number = call->lane ? w->lanes->lanes[call->lane - 1].asked.number : 1;

    memcpy(bytes, &slot, sizeof slot);
    memcpy(bytes + sizeof slot, &number, sizeof number);
}

static void said_frame(struct world *w)
{
    uint8_t host = next(w), type = next(w), room[FRAME_MAX] = {0};
    uint64_t self;
    uint32_t slot;
    size_t len;
    const uint8_t *bytes = take_exactly(w, &len);

    if (len)
        memcpy(room, bytes, len);
    memcpy(&slot, room, sizeof slot);
    if (type == MU_FRAME_ANSWER && len >= sizeof slot + sizeof self && slot >> 8 == SESSION_TO_LANE >> 8)
        to_lane(w, room);
    else if (type == MU_FRAME_ANSWER && len >= sizeof w->slots[0])
        memcpy(room, &w->slots[room[0] % SESSION_ASKERS], sizeof w->slots[0]);
    if (type == MU_FRAME_CONTROL && len >= SESSION_SELF_AT + sizeof self) {
        memcpy(&self, room + SESSION_SELF_AT, sizeof self);
        if (self == SESSION_SELF)
            memcpy(room + SESSION_SELF_AT, &SESSION_SELF_OF(&w->core), sizeof self);
    }
    deliver_from(w, w->core.leader ? host % (HOSTS + 1) : 0, type, room, len);
}

static void tell(struct world *w)
{
    uint8_t host = next(w), kind = next(w);
    size_t len;
    const uint8_t *bytes = take_exactly(w, &len);

    mu_control_send(&w->core, host == UINT8_MAX ? UINT32_MAX : host % HOSTS, kind, bytes, len);
}

static enum muster_status do_not_wait(void *arg)
{
    (void)arg;
    return MUSTER_CANCELLED;
}

/* A call is put where the agent finds it, and its answer is not waited for. */
static void ask(struct world *w)
{
    struct muster *m = w->askers[next(w) % SESSION_ASKERS];
    struct mu_remote_call call = {.op = next(w), .deadline = MUSTER_FOREVER, .what = "a call", .ends = do_not_wait};
    struct mu_pack request = {0};
    struct mu_answer answer;
    struct mu_ctx *ctx;
    size_t len;
    const uint8_t *bytes = take_exactly(w, &len);

    mu_pack_raw(&request, bytes, len);
    call.request = &request;
    if (mu_enter_wait(m, &ctx))
        die("a task cannot ask");
    if (mu_remote_call(m, ctx, &call, &answer) == MUSTER_CANCELLED)
        w->sum->asked++;
    mu_answer_done(&answer);
    mu_exit(ctx);
    mu_pack_done(&request);
}

/* ---- what the agent itself asks ---- */

static void answered(struct mu_lane_call *call, enum muster_status status, const char *text, struct mu_unpack body)
{
    struct world *w = ((struct lane_call *)call)->w;
    uint8_t sum = (uint8_t)strlen(text);

    while (body.left) /* all of it is there */
        sum ^= mu_unpack_u8(&body);
    w->sum->answered++;
    if (sum == 0xff && status == MUSTER_OK) /* asked again within */
        (void)mu_lanes_ask(w->lanes, call);
}

static void rung(void *arg)
{
    (void)arg;
}

static void lane(struct world *w)
{
    struct lane_call *c = &w->calls[next(w) % SESSION_LANES];
    uint8_t what = next(w);
    size_t len;
    const uint8_t *bytes = take_exactly(w, &len);
    enum session_how how = what % SESSION_HOWS;

    if (how == SESSION_LANE_TAKE) {
        mu_lanes_arm(w->lanes);
        mu_lanes_take(w->lanes);
    } else if (how == SESSION_LANE_DROP) {
        mu_lanes_drop(w->lanes, &c->call);
    } else if (len) {
        if (how == SESSION_LANE_ASK)
            mu_lanes_drop(w->lanes, &c->call);
        c->w = w;
        c->call.op = (enum mu_op)bytes[0];
        c->call.task = what / SESSION_HOWS;
        c->call.what = "a call of the agent";
        c->call.answered = answered;
        mu_pack_raw(&c->call.request, bytes + 1, len - 1);
        w->sum->lanes += !mu_lanes_again(w->lanes, &c->call);
        mu_pack_done(&c->call.request); /* where it was not taken over */
    }
}

/* ---- what members of groups do ---- */

static void come(struct span *s, uint64_t instance)
{
    for (uint32_t i = 0; i < s->num_own; i++)
        mu_area_arrive(s->areas[s->own[i]], instance);
}

static bool have_come(const struct span *s, uint64_t instance)
{
    for (uint32_t i = 0; i < s->num_own; i++)
        if (!mu_has_arrived(mu_load_relaxed(&s->areas[s->own[i]]->arrived), instance)) /* relaxed, all: one thread */
            return false;
    return true;
}

/* What barrier/shortcut.c does for the speaker, where it may. */
static void speak(struct span *s, enum session_member what, uint64_t instance)
{
    uint64_t state = mu_load_relaxed(&s->way->state);
    bool covers = MU_SHORTCUT_IS(state) == MU_SHORTCUT_LIVE && mu_load_relaxed(&s->way->ask) < instance;

    if (what == SESSION_ASK)
        mu_shortcut_raise(&s->way->ask, instance);
    else if (what == SESSION_OFFER && MU_SHORTCUT_IS(state) == MU_SHORTCUT_WANTED)
        mu_store_release(&s->way->port, MU_SHORTCUT_NUMBER(state) << 16 | 4711); /* release: as shortcut_offer() does */
    else if (what == SESSION_COMMIT && covers && have_come(s, instance))
        mu_area_trust(s->proxy, instance, (uint32_t)mu_load_relaxed(&s->way->host));
    else if (what == SESSION_PASS && mu_is_trusted(mu_load_relaxed(&s->proxy->arrived)))
        mu_area_arrive(s->proxy, instance);
}

static void act_in_group(struct world *w)
{
    uint8_t which = next(w);
    enum session_member what = next(w) % SESSION_MEMBERS;
    struct span *s = mu_groups_of(&w->core)->first;
    uint64_t instance;

    while (s && s->next && which--)
        s = s->next;
    if (!s || !s->proxy || !s->num_own)
        return;
    instance = mu_passed(mu_load_relaxed(&s->proxy->arrived)) + 1;
    if (what == SESSION_COME)
        come(s, instance);
    else if (s->way)
        speak(s, what, instance);
    w->sum->live += s->way_is_live;
}

/* What a task of this host does; only what does not wait for the leader. */
static void act(struct world *w)
{
    static const char *const keys[] = {"a", "b/c", "b/d", "flag"};
    const char *key = keys[next(w) % 4];
    uint8_t what = next(w);
    char text[8] = {(char)next(w)};

    if (w->core.leader) {
        if (what % 3 == 0)
            muster_kv_set(w->agent, key, MUSTER_NTS, text, sizeof text, NULL);
        else if (what % 3 == 1)
            muster_kv_delete(w->agent, key, MUSTER_NTS, NULL);
        else
            muster_event_send(w->agent, what, text, sizeof text, NULL);
    }
    if (what % 7 == 6)
        muster_error_report(w->agent, (int32_t)w->seg->first_task, MUSTER_INTERNAL, key);
}

static void step(struct world *w)
{
    uint8_t b = next(w);

    w->now += (uint64_t)(b >> 4) * SESSION_TICK_NS;
    switch ((enum session_step)(b % SESSION_STEPS)) {
    case SESSION_UP: mu_core_up(&w->core, some_host(w), w->now); break;
    case SESSION_DOWN: mu_core_down(&w->core, some_host(w), "the program says so", w->now); break;
    case SESSION_LOST: /* lost is for good: rarely */
        if (next(w) % 8 == SESSION_REALLY)
            mu_core_lost(&w->core, some_host(w), "the program says so", w->now);
        break;
    case SESSION_ANY_FRAME: any_frame(w); break;
    case SESSION_KNOWN:
    case SESSION_KNOWN_TOO: known_frame(w); break;
    case SESSION_CALL:
    case SESSION_CALL_TOO: call_frame(w); break;
    case SESSION_ACT: act(w); break;
    case SESSION_SAID: said_frame(w); break;
    case SESSION_ASKS: ask(w); break;
    case SESSION_TELLS: tell(w); break;
    case SESSION_LANE: lane(w); break;
    case SESSION_GROUP: act_in_group(w); break;
    default:
        for (int i = 0; i < 4 && mu_core_turn(&w->core, w->now); i++)
            ;
        mu_lanes_take(w->lanes);
    }
}

/* ---- the world ---- */

static void begin(struct world *w, uint32_t host)
{
    const struct mu_hosts_config hosts = {.num_hosts = HOSTS, .host = host, .num_tasks = tasks, .run_id = {1, 2}};
    const struct muster_segment_config config = {
        .num_tasks = TASKS, .num_slots = 8, .num_buckets = 16, .num_events = 8, .heap_bytes = 2u << 20, .memfd = 1};
    const struct mu_core_wire wire = {.arg = w, .send = wire_send, .drop = wire_drop, .path = wire_path};

    if (mu_segment_create_hosts("session", &config, &hosts, true, &w->seg) || mu_task_join_open(w->seg, &w->agent))
        die("a segment for the session");
    for (uint32_t i = 0; i < SESSION_ASKERS; i++) {
        struct mu_ctx *ctx;

        if (mu_task_join_open(w->seg, &w->askers[i]) || mu_enter(w->askers[i], &ctx))
            die("a task of the session");
        w->slots[i] = ctx->slot;
        mu_exit(ctx);
    }
    w->now = 1000000000u;
    w->core.timeout = 200000000u;
    if (mu_core_init(&w->core, &mu_bridge_tables, w->agent, &wire, w->now))
        die("a core for the session");
    if (mu_lanes_make(&w->core, &w->lanes))
        die("lanes for the session");
    mu_lanes_listen(w->lanes, rung, w);
}

static void report(void *arg, const char *sentence)
{
    (void)arg;
    fprintf(stderr, "audit: %s\n", sentence);
}

static void end(struct world *w)
{
    struct muster_audit sum;
    bool first = w->now & SESSION_TICK_NS; /* either may go first */

    if (first)
        mu_lanes_free(w->lanes);
    mu_core_done(&w->core);
    if (!first) {
        mu_lanes_take(w->lanes);
        mu_lanes_free(w->lanes);
    }
    if (muster_segment_check(w->seg, report, NULL, &sum) || sum.problems)
        die("the segment is not sound after the session");
    for (uint32_t i = 0; i < SESSION_ASKERS; i++)
        muster_leave(w->askers[i]);
    muster_leave(w->agent);
    muster_segment_close(w->seg);
}

void session_try(const uint8_t *data, size_t size, struct session_sum *sum)
{
    struct world *w = calloc(1, sizeof *w);

    if (!w || !size) {
        free(w);
        return;
    }
    w->sum = sum;
    w->program = mu_unpack_of(data + 1, size - 1);
    w->core.latency = data[0] & SESSION_LATENCY;
    begin(w, data[0] % 2);
    mu_core_up(&w->core, w->core.leader ? 1 : 0, w->now);
    while (w->program.left)
        step(w);
    mu_core_turn(&w->core, w->now + 1000000000u);
    end(w);
    free(w);
}
