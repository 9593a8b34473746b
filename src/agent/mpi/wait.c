/*
 * agent/mpi/wait.c: which tasks wait in MPI, and for which, for `muster status` and the report of a timeout.
 *
 * From the first wait on it is looked at once a second, until nobody waits. What has changed is written into the job's
 * store by the leader's agent, below MU_AGENT_MPI_WAITS; another's tells the leader's, for it may not sleep until a key
 * is set.
 */
#include <stdio.h>
#include <string.h>

#include <muster/kv.h>

#include "agent/mpi/mpi.h"
#include "compat/pmix.h"

enum { LOOK_MS = 1000 };

static void set_waits(struct mu_agent *agent, uint32_t host, const char *text)
{
    char key[64];

    snprintf(key, sizeof key, MU_AGENT_MPI_WAITS "/%u", host);
    if (agent->segment && mu_agent_be_there(agent) == 0)
        muster_kv_set(agent->muster, key, MUSTER_NTS, text, strlen(text), NULL);
}

/* Of several hosts the leader knows which have not come. */
static void add_hosts(const struct mu_agent *agent, char *text, size_t size)
{
    uint32_t hosts[4], count = mu_agent_leads(agent) ? mu_agent_gather_missing(agent, "pmi1", hosts, 4) : 0;
    size_t len = strlen(text);

    for (uint32_t i = 0; agent->bridge && i < count && i < 4 && len < size; i++)
        len += (size_t)snprintf(text + len, size - len, "%s%.60s", i ? ", " : ": ",
                                hosts[i] ? agent->bridge->hosts[hosts[i]].name : "this one");
}

void mu_agent_note_mpi_waits(struct mu_agent *agent)
{
    char text[MU_AGENT_NOTE] = "";
    struct mu_pack what = {.bytes = NULL};

    if (mu_agent_mpi(agent)->pmi1)
        mu_pmi1_describe(mu_agent_mpi(agent)->pmi1, text, sizeof text);
    else
        mu_agent_describe_pmix(agent, text, sizeof text);
    if (mu_agent_mpi(agent)->pmi1 && strstr(text, "for other hosts"))
        add_hosts(agent, text, sizeof text);
    if (strcmp(text, mu_agent_mpi(agent)->waits) == 0)
        return;
    snprintf(mu_agent_mpi(agent)->waits, sizeof mu_agent_mpi(agent)->waits, "%s", text);
    if (!mu_agent_follows(agent)) {
        set_waits(agent, 0, text);
        return;
    }
    mu_pack_u8(&what, 'w');
    mu_pack_text(&what, text);
    mu_agent_tell(agent, 0, MU_TALK_MPI, &what);
    mu_pack_done(&what);
}

static void on_wait_timer(uv_timer_t *timer)
{
    struct mu_agent *agent = timer->loop->data;

    mu_agent_note_mpi_waits(agent);
    if (!mu_agent_mpi(agent)->waits[0])
        uv_timer_stop(timer);
}

void mu_agent_mpi_waits(void *arg)
{
    struct mu_agent *agent = arg;

    if (!mu_agent_mpi(agent)->has_timer)
        uv_timer_init(&agent->loop, &mu_agent_mpi(agent)->timer);
    mu_agent_mpi(agent)->has_timer = 1;
    if (!uv_is_active((uv_handle_t *)&mu_agent_mpi(agent)->timer))
        uv_timer_start(&mu_agent_mpi(agent)->timer, on_wait_timer, LOOK_MS, LOOK_MS);
}

void mu_agent_stop_mpi_waits(struct mu_agent *agent)
{
    if (mu_agent_mpi(agent)->has_timer)
        uv_close((uv_handle_t *)&mu_agent_mpi(agent)->timer, NULL);
    mu_agent_mpi(agent)->has_timer = 0;
    mu_agent_mpi(agent)->waits[0] = 0;
}

/* ---- between the agents ---- */

void mu_agent_tell_mpi(void *arg, const void *bytes, size_t len)
{
    struct mu_agent *agent = arg;
    struct mu_pack what = {.bytes = NULL};

    mu_pack_u8(&what, 'p');
    mu_pack_raw(&what, bytes, len);
    mu_agent_tell(agent, mu_agent_follows(agent) ? 0 : UINT32_MAX, MU_TALK_MPI, &what);
    mu_pack_done(&what);
}

/* What one host's tasks publish host 0 says to the others. */
static void publication_pass_on(struct mu_agent *agent, uint32_t from, const void *bytes, size_t len)
{
    for (uint32_t host = 1; mu_agent_leads(agent) && host < agent->bridge->num_hosts; host++) {
        struct mu_pack what = {.bytes = NULL};

        if (host == from)
            continue;
        mu_pack_u8(&what, 'p');
        mu_pack_raw(&what, bytes, len);
        mu_agent_tell(agent, host, MU_TALK_MPI, &what);
        mu_pack_done(&what);
    }
}

void mu_agent_hear_mpi(struct mu_agent *agent, uint32_t host, struct mu_unpack *u)
{
    char text[MU_AGENT_NOTE] = "";
    int word = mu_unpack_u8(u);

    if (u->failed)
        return;
    if (word == 'p') {
        publication_pass_on(agent, host, u->at, u->left);
        if (mu_agent_mpi(agent)->pmi1)
            mu_pmi1_told(mu_agent_mpi(agent)->pmi1, u->at, u->left);
    } else if (word == 'w' && mu_agent_leads(agent)) {
        mu_unpack_text(u, text, sizeof text);
        if (!u->failed)
            set_waits(agent, host, text);
    }
}
