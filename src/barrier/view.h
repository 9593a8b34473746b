/* barrier/view.h: every barrier and group as a reader sees it: all tasks that have come, and all that have not. */
#ifndef MU_BARRIER_VIEW_H
#define MU_BARRIER_VIEW_H

#include <stdbool.h>

#include <muster/barrier.h>

/*
 * What a member says that it waits for, of the group's name (muster_task_info.waiting, which may cut it off): at a
 * collective call; until all have come to make it.
 */
#define MU_GROUP_WAITS  "group %.*s"
#define MU_GROUP_BUILDS "the members of group %.60s"

enum mu_barrier_view_state {
    MU_VIEW_WAITING, /* some have come to the instance, others have not */
    MU_VIEW_PASSED,
    MU_VIEW_FAILED,   /* code says why; of a group: a member was lost, left or gave up */
    MU_VIEW_BUILDING, /* a group that not all members have come to */
};

struct mu_barrier_view {
    bool is_group;
    enum mu_barrier_view_state state;
    enum muster_status code;
    char id[MUSTER_BARRIER_ID_MAX + 1];
    uint64_t instance;
    uint32_t participants, arrived;
    int32_t *missing; /* missing_count of them, ascending for a barrier, by rank for a group; malloc()ed */
    int32_t *present; /* those that have come, `arrived` of them; in the same memory */
    uint32_t missing_count;
    uint64_t deadline_ns; /* UINT64_MAX: none */
    uint64_t since_ns;    /* first arrival; 0: not known (a group's members leave no time) */
};

/*
 * All of them, barriers first, each kind by id: *ret_views is malloc()ed, freed by mu_barrier_view_free(). Reads only
 * and waits for nobody.
 */
enum muster_status mu_barrier_view_list(struct muster *muster, struct mu_barrier_view **ret_views, size_t *ret_count);
void mu_barrier_view_free(struct mu_barrier_view *views, size_t count);

#endif
