/*
 * tests/cli/hosts_main.c: the segments of a job of three hosts, as three agents would leave them: hosts JOB [HOST...].
 *
 * Makes the segments of the hosts given (all three; 0 is JOB, others JOB.h1, JOB.h2), writes what is said of each host
 * into their tables, prints the metrics of the last, and "ready", and removes them when stdin ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/muster.h>

#include "agent/metrics/text.h"
#include "segment/file.h"

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, muster_last_error());
    exit(1);
}

static void fill(struct muster_segment *seg)
{
    static const char *const names[] = {"alpha", "beta \"2\"", ""};
    static const enum mu_host_state states[] = {MU_HOST_UP, MU_HOST_DOWN, MU_HOST_AWAITED};
    uint64_t now = muster_now_ns();

    for (uint32_t i = 0; i < 3; i++) {
        struct mu_host *h = &seg->hosts[i];

        mu_host_set_name(seg, i, names[i]);
        mu_store_release(&h->state, states[i]); /* release, all of them: partner is mu_host_look() */
        mu_store_release(&h->since, i < 2 ? now - 5000000000u : 0);
        mu_store_release(&h->heard, i < 2 ? now - 1000000000u : 0);
        mu_store_release(&h->rtt, i == 1 ? 52300 : 0);
        mu_store_release(&h->rtt_min, i == 1 ? 41000 : 0);
        mu_store_release(&h->bytes_in, i == 1 ? 4096 : 0);
        mu_store_release(&h->bytes_out, i == 1 ? 8192 : 0);
        mu_store_release(&h->frames_in, i == 1 ? 17 : 0);
        mu_store_release(&h->frames_out, i == 1 ? 18 : 0);
        mu_store_release(&h->connects, i == 1 ? 3 : 0);
        mu_store_release(&h->asking, i == 1 ? 2 : 0);
        mu_store_release(&h->agent_pid, i == 1 ? 4711 : 0);
    }
}

static void print_metrics(const char *job)
{
    struct muster_options options;
    struct mu_metrics_view *view;
    struct muster *muster;
    const char *why;
    char *text;
    size_t len = 0;

    muster_options_init(&options);
    options.job = job;
    options.flags = MUSTER_JOIN_READ_ONLY | MUSTER_JOIN_NO_CREATE;
    if (muster_join(&options, &muster) != MUSTER_OK)
        fail("join");
    view = mu_metrics_view_new(muster);
    text = view ? mu_metrics_render(view, 0, &len, &why) : NULL;
    if (!text)
        fail("metrics");
    fwrite(text, 1, len, stdout);
    free(text);
    mu_metrics_view_free(view);
    muster_leave(muster);
}

int main(int argc, char **argv)
{
    struct muster_segment_config config = {.num_tasks = 6, .num_buckets = 64, .heap_bytes = 1 << 20};
    uint32_t tasks[3] = {2, 3, 1}, count = 0;
    struct muster_segment *segments[3];
    char names[3][208];

    for (uint32_t i = 0; i < 3; i++) {
        struct mu_hosts_config hosts = {.num_hosts = 3, .host = i, .num_tasks = tasks, .run_id = {1, 2}};
        int wanted = argc == 2;

        for (int k = 2; k < argc; k++)
            wanted |= (uint32_t)strtoul(argv[k], NULL, 10) == i;
        if (!wanted)
            continue;
        snprintf(names[count], sizeof names[0], i ? "%s.h%u" : "%s", argv[1], i);
        if (mu_segment_create_hosts(names[count], &config, &hosts, true, &segments[count]) != MUSTER_OK)
            fail("create");
        fill(segments[count++]);
    }
    print_metrics(names[count - 1]);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    for (uint32_t i = 0; i < count; i++) {
        mu_segment_unlink(segments[i]);
        muster_segment_close(segments[i]);
    }
    return 0;
}
