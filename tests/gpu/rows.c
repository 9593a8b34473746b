/* tests/gpu/rows.c: the rows of the table, in the order of their value. Each runs real programs and judges what they
 * say. */
#include "gpu.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *gpu_program(const char *name)
{
    const char *path = getenv(name);

    return path ? path : "false";
}

#define MUSTER gpu_program("MUSTER")
#define DEVICE gpu_program("GPU_DEVICE")

__attribute__((format(printf, 3, 4))) static void result_say(struct gpu_result *r, enum gpu_verdict verdict,
                                                             const char *format, ...)
{
    va_list args;

    r->verdict = verdict;
    va_start(args, format);
    vsnprintf(r->words, sizeof r->words, format, args);
    va_end(args);
}

__attribute__((format(printf, 2, 3))) static void result_figure(struct gpu_result *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(r->figure, sizeof r->figure, format, args);
    va_end(args);
}

/* The last line that says something: where a program failed, that is why. */
static const char *last_line(const char *text, char line[300])
{
    const char *from = text, *best = "";
    size_t len = 0;

    while (*from) {
        size_t n = strcspn(from, "\n");

        if (n) {
            best = from;
            len = n;
        }
        from += n + (from[n] == '\n');
    }
    snprintf(line, 300, "%.*s", (int)len, best);
    return line;
}

/* CUDA's words where a library is newer than the driver (error 35). */
#define TOO_OLD "driver version is insufficient"

/* Judges an exit status: false, and the row has its verdict, unless it is 0. */
static bool run_passed(struct gpu_result *r, const struct gpu_run *run)
{
    char line[300];

    if (run->status == 0 && !run->is_late)
        return true;
    last_line(run->out[0] ? run->out : run->err, line); /* its own word, before its launcher's */
    /* A GPU is here: a program that finds none was shown none. */
    if ((run->status == GPU_SKIPPED && r->may_miss && !strstr(line, "no GPU")) ||
        (r->may_miss && (strstr(run->out, TOO_OLD) || strstr(run->err, TOO_OLD))))
        result_say(r, GPU_NOT_RUN, "%s", line);
    else if (run->is_late)
        result_say(r, GPU_FAILED, "ended at its limit of time; its last words: %s", line);
    else
        result_say(r, GPU_FAILED, "exit status %d: %s", run->status, line);
    return false;
}

/* Two processes are to use one GPU at once: false, and why, where its compute mode forbids it. */
static bool is_shared(struct gpu_result *r)
{
    struct gpu_run run = gpu_run((const char *[]){DEVICE, "mode", NULL}, NULL, 60);
    bool is_exclusive = run.status == 0 && run.out[0] == '1';

    if (is_exclusive)
        result_say(r, GPU_NOT_RUN, "the GPU's compute mode lets one process use it at a time");
    gpu_run_free(&run);
    return !is_exclusive;
}

/* A program whose exit status is all that counts. */
static void program_judge(struct gpu_result *r, const char *const argv[], int limit_s)
{
    struct gpu_run run = gpu_run(argv, NULL, limit_s);

    if (run_passed(r, &run))
        result_figure(r, "%.1f s", run.seconds);
    gpu_run_free(&run);
}

/* ---- what muster says of the machine ----------------------------------------------------------------------------- */

static void row_doctor(struct gpu_result *r)
{
    struct gpu_run run = gpu_run((const char *[]){MUSTER, "doctor", "--json", NULL}, NULL, 60);
    static const char *const topics[] = {"NVML", "CUDA", "GPUs"}; /* what else it finds is none of a GPU's */

    if ((run.status == 0 || run.status == 1) && !run.is_late)
        result_figure(r, "%.2f s", run.seconds);
    else
        run_passed(r, &run);
    for (size_t i = 0; r->verdict == GPU_OK && i < 3; i++) {
        char name[32];
        const char *at;

        snprintf(name, sizeof name, "\"name\":\"%s\",\"mark\":\"ok\"", topics[i]);
        at = strstr(run.out, name);
        if (!at || strncmp(strstr(at, "\"text\":\"") + 8, "lib", 3) == 0) /* "libcuda.so.1 is not here" */
            result_say(r, GPU_FAILED, "doctor is not content with %s: see 'muster doctor'", topics[i]);
    }
    gpu_run_free(&run);
}

