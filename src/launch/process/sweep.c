/*
 * launch/process/sweep.c: find every process of a job by looking through /proc, whatever it did to hide.
 *
 * A task's descendants usually share its process group; one that made its own session still bears the job's mark in the
 * environment that it was exec'ed with; one that dropped its environment as well is at least, once its parents are
 * gone, a child of the launcher, which is a subreaper. A pidfd is opened before the process is looked at, and the
 * signal goes through it: a number that is reused in between harms nobody.
 *
 * A listing is no proof: a process may fork and end before it is looked at. So the guard, which has no second chance,
 * kills known groups at once, looks at each number that the kernel has given since the listing began, and believes two
 * empty passes.
 */
#include "launch/guard/guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "launch/hosts.h"

#define ENVIRON_MAX (4u << 20)

enum { PREEXISTING_MAX = MU_LAUNCH_HOSTS_MAX + 64, PID_TEXT = 11, CHASE_ROUNDS = 256, CHASE_MAX = 4096 };

/* Passes that find nothing before nothing is believed to be there: a process has no environment while it execs. More
 * where processes end unseen: they may be anybody's, on a busy machine. */
enum { EMPTY_SURE = 2, EMPTY_DOUBTED = 10 };

static pid_t preexisting[PREEXISTING_MAX]; /* of this process, which has one launcher at most; 0: free */
static int num_preexisting; /* as many as were noted: nearly always none, or commands of hosts that stay */

struct facts {
    pid_t parent, group, session;
    char state;
    char name[32];
};

static int read_facts(pid_t pid, struct facts *ret_facts)
{
    char path[64], text[512], *name, *end;
    int parent, group, session;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (mu_read_file(path, text, sizeof text) <= 0)
        return -1;
    name = strchr(text, '(');
    end = strrchr(text, ')'); /* the name itself may hold anything */
    if (!name || !end || sscanf(end + 1, " %c %d %d %d", &ret_facts->state, &parent, &group, &session) != 4)
        return -1;
    ret_facts->parent = parent;
    ret_facts->group = group;
    ret_facts->session = session;
    snprintf(ret_facts->name, sizeof ret_facts->name, "%.*s", (int)(end - name - 1), name + 1);
    return 0;
}

int mu_launch_bears_mark(pid_t pid, const char *run_id)
{
    char path[64], entry[64], *text = NULL, *at;
    size_t len = 0, cap = 0, entry_len = (size_t)snprintf(entry, sizeof entry, "MUSTER_RUN_ID=%s", run_id) + 1;
    ssize_t n = 0;
    int fd, found = 0;

    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    do {
        if (len == cap) {
            char *more = realloc(text, cap = cap ? cap * 2 : 16384);

            if (!more)
                break;
            text = more;
        }
        n = read(fd, text + len, cap - len);
        len += n > 0 ? (size_t)n : 0;
    } while (n > 0 && len < ENVIRON_MAX);
    close(fd);
    for (at = text; at && (at = memmem(at, (size_t)(text + len - at), entry, entry_len)); at++)
        if (at == text || at[-1] == 0) {
            found = 1;
            break;
        }
    free(text);
    return found;
}

static bool is_preexisting(pid_t pid)
{
    for (int i = 0; i < num_preexisting; i++)
        if (preexisting[i] == pid)
            return 1;
    return 0;
}

static int process_bears(const struct mu_launch_mark *mark, pid_t pid, const struct facts *facts)
{
    if (mark->parent && facts->parent == mark->parent)
        return !is_preexisting(pid);
    if (facts->session == mark->session)
        for (size_t i = 0; i < mark->num_groups; i++)
            if (mark->groups[i] && facts->group == mark->groups[i])
                return 1;
    return mu_launch_bears_mark(pid, mark->run_id);
}

/* By its name; a guard that execs what its work is done by has another name for a moment, but its table is there. */
static bool is_spared(const struct mu_launch_mark *mark, pid_t pid, const struct facts *facts)
{
    char path[64], target[64], table[64];
    ssize_t len;

    if (!mark->spare || strcmp(facts->name, mark->spare) == 0)
        return mark->spare != NULL;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, MU_GUARD_TABLE_FD);
    len = readlink(path, target, sizeof target - 1);
    target[len > 0 ? len : 0] = 0;
    snprintf(table, sizeof table, "/memfd:%s (deleted)", mark->spare);
    return strcmp(target, table) == 0;
}

/* 1: it was the job's, and has the signal. -1: it ended before it could be looked at. */
static int process_strike(const struct mu_launch_mark *mark, pid_t pid, int signal_number, struct facts *ret_facts)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0), rc = -1;

    if (fd < 0)
        return errno == ESRCH ? -1 : 0;
    if (read_facts(pid, ret_facts) == 0) {
        rc = 0;
        if (ret_facts->state != 'Z' && ret_facts->state != 'X' && process_bears(mark, pid, ret_facts) &&
            !is_spared(mark, pid, ret_facts))
            rc = syscall(SYS_pidfd_send_signal, fd, signal_number, NULL, 0) == 0;
    }
    close(fd);
    return rc;
}

