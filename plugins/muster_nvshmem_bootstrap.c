/*
 * plugins/muster_nvshmem_bootstrap.c: NVSHMEM bootstraps over muster instead of MPI, PMI or sockets:
 *
 *     export NVSHMEM_BOOTSTRAP=plugin NVSHMEM_BOOTSTRAP_PLUGIN=/usr/local/lib/muster_nvshmem_bootstrap.so
 *     muster run -n 8 -- ./a.out
 *
 * NVSHMEM loads this file, calls nvshmemi_bootstrap_plugin_init(), and from then on exchanges a few bytes a time
 * through the table that it filled: collectives that block, which all PEs call in the same order. They are those of one
 * group of all tasks of the job; larger messages go in parts. A PE that dies is an error for the others, with its name
 * on their standard error, and no hang.
 *
 * A program that knows nothing of muster is joined to the job that its launcher names in the environment. One that has
 * joined by itself must say so before it initialises NVSHMEM, for a task is one process and joins once: it opens this
 * file, too, and calls muster_nvshmem_bootstrap_use(). NVSHMEM closes the file when it ends; it is linked so that it
 * stays, for the library has threads and their ends to see to.
 *
 * The declarations below are compatible ones of our own; NVIDIA's are in nvshmemi_bootstrap_defines.h. PE numbers are
 * task ids. One node: NVSHMEM itself finds out that all PEs are on the same.
 */
#include <muster/muster.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- NVSHMEM's side: version 3.0 of the interface, of NVSHMEM 3.x ---- */

enum {
    ABI_MAJOR = 3,
    ABI_VERSION = ABI_MAJOR * 10000,
    NVSHMEMX_ERROR_INTERNAL = 7,
};

struct bootstrap_handle {
    int version;
    int pg_rank, pg_size;
    int mype_node, npes_node; /* filled in by NVSHMEM */
    int (*allgather)(const void *send, void *receive, int bytes, struct bootstrap_handle *);
    int (*alltoall)(const void *send, void *receive, int bytes, struct bootstrap_handle *);
    int (*barrier)(struct bootstrap_handle *);
    void (*global_exit)(int status);
    int (*finalize)(struct bootstrap_handle *);
    int (*show_info)(struct bootstrap_handle *, int style);
    void *pre_init_ops; /* of the bootstrap by unique id only */
    void *comm_state;
};

MUSTER_API int nvshmemi_bootstrap_plugin_init(void *arg, struct bootstrap_handle *handle, const int nvshmem_version);
/* The program's own handle on the job; it stays the program's, and outlives NVSHMEM. */
MUSTER_API void muster_nvshmem_bootstrap_use(struct muster *muster);

/* ---- ours ---- */

struct state {
    struct muster *muster;
    struct muster_group *group;
    int joined; /* by us, so it is for us to leave */
};

static struct muster *given;
static struct state *current; /* for global_exit(), which gets nothing else */

static int complain(const char *doing)
{
    fprintf(stderr, "muster: NVSHMEM's %s: %s\n", doing, muster_last_error());
    return NVSHMEMX_ERROR_INTERNAL;
}

void muster_nvshmem_bootstrap_use(struct muster *muster)
{
    given = muster;
}

/* `bytes` of each PE, in parts that a group takes at a time. Without a part of its own (bytes <= limit) in place. */
static int allgather(const void *send, void *receive, int bytes, struct bootstrap_handle *handle)
{
    struct state *s = handle->comm_state;
    size_t total = (size_t)bytes, pes = (size_t)handle->pg_size;
    char *part = NULL;
    int status = 0;

    if (bytes < 0)
        return NVSHMEMX_ERROR_INTERNAL;
    if (total > MUSTER_GROUP_DATA_MAX && !(part = malloc(pes * MUSTER_GROUP_DATA_MAX))) {
        fprintf(stderr, "muster: NVSHMEM's allgather: no memory for %zu parts\n", pes);
        return NVSHMEMX_ERROR_INTERNAL;
    }
    for (size_t at = 0; at < total && !status; at += MUSTER_GROUP_DATA_MAX) {
        size_t len = total - at < MUSTER_GROUP_DATA_MAX ? total - at : MUSTER_GROUP_DATA_MAX;

        if (muster_group_allgather(s->group, (const char *)send + at, len, part ? part : receive, MUSTER_FOREVER))
            status = complain("allgather");
        for (size_t i = 0; part && !status && i < pes; i++)
            memcpy((char *)receive + i * total + at, part + i * len, len);
    }
    free(part);
    return status;
}

