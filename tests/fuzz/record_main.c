/*
 * tests/fuzz/record_main.c: the muster command, whose agents write down what happens to their end of the bridge: seeds
 * for the fuzzers, of a real job. record.sh runs it.
 *
 * In the folder $MUSTER_TEST_RECORD each agent of host 0 or 1 leaves session.HOST.PID, a program of session.c: the
 * hosts that came and went, the frames that it took, what its own tasks asked, its turns; and each of its connections
 * frames.HOST.PID.N, the bytes of the first frames that came over it, decrypted. The calls are noted where they enter
 * the core, by the linker's --wrap (rules.mk).
 */
#include "cli/main.c"

#include <stdio.h>
#include <stdlib.h>

#include "bridge/core/control.h"
#include "bridge/core/core.h"
#include "bridge/core/frame.h"
#include "bridge/group/groups.h"
#include "bridge/core/modules.h"
#include "bridge/call/lanes.h"
#include "session.h"

enum { SESSION_MOST = 7000, FRAMES_MOST = 3000, READERS = 8, GROUPS = 4 };

static struct {
    int fd; /* -1: nothing is written */
    size_t written;
    const struct mu_core *core;
    uint64_t turned_at;
    bool any;                       /* since the last turn */
    uint32_t slots[SESSION_ASKERS]; /* + 1 */
    uint64_t asked[SESSION_ASKERS]; /* the last call of each */
    pthread_mutex_t lock;           /* of the bridge's threads and the agent's loop, while one notes */
} out = {.fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
static struct {
    const struct mu_frame_reader *of;
    int fd;
    size_t written;
    uint64_t frames;
} readers[READERS];
static unsigned readers_count;
static struct {
    uint64_t port, at, ask;
} groups[GROUPS]; /* as last noted, in the agent's order */

static int create(const char *kind, int number)
{
    const char *folder = getenv("MUSTER_TEST_RECORD");
    char path[4096];

    if (!folder)
        return -1;
    snprintf(path, sizeof path, "%s/%s.%d.%d", folder, kind, (int)getpid(), number);
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void note(const void *bytes, size_t len)
{
    pthread_mutex_lock(&out.lock);
    if (out.fd >= 0 && (out.written + len > SESSION_MOST || write(out.fd, bytes, len) != (ssize_t)len)) {
        close(out.fd);
        out.fd = -1;
    }
    out.written += len;
    pthread_mutex_unlock(&out.lock);
}

static void note_step(enum session_step step, uint32_t host)
{
    const uint8_t bytes[] = {(uint8_t)step, (uint8_t)host};

    note(bytes, sizeof bytes);
    out.any = true;
}

/* A step, two bytes that say more of it, and some that it is about. */
static void note_long(enum session_step step, uint32_t who, uint32_t what, const uint8_t *bytes, size_t len)
{
    uint8_t all[5 + SESSION_FRAME_MOST] = {(uint8_t)step, (uint8_t)who, (uint8_t)what, (uint8_t)len,
                                           (uint8_t)(len >> 8)};

    if (len > SESSION_FRAME_MOST)
        return;
    if (len)
        memcpy(all + 5, bytes, len);
    note(all, 5 + len);
    out.any = true;
}

/* Which of the session's askers has this slot, in the order in which they came; SESSION_ASKERS: none has. */
static uint32_t asker_of(uint32_t slot)
{
    uint32_t i = 0;

    while (i < SESSION_ASKERS && out.slots[i] && out.slots[i] != slot + 1)
        i++;
    if (i < SESSION_ASKERS)
        out.slots[i] = slot + 1;
    return i;
}

/* ---- what is noted ---- */

enum muster_status __real_mu_core_init(struct mu_core *core, const struct mu_core_tables *tables, struct muster *m,
                                       const struct mu_core_wire *wire, uint64_t now);
enum muster_status __wrap_mu_core_init(struct mu_core *core, const struct mu_core_tables *tables, struct muster *m,
                                       const struct mu_core_wire *wire, uint64_t now);
void __real_mu_core_up(struct mu_core *core, uint32_t host, uint64_t now);
void __wrap_mu_core_up(struct mu_core *core, uint32_t host, uint64_t now);
void __real_mu_core_down(struct mu_core *core, uint32_t host, const char *why, uint64_t now);
void __wrap_mu_core_down(struct mu_core *core, uint32_t host, const char *why, uint64_t now);
void __real_mu_core_lost(struct mu_core *core, uint32_t host, const char *why, uint64_t now);
void __wrap_mu_core_lost(struct mu_core *core, uint32_t host, const char *why, uint64_t now);
void __real_mu_core_frame(struct mu_core *core, uint32_t host, uint8_t type, const void *bytes, size_t len,
                          uint64_t now);
void __wrap_mu_core_frame(struct mu_core *core, uint32_t host, uint8_t type, const void *bytes, size_t len,
                          uint64_t now);
bool __real_mu_core_turn(struct mu_core *core, uint64_t now);
bool __wrap_mu_core_turn(struct mu_core *core, uint64_t now);
void __real_mu_control_send(struct mu_core *core, uint32_t host, uint32_t kind, const void *bytes, size_t len);
void __wrap_mu_control_send(struct mu_core *core, uint32_t host, uint32_t kind, const void *bytes, size_t len);
enum muster_status __real_mu_remote_read(struct mu_ctx *ctx, uint32_t slot, struct mu_request *r);
enum muster_status __wrap_mu_remote_read(struct mu_ctx *ctx, uint32_t slot, struct mu_request *r);
enum muster_status __real_mu_lanes_ask(struct mu_lanes *lanes, struct mu_lane_call *call);
enum muster_status __wrap_mu_lanes_ask(struct mu_lanes *lanes, struct mu_lane_call *call);
enum muster_status __real_mu_lanes_again(struct mu_lanes *lanes, struct mu_lane_call *call);
enum muster_status __wrap_mu_lanes_again(struct mu_lanes *lanes, struct mu_lane_call *call);
void __real_mu_lanes_drop(struct mu_lanes *lanes, struct mu_lane_call *call);
void __wrap_mu_lanes_drop(struct mu_lanes *lanes, struct mu_lane_call *call);
void __real_mu_lanes_take(struct mu_lanes *lanes);
void __wrap_mu_lanes_take(struct mu_lanes *lanes);
int __real_mu_frame_read(struct mu_frame_reader *r, const uint8_t **at, size_t *left, struct mu_message *m);
int __wrap_mu_frame_read(struct mu_frame_reader *r, const uint8_t **at, size_t *left, struct mu_message *m);

enum muster_status __wrap_mu_core_init(struct mu_core *core, const struct mu_core_tables *tables, struct muster *m,
                                       const struct mu_core_wire *wire, uint64_t now)
{
    enum muster_status status = __real_mu_core_init(core, tables, m, wire, now);
    const uint8_t first = (uint8_t)(core->host | (core->latency ? SESSION_LATENCY : 0)),
                  an_event[] = {SESSION_ACT, 0, SESSION_EVENT, 'x'};
    uint64_t events, sent = 0;

    if (!status && core->host < 2) {
        out.core = core;
        out.turned_at = now;
        out.fd = create("session", (int)core->host);
        note(&first, 1);
        while (!muster_event_next(m, &events) && events > sent++) /* before this agent lived */
            note(an_event, sizeof an_event);
    }
    return status;
}

void __wrap_mu_core_up(struct mu_core *core, uint32_t host, uint64_t now)
{
    note_step(SESSION_UP, host);
    __real_mu_core_up(core, host, now);
}

void __wrap_mu_core_down(struct mu_core *core, uint32_t host, const char *why, uint64_t now)
{
    note_step(SESSION_DOWN, host);
    __real_mu_core_down(core, host, why, now);
}

void __wrap_mu_core_lost(struct mu_core *core, uint32_t host, const char *why, uint64_t now)
{
    const uint8_t step[] = {SESSION_LOST, SESSION_REALLY, (uint8_t)host};

    note(step, sizeof step);
    out.any = true;
    __real_mu_core_lost(core, host, why, now);
}

void __wrap_mu_core_frame(struct mu_core *core, uint32_t host, uint8_t type, const void *bytes, size_t len,
                          uint64_t now)
{
    uint8_t copy[SESSION_FRAME_MOST];
    uint32_t slot, asker = 0;
    uint64_t us;

    if (len && len <= sizeof copy)
        memcpy(copy, bytes, len);
    if (len > sizeof copy) {
        /* not noted */
    } else if (type == MU_FRAME_ANSWER && len >= sizeof slot) { /* the session has slots of its own */
        memcpy(&slot, copy, sizeof slot);
        asker = MU_FRAME_SLOTS - 1 - slot < SESSION_LANES ? 0 : asker_of(slot);
        slot = MU_FRAME_SLOTS - 1 - slot < SESSION_LANES ? SESSION_TO_LANE + MU_FRAME_SLOTS - 1 - slot : asker;
        memcpy(copy, &slot, sizeof slot);
    } else if (type == MU_FRAME_CONTROL && len >= SESSION_SELF_AT + sizeof us) {
        memcpy(&us, copy + SESSION_SELF_AT, sizeof us);
        if (us == SESSION_SELF_OF(core))
            memcpy(copy + SESSION_SELF_AT, &(uint64_t){SESSION_SELF}, sizeof us);
    }
    if (asker < SESSION_ASKERS)
        note_long(SESSION_SAID, host, type, copy, len);
    __real_mu_core_frame(core, host, type, bytes, len, now);
}

static void note_member(uint8_t group, enum session_member what)
{
    const uint8_t step[] = {SESSION_GROUP, group, (uint8_t)what};

    note(step, sizeof step);
    out.any = true;
}

/* What the members of this host have done in the segment since the last turn. */
static void note_groups(struct mu_core *core)
{
    uint8_t n = 0;

    for (const struct span *s = mu_groups_of(core)->first; s && n < GROUPS; s = s->next, n++) {
        uint64_t port, ask, at;

        if (!s->proxy || !s->num_own || core != out.core)
            continue;
        at = MU_ARRIVED_INSTANCE(mu_load_relaxed(&s->areas[s->own[0]]->arrived)); /* relaxed, all: it is only noted */
        port = s->way ? mu_load_relaxed(&s->way->port) : 0;
        ask = s->way ? mu_load_relaxed(&s->way->ask) : 0;
        if (port != groups[n].port)
            note_member(n, SESSION_OFFER);
        if (at > groups[n].at)
            note_member(n, SESSION_COME);
        if (at > groups[n].at && s->way_is_live)
            note_member(n, SESSION_COMMIT);
        if (ask > groups[n].ask)
            note_member(n, SESSION_ASK);
        groups[n].port = port;
        groups[n].at = at;
        groups[n].ask = ask;
    }
}

bool __wrap_mu_core_turn(struct mu_core *core, uint64_t now)
{
    uint64_t passed = (now - out.turned_at) / SESSION_TICK_NS;

    note_groups(core);

    if (out.any) {
        uint8_t step = session_step_at(SESSION_TURN, passed > 15 ? 15 : (unsigned)passed);

        note(&step, 1);
        out.any = false;
        out.turned_at = now;
    }
    return __real_mu_core_turn(core, now);
}

enum muster_status __wrap_mu_remote_read(struct mu_ctx *ctx, uint32_t slot, struct mu_request *r)
{
    enum muster_status status = __real_mu_remote_read(ctx, slot, r);
    uint32_t asker = !status && r->op ? asker_of(slot) : SESSION_ASKERS;

    if (asker < SESSION_ASKERS && r->number > out.asked[asker]) {
        while (++out.asked[asker] < r->number) /* what was asked before this agent lived, or unseen by it */
            note_long(SESSION_ASKS, asker, MU_OP_SYNC, NULL, 0);
        note_long(SESSION_ASKS, asker, r->op, r->body.at,
                  r->body.left < SESSION_FRAME_MOST ? r->body.left : SESSION_FRAME_MOST);
    }
    return status;
}

void __wrap_mu_control_send(struct mu_core *core, uint32_t host, uint32_t kind, const void *bytes, size_t len)
{
    note_long(SESSION_TELLS, host, kind, bytes, len);
    __real_mu_control_send(core, host, kind, bytes, len);
}

/* ---- what the agent asks by its lanes ---- */

static void note_lane(uint32_t lane, enum session_how how, uint32_t task, const uint8_t *bytes, size_t len)
{
    if (lane - 1 < SESSION_LANES)
        note_long(SESSION_LANE, lane - 1, (uint32_t)how + task % 32 * SESSION_HOWS, bytes, len);
}

/* Its lane is known when it has been asked; then its request is not the call's any more. */
static enum muster_status note_asked(enum muster_status (*ask)(struct mu_lanes *lanes, struct mu_lane_call *call),
                                     enum session_how how, struct mu_lanes *lanes, struct mu_lane_call *call)
{
    uint8_t bytes[SESSION_FRAME_MOST] = {(uint8_t)call->op};
    size_t len = 1 + call->request.len;
    enum muster_status status;

    if (len <= sizeof bytes && len > 1)
        memcpy(bytes + 1, call->request.bytes, len - 1);
    status = ask(lanes, call);
    if (!status && len <= sizeof bytes)
        note_lane(call->lane, how, call->task, bytes, len);
    return status;
}

enum muster_status __wrap_mu_lanes_ask(struct mu_lanes *lanes, struct mu_lane_call *call)
{
    return note_asked(__real_mu_lanes_ask, SESSION_LANE_ASK, lanes, call);
}

enum muster_status __wrap_mu_lanes_again(struct mu_lanes *lanes, struct mu_lane_call *call)
{
    return note_asked(__real_mu_lanes_again, SESSION_LANE_AGAIN, lanes, call);
}

void __wrap_mu_lanes_drop(struct mu_lanes *lanes, struct mu_lane_call *call)
{
    note_lane(call->lane, SESSION_LANE_DROP, 0, NULL, 0);
    __real_mu_lanes_drop(lanes, call);
}

void __wrap_mu_lanes_take(struct mu_lanes *lanes)
{
    note_lane(1, SESSION_LANE_TAKE, 0, NULL, 0);
    __real_mu_lanes_take(lanes);
}

/* The frame that has been read whole, as it came; of more than one frame nothing is kept any more. */
int __wrap_mu_frame_read(struct mu_frame_reader *r, const uint8_t **at, size_t *left, struct mu_message *m)
{
    int whole = __real_mu_frame_read(r, at, left, m);
    uint8_t head[MU_FRAME_HEADER];
    unsigned i = 0;

    if (whole != 1)
        return whole;
    while (i < readers_count && (readers[i].of != r || r->frames <= readers[i].frames))
        i++;
    if (i == READERS)
        return whole;
    if (i == readers_count) {
        readers[readers_count++].of = r;
        readers[i].fd = r->frames == 1 ? create("frames", (int)i) : -1;
    }
    if (r->frames != readers[i].frames + 1 || readers[i].written + sizeof head + m->len > FRAMES_MOST)
        readers[i].fd = -1;
    readers[i].frames = r->frames;
    if (readers[i].fd < 0)
        return whole;
    mu_frame_put(head, &r->header);
    readers[i].written += sizeof head + m->len;
    if (write(readers[i].fd, head, sizeof head) < 0 || (m->len && write(readers[i].fd, m->bytes, m->len) < 0))
        readers[i].fd = -1;
    return whole;
}
