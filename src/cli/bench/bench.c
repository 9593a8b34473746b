/*
 * cli/bench/bench.c: `muster bench`: what muster costs on this machine, without anything installed beside it.
 *
 * The public subset of the benchmarks in bench/, which compare with other programs and take minutes. Each row is
 * warmed up, then measured for a time. Where one operation is short against a reading of the clock, a sample is the
 * mean of a batch, as the output says; the clock's cost is measured, said, and not subtracted.
 */
#include "cli/bench/bench.h"

#include <sys/utsname.h>

#include "cli/cli.h"

#define SECONDS 1.0

struct result {
    uint64_t n;
    double p50, p99, mean, least, most; /* ns an operation */
};

/* One reading of the clock: the median of many. */
static double clock_cost(double tick_ns)
{
    uint64_t deltas[1001];

    for (int i = 0; i < 1001; i++) {
        uint64_t start = bench_ticks();

        for (int k = 0; k < 16; k++)
            bench_ticks();
        deltas[i] = bench_ticks() - start;
    }
    qsort(deltas, 1001, sizeof deltas[0], bench_compare_u64);
    return (double)deltas[500] * tick_ns / 17;
}

static void samples_reduce(struct mu_bench *bench, unsigned batch, struct result *ret_result)
{
    uint64_t *ticks = bench->table->ticks, n = bench->table->count;
    double scale = bench->tick_ns / batch, sum = 0;

    qsort(ticks, n, sizeof *ticks, bench_compare_u64);
    for (uint64_t i = 0; i < n; i++)
        sum += (double)ticks[i];
    *ret_result = (struct result){
        .n = n,
        .p50 = (double)ticks[n / 2] * scale,
        .p99 = (double)ticks[n * 99 / 100] * scale,
        .mean = sum / (double)n * scale,
        .least = (double)ticks[0] * scale,
        .most = (double)ticks[n - 1] * scale,
    };
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static const char *cpu_name(char buffer[128])
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[512];

    snprintf(buffer, 128, "unknown processor");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            line[strcspn(line, "\n")] = 0;
            snprintf(buffer, 128, "%.120s", strchr(line, ':') + 2);
            break;
        }
    if (file)
        fclose(file);
    return buffer;
}

static void start_output(const struct mu_bench *bench, struct mu_cli_json *json, int is_json)
{
    double clock = clock_cost(bench->tick_ns);
    struct utsname name;
    char cpu[128], number[32];

    uname(&name);
    cpu_name(cpu);
    if (!is_json) {
        printf("muster %s on %s, %s %s, %s, %d processor%s\n", muster_version(), name.nodename, name.sysname,
               name.release, cpu, bench->cpus.count, bench->cpus.count == 1 ? "" : "s");
        printf("%u tasks, %g s a row; a reading of the clock takes %.0f ns, not subtracted\n\n", bench->tasks,
               bench->seconds, clock);
        printf("%s%-15s %-38s %6s %9s %11s %11s%s\n", mu_cli_colour(MU_CLI_BOLD), "BENCHMARK", "WHAT", "BATCH", "N",
               "P50", "P99", mu_cli_colour(MU_CLI_PLAIN));
        return;
    }
    mu_cli_json_start(json, stdout);
    mu_cli_json_open(json, NULL, '{');
    mu_cli_json_text(json, "version", muster_version());
    mu_cli_json_text(json, "host", name.nodename);
    mu_cli_json_text(json, "kernel", name.release);
    mu_cli_json_text(json, "machine", name.machine);
    mu_cli_json_text(json, "cpu", cpu);
    mu_cli_json_unsigned(json, "processors", (uint64_t)bench->cpus.count);
    mu_cli_json_unsigned(json, "tasks", bench->tasks);
    snprintf(number, sizeof number, "%g", bench->seconds);
    mu_cli_json_text(json, "seconds", number);
    mu_cli_json_unsigned(json, "clock_ps", (uint64_t)(clock * 1000));
    mu_cli_json_open(json, "rows", '[');
}

static const char *time_text(double ns, char buffer[32])
{
    if (ns < 1000)
        snprintf(buffer, 32, "%.1f ns", ns);
    else if (ns < 1e6)
        snprintf(buffer, 32, "%.2f us", ns / 1e3);
    else
        snprintf(buffer, 32, "%.2f ms", ns / 1e6);
    return buffer;
}

static void print_row(const struct mu_bench_row *row, const struct result *result)
{
    char p50[32], p99[32];

    printf("%-15s %-38s %6u %9" PRIu64 " %11s %11s\n", row->name, row->what, row->batch, result->n,
           time_text(result->p50, p50), time_text(result->p99, p99));
    fflush(stdout);
}

/* JSON's numbers here are whole: picoseconds. */
static void bench_json_row(struct mu_cli_json *json, const struct mu_bench_row *row, uint32_t tasks,
                           const struct result *result)
{
    mu_cli_json_open(json, NULL, '{');
    mu_cli_json_text(json, "name", row->name);
    mu_cli_json_text(json, "what", row->what);
    mu_cli_json_unsigned(json, "tasks", row->size ? row->size : tasks);
    mu_cli_json_unsigned(json, "batch", row->batch);
    mu_cli_json_unsigned(json, "n", result->n);
    mu_cli_json_unsigned(json, "min_ps", (uint64_t)(result->least * 1000));
    mu_cli_json_unsigned(json, "p50_ps", (uint64_t)(result->p50 * 1000));
    mu_cli_json_unsigned(json, "p99_ps", (uint64_t)(result->p99 * 1000));
    mu_cli_json_unsigned(json, "max_ps", (uint64_t)(result->most * 1000));
    mu_cli_json_unsigned(json, "mean_ps", (uint64_t)(result->mean * 1000));
    mu_cli_json_close(json, '}');
}

