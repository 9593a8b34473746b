/*
 * compat/pmix_facts.c: lists of facts as libpmix takes them, and what it is told of a job.
 *
 * The first fact that cannot be added leaves its status in the list, and nothing is added behind it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compat/pmix_private.h"

struct mu_pmix_facts mu_pmix_facts_new(const struct mu_pmix *pmix, size_t room)
{
    struct mu_pmix_facts facts = {.library = &pmix->library, .infos = calloc(room, sizeof *facts.infos), .room = room};

    if (!facts.infos)
        facts.status = MU_PMIX_ERR_NOMEM;
    return facts;
}

void mu_pmix_facts_add(struct mu_pmix_facts *facts, const char *key, const void *data, uint16_t type)
{
    if (facts->status == MU_PMIX_SUCCESS && facts->count == facts->room)
        facts->status = MU_PMIX_ERR_BAD_PARAM;
    if (facts->status == MU_PMIX_SUCCESS)
        facts->status = facts->library->PMIx_Info_load(&facts->infos[facts->count++], key, data, type);
}

static void add_u32(struct mu_pmix_facts *facts, const char *key, uint32_t value)
{
    mu_pmix_facts_add(facts, key, &value, MU_PMIX_UINT32);
}

static void add_u16(struct mu_pmix_facts *facts, const char *key, uint32_t value)
{
    uint16_t small = (uint16_t)value;

    mu_pmix_facts_add(facts, key, &small, MU_PMIX_UINT16);
}

static void add_rank(struct mu_pmix_facts *facts, const char *key, uint32_t value)
{
    mu_pmix_facts_add(facts, key, &value, MU_PMIX_PROC_RANK);
}

void mu_pmix_facts_free(struct mu_pmix_facts *facts)
{
    for (size_t i = 0; i < facts->count; i++)
        facts->library->PMIx_Value_destruct(&facts->infos[i].value);
    free(facts->infos);
}

static void list_ranks(struct mu_pack *text, uint32_t first, uint32_t count)
{
    char number[16];

    for (uint32_t i = 0; i < count; i++)
        mu_pack_raw(text, number, (size_t)snprintf(number, sizeof number, "%s%u", i ? "," : "", first + i));
}

/* Where tasks run: "a,b" and "0,1;2,3", each made shorter by libpmix. */
static void add_maps(struct mu_pmix_facts *facts, const struct mu_pmix_job *job)
{
    struct mu_pack names = {.bytes = NULL}, ranks = {.bytes = NULL};
    char *short_names = NULL, *short_ranks = NULL;
    uint32_t first = 0;

    for (uint32_t i = 0; i < job->num_hosts; first += job->host_tasks[i++]) {
        if (job->host_tasks[i] == 0)
            continue;
        if (names.len)
            mu_pack_raw(&names, ",", 1), mu_pack_raw(&ranks, ";", 1);
        mu_pack_raw(&names, job->host_names[i], strlen(job->host_names[i]));
        list_ranks(&ranks, first, job->host_tasks[i]);
    }
    mu_pack_u8(&names, 0);
    mu_pack_u8(&ranks, 0);
    if (names.failed || ranks.failed)
        facts->status = MU_PMIX_ERR_NOMEM;
    if (facts->status == MU_PMIX_SUCCESS)
        facts->status = facts->library->PMIx_generate_regex((char *)names.bytes, &short_names);
    if (facts->status == MU_PMIX_SUCCESS)
        facts->status = facts->library->PMIx_generate_ppn((char *)ranks.bytes, &short_ranks);
    if (facts->status == MU_PMIX_SUCCESS) {
        mu_pmix_facts_add(facts, MU_PMIX_NODE_MAP, short_names, MU_PMIX_REGEX);
        mu_pmix_facts_add(facts, MU_PMIX_PROC_MAP, short_ranks, MU_PMIX_REGEX);
    }
    free(short_names);
    free(short_ranks);
    mu_pack_done(&names);
    mu_pack_done(&ranks);
}

