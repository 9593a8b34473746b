/*
 * agent/mpi/unserved.c: a task that asks for PMIx where PMI-1 is served is told how to have it.
 *
 * Programs of Open MPI 5 know PMIx alone. Where none is served each takes itself for the only one of its job, and ends
 * well, so nobody sees that they have not worked together. But before it does, libpmix looks for a server of the whole
 * machine: for a name in the folder that PMIX_SYSTEM_TMPDIR names. That is the job's own folder here, and the name is a
 * link that leads nowhere: libpmix finds no file, and the kernel notes when somebody followed the link. That time is
 * looked at when a task ends, and now and again, ever more rarely: some jobs run for days. (An inotify would tell at
 * once; but that it is closed takes the kernel 3 to 13 ms, which is as long as a short job.)
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/mpi/mpi.h"
#include "base/clock.h"

#define FIRST_LOOK_NS 1000000000ull

/* The host's name, without its domain or with it: libpmix may want either. */
static void name_link(const struct mu_agent *agent, int whole, char *path, size_t size)
{
    char host[HOST_NAME_MAX + 1] = "";

    gethostname(host, sizeof host - 1);
    snprintf(path, size, "%s/pmix.sys.%.*s", mu_agent_mpi(agent)->folder,
             whole ? (int)sizeof host : (int)strcspn(host, "."), host);
}

void mu_agent_watch_unserved(struct mu_agent *agent)
{
    const struct timespec never[2] = {{.tv_sec = 0}, {.tv_nsec = UTIME_OMIT}};
    struct mu_agent_mpi_state *mpi = mu_agent_mpi(agent);
    char path[sizeof mpi->folder + HOST_NAME_MAX + 16];

    if (!mpi->pmi1 || agent->num_tasks < 2) /* the only rank of its job it is then */
        return;
    for (int whole = 0; whole < 2; whole++) {
        name_link(agent, whole, path, sizeof path);
        if (symlink("nowhere", path) == 0)
            utimensat(AT_FDCWD, path, never, AT_SYMLINK_NOFOLLOW);
    }
    mpi->look_ns = FIRST_LOOK_NS;
    mpi->look_at = mu_now() + mpi->look_ns;
}

void mu_agent_look_unserved(struct mu_agent *agent)
{
    struct mu_agent_mpi_state *mpi = mu_agent_mpi(agent);
    char path[sizeof mpi->folder + HOST_NAME_MAX + 16];
    struct stat st;
    int followed = 0;

    if (!mpi->look_at)
        return;
    for (int whole = 0; whole < 2; whole++) {
        name_link(agent, whole, path, sizeof path);
        followed |= lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && st.st_atim.tv_sec != 0;
    }
    if (!followed)
        return;
    mpi->look_at = 0; /* said once for all of them */
    mu_agent_say("a task asks for PMIx, as programs of Open MPI 5 do, and PMI-1 is served: it runs as the only rank "
                 "of a job of its own (run the job with --mpi pmix)");
}

uint64_t mu_agent_unserved_due(const struct mu_agent *agent)
{
    return mu_agent_mpi(agent)->look_at ? mu_agent_mpi(agent)->look_at : UINT64_MAX;
}

void mu_agent_unserved_tick(struct mu_agent *agent, uint64_t now)
{
    struct mu_agent_mpi_state *mpi = mu_agent_mpi(agent);

    if (now < mu_agent_unserved_due(agent))
        return;
    mpi->look_ns *= 2;
    mpi->look_at = now + mpi->look_ns;
    mu_agent_look_unserved(agent);
}
