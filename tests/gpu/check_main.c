/*
 * tests/gpu/check_main.c: `make gpu-check`. Prints a row for each thing that wants a GPU, as it ends, and writes the
 * same as a page of Markdown. Exit status: 0, 1 (a row failed), 2 (usage), 77 (no GPU here: one line says why).
 */
#include "gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_S = 175 }; /* `make gpu-check` promises 180 s */

static struct gpu_result results[64];

/* Whether a row is among "a,b"; NULL: all are. */
static bool is_wanted(const char *only, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = only; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || !at[len]))
            return true;
    return !only;
}

/* How many display adapters and 3D controllers of NVIDIA the PCI bus has, whatever drivers there are. */
static unsigned bus_count(void)
{
    unsigned count = 0;
    glob_t found;

    if (glob("/sys/bus/pci/devices/*/vendor", 0, NULL, &found))
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char path[300], text[16] = "";
        FILE *f = fopen(found.gl_pathv[i], "re");
        bool is_nvidia = f && fgets(text, sizeof text, f) && strncmp(text, "0x10de", 6) == 0;

        if (f)
            fclose(f);
        snprintf(path, sizeof path, "%.*sclass", (int)(strlen(found.gl_pathv[i]) - strlen("vendor")),
                 found.gl_pathv[i]);
        f = is_nvidia ? fopen(path, "re") : NULL;
        count += f && fgets(text, sizeof text, f) && strncmp(text, "0x03", 4) == 0;
        if (f)
            fclose(f);
    }
    globfree(&found);
    return count;
}

/* The first program that uses the driver: 0, or the exit status of a machine without a GPU (77) or of a sick one (1),
 * and why in one line. */
static int driver_status(char text[600])
{
    struct gpu_run run = gpu_run((const char *[]){gpu_program("GPU_DEVICE"), "list", NULL}, NULL, 60);
    unsigned count = bus_count();
    int status = !run.status ? 0 : run.status == GPU_SKIPPED ? GPU_SKIPPED : 1;

    run.out[strcspn(run.out, "\n")] = 0;
    snprintf(text, 600, "%s: %.300s%s; %u of NVIDIA on the PCI bus%s", status == 1 ? "the driver fails" : "no GPU",
             run.out[0]         ? run.out
             : run.is_late      ? "it did not answer in 60 s"
             : run.status > 128 ? "its process was killed by a signal"
                                : run.err,
             run.is_late ? " (killed)" : "", count,
             !count ? ""
             : access("/dev/nvidiactl", F_OK) != 0
                 ? ", and no /dev/nvidiactl: the driver is not loaded, or this container was not given the GPUs"
                 : "");
    gpu_run_free(&run);
    return status;
}

/* Until the end the driver keeps the GPUs ready: else each program that comes and goes initializes them anew. */
static void devices_hold(void)
{
    glob_t found;

    if (glob("/dev/nvidia[0-9]*", 0, NULL, &found))
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (open(found.gl_pathv[i], O_RDWR | O_CLOEXEC) < 0)
            continue; /* one that this user may not open is none that the programs use */
    globfree(&found);
}

/* "NAME: ..." of a file such as /proc/cpuinfo; "?": there is none. */
static void line_after(const char *path, const char *name, char *text, size_t size)
{
    char line[400];
    FILE *f = fopen(path, "re");

    snprintf(text, size, "?");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0 && strchr(line, ':')) {
            snprintf(text, size, "%.*s", (int)strcspn(strchr(line, ':') + 2, "\n"), strchr(line, ':') + 2);
            break;
        }
    if (f)
        fclose(f);
}

static const char *verdict_word(enum gpu_verdict verdict)
{
    return verdict == GPU_OK ? "ok" : verdict == GPU_FAILED ? "FAILED" : "not run";
}