static void progress_show(const struct mu_bench_row *row)
{
    if (!isatty(2))
        return;
    fprintf(stderr, "\r\033[K%s%s", row ? row->name : "", row ? " ..." : "");
    fflush(stderr); /* it ends no line */
}

/* ---- which rows -------------------------------------------------------------------------------------------------- */

static const char *bench_name(size_t number)
{
    return mu_bench_rows[number].name;
}

/* "kv-get,launch" as bits. */
static int take_only(struct mu_cli_call *call, uint64_t *ret_wanted)
{
    const char *text = call->values[MU_OPT_ONLY];
    size_t index;

    *ret_wanted = UINT64_MAX;
    if (!text)
        return 0;
    *ret_wanted = 0;
    for (;;) {
        size_t len = strcspn(text, ",");
        char name[64];
        int code;

        snprintf(name, sizeof name, "%.*s", (int)(len < 60 ? len : 60), text);
        code = mu_cli_choice(call, MU_OPT_ONLY, name, &index);
        if (code)
            return code;
        *ret_wanted |= UINT64_C(1) << index;
        if (text[len] == 0)
            return 0;
        text += len + 1;
    }
}

static int bench_take_options(struct mu_cli_call *call, struct mu_bench *bench, uint64_t *ret_wanted)
{
    const char *seconds = call->values[MU_OPT_SECONDS];
    uint64_t tasks, ns;
    char text[40];

    bench_cpus_read(&bench->cpus);
    bench->seconds = SECONDS;
    tasks = bench->cpus.count < 2 ? 2 : bench->cpus.count > 8 ? 8 : (uint64_t)bench->cpus.count;
    if (seconds) {
        snprintf(text, sizeof text, "%s%s", seconds, strspn(seconds, "0123456789.") == strlen(seconds) ? "s" : "");
        if (strlen(seconds) > 30 || mu_cli_parse_duration(text, &ns) || ns < 1000000 || ns > 600000000000)
            return mu_cli_wrong(call, MU_OPT_SECONDS, seconds, "is no time from 0.001 to 600 seconds");
        bench->seconds = (double)ns / 1e9;
    }
    if (call->values[MU_OPT_TASKS] &&
        (mu_cli_parse_unsigned(call->values[MU_OPT_TASKS], MU_BENCH_TASKS_MAX, &tasks) || tasks < 2))
        return mu_cli_wrong(call, MU_OPT_TASKS, call->values[MU_OPT_TASKS], "is no number of tasks from 2 to %d",
                            MU_BENCH_TASKS_MAX);
    bench->tasks = (uint32_t)tasks;
    return take_only(call, ret_wanted);
}

static int run_row(const struct mu_cli_call *call, struct mu_bench *bench, const struct mu_bench_row *row,
                   struct result *ret_result)
{
    int code;

    bench->table->count = bench->table->stop_at = 0;
    bench->table->why[0] = 0;
    fflush(stdout); /* the tasks would print it again */
    progress_show(row);
    code = row->run(bench, row);
    progress_show(NULL);
    if (!code && bench->table->count == 0)
        code = mu_bench_fail(bench->table, "nothing was measured");
    if (code && code < 128)
        fprintf(stderr, "%s: %s: %s\n", call->path, row->name, bench->table->why);
    if (!code)
        samples_reduce(bench, row->batch, ret_result);
    return code;
}

static int bench_run(struct mu_cli_call *call)
{
    struct mu_bench bench = {.tasks = 2};
    struct mu_cli_json json;
    uint64_t wanted = 0;
    int is_json = call->values[MU_OPT_JSON] != NULL, code = bench_take_options(call, &bench, &wanted);

    if (code)
        return code;
    bench.table = mmap(NULL, sizeof *bench.table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bench.table == MAP_FAILED) {
        fprintf(stderr, "%s: no memory: %s\n", call->path, strerror(errno));
        return MU_CLI_EXIT_FAILURE;
    }
    mu_bench_catch_signals();
    bench.tick_ns = bench_tick_ns();
    start_output(&bench, &json, is_json);
    for (size_t i = 0; mu_bench_rows[i].name && !code; i++) {
        struct result result;

        if (!(wanted >> i & 1))
            continue;
        code = run_row(call, &bench, &mu_bench_rows[i], &result);
        if (!code && is_json)
            bench_json_row(&json, &mu_bench_rows[i], bench.tasks, &result);
        else if (!code)
            print_row(&mu_bench_rows[i], &result);
    }
    if (is_json) {
        mu_cli_json_close(&json, ']');
        mu_cli_json_close(&json, '}');
        mu_cli_json_end(&json);
    }
    munmap(bench.table, sizeof *bench.table);
    return mu_cli_finish(call, code);
}

static const struct mu_cli_option bench_options[] = {
    {MU_OPT_ONLY, 0, "only", "LIST", bench_name, "only these benchmarks, separated by commas"},
    {MU_OPT_SECONDS, 0, "seconds", "S", NULL, "measure each for S seconds (default 1), or for a million samples"},
    {MU_OPT_TASKS, 0, "tasks", "N", NULL, "2 to 64 tasks (default: one a processor, 2 to 8)"},
    MU_CLI_JSON,
    MU_CLI_END,
};

const struct mu_cli_verb mu_cli_bench = {
    .name = "bench",
    .operands = "",
    .summary = "Measure what muster costs on this machine",
    .options = bench_options,
    .run = bench_run,
};
