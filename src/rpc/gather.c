/*
 * rpc/gather.c: what all tasks have told, put together once for all waiters.
 *
 * When the last has told, all of them want the same answer in the same moment: made for each, it would be as many
 * listings of as many keys. So one visit lists, the others wait here, and the answer is kept: what was told first
 * stands, so it does not change. Should the one that lists go away, the next begins anew; what it finds wrong, all are
 * told.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/dialect.h"

enum { TEXT_MAX = 1024 };

static struct mu_visit *visit_pop(struct mu_gather *g)
{
    struct mu_visit *v = g->first;

    if (v) {
        g->first = v->gather_next;
        v->gather = NULL;
    }
    return v;
}

static void answer_all(struct mu_gather *g)
{
    struct mu_visit *v;

    while ((v = visit_pop(g)))
        mu_visit_answer_bytes(v, g->answer, g->len);
}

static void fail_all(struct mu_gather *g, enum muster_status status, unsigned payload, const char *text)
{
    char why[TEXT_MAX];
    struct mu_visit *v;

    snprintf(why, sizeof why, "%s", text);
    while ((v = visit_pop(g)))
        mu_visit_fail(v, status, payload, "%s", why);
}

static void on_devices_listed(struct mu_visit *v)
{
    struct mu_gather *g = v->gather;
    enum muster_status status = v->request.status;

    v->gather_next = g->first; /* first of those that get the answer */
    g->first = v;
    g->lister = NULL;
    if (status) {
        fail_all(g, status, v->request.payload, v->request.text ? v->request.text : "");
        return;
    }
    status = g->make(v->request.entries, v->request.num_entries, mu_coord_incarnation(v->coord), &g->answer, &g->len);
    g->generation = mu_coord_generation(v->coord);
    if (status) {
        g->answer = NULL;
        fail_all(g, status, MU_PAYLOAD_SERVICE, muster_last_error());
    } else {
        answer_all(g);
    }
}

static void gather_begin(struct mu_gather *g)
{
    struct mu_visit *v = g->first;

    g->first = v->gather_next;
    g->lister = v;
    mu_coord_get_dir(v->coord, mu_visit_again(v, on_devices_listed), g->directory, strlen(g->directory));
}

void mu_gather_answer(struct mu_gather *g, struct mu_visit *v)
{
    if (g->answer && g->generation != mu_coord_generation(v->coord)) {
        free(g->answer);
        g->answer = NULL;
    }
    if (g->answer) {
        mu_visit_answer_bytes(v, g->answer, g->len);
        return;
    }
    v->gather = g;
    v->gather_next = g->first;
    g->first = v;
    if (!g->lister)
        gather_begin(g);
}

void mu_gather_left(struct mu_visit *v)
{
    struct mu_gather *g = v->gather;

    v->gather = NULL;
    if (g->lister == v) {
        g->lister = NULL;
        if (g->first)
            gather_begin(g);
        return;
    }
    for (struct mu_visit **at = &g->first; *at; at = &(*at)->gather_next)
        if (*at == v) {
            *at = v->gather_next;
            return;
        }
}
