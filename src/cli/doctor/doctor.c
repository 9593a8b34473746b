/*
 * cli/doctor/doctor.c: `muster doctor`: what this machine offers, what it lacks, and how to mend it.
 *
 * Each topic is probed by a child process of its own, with a time limit, which writes its facts into memory shared with
 * us. So a library that crashes or exits when it is loaded, a driver that hangs or a name server that is silent costs
 * one line and some seconds, and what was found before is shown. The child is over when its end of a pipe is: that
 * needs no kernel feature that is itself in doubt. One that cannot be killed is left to the kernel.
 */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "cli/cli.h"

struct topic {
    const char *name;
    void (*probe)(struct mu_doctor_page *page);
    unsigned limit_s;
    const char *mend; /* when the probe dies or hangs */
};

static const struct topic topics[] = {
    {"kernel", mu_doctor_kernel, 5, NULL},
    {"clock", mu_doctor_clock, 5, NULL},
    {"shm", mu_doctor_shm, 5,
     "look at the folder of segments (/dev/shm, or MUSTER_SHM_DIR) and at 'ulimit -a' (file size, virtual memory)"},
    {"segments", mu_doctor_segments, 10, NULL},
    {"limits", mu_doctor_limits, 5, NULL},
    {"processors", mu_doctor_processors, 5, NULL},
    {"memory", mu_doctor_memory, 5, NULL},
    {"host", mu_doctor_host, 5, "add this host's name to /etc/hosts, or mend the servers in /etc/resolv.conf"},
    {"hwloc", mu_doctor_hwloc, 5, "reinstall libhwloc15, and look at LD_LIBRARY_PATH for another copy"},
    {"topology", mu_doctor_topology, 10, "reinstall libhwloc15, and see what 'lstopo' says"},
    {"openssl", mu_doctor_openssl, 10, "reinstall libssl3, and look at LD_LIBRARY_PATH for another copy"},
    {"nvml", mu_doctor_nvml, 10, "reinstall the NVIDIA driver, and look for NVRM lines in 'dmesg'"},
    {"cuda", mu_doctor_cuda, 20, "reinstall the NVIDIA driver, and look for NVRM lines in 'dmesg'"},
    {"nccl", mu_doctor_nccl, 10, "reinstall libnccl2, and look at LD_LIBRARY_PATH for another copy"},
    {"pci", mu_doctor_pci, 5, NULL},
};

void mu_doctor_say(struct mu_doctor_page *page, enum mu_doctor_mark mark, const char *name, const char *mend,
                   const char *format, ...)
{
    struct mu_doctor_fact *fact = &page->facts[page->count];
    va_list args;

    if (page->count == MU_DOCTOR_FACTS_MAX)
        return;
    fact->mark = mark;
    snprintf(fact->name, sizeof fact->name, "%s", name);
    snprintf(fact->mend, sizeof fact->mend, "%s", mend ? mend : "");
    va_start(args, format);
    vsnprintf(fact->text, sizeof fact->text, format, args);
    va_end(args);
    page->count++;
}

ssize_t mu_doctor_read(const char *path, char *buffer, size_t size)
{
    ssize_t len = mu_read_file(path, buffer, size);

    while (len > 0 && (buffer[len - 1] == '\n' || buffer[len - 1] == 0))
        len--;
    if (len >= 0)
        buffer[len] = 0;
    return len;
}

int mu_doctor_read_number(const char *path, uint64_t *ret_value)
{
    char text[64];

    if (mu_doctor_read(path, text, sizeof text) <= 0)
        return -1;
    text[strcspn(text, " \t\n")] = 0;
    return mu_cli_parse_unsigned(text, UINT64_MAX, ret_value);
}

