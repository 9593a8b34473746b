/*
 * tests/crash/ops_meet.c: operations of named barriers, groups and events.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ops_kv.h"

static const int32_t trio[] = {0, 1, 2};

static void note(enum muster_status status)
{
    board->outcome[0] = (struct outcome){status, 0, 0};
}

static enum muster_status arrive_at(int who, uint64_t timeout_ns)
{
    return muster_barrier_wait(world.m[who], "meet", MUSTER_BARRIER_NEXT, trio, 3, timeout_ns, 0);
}

void barrier_setup_others(const struct op *op)
{
    (void)op;
    arrive_at(PEER, 0);
    arrive_at(THIRD, 0);
}

/* The first arrival's timeout has passed; nobody has said so yet. */
void barrier_setup_expired(const struct op *op)
{
    static const int32_t duo[] = {0, 1};

    (void)op;
    muster_barrier_wait(world.m[PEER], "meet", MUSTER_BARRIER_NEXT, trio, 3, 1, 0);
    (void)duo;
}

void barrier_setup_passed(const struct op *op)
{
    (void)op;
    for (int k = 0; k < 2; k++) /* the second time they are told, who did not wait to hear it */
        for (int i = 0; i < (k ? 2 : 3); i++)
            arrive_at(i, 0);
}

void barrier_arrive(const struct op *op)
{
    (void)op;
    note(arrive_at(VICTIM, 0));
}

void barrier_conflict(const struct op *op)
{
    static const int32_t duo[] = {0, 1};

    (void)op;
    note(muster_barrier_wait(world.m[VICTIM], "meet", MUSTER_BARRIER_NEXT, duo, 2, 0, 0));
}

void barrier_cancel(const struct op *op)
{
    (void)op;
    note(muster_barrier_cancel(world.m[VICTIM], "meet", 0));
}

/* The result of instance 0 is one: whoever asks again gets the same. */
void barrier_after(const struct op *op)
{
    enum muster_status a = muster_barrier_wait(world.m[PEER], "meet", 0, trio, 3, 0, 0);
    enum muster_status b = muster_barrier_wait(world.m[THIRD], "meet", 0, trio, 3, 0, 0);
    enum muster_status c = muster_barrier_wait(world.m[PEER], "meet", 0, trio, 3, 0, 0);

    (void)op;
    if (a != b || b != c)
        crash_bad("one instance of the barrier gave %s, %s and %s", muster_status_name(a), muster_status_name(b),
                  muster_status_name(c));
    if (a == MUSTER_DEADLINE_EXCEEDED && !strstr(muster_last_error(), "timed out"))
        crash_bad("an instance whose participant is dead does not end: %s", muster_last_error());
}

static void *create(void *arg)
{
    int who = (int)(intptr_t)arg;

    if (muster_group_create(world.m[who], "team", trio, 3, 64, MUSTER_FOREVER, &world.g[who]))
        crash_bad("setup of the group: %s", muster_last_error());
    muster_thread_detach(world.m[who]);
    return NULL;
}

void group_setup(const struct op *op)
{
    pthread_t threads[3];

    (void)op;
    for (intptr_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, create, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++)
        if (world.g[i])
            world.g[i]->spins = 0; /* so that a step is a step */
}

void group_setup_others_arrived(const struct op *op)
{
    group_setup(op);
    for (int i = PEER; i <= THIRD; i++)
        mu_cas(&world.g[i]->mine->arrived, MU_ARRIVED(0), MU_ARRIVED(1)); /* acq_rel, as member_arrive() */
}

/* A process plays the holder until it sleeps in its wait; then it is gone, and the holder goes on without. */
static void park(int who)
{
    struct mu_slot *own = world.ctx[who]->own;
    int status;
    pid_t pid = _Fork();

    if (!pid) {
        muster_group_create(world.m[who], "team", trio, 3, 64, MUSTER_FOREVER, &world.g[who]);
        _exit(0);
    }
    while (!mu_load_acquire(&own->wait_since)) /* acquire: pairs with the sleeper's store */
        sched_yield();
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (mu_load_relaxed(&own->act)) /* relaxed: it is dead */
        crash_bad("setup: the parked peer was not asleep");
    mu_store_relaxed(&own->wait_since, 0); /* relaxed: likewise */
}

