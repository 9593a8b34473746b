#include "pmi1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "compat/pmi1.h"

static const char session[] =
    "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=get_appnum\ncmd=get_my_kvsname\n"
    "cmd=get kvsname=k key=PMI_process_mapping\ncmd=put kvsname=k key=-bcast-1-0 value=2F6465762F73686D\n"
    "cmd=get kvsname=k key=-bcast-1-0\ncmd=get_universe_size\ncmd=publish_name service=s port=p\n"
    "cmd=lookup_name service=s\ncmd=unpublish_name service=s\nmcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=1\n"
    "spawnssofar=1\nargcnt=0\nendcmd\ncmd=barrier_in\ncmd=finalize\ncmd=abort exitcode=3\n";

struct world {
    struct mu_pmi1 *server;
    struct pmi1_sum *sum;
};

size_t pmi1_session(uint8_t *to, size_t size)
{
    size_t len = sizeof session - 1 < size ? sizeof session - 1 : size;

    memcpy(to, session, len);
    return len;
}

static void exchange(void *arg, const void *bytes, size_t len)
{
    struct world *world = arg;
    struct iovec part = {(void *)(uintptr_t)bytes, len};

    mu_pmi1_exchanged(world->server, MUSTER_OK, 1, &part, "");
}

/* As another host's would hear it. */
static void tell(void *arg, const void *bytes, size_t len)
{
    struct world *world = arg;

    mu_pmi1_told(world->server, bytes, len);
    mu_pmi1_told(world->server, bytes, len / 2);
}

static void waits(void *arg)
{
    struct world *world = arg;
    char text[64];

    mu_pmi1_describe(world->server, text, sizeof text);
    if (strncmp(text, "task", 4) != 0)
        abort();
}

static void aborted(void *arg, uint32_t task, int code, const char *message)
{
    struct world *world = arg;

    (void)code;
    if (task > 1 || strlen(message) > MU_PMI1_LINE_MAX)
        abort();
    world->sum->aborts++;
}

static void stranded(void *arg, uint32_t task, const char *why)
{
    (void)arg;
    if (task > 1 || !*why)
        abort();
}

static void said(void *arg, const char *sentence)
{
    struct world *world = arg;

    if (!strstr(sentence, "its PMI connection is closed"))
        abort();
    world->sum->closed++;
}

/* Every answer is lines that begin with "cmd=". */
static void listen_to(int fd, struct pmi1_sum *sum)
{
    static char got[65536];
    ssize_t n = recv(fd, got, sizeof got, MSG_DONTWAIT);

    for (char *at = got, *end; n > 0; n -= end + 1 - at, at = end + 1) {
        end = memchr(at, '\n', (size_t)n);
        if (!end || strncmp(at, "cmd=", 4) != 0)
            abort();
        sum->answers++;
    }
}

static void turn(uv_loop_t *loop, int fd, struct pmi1_sum *sum)
{
    for (int i = 0; i < 3; i++)
        uv_run(loop, UV_RUN_NOWAIT);
    listen_to(fd, sum);
}

static void check_other(uv_loop_t *loop, int fd)
{
    static const char line[] = "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_appnum\n";
    static const char wanted[] = "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\ncmd=appnum rc=0 appnum=0\n";
    char got[200];

    if (send(fd, line, sizeof line - 1, MSG_NOSIGNAL) < 0)
        abort();
    for (int i = 0; i < 3; i++)
        uv_run(loop, UV_RUN_NOWAIT);
    if (recv(fd, got, sizeof got, MSG_DONTWAIT) != sizeof wanted - 1 || memcmp(got, wanted, sizeof wanted - 1) != 0)
        abort();
}

void pmi1_try(const uint8_t *data, size_t size, struct pmi1_sum *sum)
{
    struct world world = {.sum = sum};
    struct mu_pmi1_options options = {.num_tasks = 2,
                                      .local_tasks = 2,
                                      .has_others = size % 2,
                                      .kvsname = "kvs",
                                      .mapping = "(vector,(0,1,2))",
                                      .arg = &world,
                                      .exchange = exchange,
                                      .tell = tell,
                                      .waits = waits,
                                      .aborted = aborted,
                                      .stranded = stranded,
                                      .said = said};
    size_t piece = size ? 1 + data[0] : 1;
    int pairs[2][2];
    uv_loop_t loop;

    uv_loop_init(&loop);
    options.loop = &loop;
    if (mu_pmi1_start(&options, &world.server) != MUSTER_OK)
        abort();
    for (uint32_t i = 0; i < 2; i++)
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]) ||
            mu_pmi1_take(world.server, i, pairs[i][0]) != MUSTER_OK)
            abort();
    for (size_t at = 0; at < size; at += piece) {
        if (send(pairs[0][1], data + at, piece < size - at ? piece : size - at, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
        turn(&loop, pairs[0][1], sum);
    }
    mu_pmi1_told(world.server, data, size);
    check_other(&loop, pairs[1][1]);
    close(pairs[0][1]);
    mu_pmi1_task_ended(world.server, 0);
    mu_pmi1_stop(world.server);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop))
        abort();
    close(pairs[1][1]);
}