static void row_topology(struct gpu_result *r)
{
    static struct gpu_facts ours, smi, cuda;
    struct gpu_run topo = gpu_run((const char *[]){MUSTER, "topo", "--cuda", "--json", NULL}, NULL, 60),
                   list = gpu_run((const char *[]){DEVICE, "list", NULL}, NULL, 60),
                   xml = gpu_run((const char *[]){"nvidia-smi", "-q", "-x", NULL}, NULL, 60);
    bool has_smi = xml.status == 0 && gpu_facts_smi(xml.out, &smi), has_mig = false;

    for (size_t i = 0; has_smi && i < smi.count; i++)
        has_mig = has_mig || smi.gpu[i].is_mig;
    if (!run_passed(r, &topo)) {
        ;
    } else if (!gpu_facts_muster(topo.out, &ours)) {
        result_say(r, GPU_FAILED, "muster topo --cuda shows no GPU");
    } else if (xml.status == 0 && !has_smi) {
        result_say(r, GPU_FAILED, "nvidia-smi -q -x was not understood");
    } else {
        char text[300] = "";

        if (has_smi)
            gpu_facts_compare(&ours, &smi, "nvidia-smi", text, sizeof text);
        for (size_t i = 0; has_smi && !text[0] && i < ours.count; i++)
            for (size_t k = 0; k < smi.count; k++)
                if (strcmp(ours.gpu[i].uuid, smi.gpu[k].uuid) == 0 && ours.gpu[i].is_mig != smi.gpu[k].is_mig)
                    snprintf(text, sizeof text, "GPU %s has parts (MIG) by one word, and none by the other",
                             ours.gpu[i].pci);
        /* CUDA shows the parts of such a GPU, and what CUDA_VISIBLE_DEVICES leaves. */
        if (!text[0] && !has_mig && !getenv("CUDA_VISIBLE_DEVICES") && list.status == 0 &&
            gpu_facts_cuda(list.out, &cuda))
            gpu_facts_compare(&ours, &cuda, "the CUDA driver", text, sizeof text);
        if (text[0])
            result_say(r, GPU_FAILED, "%s", text);
        else if (!has_smi)
            result_say(r, GPU_OK, "nvidia-smi is not here; compared with the CUDA driver alone");
        result_figure(r, "%zu GPU%s, %.2f s", ours.count, ours.count == 1 ? "" : "s", topo.seconds);
    }
    gpu_run_free(&topo);
    gpu_run_free(&list);
    gpu_run_free(&xml);
}

static void row_links(struct gpu_result *r)
{
    static struct gpu_facts smi;
    struct gpu_run xml = gpu_run((const char *[]){"nvidia-smi", "-q", "-x", NULL}, NULL, 60),
                   theirs = gpu_run((const char *[]){"nvidia-smi", "topo", "-m", NULL}, NULL, 60),
                   ours = gpu_run((const char *[]){MUSTER, "topo", "--matrix", NULL}, NULL, 60);
    char text[300];

    if (xml.status != 0 || !gpu_facts_smi(xml.out, &smi) || theirs.status != 0) {
        result_say(r, GPU_NOT_RUN, "nvidia-smi is not here, or does not answer");
    } else if (smi.count < 2) {
        result_say(r, GPU_NOT_RUN, "one GPU has no links to others");
    } else if (run_passed(r, &ours)) {
        result_figure(r, "%zu of %zu cells", gpu_links_compare(ours.out, theirs.out, smi.count, text, sizeof text),
                      smi.count * (smi.count - 1));
        if (text[0])
            result_say(r, GPU_FAILED, "%s", text);
    }
    gpu_run_free(&xml);
    gpu_run_free(&theirs);
    gpu_run_free(&ours);
}

