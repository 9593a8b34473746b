/*
 * cli/doctor/limits.c: the limits that a job runs into: of the user, of the control group, of the machine.
 */
#include "cli/doctor/doctor.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/process.h"
#include "cli/cli.h"
#include "cli/doctor/cgroup.h"
#include "segment/format.h"

#define GIB (1024.0 * 1024 * 1024)

/* ---- of the user ------------------------------------------------------------------------------------------------- */

static const char *limit_amount(rlim_t value, char buffer[32])
{
    if (value == RLIM_INFINITY)
        snprintf(buffer, 32, "unlimited");
    else
        snprintf(buffer, 32, "%llu", (unsigned long long)value);
    return buffer;
}

/* The launcher raises its soft limit itself; it needs 64 and one a task, three a task with --label. */
static void open_files(struct mu_doctor_page *page)
{
    static const char mend[] = "raise it: 'ulimit -Hn 65536' as root, LimitNOFILE= in a service's unit, nofile in "
                               "/etc/security/limits.conf, --ulimit nofile=65536 for a container";
    struct rlimit limit;
    char hard[32];

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit_amount(limit.rlim_max, hard);
    if (limit.rlim_max < 66)
        mu_doctor_say(page, MU_DOCTOR_PROBLEM, "open files", mend,
                      "%s (hard limit): 'muster run' needs 64 and one a task", hard);
    else if (limit.rlim_max < 256)
        mu_doctor_say(page, MU_DOCTOR_NOTE, "open files", mend,
                      "%s (hard limit): enough for %llu tasks, a third with --label", hard,
                      (unsigned long long)limit.rlim_max - 64);
    else
        mu_doctor_say(page, MU_DOCTOR_OK, "open files", NULL, "%s (hard limit)", hard);
}

static void processes_probe(struct mu_doctor_page *page)
{
    struct rlimit limit;
    char text[32];

    if (getrlimit(RLIMIT_NPROC, &limit))
        return;
    limit_amount(limit.rlim_cur, text);
    if (geteuid() == 0)
        mu_doctor_say(page, MU_DOCTOR_OK, "processes", NULL, "%s, which does not bind root", text);
    else if (limit.rlim_cur < 256)
        mu_doctor_say(page, MU_DOCTOR_NOTE, "processes",
                      "raise it: ulimit -u 65536, nproc in /etc/security/limits.conf",
                      "%s for all of this user's processes and threads", text);
    else
        mu_doctor_say(page, MU_DOCTOR_OK, "processes", NULL, "%s for all of this user's processes and threads", text);
}

static void locked_memory(struct mu_doctor_page *page)
{
    struct rlimit limit;
    char text[32];

    if (getrlimit(RLIMIT_MEMLOCK, &limit))
        return;
    limit_amount(limit.rlim_cur, text);
    if (limit.rlim_cur != RLIM_INFINITY && access("/sys/class/infiniband", F_OK) == 0)
        mu_doctor_say(page, MU_DOCTOR_NOTE, "locked memory",
                      "ulimit -l unlimited, LimitMEMLOCK=infinity, --ulimit memlock=-1 for a container",
                      "%s bytes: RDMA adapters need more", text);
    else
        mu_doctor_say(page, MU_DOCTOR_OK, "locked memory", NULL, "%s%s", text,
                      limit.rlim_cur == RLIM_INFINITY ? "" : " bytes; muster locks none");
}

/* Where a crash can be looked at. */
static void core_files(struct mu_doctor_page *page)
{
    struct rlimit limit;
    char pattern[256], program[256];

    if (getrlimit(RLIMIT_CORE, &limit) || mu_doctor_read("/proc/sys/kernel/core_pattern", pattern, sizeof pattern) < 0)
        return;
    snprintf(program, sizeof program, "%s", pattern[0] == '|' ? pattern + 1 : "");
    program[strcspn(program, " ")] = 0;
    if (program[0] && access(program, X_OK))
        mu_doctor_say(page, MU_DOCTOR_NOTE, "core files",
                      "install what it names, or write to files: sysctl -w kernel.core_pattern=core.%p",
                      "are piped to %s, which is not here", program);
    else if (program[0])
        mu_doctor_say(page, MU_DOCTOR_OK, "core files", NULL, "are piped to %s%s", program,
                      strstr(program, "systemd-coredump") ? ": see 'coredumpctl list'" : "");
    else if (limit.rlim_cur == 0)
        mu_doctor_say(page, MU_DOCTOR_OK, "core files", NULL,
                      "none are written; 'ulimit -c unlimited' before a job changes that");
    else
        mu_doctor_say(page, MU_DOCTOR_OK, "core files", NULL, "are written as '%s'%s", pattern,
                      pattern[0] == '/' ? "" : " in the task's folder");
}

