/* tests/bridge/crowd.c: see crowd.h. */
#include "crowd.h"

#include "cm.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct hosts *h;
struct muster *eyes[CROWD_MOST];
struct board *board;

int crowd_begin(void)
{
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board == MAP_FAILED ? -1 : 0;
}

void crowd_open(const struct hosts_config *config)
{
    memset(board, 0, sizeof *board);
    h = hosts_open(config);
    for (uint32_t i = 0; i < hosts_count(h); i++)
        eyes[i] = hosts_observer(h, i);
}

void crowd_close(void)
{
    for (uint32_t i = 0; i < hosts_count(h); i++)
        assert_ok(muster_leave(eyes[i]));
    assert_int_equal(hosts_close(h), 0);
}

struct muster_task_info crowd_look(uint32_t host, int32_t task)
{
    struct muster_task_info info;

    assert_ok(muster_task_get(eyes[host], task, &info));
    return info;
}

static bool is_in(uint32_t host, int32_t task, enum muster_task_state state, uint32_t attempt)
{
    struct muster_task_info info = crowd_look(host, task);

    return info.state == state && info.attempt == attempt;
}

void crowd_until(uint32_t host, int32_t task, enum muster_task_state state, uint32_t attempt)
{
    hosts_await(h, is_in(host, task, state, attempt), "task %d is in state %d, attempt %u on host %u (it is in %d)",
                task, state, attempt, host, crowd_look(host, task).state);
}

void crowd_until_everywhere(int32_t task, enum muster_task_state state, uint32_t attempt)
{
    for (uint32_t i = 0; i < hosts_count(h); i++)
        crowd_until(i, task, state, attempt);
}

uint64_t crowd_version(uint32_t host)
{
    uint64_t version;

    assert_ok(muster_task_list(eyes[host], NULL, 0, NULL, &version));
    return version;
}

static int stay(struct muster *m, void *arg)
{
    (void)m;
    (void)arg;
    while (!board->go)
        usleep(1000); /* sleep: a task that does nothing */
    return 0;
}

pid_t crowd_start(uint32_t task)
{
    return hosts_task(h, task, stay, NULL);
}

void crowd_end(pid_t pid)
{
    board->go = 1;
    assert_int_equal(hosts_reap(h, pid), 0);
}

void crowd_murder(pid_t pid, uint32_t host)
{
    kill(pid, SIGKILL);
    assert_int_equal(hosts_reap(h, pid), 1000 + SIGKILL);
    assert_ok(muster_scavenge(eyes[host], NULL));
}