static void row_proto(struct gpu_result *r)
{
    /* The bytes hold NULs, which is why their number is asked of a shell. */
    static const char script[] = "for form in '--proto --task 0' '--proto=2020 --task 0' '--proto --global 2'; do\n"
                                 "  \"$MUSTER\" topo $form | wc -c || exit 1\n"
                                 "done";
    struct gpu_run run = gpu_run((const char *[]){"/bin/sh", "-c", script, NULL}, NULL, 60);
    int local, old, global;

    if (!run_passed(r, &run))
        ;
    else if (sscanf(run.out, "%d %d %d", &local, &old, &global) != 3 || local <= 0 || old <= 0 || global <= local)
        result_say(r, GPU_FAILED, "a LocalTopologyProto is empty, or two of them are no more than one: %.100s %.100s",
                   run.out, run.err);
    else
        result_figure(r, "%d, %d, %d bytes", local, old, global);
    gpu_run_free(&run);
}

/* ---- ranks and their GPUs ---------------------------------------------------------------------------------------- */

/* A line is left for each that begins with `word`. */
static size_t lines_count(const char *text, const char *word)
{
    size_t count = 0;

    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
        count += strncmp(at, word, strlen(word)) == 0;
    return count;
}

static void row_binding(struct gpu_result *r)
{
    static struct gpu_facts all, seen;
    struct gpu_run list = gpu_run((const char *[]){DEVICE, "list", NULL}, NULL, 60),
                   run = gpu_run((const char *[]){MUSTER, "run", "-n", "gpu", "--bind-to", "gpu", "--gpu-visibility",
                                                  "own", "--report-bindings=json", DEVICE, "rank", NULL},
                                 NULL, 60);

    if (!run_passed(r, &list) || !run_passed(r, &run)) {
        ;
    } else if (!gpu_facts_cuda(list.out, &all)) {
        result_say(r, GPU_FAILED, "'device list' was not understood");
    } else {
        size_t ranks = lines_count(run.out, "rank ");
        bool is_divided = strstr(list.out, " MIG ") != NULL; /* before CUDA 13 a process sees one part of a GPU's */
        char *lines = NULL;
        size_t len;
        FILE *f = open_memstream(&lines, &len);

        for (const char *at = run.out; f && *at; at += strcspn(at, "\n"), at += *at == '\n')
            if (strncmp(at, "rank ", 5) == 0) {
                const char *from = at + 5 + strcspn(at + 5, " ") + 1;

                fprintf(f, "%.*s\n", (int)strcspn(from, "\n"), from);
            }
        if (f)
            fclose(f);
        result_figure(r, "%zu rank%s, %.2f s", ranks, ranks == 1 ? "" : "s", run.seconds);
        if (lines && is_divided && gpu_facts_cuda(lines, &seen) && ranks >= all.count) {
            for (size_t i = 0; i < seen.count && r->verdict == GPU_OK; i++)
                for (size_t k = 0; k < i; k++)
                    if (strcmp(seen.gpu[i].uuid, seen.gpu[k].uuid) == 0)
                        result_say(r, GPU_FAILED, "two ranks have the part %s", seen.gpu[i].uuid);
        } else if (!lines || !gpu_facts_cuda(lines, &seen) || ranks != all.count) {
            result_say(r, GPU_FAILED, "%zu ranks saw one GPU each, of %zu that CUDA has", ranks, all.count);
        } else {
            char text[300];

            gpu_facts_compare(&seen, &all, "CUDA without muster", text, sizeof text); /* each GPU is one rank's */
            if (text[0])
                result_say(r, GPU_FAILED, "of the ranks: %s", text);
            else if (strstr(run.out, "\"verified\":false") || strstr(run.err, "\"verified\":false"))
                result_say(r, GPU_FAILED, "--report-bindings says of a rank that it was not verified");
        }
        free(lines);
    }
    gpu_run_free(&list);
    gpu_run_free(&run);
}

