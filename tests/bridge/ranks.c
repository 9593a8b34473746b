/* tests/bridge/ranks.c: what a rank does, with a FAKE library: ids behind which nobody listens, and communicators that
 * are up at once, or never. */
#include "ranks.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <muster/nccl.h>

#include "accel/nccl_id.h"
#include "child.h"
#include "segment/hosts.h"

static struct {
    uint32_t mode;
    int fd, begun, aborted;
} fake;

/* Where an id of libnccl's says that its root listens: a port of loopback, which nobody else has. */
static void open_root(struct mu_nccl_id *id)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&a, len) && !getsockname(fd, (struct sockaddr *)&a, &len));
    CHECK(!(fake.mode & LISTENS) || !listen(fd, 1));
    memcpy(id->bytes + 8, &a, sizeof a);
}

static int fake_get_unique_id(struct mu_nccl_id *id)
{
    static uint64_t count;
    uint64_t self[2] = {(uint64_t)getpid(), ++count};

    memset(id, 0, sizeof *id);
    memcpy(id->bytes + 64, self, sizeof self);
    if (fake.mode & LONELY)
        open_root(id);
    if (fake.mode & STOPS) {
        struct cast_reply stopped = {.number = RANK_STOPPED};
        struct cast_act go;

        CHECK(write(fake.fd, &stopped, sizeof stopped) == sizeof stopped);
        CHECK(read(fake.fd, &go, sizeof go) == sizeof go);
    }
    return fake.mode & FAILS ? 3 : MU_NCCL_SUCCESS;
}

static const char *fake_words(int result)
{
    (void)result;
    return "the fake does not want to";
}

static int fake_init(struct ncclComm **comm, int nranks, struct mu_nccl_id id, int rank, void *config)
{
    (void)nranks;
    (void)id;
    (void)rank;
    (void)config;
    fake.begun++;
    *comm = (struct ncclComm *)&fake;
    return MU_NCCL_IN_PROGRESS;
}

static int fake_state(struct ncclComm *comm, int *result)
{
    (void)comm;
    *result = fake.mode & NEVER_UP ? MU_NCCL_IN_PROGRESS : MU_NCCL_SUCCESS;
    return MU_NCCL_SUCCESS;
}

static int fake_abort(struct ncclComm *comm)
{
    (void)comm;
    fake.aborted++;
    return MU_NCCL_SUCCESS;
}

void rank_take(struct muster *m, const struct cast_act *a, struct cast_reply *r, int fd)
{
    struct mu_nccl nccl = {.version = a->mode & OTHER_VERSION ? 22900 : 22809,
                           .path = "fake",
                           .get_unique_id = fake_get_unique_id,
                           .get_error_string = fake_words,
                           .comm_init_rank_config = fake_init,
                           .comm_get_async_error = fake_state,
                           .comm_abort = fake_abort};
    struct muster_nccl_options options = {.expiry_ns = a->timeout_ns};
    struct ncclComm *comm = NULL;
    struct mu_nccl_call call;
    struct mu_nccl_id id;

    fake.mode = a->mode;
    fake.fd = fd;
    fake.begun = fake.aborted = 0;
    if (a->mode & INIT) {
        r->status = (int)mu_nccl_comm_init(&nccl, m, a->id, a->count, a->rank, &options, cast_deadline(a), &comm);
        CHECK((r->status == 0) == (comm != NULL) && fake.aborted == (comm ? 0 : fake.begun));
        return;
    }
    r->status = (int)mu_nccl_call_begin(&call, m, a->id);
    if (r->status)
        return;
    r->status = (int)mu_nccl_introduce(&call, &nccl, a->count, a->rank, 1, &options);
    if (!r->status)
        r->status = (int)mu_nccl_take(&call, cast_deadline(a), &id);
    if (!r->status) {
        memcpy(r->bytes, id.bytes, sizeof id.bytes);
        r->number = call.generation;
    }
    mu_nccl_call_done(&call);
}