const char *mu_doctor_why_refused(const char *needs, char buffer[320])
{
    char status[4096], *at;

    if (mu_doctor_read("/proc/self/status", status, sizeof status) > 0 && (at = strstr(status, "\nSeccomp:\t")) &&
        at[10] == '2')
        snprintf(buffer, 320,
                 "a seccomp filter may be what refuses it: use a newer container runtime, or start the container with "
                 "--security-opt seccomp=unconfined; else %s",
                 needs);
    else
        snprintf(buffer, 320, "%s", needs);
    return buffer;
}

/* ---- one topic, in a child --------------------------------------------------------------------------------------- */

static _Noreturn void topic_probe(const struct topic *topic, struct mu_doctor_page *page, pid_t parent)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    if (null >= 0) { /* libraries may be talkative */
        dup2(null, 1);
        dup2(null, 2);
    }
    topic->probe(page);
    page->is_done = 1;
    _exit(0);
}

/* Whether the child ends within this time; it is reaped then. By nothing that the child could hold or close. */
static int child_ends(pid_t child, unsigned ms, int *ret_status)
{
    uint64_t until = muster_now_ns() + ms * 1000000ull;
    struct pollfd pfd = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN}; /* -1: only a pause */
    pid_t got;

    while ((got = waitpid(child, ret_status, WNOHANG)) == 0 && muster_now_ns() < until)
        poll(&pfd, 1, 20);
    if (pfd.fd >= 0)
        close(pfd.fd);
    return got != 0;
}

/* What a probe that went wrong may have written over is not believed. */
static void make_sound(struct mu_doctor_page *page)
{
    if (page->count > MU_DOCTOR_FACTS_MAX)
        page->count = 0;
    for (uint32_t i = 0; i < page->count; i++) {
        struct mu_doctor_fact *fact = &page->facts[i];

        if (fact->mark > MU_DOCTOR_PROBLEM)
            fact->mark = MU_DOCTOR_NOTE;
        fact->name[sizeof fact->name - 1] = fact->text[sizeof fact->text - 1] = fact->mend[sizeof fact->mend - 1] = 0;
    }
}

static void say_ended(const struct topic *topic, struct mu_doctor_page *page, int status)
{
    /* Accelerators are optional; of the rest a probe that dies is a job that dies. */
    enum mu_doctor_mark mark = topic->limit_s > 5 || topic->probe == mu_doctor_hwloc || topic->probe == mu_doctor_host
                                   ? MU_DOCTOR_NOTE
                                   : MU_DOCTOR_PROBLEM;

    if (page->count == MU_DOCTOR_FACTS_MAX)
        page->count--;
    if (WIFSIGNALED(status))
        mu_doctor_say(page, mark, topic->name, topic->mend, "looking at it kills the process: %s",
                      strsignal(WTERMSIG(status)));
    else
        mu_doctor_say(page, mark, topic->name, topic->mend, "looking at it ends the process with status %d",
                      WEXITSTATUS(status));
}

static void run_topic(const struct topic *topic, struct mu_doctor_page *page)
{
    pid_t parent = getpid(), child;
    int status = 0;

    memset(page, 0, sizeof *page);
    child = fork();
    if (child == 0)
        topic_probe(topic, page, parent);
    if (child < 0) {
        mu_doctor_say(page, MU_DOCTOR_PROBLEM, topic->name, "end some processes, or raise 'ulimit -u' and pids.max",
                      "cannot look: no process: %s", strerror(errno));
        return;
    }
    if (child_ends(child, topic->limit_s * 1000, &status)) {
        make_sound(page);
        if (!page->is_done || status)
            say_ended(topic, page, status);
        return;
    }
    kill(child, SIGKILL);
    child_ends(child, 1000, &status); /* one that not even SIGKILL ends is left to our own end */
    make_sound(page);
    mu_doctor_say(page, MU_DOCTOR_NOTE, topic->name, topic->mend, "no answer within %u s", topic->limit_s);
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum mu_cli_colour colour;
} marks[] = {
    [MU_DOCTOR_OK] = {"ok", MU_CLI_GREEN},
    [MU_DOCTOR_NOTE] = {"note", MU_CLI_YELLOW},
    [MU_DOCTOR_PROBLEM] = {"problem", MU_CLI_RED},
};

