/*
 * tests/rpc/service_main.c: a job of no processes and its coordination service, for clients of Python's gRPC.
 *   service TASKS [register] [jobs=worker:2,ps:1] [shutdown_ms=N] [recoverable] [address=ADDR]
 *       [lost_ms=N] [workers=HOST:PORT,...] [worker_ms=N]
 * Says where it listens, and by what incarnation, in a line; stops when its standard input ends, says "stopped".
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uv.h>

#include <muster/muster.h>

#include "coord/coord.h"
#include "rpc/service.h"

enum { GRACE_MS = 2000 };

static struct mu_service *service;
static struct mu_coord_options coord_options;
static struct mu_service_options options = {.address = "127.0.0.1:0"};
static uv_pipe_t input;
static char byte[64];

static void stopped(void *arg)
{
    (void)arg;
    mu_coord_free(options.coord);
    puts("stopped");
}

static void give(uv_handle_t *handle, size_t size, uv_buf_t *ret_buffer)
{
    (void)handle;
    (void)size;
    *ret_buffer = uv_buf_init(byte, sizeof byte);
}

static void heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    (void)buffer;
    if (n >= 0)
        return;
    uv_close((uv_handle_t *)stream, NULL);
    mu_service_stop(service, GRACE_MS * UINT64_C(1000000), stopped, NULL);
}

static void option(const char *word)
{
    if (!strcmp(word, "register"))
        coord_options.register_barrier = true;
    else if (!strcmp(word, "recoverable"))
        coord_options.recoverable = true;
    else if (!strncmp(word, "jobs=", 5))
        options.jobs = word + 5;
    else if (!strncmp(word, "address=", 8))
        options.address = word + 8;
    else if (!strncmp(word, "workers=", 8))
        options.workers = word + 8;
    else if (!strncmp(word, "worker_ms=", 10))
        options.workers_ns = strtoull(word + 10, NULL, 10) * 1000000;
    else if (!strncmp(word, "shutdown_ms=", 12))
        coord_options.shutdown_timeout_ns = strtoull(word + 12, NULL, 10) * 1000000;
    else if (!strncmp(word, "lost_ms=", 8))
        coord_options.lost_ns = strtoull(word + 8, NULL, 10) * 1000000;
}

static void said(void *arg, int32_t task, const char *sentence)
{
    (void)task;
    (void)arg;
    fprintf(stderr, "service: %s\n", sentence);
}

static struct muster *join(const char *tasks)
{
    struct muster_segment_config config = {.num_tasks = (uint32_t)strtoul(tasks, NULL, 10), .heap_bytes = 64u << 20};
    struct muster_options o;
    struct muster *m;
    char job[64];

    config.listened = 1;
    muster_options_init(&o);
    snprintf(job, sizeof job, "t-service-%d", (int)getpid());
    o.job = job;
    o.flags = MUSTER_JOIN_OBSERVER;
    o.num_tasks = config.num_tasks;
    o.config = &config;
    if (muster_join(&o, &m)) {
        fprintf(stderr, "service: %s\n", muster_last_error());
        exit(1);
    }
    return m;
}

int main(int argc, char **argv)
{
    uv_loop_t loop;
    struct muster *m;

    if (argc < 2)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    for (int i = 2; i < argc; i++)
        option(argv[i]);
    m = join(argv[1]);
    uv_loop_init(&loop);
    coord_options.loop = &loop;
    coord_options.m = m;
    coord_options.said = said;
    if (mu_coord_open(&coord_options, &options.coord) || mu_service_start(&options, &service)) {
        fprintf(stderr, "service: %s\n", muster_last_error());
        mu_coord_free(options.coord);
        uv_run(&loop, UV_RUN_DEFAULT);
        muster_leave(m);
        return 1;
    }
    printf("%s %" PRIu64 "\n", mu_service_address(service), mu_coord_incarnation(options.coord));
    fflush(stdout);
    uv_pipe_init(&loop, &input, 0);
    uv_pipe_open(&input, 0);
    uv_read_start((uv_stream_t *)&input, give, heard);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop)) {
        fprintf(stderr, "service: something is still open\n");
        return 1;
    }
    return muster_leave(m) ? 1 : 0;
}
