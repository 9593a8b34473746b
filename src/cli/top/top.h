/*
 * cli/top/top.h: what the parts of `muster top` share: the loop and the keys (top.c), the pages (top/page.c), which
 * tasks are shown in which order (top/order.c).
 */
#ifndef MU_CLI_TOP_TOP_H
#define MU_CLI_TOP_TOP_H

#include <muster/stats.h>

#include "cli/status/picture.h"

enum mu_top_page { MU_TOP_TASKS, MU_TOP_TASK, MU_TOP_BARRIERS, MU_TOP_HOSTS, MU_TOP_HELP };
enum mu_top_sort { MU_TOP_BY_ID, MU_TOP_BY_STATE, MU_TOP_BY_CPU, MU_TOP_BY_WAIT, MU_TOP_BY_BEAT, MU_TOP_SORTS };
enum mu_top_state { MU_TOP_ALL, MU_TOP_TROUBLE, MU_TOP_WAITING, MU_TOP_WORKING, MU_TOP_STATES };

struct mu_top {
    struct muster *muster;
    struct mu_cli_picture picture;
    int has_picture, is_over, is_paused, is_typing, quit;
    uint64_t interval_ns;
    enum mu_top_page page;
    enum mu_top_sort sort;
    int is_reversed;
    enum mu_top_state state;
    char text[64];    /* of the filter */
    uint32_t *order;  /* tasks that pass the filters, sorted */
    size_t num_order; /* of them */
    uint32_t task;    /* the selected one, by number */
    size_t scroll;    /* lines above the first shown */
    size_t lines;     /* that the page has for what scrolls; set by drawing */
    struct muster_stats stats;
    struct muster_stats task_stats; /* of the selected one */
};

/* top/order.c */
void mu_top_arrange(struct mu_top *top);
/* The place of the selected task in the order; it becomes the nearest one that is shown. */
size_t mu_top_place(struct mu_top *top);
const char *mu_top_sort_name(enum mu_top_sort sort);
const char *mu_top_state_name(enum mu_top_state state);

/* top/page.c: draw the whole screen. */
void mu_top_colours(void);
void mu_top_draw(struct mu_top *top);

/* A task as a line of the table, with all of its columns but what it waits for. */
void mu_top_row(const struct mu_cli_picture *picture, const struct mu_cli_task *task, char *text, size_t size);

#endif
