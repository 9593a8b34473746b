/*
 * compat/pmi1_barrier.c: the barrier of PMI-1, and the tasks that wait in vain.
 *
 * When all tasks of this host are at it, what they put goes to the other hosts with the news of that, and all are
 * released when every host's has come. When a task has left without coming, that is the news. The tasks of a host
 * may wait for each other without a barrier: MPICH 5's do in memory that they share, and look at nothing else. So when
 * one ends that has never said init, those that have wait in vain.
 */
#include <stdio.h>

#include "compat/pmi1_private.h"

static struct mu_pmi1_client *client_at(const struct mu_pmi1 *server, uint32_t i)
{
    return server->tasks[i].client;
}

static void clients_strand(struct mu_pmi1_client *client, const char *why)
{
    if (!client->is_stranded)
        client->server->options.stranded(client->server->options.arg, client->task, why);
    client->is_stranded = true;
}

void mu_pmi1_release(struct mu_pmi1 *server, const char *why)
{
    char word[200];

    snprintf(word, sizeof word, "%s", why ? why : "");
    for (char *at = word; *at; at++)
        if (*at == ' ' || *at == '=' || (unsigned char)*at < 0x20)
            *at = '_';
    for (uint32_t i = 0; i < server->options.local_tasks; i++) {
        struct mu_pmi1_client *client = client_at(server, i);

        if (!client || !client->in_barrier)
            continue;
        client->in_barrier = false;
        server->waiting--;
        if (why)
            mu_pmi1_reply(client, "cmd=barrier_out rc=-1 msg=%s", word);
        else
            mu_pmi1_reply(client, "cmd=barrier_out rc=0");
        mu_pmi1_flush(client);
        if (why)
            clients_strand(client, why);
    }
    for (uint32_t i = 0; i < server->options.local_tasks; i++) /* only now: one may come to the next barrier at once */
        if (client_at(server, i) && client_at(server, i)->text) {
            mu_pmi1_hear_lines(client_at(server, i));
            mu_pmi1_expect(client_at(server, i));
        }
}

static bool is_gone(const struct mu_pmi1 *server, uint32_t i)
{
    return server->tasks[i].gone && !client_at(server, i);
}

/* The first task here that will not come; local_tasks: none. */
static uint32_t first_gone(const struct mu_pmi1 *server)
{
    uint32_t i = 0;

    while (i < server->options.local_tasks && !is_gone(server, i))
        i++;
    return i;
}

static void say_gone(const struct mu_pmi1 *server, uint32_t i, char *why, size_t size)
{
    snprintf(why, size, "task %u has ended%s", server->options.first_task + i,
             server->tasks[i].state == MU_PMI1_NEW ? " without MPI_Init" : ", or left MPI");
}

/* A task in a barrier is answered there. */
static void strand_begun(struct mu_pmi1 *server)
{
    uint32_t count = server->options.local_tasks, never = 0;
    char why[160];

    while (never < count && !(is_gone(server, never) && server->tasks[never].state == MU_PMI1_NEW))
        never++;
    if (never == count)
        return;
    say_gone(server, never, why, sizeof why);
    for (uint32_t i = 0; i < count; i++) {
        struct mu_pmi1_client *client = client_at(server, i);

        if (client && client->state == MU_PMI1_IN && !client->in_barrier)
            clients_strand(client, why);
    }
}

static void barrier_give(struct mu_pmi1 *server, const char *why)
{
    struct mu_pack what = {.bytes = NULL};

    mu_pack_text(&what, why ? why : "");
    mu_pack_raw(&what, server->fresh.bytes, server->fresh.len);
    server->is_exchanging = true;
    if (what.failed || server->fresh.failed) {
        mu_pmi1_exchanged(server, MUSTER_RESOURCE_EXHAUSTED, 0, NULL, "out of memory");
    } else {
        mu_pack_reset(&server->fresh);
        server->options.exchange(server->options.arg, what.bytes, what.len);
    }
    mu_pack_done(&what);
}

void mu_pmi1_look(struct mu_pmi1 *server)
{
    uint32_t gone;
    char why[160];

    if (server && server->num_gone > 0)
        strand_begun(server);
    if (!server || server->is_exchanging || server->waiting == 0)
        return;
    if (server->waiting == server->options.local_tasks) {
        barrier_give(server, NULL);
        return;
    }
    gone = first_gone(server);
    if (gone == server->options.local_tasks)
        return;
    say_gone(server, gone, why, sizeof why);
    barrier_give(server, why);
}

void mu_pmi1_exchanged(struct mu_pmi1 *server, enum muster_status status, uint32_t num_parts, const struct iovec *parts,
                       const char *why)
{
    char reason[200] = "";

    server->is_exchanging = false;
    if (status != MUSTER_OK)
        snprintf(reason, sizeof reason, "%s", why);
    for (uint32_t i = 0; i < num_parts && !reason[0]; i++) {
        struct mu_unpack u = mu_unpack_of(parts[i].iov_base, parts[i].iov_len);

        mu_unpack_text(&u, reason, sizeof reason);
        if (u.failed || (!reason[0] && server->options.has_others && !mu_pmi1_take_notes(server, &u)))
            snprintf(reason, sizeof reason, "what another host's tasks have put cannot be read");
    }
    mu_pmi1_release(server, reason[0] ? reason : NULL);
    mu_pmi1_look(server);
}

static bool is_in_barrier(const void *arg, uint32_t task)
{
    const struct mu_pmi1 *server = arg;
    const struct mu_pmi1_client *client = client_at(server, task - server->options.first_task);

    return client && client->in_barrier;
}

static bool is_remote(const void *arg, uint32_t task)
{
    return !is_in_barrier(arg, task);
}

void mu_pmi1_describe(const struct mu_pmi1 *server, char *text, size_t size)
{
    uint32_t first = server->options.first_task, count = server->options.local_tasks;
    char here[80], missing[80];

    text[0] = 0;
    if (mu_pmi1_list(here, sizeof here, first, count, is_in_barrier, server) == 0)
        return;
    if (mu_pmi1_list(missing, sizeof missing, first, count, is_remote, server) > 0)
        snprintf(text, size, "%s in MPI's barrier (PMI) for %s", here, missing);
    else
        snprintf(text, size, "%s in MPI's barrier (PMI) for other hosts", here);
}