/* Limits that hardly anybody sets, and that end a job in strange ways. */
static void sizes_probe(struct mu_doctor_page *page)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && (double)limit.rlim_cur < 1.1 * GIB)
        mu_doctor_say(page, MU_DOCTOR_PROBLEM, "file size", "ulimit -f unlimited",
                      "%llu bytes: the segment is a sparse file of 1 GiB, unless --heap makes it smaller",
                      (unsigned long long)limit.rlim_cur);
    mu_doctor_say(page, MU_DOCTOR_OK, "objects", NULL,
                  "a job has address space for %.1f GiB of those above 64 KiB by default, this machine's memory; "
                  "--objects gives it more or less, up to 16 TiB",
                  (double)mu_format_object_bytes() / GIB);
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && (double)limit.rlim_cur < 4 * GIB)
        mu_doctor_say(page, MU_DOCTOR_NOTE, "virtual memory", "ulimit -v unlimited, or run jobs with a smaller --heap",
                      "%.2f GiB: each task maps the segment, 1 GiB by default", (double)limit.rlim_cur / GIB);
}

/* The initial namespaces have fixed numbers: PROC_PID_INIT_INO, PROC_USER_INIT_INO. */
static void namespaces_probe(struct mu_doctor_page *page)
{
    uint64_t pid = mu_namespace("pid"), user = mu_namespace("user");

    if (pid == 0)
        mu_doctor_say(page, MU_DOCTOR_PROBLEM, "proc", "mount -t proc proc /proc", "/proc is not there or is empty");
    else
        mu_doctor_say(page, MU_DOCTOR_OK, "namespaces", NULL, "pid: %s; user: %s",
                      pid == 0xEFFFFFFCu ? "the machine's"
                                         : "one of its own (containers that share a job need the same one: --pid=host)",
                      user == 0xEFFFFFFDu ? "the machine's" : "one of its own (segments belong to the mapped user)");
}

static int read_plain(const char *path, double *ret_value)
{
    uint64_t value;

    if (mu_doctor_read_number(path, &value) || value >= 1ull << 60) /* version 1 writes "none" as a large number */
        return -1;
    *ret_value = (double)value;
    return 0;
}

static void control_group_pids(struct mu_doctor_page *page)
{
    char folder[1024], path[1100];
    double most, now = 0;

    if (mu_doctor_cgroup_least("pids", "pids.max", "pids.max", read_plain, &most, folder, sizeof folder))
        return;
    snprintf(path, sizeof path, "%s/pids.current", folder);
    read_plain(path, &now);
    if (most - now < 128)
        mu_doctor_say(page, MU_DOCTOR_NOTE, "control group", "raise pids.max there; --pids-limit=-1 for a container",
                      "%.0f of at most %.0f processes and threads are there (%.200s)", now, most, folder);
    else
        mu_doctor_say(page, MU_DOCTOR_OK, "control group", NULL, "%.0f of at most %.0f processes and threads", now,
                      most);
}

void mu_doctor_limits(struct mu_doctor_page *page)
{
    open_files(page);
    processes_probe(page);
    control_group_pids(page);
    locked_memory(page);
    core_files(page);
    sizes_probe(page);
    namespaces_probe(page);
}

/* ---- processors -------------------------------------------------------------------------------------------------- */

/* Processors' worth of time: "50000 100000" is a half. */
static int read_cpu_max(const char *path, double *ret_value)
{
    char text[64], period_path[1100];
    uint64_t quota, period = 100000;
    double a, b;

    if (mu_doctor_read(path, text, sizeof text) <= 0)
        return -1;
    if (sscanf(text, "%lf %lf", &a, &b) == 2 && b > 0) {
        *ret_value = a / b;
        return 0;
    }
    if (mu_cli_parse_unsigned(text, UINT64_MAX, &quota)) /* "max 100000", or -1 */
        return -1;
    snprintf(period_path, sizeof period_path, "%.*s/cpu.cfs_period_us", (int)(strrchr(path, '/') - path), path);
    if (mu_doctor_read_number(period_path, &period) || period == 0)
        return -1;
    *ret_value = (double)quota / (double)period;
    return 0;
}