size_t mu_launch_sweep(const struct mu_launch_mark *mark, int signal_number, pid_t *ret_first, char name[32])
{
    DIR *dir = opendir("/proc");
    struct dirent *item;
    struct facts facts;
    size_t found = 0;

    if (!dir)
        return 0;
    while ((item = readdir(dir))) {
        char *end;
        pid_t pid = (pid_t)strtol(item->d_name, &end, 10);

        /* Others' processes too: a set-user-id program of ours looks like one. The kernel checks the permission. */
        if (*end || pid <= 1 || pid == getpid() || pid == mark->except)
            continue;
        if (process_strike(mark, pid, signal_number, &facts) < 1)
            continue;
        if (found++ == 0 && ret_first) {
            *ret_first = pid;
            memcpy(name, facts.name, sizeof facts.name);
        }
    }
    closedir(dir);
    return found;
}

/* ---- what makes others as fast as it is looked for ---- */

/* The number that the kernel gave last in this pid namespace; 0: not known. */
static pid_t newest_pid(void)
{
    char text[128];
    int newest;

    return mu_read_file("/proc/loadavg", text, sizeof text) > 0 && sscanf(text, "%*s %*s %*s %*s %d", &newest) == 1
               ? newest
               : 0;
}

/*
 * The kernel signals a group and forks under one lock, so no member's child escapes. A group keeps its number from
 * being given again while it has members; where its leader lives, its session says whether it is still the job's.
 */
static void kill_groups(const struct mu_launch_mark *mark)
{
    for (size_t i = 0; i < mark->num_groups; i++) {
        pid_t group = mark->groups[i], session = group > 1 ? getsid(group) : 0;

        if (group > 1 && (session == mark->session || (session < 0 && errno == ESRCH)))
            kill(-group, SIGKILL);
    }
}

/*
 * The processes that were made since `from` was the newest, and those made meanwhile: one that forks and ends before a
 * listing comes to it leaves a child behind the listing's end. Adds to *ret_gone those that had ended before the look.
 */
static size_t kill_newer(const struct mu_launch_mark *mark, pid_t from, size_t *ret_gone)
{
    struct facts facts;
    size_t found = 0;

    for (int round = 0; round < CHASE_ROUNDS; round++) {
        pid_t newest = newest_pid();

        if (newest < from || newest - from > CHASE_MAX) { /* the numbers begin anew, or a listing is quicker */
            ++*ret_gone;
            break;
        }
        if (newest == from)
            break;
        while (from < newest) {
            int hit = ++from == getpid() || from == mark->except ? 0 : process_strike(mark, from, SIGKILL, &facts);

            found += hit > 0;
            *ret_gone += hit < 0;
        }
    }
    return found;
}

void mu_launch_sweep_out(const struct mu_launch_mark *mark, int passes, int pause_ms)
{
    for (int empty = 0; passes > 0; passes--) {
        pid_t newest = newest_pid();
        size_t found, gone = 0;

        kill_groups(mark);
        found = mu_launch_sweep(mark, SIGKILL, NULL, NULL);
        found += kill_newer(mark, newest, &gone);
        empty = found ? 0 : empty + 1;
        if (empty >= (gone ? EMPTY_DOUBTED : EMPTY_SURE))
            return;
        if (found)
            poll(NULL, 0, pause_ms);
    }
}

pid_t mu_launch_parent(pid_t pid)
{
    struct facts facts;

    return read_facts(pid, &facts) == 0 ? facts.parent : 0;
}

bool mu_launch_is_stopped(pid_t pid)
{
    struct facts facts;

    return read_facts(pid, &facts) == 0 && facts.state == 'T';
}

/* The calling thread's children, as the kernel lists them. -1: by a kernel without CONFIG_PROC_CHILDREN it does not. */
static int read_children(char *text, size_t size)
{
    return mu_read_file("/proc/thread-self/children", text, size) < 0 ? -1 : 0;
}

void mu_launch_note_preexisting(void)
{
    char text[PREEXISTING_MAX * PID_TEXT + 1], *at = text, *end;
    siginfo_t info;

    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) || read_children(text, sizeof text))
        return; /* ECHILD, as a rule */
    for (long pid = strtol(at, &end, 10); end > at && num_preexisting < PREEXISTING_MAX; pid = strtol(at, &end, 10)) {
        preexisting[num_preexisting++] = (pid_t)pid;
        at = end;
    }
}

void mu_launch_note_preexisting_child(pid_t pid)
{
    mu_launch_forget_preexisting(pid);
    for (int i = 0; i < num_preexisting; i++)
        if (preexisting[i] == 0) {
            preexisting[i] = pid;
            return;
        }
    if (num_preexisting < PREEXISTING_MAX)
        preexisting[num_preexisting++] = pid;
}

void mu_launch_forget_preexisting(pid_t pid)
{
    for (int i = 0; i < num_preexisting; i++)
        if (preexisting[i] == pid)
            preexisting[i] = 0;
}

bool mu_launch_has_children(pid_t except)
{
    struct mu_launch_mark mark = {.run_id = "-", .parent = getpid(), .except = except, .session = -1};
    char text[(PREEXISTING_MAX + 2) * PID_TEXT + 1], *at = text, *end; /* these, and two more: one of them is enough */
    int found = 0;

    if (read_children(text, sizeof text))
        return mu_launch_sweep(&mark, 0, NULL, NULL) > 0;
    for (long pid = strtol(at, &end, 10); !found && end > at; pid = strtol(at, &end, 10)) {
        found = pid != except && !is_preexisting((pid_t)pid);
        at = end;
    }
    return found;
}
