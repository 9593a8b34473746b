/*
 * tests/cli/guest_main.c: a job of three with guests, as an agent would have them: guest JOB.
 *
 * Task 0 is a guest of this very process, task 1 a guest of no process that is known, and lost, task 2 nobody. Prints
 * "ready"; removes the job when stdin ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <muster/muster.h>

#include "segment/handle.h"
#include "task/client.h"

static void need(enum muster_status status, const char *what)
{
    if (status == MUSTER_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, muster_last_error());
    exit(1);
}

int main(int argc, char **argv)
{
    struct muster_segment_config config = {.num_tasks = 3, .num_buckets = 256, .heap_bytes = 1 << 20};
    struct mu_client guest = {.task = 0, .incarnation = 4711, .pid = (uint32_t)getpid()};
    struct muster_segment *segment;
    struct muster_options options;
    struct muster *muster;
    struct mu_ctx *ctx;

    if (argc != 2)
        return 2;
    need(muster_segment_create(argv[1], &config, &segment), "create");
    muster_options_init(&options);
    options.job = argv[1];
    options.flags = MUSTER_JOIN_OBSERVER;
    need(muster_join(&options, &muster), "join");
    need(mu_enter(muster, &ctx), "enter");
    need(mu_client_register(ctx, &guest), "register");
    guest = (struct mu_client){.task = 1, .incarnation = 4712};
    need(mu_client_register(ctx, &guest), "register");
    need(mu_client_lost(ctx, 1, 4712, "its connection was reset by its peer"), "lose");
    mu_exit(ctx);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    need(muster_leave(muster), "leave");
    muster_segment_close(segment);
    need(muster_segment_remove(argv[1]), "remove");
    return 0;
}