/* `bytes` of each PE for each: everybody gives its whole row, a part of every cell at a time, and takes its column. */
static int alltoall(const void *send, void *receive, int bytes, struct bootstrap_handle *handle)
{
    struct state *s = handle->comm_state;
    size_t total = (size_t)bytes, pes = (size_t)handle->pg_size, rank = (size_t)handle->pg_rank;
    size_t most = MUSTER_GROUP_DATA_MAX / pes; /* of a cell: 8 at least, for a group has 2048 members at most */
    char *row = malloc(pes * most), *all = malloc(pes * pes * most);
    int status = 0;

    if (bytes < 0 || !row || !all) {
        fprintf(stderr, "muster: NVSHMEM's alltoall: %d bytes a PE, or no memory\n", bytes);
        status = NVSHMEMX_ERROR_INTERNAL;
    }
    for (size_t at = 0; !status && at < total; at += most) {
        size_t len = total - at < most ? total - at : most;

        for (size_t i = 0; i < pes; i++)
            memcpy(row + i * len, (const char *)send + i * total + at, len);
        if (muster_group_allgather(s->group, row, pes * len, all, MUSTER_FOREVER))
            status = complain("alltoall");
        for (size_t i = 0; !status && i < pes; i++)
            memcpy((char *)receive + i * total + at, all + (i * pes + rank) * len, len);
    }
    free(row);
    free(all);
    return status;
}

static int barrier(struct bootstrap_handle *handle)
{
    struct state *s = handle->comm_state;

    return muster_group_barrier(s->group, MUSTER_FOREVER) ? complain("barrier") : 0;
}

/* All PEs shall end: the job's error tells the others, the launcher does the rest. */
static void global_exit(int status)
{
    char message[64];

    snprintf(message, sizeof message, "it called nvshmem_global_exit(%d)", status);
    if (current)
        muster_error_report(current->muster, muster_task_id(current->muster), MUSTER_ABORTED, message);
    exit(status);
}

static int finalize(struct bootstrap_handle *handle)
{
    struct state *s = handle->comm_state;
    int status = 0;

    if (!s)
        return 0;
    muster_group_free(s->group);
    if (s->joined && muster_leave(s->muster))
        status = complain("finalize");
    if (current == s)
        current = NULL;
    free(s);
    handle->comm_state = NULL;
    return status;
}

static int show_info(struct bootstrap_handle *handle, int style)
{
    struct state *s = handle->comm_state;

    (void)style;
    printf("Bootstrap: muster job %s, PE %d of %d\n", s ? muster_job(s->muster) : "", handle->pg_rank, handle->pg_size);
    return 0;
}

static int start(struct state *s, struct bootstrap_handle *handle)
{
    s->muster = given;
    if (!s->muster) {
        if (muster_join(NULL, &s->muster)) {
            complain("bootstrap");
            fprintf(stderr, "muster: start it by 'muster run', or, where the program joins the job itself, call "
                            "muster_nvshmem_bootstrap_use() first\n");
            return NVSHMEMX_ERROR_INTERNAL;
        }
        s->joined = 1;
    }
    if (muster_group_create(s->muster, "nvshmem", NULL, 0, MUSTER_GROUP_DATA_MAX, MUSTER_FOREVER, &s->group)) {
        complain("bootstrap");
        if (s->joined)
            muster_leave(s->muster);
        return NVSHMEMX_ERROR_INTERNAL;
    }
    /* every member: the caller has allocated the table and cleared nothing */
    *handle = (struct bootstrap_handle){
        .pg_rank = (int)muster_group_rank(s->group),
        .pg_size = (int)muster_group_size(s->group),
        .allgather = allgather,
        .alltoall = alltoall,
        .barrier = barrier,
        .global_exit = global_exit,
        .finalize = finalize,
        .show_info = show_info,
        .comm_state = s,
    };
    return 0;
}

int nvshmemi_bootstrap_plugin_init(void *arg, struct bootstrap_handle *handle, const int nvshmem_version)
{
    struct state *s;
    int status;

    (void)arg; /* NULL for a plugin */
    if (nvshmem_version / 10000 != ABI_MAJOR) {
        fprintf(stderr,
                "muster: this plugin is for version %d of NVSHMEM's bootstrap interface (NVSHMEM 3.x); the library's "
                "is %d.%d\n",
                ABI_MAJOR, nvshmem_version / 10000, nvshmem_version / 100 % 100);
        return NVSHMEMX_ERROR_INTERNAL;
    }
    s = calloc(1, sizeof *s);
    status = s ? start(s, handle) : NVSHMEMX_ERROR_INTERNAL;
    if (status) {
        free(s);
        return status;
    }
    handle->version = nvshmem_version < ABI_VERSION ? nvshmem_version : ABI_VERSION;
    current = s;
    return 0;
}