void group_setup_others_came(const struct op *op)
{
    (void)op;
    park(PEER);
    park(THIRD);
}

/* A group that all but the victim have left. */
void group_setup_others_left(const struct op *op)
{
    group_setup(op);
    muster_group_free(world.g[PEER]);
    muster_group_free(world.g[THIRD]);
    world.g[PEER] = world.g[THIRD] = NULL;
}

void group_create(const struct op *op)
{
    struct muster_group *g;

    (void)op;
    note(muster_group_create(world.m[VICTIM], "team", trio, 3, 64, 0, &g));
}

void group_barrier(const struct op *op)
{
    (void)op;
    note(muster_group_barrier(world.g[VICTIM], 0));
}

void group_allgather(const struct op *op)
{
    uint64_t mine = 42, all[3] = {0};
    enum muster_status status = muster_group_allgather(world.g[VICTIM], &mine, sizeof mine, all, 0);

    (void)op;
    board->outcome[0] = (struct outcome){status, all[0], all[1]};
}

void group_free(const struct op *op)
{
    (void)op;
    muster_group_free(world.g[VICTIM]);
    note(MUSTER_OK);
}

static bool is_group(void *arg, const char *key, uint32_t key_len)
{
    (void)arg;
    return key_len > 9 && key[0] == 'G';
}

static enum muster_status count_group(void *arg, const struct mu_item *item)
{
    (void)item;
    ++*(unsigned *)arg;
    return MUSTER_OK;
}

static unsigned groups_left(void)
{
    struct mu_table t = mu_table_cells(&world.seg);
    unsigned n = 0;
    struct mu_walk w = {is_group, count_group, &n, false};

    for (uint32_t i = 0; i <= t.mask; i++) {
        struct mu_bucket_info info;

        if (mu_table_walk(&t, world.ctx[PEER], i, &w, &info))
            crash_bad("the cells cannot be walked: %s", muster_last_error());
    }
    return n;
}

/* The survivors agree about instance 1, leave, and nothing of the group is left. */
void group_after(const struct op *op)
{
    int closed[2] = {-1, -1};

    (void)op;
    for (int i = PEER; i <= THIRD; i++)
        if (world.g[i])
            closed[i - PEER] = mu_group_close(world.g[i], 1, MU_ARRIVED_TIMEOUT);
    if (closed[0] != closed[1])
        crash_bad("the survivors disagree about instance 1: %d and %d", closed[0], closed[1]);
    for (int i = PEER; i <= THIRD; i++)
        if (world.g[i])
            muster_group_free(world.g[i]);
    if (world.g[PEER] &&
        groups_left()) { /* the last to leave may be the dead one: then the next to build takes it apart */
        struct muster_group *g;
        int32_t self = PEER;

        if (muster_group_create(world.m[PEER], "next", &self, 1, 0, 0, &g))
            crash_bad("no group can be built: %s", muster_last_error());
        else
            muster_group_free(g);
        if (groups_left())
            crash_bad("%u groups are left though all members are gone", groups_left());
    }
}

void event_setup_full(const struct op *op)
{
    (void)op;
    for (unsigned i = 0; i < EVENTS + 3; i++)
        muster_event_send(world.m[PEER], i, "earlier", MUSTER_NTS, NULL);
}

void event_send(const struct op *op)
{
    uint64_t sequence = 0;
    enum muster_status status = muster_event_send(world.m[VICTIM], 7, "from the victim", MUSTER_NTS, &sequence);

    (void)op;
    board->outcome[0] = (struct outcome){status, sequence, 0};
}

void event_read(const struct op *op)
{
    struct muster_event e = {0};
    uint64_t position = 5;
    char payload[32] = "";
    enum muster_status status = muster_event_read(world.m[VICTIM], &position, 0, &e, payload, sizeof payload, NULL);

    (void)op;
    board->outcome[0] = (struct outcome){status, e.type, position};
}