/* What CUDA makes of a list of devices, muster makes of it, too. */
static void row_visible(struct gpu_result *r)
{
    struct gpu_run list = gpu_run((const char *[]){DEVICE, "list", NULL}, NULL, 60);
    static struct gpu_facts all;
    size_t tried = 0;
    char uuid[64] = "";

    if (!run_passed(r, &list) || !gpu_facts_cuda(list.out, &all) || sscanf(list.out, "%*d %63s", uuid) != 1) {
        gpu_run_free(&list);
        return;
    }
    gpu_run_free(&list);
    for (int i = 0; i < 8; i++) {
        char value[200] = "CUDA_VISIBLE_DEVICES=";
        char *text = value + strlen(value);
        size_t room = sizeof value - strlen(value);
        struct gpu_run cuda, ours;
        size_t theirs, ranks;

        switch (i) {
        case 0: break; /* empty: none */
        case 1: snprintf(text, room, "0"); break;
        case 2: snprintf(text, room, "%s", uuid); break;
        case 3: snprintf(text, room, "%.12s", uuid); break; /* its beginning */
        case 4: snprintf(text, room, "%s,%s", uuid, uuid); break;
        case 5: snprintf(text, room, "0,99"); break;
        case 6: snprintf(text, room, "MIG-%s", uuid + 4); break; /* a part's, where CUDA shows parts */
        default: snprintf(text, room, "GPU-00000000-dead"); break;
        }
        cuda = gpu_run((const char *[]){DEVICE, "list", NULL}, (const char *[]){value, NULL}, 60);
        ours = gpu_run((const char *[]){MUSTER, "run", "-n", "gpu", "echo", "here", NULL},
                       (const char *[]){value, NULL}, 60);
        theirs = cuda.status == 0 ? lines_count(cuda.out, "") : 0;
        ranks = ours.status == 0 ? lines_count(ours.out, "here") : 0;
        if (r->verdict != GPU_OK)
            ; /* the first is told, and all are tried */
        else if (cuda.status != 0 && cuda.status != GPU_SKIPPED)
            result_say(r, GPU_FAILED, "with %s the driver fails: %.150s", value, cuda.out);
        else if (theirs != ranks)
            result_say(r, GPU_FAILED, "with %s CUDA has %zu GPUs, and muster run -n gpu %zu ranks %.150s", value,
                       theirs, ranks, ours.err);
        else if (ranks == 0 && !strstr(ours.err, "muster run: "))
            result_say(r, GPU_FAILED, "with %s muster run -n gpu says no word of it", value);
        tried++;
        gpu_run_free(&cuda);
        gpu_run_free(&ours);
    }
    result_figure(r, "%zu lists", tried);
}

/* ---- barriers, NCCL, health, death ------------------------------------------------------------------------------- */

static void row_stream(struct gpu_result *r)
{
    if (is_shared(r))
        program_judge(r, (const char *[]){gpu_program("GPU_STREAM"), NULL}, 60);
}

static void row_stream_cost(struct gpu_result *r)
{
    struct gpu_run run;
    double barrier, bare, events;

    if (!is_shared(r))
        return;
    run = gpu_run((const char *[]){MUSTER, "run", "-n", "2", DEVICE, "cost", NULL}, NULL, 60);
    if (!run_passed(r, &run))
        ;
    else if (sscanf(run.out, "barrier_us %lf bare_us %lf events_us %lf", &barrier, &bare, &events) != 3)
        result_say(r, GPU_FAILED, "it printed %.100s", run.out);
    else
        result_figure(r, "%.1f us; bare synchronize %.1f, event pair %.1f us", barrier, bare, events);
    gpu_run_free(&run);
}

static void row_nccl(struct gpu_result *r)
{
    r->may_miss = true;
    program_judge(r, (const char *[]){gpu_program("GPU_NCCL"), NULL}, 90);
}