static int report_write(const char *path, const char *only)
{
    struct gpu_run smi = gpu_run((const char *[]){"nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                                                  "--format=csv,noheader", NULL},
                                 NULL, 30),
                   version = gpu_run((const char *[]){gpu_program("MUSTER"), "version", NULL}, NULL, 30);
    const char *commit = getenv("GPU_COMMIT");
    char cpu[200], date[32], driver[200];
    time_t now = time(NULL);
    struct utsname system;
    FILE *f = fopen(path, "we");

    if (!f) {
        fprintf(stderr, "gpu-check: cannot write %s: %s\n", path, strerror(errno));
        return 1;
    }
    uname(&system);
    line_after("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    line_after("/proc/driver/nvidia/version", "NVRM version", driver, sizeof driver);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    version.out[strcspn(version.out, "\n")] = 0;
    fprintf(f, "# GPU check\n\n%s, %s%s, on %s %s, %s, %ld processors. Driver: %s.\n", date, version.out,
            commit ? commit : "", system.sysname, system.release, cpu, sysconf(_SC_NPROCESSORS_ONLN), driver);
    if (smi.status == 0)
        fprintf(f, "\n```\n%s```\n", smi.out);
    fprintf(f, "\n| what | verdict | figure | limit | words |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < gpu_num_rows; i++)
        if (is_wanted(only, gpu_rows[i].name)) {
            for (char *at = results[i].words; *at; at++)
                *at = *at == '|' || *at == '\n' ? ' ' : *at;
            fprintf(f, "| %s: %s | %s | %s | %s | %s |\n", gpu_rows[i].name, gpu_rows[i].what,
                    verdict_word(results[i].verdict), results[i].figure, gpu_rows[i].limit, results[i].words);
        }
    gpu_run_free(&smi);
    gpu_run_free(&version);
    if (fclose(f)) {
        fprintf(stderr, "gpu-check: cannot write %s: %s\n", path, strerror(errno));
        return 1;
    }
    return 0;
}

static int usage(FILE *out)
{
    fprintf(out, "usage: gpu-check [--only ROW,...] [--report FILE]\n\n"
                 "Runs what wants an NVIDIA GPU, prints a line a row, and writes FILE. Rows:\n");
    for (size_t i = 0; i < gpu_num_rows; i++)
        fprintf(out, "  %-12s %s\n", gpu_rows[i].name, gpu_rows[i].what);
    return out == stdout ? 0 : 2;
}

int main(int argc, char **argv)
{
    const char *only = NULL, *report = NULL;
    unsigned counts[3] = {0};
    char why[600];
    int status;

    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return usage(stdout);
        if (i + 1 == argc || (strcmp(argv[i], "--only") != 0 && strcmp(argv[i], "--report") != 0))
            return usage(stderr);
        *(argv[i][2] == 'o' ? &only : &report) = argv[i + 1];
        i++;
    }
    for (const char *at = only; at && *at; at += strcspn(at, ","), at += *at == ',') {
        bool is_known = false;

        for (size_t i = 0; i < gpu_num_rows; i++)
            is_known = is_known || (strlen(gpu_rows[i].name) == strcspn(at, ",") &&
                                    strncmp(at, gpu_rows[i].name, strcspn(at, ",")) == 0);
        if (!is_known) {
            fprintf(stderr, "gpu-check: there is no row %.*s (see --help)\n", (int)strcspn(at, ","), at);
            return 2;
        }
    }
    gpu_limit(LIMIT_S);
    status = driver_status(why);
    if (status) {
        printf("%s\n", why);
        return status;
    }
    devices_hold();
    for (size_t i = 0; i < gpu_num_rows; i++) {
        struct gpu_result *r = &results[i];

        if (!is_wanted(only, gpu_rows[i].name))
            continue;
        if (gpu_seconds_left() > 1) {
            gpu_rows[i].run(r);
        } else {
            r->verdict = GPU_NOT_RUN;
            snprintf(r->words, sizeof r->words, "the %d s of all rows are over", LIMIT_S);
        }
        counts[r->verdict]++;
        printf("%-8s %-12s %s (%s)%s%s\n", verdict_word(r->verdict), gpu_rows[i].name, r->figure[0] ? r->figure : "-",
               gpu_rows[i].limit, r->words[0] ? "\n         " : "", r->words);
    }
    printf("%u ok, %u failed, %u not run\n", counts[GPU_OK], counts[GPU_FAILED], counts[GPU_NOT_RUN]);
    if (report && report_write(report, only))
        return 1;
    return counts[GPU_FAILED] != 0;
}