void rank_check(struct muster *m, const struct cast_act *a, struct cast_reply *r, int fd)
{
    (void)fd;
    r->status = (int)muster_nccl_check(m, a->id, a->counter);
}

void rank_abandon(struct muster *m, const struct cast_act *a, struct cast_reply *r, int fd)
{
    (void)fd;
    r->status = (int)muster_nccl_abandon(m, a->id, a->counter, "enough of it");
}

void rank_get(struct muster *m, const struct cast_act *a, struct cast_reply *r, int fd)
{
    struct muster_nccl_info info;

    (void)fd;
    r->status = (int)muster_nccl_get(m, a->id, &info);
    if (r->status)
        return;
    r->number = info.generation;
    r->count = info.taken;
    r->tasks[0] = (int32_t)info.state;
    r->tasks[1] = info.owner_task;
    r->incarnations[0] = info.since_ns;
    r->incarnations[1] = muster_after_ns(0);
}

/* ---- the director ------------------------------------------------------------------------------------------------ */

struct cast_act act_of(cast_fn fn, const char *name, uint64_t generation)
{
    struct cast_act a = {.kind = CAST_DO, .fn = fn, .counter = generation};

    snprintf(a.id, sizeof a.id, "%s", name);
    return a;
}

/* The task is the rank of its number. */
struct cast_act taking(const char *name, uint32_t nranks, uint32_t rank, uint32_t mode)
{
    struct cast_act a = act_of(rank_take, name, 0);

    a.count = nranks;
    a.rank = rank;
    a.mode = mode;
    return a;
}

void tell_take(uint32_t task, uint32_t nranks, uint32_t mode)
{
    struct cast_act a = taking("world", nranks, task, mode);

    cast_tell(task, &a);
}

struct cast_reply do_take(uint32_t task, uint32_t nranks, uint32_t mode)
{
    tell_take(task, nranks, mode);
    return cast_hear(task);
}

struct cast_reply do_fn(uint32_t task, cast_fn fn, uint64_t generation)
{
    struct cast_act a = act_of(fn, "world", generation);

    return cast_do(task, &a);
}

/* It makes the id, and is stopped there. */
void stop_maker(uint32_t task, uint32_t nranks, uint32_t mode)
{
    tell_take(task, nranks, mode | STOPS);
    assert_int_equal(cast_hear(task).number, RANK_STOPPED);
}

void go_on(uint32_t task)
{
    struct cast_act a = {0};

    cast_tell(task, &a);
}

void assert_has(struct cast_reply r, uint64_t generation, const char *id)
{
    assert_reply(r, MUSTER_OK);
    assert_int_equal(r.number, generation);
    if (id)
        assert_memory_equal(r.bytes, id, MUSTER_NCCL_ID_BYTES);
}

void enter_all(uint32_t flags)
{
    for (uint32_t i = 0; i < 4; i++)
        cast_enter(i, flags);
}

static bool has_copy(uint32_t task)
{
    struct muster_segment *seg = hosts_segment(cast_hosts, mu_host_of(cast_leader->seg, task));
    struct mu_table t = mu_table_kv(seg);
    static const char key[] = MU_NCCL_KEYS "world";
    struct mu_found f = {0};
    struct mu_key k;

    mu_key_make(&k, seg, key, sizeof key - 1);
    return mu_table_get(&t, NULL, &k, NULL, 0, &f) == MUSTER_OK && f.version;
}

void until_it_waits(uint32_t task)
{
    if (mu_host_of(cast_leader->seg, task))
        hosts_await(cast_hosts, has_copy(task), "task %u waits for the maker", task);
    test_until_asleep(cast_pid(task));
}

const uint32_t makers[2] = {0, 3};
/* Of the others one on each host. */
uint32_t other_than(uint32_t maker, uint32_t host)
{
    return host ? (maker == 3 ? 2 : 3) : (maker == 0 ? 1 : 0);
}