void mu_doctor_processors(struct mu_doctor_page *page)
{
    unsigned allowed = mu_processors();
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    char folder[1024], nodes[128];
    double quota;

    if (allowed < online)
        mu_doctor_say(page, MU_DOCTOR_NOTE, "processors",
                      "if that is not meant: look at 'taskset -p $$' and at the cpuset of the control group",
                      "%u of %ld online ones are allowed", allowed, online);
    else
        mu_doctor_say(page, MU_DOCTOR_OK, "processors", NULL, "%u, all that are online", allowed);
    if (mu_doctor_cgroup_least("cpu", "cpu.max", "cpu.cfs_quota_us", read_cpu_max, &quota, folder, sizeof folder) ==
            0 &&
        quota < allowed)
        mu_doctor_say(page, MU_DOCTOR_NOTE, "time quota", "raise the container's CPU limit, or start fewer tasks",
                      "%.2f processors' worth (%.200s): waits that spin are stopped in the middle", quota, folder);
    if (mu_doctor_read("/sys/devices/system/node/online", nodes, sizeof nodes) > 0)
        mu_doctor_say(page, MU_DOCTOR_OK, "NUMA nodes", NULL, "%s", nodes);
    else
        mu_doctor_say(page, MU_DOCTOR_OK, "NUMA nodes", NULL, "one, as far as can be seen");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static double available_gib(void)
{
    static char text[8192];
    unsigned long long kib = 0;
    const char *at;

    if (mu_doctor_read("/proc/meminfo", text, sizeof text) <= 0 || !(at = strstr(text, "MemAvailable:")) ||
        sscanf(at, "MemAvailable: %llu", &kib) != 1)
        return -1;
    return (double)kib * 1024 / GIB;
}

static void control_group_memory(struct mu_doctor_page *page)
{
    char folder[1024], path[1100];
    double most, now = 0;

    if (mu_doctor_cgroup_least("memory", "memory.max", "memory.limit_in_bytes", read_plain, &most, folder,
                               sizeof folder))
        return;
    snprintf(path, sizeof path, "%s/memory.current", folder);
    if (read_plain(path, &now)) {
        snprintf(path, sizeof path, "%s/memory.usage_in_bytes", folder);
        read_plain(path, &now);
    }
    mu_doctor_say(page, most - now < GIB / 4 ? MU_DOCTOR_NOTE : MU_DOCTOR_OK, "control group",
                  most - now < GIB / 4 ? "raise the container's or the service's memory limit" : NULL,
                  "%.2f of at most %.2f GiB in use, segments included (%.200s)", now / GIB, most / GIB, folder);
}

void mu_doctor_memory(struct mu_doctor_page *page)
{
    double gib = available_gib();
    char huge[128], *open;
    uint64_t panic;

    if (gib >= 0)
        mu_doctor_say(page, gib < 0.25 ? MU_DOCTOR_NOTE : MU_DOCTOR_OK, "available",
                      gib < 0.25 ? "end what is not needed, or add memory" : NULL, "%.2f GiB", gib);
    control_group_memory(page);
    if (mu_doctor_read("/sys/kernel/mm/transparent_hugepage/shmem_enabled", huge, sizeof huge) > 0 &&
        (open = strchr(huge, '['))) {
        int always = strncmp(open, "[always]", 8) == 0 || strncmp(open, "[force]", 7) == 0;

        open[strcspn(open, "]")] = 0;
        mu_doctor_say(page, always ? MU_DOCTOR_NOTE : MU_DOCTOR_OK, "huge pages",
                      always ? "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled" : NULL,
                      "for shared memory: %s%s", open + 1,
                      always ? "; a small segment then takes whole 2 MiB pages" : "");
    }
    if (mu_doctor_read_number("/proc/sys/vm/panic_on_oom", &panic) == 0)
        mu_doctor_say(page, panic ? MU_DOCTOR_NOTE : MU_DOCTOR_OK, "out of memory",
                      panic ? "sysctl -w vm.panic_on_oom=0" : NULL, "%s",
                      panic ? "the machine panics instead of killing a process"
                            : "the kernel kills a process, which muster reports");
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

void mu_doctor_host(struct mu_doctor_page *page)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char name[256] = "", address[128] = "?", mend[320];
    int rc;

    if (gethostname(name, sizeof name - 1))
        return;
    rc = getaddrinfo(name, NULL, &hints, &found);
    if (rc == 0 && found) {
        getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST);
        mu_doctor_say(page, MU_DOCTOR_OK, "host name", NULL, "%.200s is %.60s", name, address);
        freeaddrinfo(found);
        return;
    }
    snprintf(mend, sizeof mend, "echo '127.0.1.1 %.200s' >> /etc/hosts", name);
    mu_doctor_say(
        page, MU_DOCTOR_NOTE, "host name", mend,
        "%.150s has no address (%s): muster goes by this host's address instead, frameworks that look the name "
        "up may fail",
        name, gai_strerror(rc));
}