static void print_fact(const struct mu_doctor_fact *fact)
{
    printf("%s%-7s%s  %-18s ", mu_cli_colour(marks[fact->mark].colour), marks[fact->mark].name,
           mu_cli_colour(MU_CLI_PLAIN), fact->name);
    mu_cli_print_line(stdout, fact->text);
    if (fact->mend[0]) {
        printf("; to mend: ");
        mu_cli_print_line(stdout, fact->mend); /* it may name files */
    }
    putchar('\n');
}

static void json_fact(struct mu_cli_json *json, const struct topic *topic, const struct mu_doctor_fact *fact)
{
    mu_cli_json_open(json, NULL, '{');
    mu_cli_json_text(json, "topic", topic->name);
    mu_cli_json_text(json, "name", fact->name);
    mu_cli_json_text(json, "mark", marks[fact->mark].name);
    mu_cli_json_text(json, "text", fact->text);
    mu_cli_json_text(json, "mend", fact->mend[0] ? fact->mend : NULL);
    mu_cli_json_close(json, '}');
}

static int doctor_run(struct mu_cli_call *call)
{
    struct mu_doctor_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned counts[3] = {0, 0, 0};
    struct mu_cli_json json;
    int is_json = call->values[MU_OPT_JSON] != NULL;

    if (page == MAP_FAILED) {
        fprintf(stderr, "%s: no shared memory at all: %s\n", call->path, strerror(errno));
        return MU_CLI_EXIT_FAILURE;
    }
    mu_cli_json_start(&json, stdout);
    if (is_json) {
        mu_cli_json_open(&json, NULL, '{');
        mu_cli_json_text(&json, "version", muster_version());
        mu_cli_json_open(&json, "facts", '[');
    }
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++) {
        if (topics[i].probe == mu_doctor_topology && page->count > 0 && page->facts[0].mark != MU_DOCTOR_OK)
            continue;   /* without hwloc, of which the page still tells, nobody can be asked */
        fflush(stdout); /* the child would print it again */
        run_topic(&topics[i], page);
        for (uint32_t k = 0; k < page->count && k < MU_DOCTOR_FACTS_MAX; k++) {
            counts[page->facts[k].mark]++;
            if (is_json)
                json_fact(&json, &topics[i], &page->facts[k]);
            else
                print_fact(&page->facts[k]);
        }
    }
    munmap(page, sizeof *page);
    if (is_json) {
        mu_cli_json_close(&json, ']');
        mu_cli_json_unsigned(&json, "ok", counts[MU_DOCTOR_OK]);
        mu_cli_json_unsigned(&json, "notes", counts[MU_DOCTOR_NOTE]);
        mu_cli_json_unsigned(&json, "problems", counts[MU_DOCTOR_PROBLEM]);
        mu_cli_json_close(&json, '}');
        mu_cli_json_end(&json);
    } else {
        printf("%u problem%s, %u note%s: muster %s\n", counts[MU_DOCTOR_PROBLEM],
               counts[MU_DOCTOR_PROBLEM] == 1 ? "" : "s", counts[MU_DOCTOR_NOTE],
               counts[MU_DOCTOR_NOTE] == 1 ? "" : "s", counts[MU_DOCTOR_PROBLEM] ? "does not work here" : "works here");
    }
    return mu_cli_finish(call, counts[MU_DOCTOR_PROBLEM] ? MU_CLI_EXIT_FAILURE : MU_CLI_EXIT_OK);
}

static const struct mu_cli_option doctor_options[] = {MU_CLI_JSON, MU_CLI_END};

const struct mu_cli_verb mu_cli_doctor = {
    .name = "doctor",
    .operands = "",
    .summary = "Say what this machine offers and lacks, and how to mend it",
    .options = doctor_options,
    .run = doctor_run,
};