static void add_task(struct mu_pmix_facts *facts, const struct mu_pmix *pmix, const struct mu_pmix_job *job,
                     uint32_t task, uint32_t host, uint32_t first)
{
    struct mu_pmix_facts about = mu_pmix_facts_new(pmix, 8);
    struct mu_pmix_array array = {.type = MU_PMIX_INFO};
    uint32_t app = job->apps ? job->apps[task] : 0, in_app = 0;

    for (uint32_t i = task; job->apps && i > 0 && job->apps[i - 1] == app; i--)
        in_app++;
    add_rank(&about, MU_PMIX_RANK, task);
    add_u32(&about, MU_PMIX_APPNUM, app);
    add_rank(&about, MU_PMIX_GLOBAL_RANK, task);
    add_rank(&about, MU_PMIX_APP_RANK, job->apps ? in_app : task);
    add_u16(&about, MU_PMIX_LOCAL_RANK, task - first);
    add_u16(&about, MU_PMIX_NODE_RANK, task - first);
    add_u32(&about, MU_PMIX_NODEID, host);
    mu_pmix_facts_add(&about, MU_PMIX_HOSTNAME, job->host_names[host], MU_PMIX_STRING);
    array.size = about.count;
    array.array = about.infos;
    if (about.status != MU_PMIX_SUCCESS)
        facts->status = about.status;
    mu_pmix_facts_add(facts, MU_PMIX_PROC_INFO_ARRAY, &array, MU_PMIX_DATA_ARRAY);
    mu_pmix_facts_free(&about);
}

struct mu_pmix_facts mu_pmix_facts_of_job(struct mu_pmix *pmix, const struct mu_pmix_job *job)
{
    struct mu_pmix_facts facts = mu_pmix_facts_new(pmix, MU_PMIX_INFOS_MAX + job->num_tasks);
    struct mu_pack peers = {.bytes = NULL};
    bool yes = true;
    uint32_t task = 0, nodes = 0;

    for (uint32_t i = 0; i < job->num_hosts; i++)
        nodes += job->host_tasks[i] > 0;
    list_ranks(&peers, pmix->first_task, pmix->local_tasks);
    mu_pack_u8(&peers, 0);
    if (peers.failed)
        facts.status = MU_PMIX_ERR_NOMEM;
    mu_pmix_facts_add(&facts, MU_PMIX_JOBID, pmix->nspace, MU_PMIX_STRING);
    mu_pmix_facts_add(&facts, MU_PMIX_TMPDIR, pmix->directory, MU_PMIX_STRING);
    mu_pmix_facts_add(&facts, MU_PMIX_NSDIR, pmix->directory, MU_PMIX_STRING);
    mu_pmix_facts_add(&facts, MU_PMIX_TDIR_RMCLEAN, &yes, MU_PMIX_BOOL);
    add_u32(&facts, MU_PMIX_NUM_NODES, nodes);
    add_u32(&facts, MU_PMIX_UNIV_SIZE, job->num_tasks);
    add_u32(&facts, MU_PMIX_JOB_SIZE, job->num_tasks);
    add_u32(&facts, MU_PMIX_MAX_PROCS, job->num_tasks);
    add_u32(&facts, MU_PMIX_JOB_NUM_APPS, job->num_apps);
    add_u32(&facts, MU_PMIX_LOCAL_SIZE, pmix->local_tasks);
    add_u32(&facts, MU_PMIX_NODE_SIZE, pmix->local_tasks);
    mu_pmix_facts_add(&facts, MU_PMIX_LOCAL_PEERS, peers.bytes, MU_PMIX_STRING);
    add_rank(&facts, MU_PMIX_LOCALLDR, pmix->first_task);
    add_maps(&facts, job);
    for (uint32_t host = 0; host < job->num_hosts; host++)
        for (uint32_t first = task, end = task + job->host_tasks[host]; task < end; task++)
            add_task(&facts, pmix, job, task, host, first);
    mu_pack_done(&peers);
    return facts;
}