static void row_nccl_twice(struct gpu_result *r)
{
    struct gpu_run run;
    char line[300];

    if (!is_shared(r))
        return;
    r->may_miss = true;
    run = gpu_run((const char *[]){MUSTER, "run", "-n", "2", "--kill-on-fail=no", DEVICE, "twice", NULL}, NULL, 60);
    if (!run_passed(r, &run)) {
        ;
    } else if (!strcasestr(run.out, "invalid usage") && !strstr(run.out, "Duplicate GPU")) {
        result_say(r, GPU_FAILED, "they were refused for another reason: %s", last_line(run.out, line));
    } else {
        result_say(r, GPU_OK, "NCCL's words: %s", last_line(run.out, line));
        result_figure(r, "%.1f s", run.seconds);
    }
    gpu_run_free(&run);
}

static void row_health(struct gpu_result *r)
{
    /* The watcher is the launcher's child; utime and stime are in ticks of 10 ms. It is looked for once it can have
     * registered, which takes the driver some tenths of a second. */
    static const char script[] = "sleep 3\n"
                                 "for d in /proc/[0-9]*; do\n"
                                 "  read -r name < $d/comm 2> /dev/null || continue\n"
                                 "  [ \"$name\" = muster-health ] || tr '\\0' '\\n' < $d/cmdline 2> /dev/null |\n"
                                 "      head -n 1 | grep -qx muster-health || continue\n"
                                 "  grep -q \"^PPid:[[:space:]]*$PPID$\" $d/status || continue\n"
                                 "  set -- $(sed 's/^.*) //' $d/stat); echo ticks $((${12} + ${13}))\n"
                                 "done";
    struct gpu_run run = gpu_run((const char *[]){MUSTER, "run", "-n", "1", "/bin/sh", "-c", script, NULL}, NULL, 60);
    int ticks;

    if (!run_passed(r, &run))
        ;
    else if (sscanf(run.out, "ticks %d", &ticks) != 1)
        result_say(r, GPU_FAILED, "no process watches the GPUs of a job: %.200s", run.err);
    else
        result_figure(r, "%d ms of processor time in 3 s", ticks * 10);
    gpu_run_free(&run);
}

static void row_fault(struct gpu_result *r)
{
    struct gpu_run run = gpu_run((const char *[]){MUSTER, "run", "-n", "1", DEVICE, "fault", NULL}, NULL, 60);
    char line[300];

    if (!run_passed(r, &run))
        ;
    else if (!strstr(run.err, "Xid 31") && !strstr(run.err, "Xid 13"))
        result_say(r, GPU_FAILED, "%.60s, and the launcher does not tell of it", run.out);
    else
        result_say(r, GPU_OK, "the launcher: %s", last_line(run.err, line));
    gpu_run_free(&run);
}

static void row_death(struct gpu_result *r)
{
    struct gpu_run run;
    const char *at;
    double known, back;
    int held, task, is_back;

    if (!is_shared(r))
        return;
    run = gpu_run((const char *[]){MUSTER, "run", "-n", "2", "--kill-on-fail=no", "--label", DEVICE, "hold", NULL},
                  NULL, 60);
    at = strstr(run.out, "known_us ");
    if (!at) {
        char line[300];

        result_say(r, GPU_FAILED, "%s", last_line(run.out[0] ? run.out : run.err, line));
    } else if (sscanf(at, "known_us %lf back_ms %lf held_mib %d task %d back %d", &known, &back, &held, &task,
                      &is_back) != 5 ||
               held < 1024) {
        result_say(r, GPU_FAILED, "it printed %.100s", at);
    } else {
        result_figure(r, "known after %.0f us, memory back after %.0f ms", known, back);
        if (!is_back || task != 1 || run.status != 128 + 9) /* the status: the killed task's */
            result_say(r, GPU_FAILED, "%s: exit status %d, %.100s",
                       !is_back    ? "the memory did not come back"
                       : task != 1 ? "the wrong task was named"
                                   : "the launcher's exit status is not the killed task's",
                       run.status, at);
    }
    gpu_run_free(&run);
}

