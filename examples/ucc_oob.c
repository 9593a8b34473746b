/*
 * ucc_oob.c: the out-of-band allgather that UCC asks its user for, over muster's key-value store.
 * run: "$MUSTER" run -n 4 -- "$EXAMPLE"
 *
 * UCC calls allgather(), which must not wait, then req_test() until it answers 0, then req_free(); several may be under
 * way, on different contexts and teams. Here each such place has a name (coll_info), and each of its rounds a number:
 * a member puts its part under NAME/ROUND/RANK and looks for the others' parts whenever it is asked. A member that has
 * all parts of a round knows that everybody has all of the one before: so it takes its own part of that away. A member
 * that dies is an error of req_test(). In a real program the functions go into ucc_context_params.oob and
 * ucc_team_params.oob.
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/muster.h>

#if defined(__has_include)
#if __has_include(<ucc/api/ucc.h>)
#include <ucc/api/ucc.h>
#define HAS_UCC
#endif
#endif
#ifndef HAS_UCC /* compatible with its ucc.h */
typedef enum { UCC_OK = 0, UCC_INPROGRESS = 1, UCC_ERR_NO_MEMORY = -4, UCC_ERR_NO_MESSAGE = -6 } ucc_status_t;
typedef struct ucc_oob_coll {
    ucc_status_t (*allgather)(void *src, void *recv, size_t size, void *coll_info, void **request);
    ucc_status_t (*req_test)(void *request);
    ucc_status_t (*req_free)(void *request);
    void *coll_info;
    uint32_t n_oob_eps;
    uint32_t oob_ep;
} ucc_oob_coll_t;
#endif

struct place {
    struct muster *muster;
    const char *name;
    uint32_t rank, size;
    uint64_t round;
};

struct request {
    struct place *place;
    uint64_t round;
    uint32_t have; /* parts 0 to have - 1 */
    size_t bytes;
    char *all;
};

static int part_key(const struct place *p, uint64_t round, uint32_t rank, char key[128])
{
    return snprintf(key, 128, "/ucc/%s/%llu/%u", p->name, (unsigned long long)round, rank);
}

static ucc_status_t complain(const char *doing)
{
    fprintf(stderr, "%s: %s\n", doing, muster_last_error());
    return UCC_ERR_NO_MESSAGE;
}

static ucc_status_t oob_allgather(void *src, void *recv, size_t size, void *coll_info, void **request)
{
    struct place *p = coll_info;
    struct request *r = calloc(1, sizeof *r);
    char key[128];

    if (!r)
        return UCC_ERR_NO_MEMORY;
    *r = (struct request){.place = p, .round = ++p->round, .bytes = size, .all = recv};
    part_key(p, r->round, p->rank, key);
    if (muster_kv_set(p->muster, key, MUSTER_NTS, src, size, NULL)) {
        free(r);
        return complain("allgather");
    }
    *request = r;
    return UCC_OK;
}

static ucc_status_t oob_req_test(void *request)
{
    struct request *r = request;
    struct place *p = r->place;
    struct muster_error error;
    char key[128];

    for (; r->have < p->size; r->have++) {
        enum muster_status status;
        size_t len = 0;

        part_key(p, r->round, r->have, key);
        status = muster_kv_try_get(p->muster, key, MUSTER_NTS, r->all + r->have * r->bytes, r->bytes, &len, NULL);
        if (status == MUSTER_NOT_FOUND) {
            /* a deadline in the past: one look. Where somebody is in error the part may never come */
            if (muster_error_wait(p->muster, 1, &error) == MUSTER_OK) {
                fprintf(stderr, "allgather: task %d (pid %u) is lost: %s\n", error.task_id, error.pid, error.message);
                return UCC_ERR_NO_MESSAGE;
            }
            return UCC_INPROGRESS;
        }
        if (status || len != r->bytes)
            return status ? complain("allgather") : UCC_ERR_NO_MESSAGE;
    }
    if (r->round > 1) {
        part_key(p, r->round - 1, p->rank, key);
        muster_kv_delete(p->muster, key, MUSTER_NTS, NULL);
    }
    return UCC_OK;
}

static ucc_status_t oob_req_free(void *request)
{
    free(request);
    return UCC_OK;
}

static ucc_oob_coll_t oob_of(struct place *p)
{
    return (ucc_oob_coll_t){.allgather = oob_allgather,
                            .req_test = oob_req_test,
                            .req_free = oob_req_free,
                            .coll_info = p,
                            .n_oob_eps = p->size,
                            .oob_ep = p->rank};
}

int main(void)
{
    enum { PLACES = 3, ROUNDS = 50, PART = 100000, TASKS_MAX = 64 };
    static char mine[PLACES][PART], all[PLACES][TASKS_MAX * PART];
    static const char *const names[PLACES] = {"context", "team-a", "team-b"};
    struct place places[PLACES];
    struct muster *m;

    setvbuf(stderr, NULL, _IOLBF, BUFSIZ); /* a line of a task is one write: the others' lines do not get into it */
    if (muster_join(NULL, &m))
        errx(1, "%s", muster_last_error());
    if (muster_num_tasks(m) > TASKS_MAX)
        errx(1, "more than %d tasks", TASKS_MAX);
    for (int i = 0; i < PLACES; i++)
        places[i] = (struct place){m, names[i], (uint32_t)muster_task_id(m), muster_num_tasks(m), 0};
    for (int round = 0; round < ROUNDS; round++) {
        size_t sizes[PLACES] = {8, 3, PART};
        void *requests[PLACES];
        int open = PLACES;

        for (int i = 0; i < PLACES; i++) { /* all three at once */
            ucc_oob_coll_t oob = oob_of(&places[i]);

            memset(mine[i], (int)(oob.oob_ep * 16 + (uint32_t)(round + i)), sizes[i]);
            if (oob.allgather(mine[i], all[i], sizes[i], oob.coll_info, &requests[i]) != UCC_OK)
                errx(1, "allgather");
        }
        while (open) /* and ended in whatever order they end */
            for (int i = PLACES - 1; i >= 0; i--) {
                ucc_status_t status = requests[i] ? oob_req_test(requests[i]) : UCC_INPROGRESS;

                if (status < 0)
                    errx(1, "req_test gave %d", (int)status);
                if (status == UCC_OK) {
                    oob_req_free(requests[i]);
                    requests[i] = NULL;
                    open--;
                }
            }
        for (int i = 0; i < PLACES; i++)
            for (uint32_t k = 0; k < places[i].size * (uint32_t)sizes[i]; k++)
                if (all[i][k] != (char)(k / sizes[i] * 16 + (uint32_t)(round + i)))
                    errx(1, "%s, round %d: byte %u is wrong", names[i], round, k);
    }
    if (muster_task_id(m) == 0)
        printf("%d rounds at %d places of %u tasks\n", ROUNDS, PLACES, muster_num_tasks(m));
    muster_leave(m);
    return 0;
}