/* ---- frameworks -------------------------------------------------------------------------------------------------- */

static void python_judge(struct gpu_result *r, const char *option, const char *program)
{
    const char *python = getenv("PYTHON");
    struct gpu_run run = gpu_run((const char *[]){python ? python : "python3", "--version", NULL}, NULL, 20);

    r->may_miss = true;
    if (run.status != 0) {
        result_say(r, GPU_NOT_RUN, "no Python here");
        gpu_run_free(&run);
        return;
    }
    gpu_run_free(&run);
    program_judge(
        r, (const char *[]){MUSTER, "run", "-n", "1", option, python ? python : "python3", "-c", program, NULL}, 100);
}

static void row_torch(struct gpu_result *r)
{
    python_judge(r, "--tcpstore",
                 "import sys\n"
                 "try: import torch\n"
                 "except ModuleNotFoundError as e: print('no PyTorch here:', e); sys.exit(77)\n"
                 "if not torch.version.cuda: print('this PyTorch is built without CUDA'); sys.exit(77)\n"
                 "torch.cuda.init()\n"
                 "import torch.distributed as dist\n"
                 "dist.init_process_group('nccl', init_method='env://')\n"
                 "x = torch.ones(1 << 20, device='cuda'); dist.all_reduce(x)\n"
                 "assert float(x.sum()) == 1 << 20\n"
                 "dist.destroy_process_group()\n");
}

static void row_jax(struct gpu_result *r)
{
    python_judge(r, "--grpc",
                 "import os, sys\n"
                 "try: import jax\n"
                 "except ModuleNotFoundError as e: print('no JAX here:', e); sys.exit(77)\n"
                 "jax.distributed.initialize()\n"
                 "if jax.devices()[0].platform != 'gpu': print('this JAX has no CUDA'); sys.exit(77)\n"
                 "assert float(jax.numpy.ones(1 << 20).sum()) == 1 << 20\n");
}

const struct gpu_row gpu_rows[] = {
    {"doctor", "muster doctor finds nothing wrong with NVML, CUDA and the GPUs", "no problem", row_doctor},
    {"topology", "muster topo --cuda against nvidia-smi -q -x and the CUDA driver", "equal", row_topology},
    {"links", "muster topo --matrix against nvidia-smi topo -m", "equal", row_links},
    {"proto", "LocalTopologyProto in both forms, and the global one of two tasks", "not empty", row_proto},
    {"binding", "muster run -n gpu --bind-to gpu, seen from inside by the CUDA driver", "a GPU a rank", row_binding},
    {"visible", "CUDA_VISIBLE_DEVICES: empty, number, UUID, its beginning, twice, out of range, MIG, unknown",
     "as CUDA", row_visible},
    {"stream", "stream barrier: 2,000 rounds of two processes, capture, a member killed", "passes", row_stream},
    {"stream-cost", "stream barrier of two processes on one GPU, p50 of 2,000", "none", row_stream_cost},
    {"nccl", "NCCL: an allreduce of one rank; a peer that never comes, by deadline and by error", "passes", row_nccl},
    {"nccl-twice", "NCCL: two ranks on one GPU are refused in words", "refused", row_nccl_twice},
    {"health", "a process watches the GPUs of a job; its cost", "there", row_health},
    {"fault", "a kernel's illegal address is told by the launcher", "told", row_fault},
    {"death", "SIGKILL of a task that holds 1 GiB of a GPU: its peer knows, the memory is back", "1 GiB back",
     row_death},
    {"torch", "unmodified PyTorch: an allreduce by NCCL under muster run --tcpstore", "passes", row_torch},
    {"jax", "unmodified JAX on its GPU under muster run --grpc", "passes", row_jax},
};
const size_t gpu_num_rows = sizeof gpu_rows / sizeof *gpu_rows;
