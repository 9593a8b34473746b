/*
 * tests/topology/share_test.c: one load of hwloc per node: who fills the memfd, who maps it, and what becomes of it
 * when who fills it is killed, stopped, or writes nonsense. Real processes, the real hwloc.
 */
#include "cm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "topology/share.h"

static struct mu_hwloc hwloc;
static char path[64];
static int memfd;

static int set_up(void)
{
    memfd = mu_share_create(path, sizeof path);
    return memfd < 0;
}

static int tear_down(void)
{
    return close(memfd);
}

static enum mu_share_way get(hwloc_topology_t *ret_topology)
{
    enum mu_share_way way = MU_SHARE_LOADED;

    if (mu_share_get(&hwloc, path, MU_SHARE_PATIENCE_NS, ret_topology, &way))
        _exit(99);
    return way;
}

/* In a child: its exit status is the way. */
static int ask(void *arg)
{
    hwloc_topology_t topology;
    enum mu_share_way way = get(&topology);

    (void)arg;
    hwloc.hwloc_topology_destroy(topology);
    return (int)way;
}

static char *xml_of(hwloc_topology_t topology)
{
    char *xml;
    int length;

    assert_int_equal(hwloc.hwloc_topology_export_xmlbuffer(topology, &xml, &length, 0), 0);
    return xml;
}

static unsigned processors_of(hwloc_topology_t topology)
{
    return hwloc.hwloc_get_nbobjs_by_depth(topology, hwloc.hwloc_get_type_depth(topology, HWLOC_OBJ_PU));
}

/* The XML beside the tree was written by the same process from the same tree. */
TEST_WITH(one_fills_it_and_the_others_map_the_same, set_up, tear_down)
{
    hwloc_topology_t own, shared;
    enum mu_share_way way;
    uint64_t head[8];
    char *written, *seen;

    assert_int_equal(test_in_child(ask, NULL), MU_SHARE_FILLED);
    assert_int_equal(test_in_child(ask, NULL), MU_SHARE_ADOPTED);
    assert_int_equal(get(&shared), MU_SHARE_ADOPTED);
    assert_int_equal(pread(memfd, head, sizeof head, 0), sizeof head);
    written = calloc(1, head[4] + 1);
    assert_int_equal(pread(memfd, written, head[4], (off_t)head[3]), head[4]);
    seen = xml_of(shared);
    assert_string_equal(seen, written);
    assert_true(hwloc.hwloc_topology_is_thissystem(shared));
    assert_ok(mu_share_get(&hwloc, NULL, 0, &own, &way));
    assert_int_equal(way, MU_SHARE_LOADED);
    assert_int_equal(processors_of(own), processors_of(shared));
    free(written);
    hwloc.hwloc_free_xmlbuffer(shared, seen);
    hwloc.hwloc_topology_destroy(own);
    hwloc.hwloc_topology_destroy(shared);
}

TEST_WITH(of_many_at_once_one_loads, set_up, tear_down)
{
    enum { COUNT = 24 };
    unsigned ways[4] = {0};
    pid_t pids[COUNT];

    for (int i = 0; i < COUNT; i++)
        pids[i] = test_fork(ask, NULL);
    for (int i = 0; i < COUNT; i++) {
        int way = test_reap(pids[i]);

        assert_in_range(way, 0, 3);
        ways[way]++;
    }
    assert_int_equal(ways[MU_SHARE_FILLED], 1);
    assert_int_equal(ways[MU_SHARE_ADOPTED], COUNT - 1);
}

TEST_WITH(who_is_killed_while_filling_is_replaced, set_up, tear_down)
{
    unsigned unfinished = 0;

    for (int round = 0; round < 60; round++) {
        struct timespec pause = {.tv_nsec = round * 300000};
        hwloc_topology_t topology;
        enum mu_share_way way;
        pid_t victim;

        close(memfd);
        memfd = mu_share_create(path, sizeof path);
        victim = test_fork(ask, NULL);
        nanosleep(&pause, NULL); /* sleep: the victim's work, up to another point each round */
        kill(victim, SIGKILL);
        test_reap(victim);
        way = get(&topology);
        assert_true(way == MU_SHARE_FILLED || way == MU_SHARE_ADOPTED);
        unfinished += way == MU_SHARE_FILLED;
        hwloc.hwloc_topology_destroy(topology);
        assert_int_equal(test_in_child(ask, NULL), MU_SHARE_ADOPTED);
    }
    assert_true(unfinished > 0);
}

/* Takes the turn to fill, leaves half a file, and stays. */
static int hold(void *arg)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct test_gate *gate = arg;
    int fd = open(path, O_RDWR);

    CHECK(fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0);
    CHECK(pwrite(fd, "muster-hwloc-1\n", 16, 0) == 16);
    test_gate_arrive(gate);
    for (;;)
        pause();
    return 0;
}

TEST_WITH(who_is_stopped_while_filling_delays_nobody_for_good, set_up, tear_down)
{
    hwloc_topology_t topology;
    struct test_gate gate;
    enum mu_share_way way;
    pid_t holder;

    test_gate_open(&gate);
    holder = test_fork(hold, &gate);
    test_gate_await(&gate);
    kill(holder, SIGSTOP);
    assert_int_equal(mu_share_get(&hwloc, path, 20000000, &topology, &way), 0);
    assert_int_equal(way, MU_SHARE_LOADED);
    hwloc.hwloc_topology_destroy(topology);
    kill(holder, SIGKILL);
    test_reap(holder);
    assert_int_equal(test_in_child(ask, NULL), MU_SHARE_FILLED);
    test_gate_close(&gate);
}

/* Whatever could be there that no muster has written. */
TEST_WITH(what_cannot_be_mapped_is_read_as_xml, set_up, tear_down)
{
    uint64_t head[8];
    hwloc_topology_t topology;
    char *a, *b;
    void *taken;

    assert_int_equal(test_in_child(ask, NULL), MU_SHARE_FILLED);
    assert_int_equal(pread(memfd, head, sizeof head, 0), sizeof head);
    taken = mmap((void *)(uintptr_t)head[7], 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(taken, (void *)(uintptr_t)head[7]);
    assert_int_equal(get(&topology), MU_SHARE_XML);
    assert_true(hwloc.hwloc_topology_is_thissystem(topology));
    munmap(taken, 4096);
    a = xml_of(topology);
    assert_non_null(strstr(a, "PU"));
    hwloc.hwloc_free_xmlbuffer(topology, a);
    hwloc.hwloc_topology_destroy(topology);
    assert_int_equal(get(&topology), MU_SHARE_ADOPTED);
    b = xml_of(topology);
    hwloc.hwloc_free_xmlbuffer(topology, b);
    hwloc.hwloc_topology_destroy(topology);
}

/*
 * A whole file with one word of its first page changed, sealed as if it were sound. (Where the XML is, words 3 and 4,
 * does not matter to who can map the tree.)
 */
TEST_WITH(damaged_files_are_not_believed, set_up, tear_down)
{
    static const uint64_t words[] = {0, 1, 4095, 4096, 1ull << 31, 1ull << 40, UINT64_MAX, UINT64_MAX - 4095};
    static char sound[8 << 20];
    ssize_t size;

    assert_int_equal(test_in_child(ask, NULL), MU_SHARE_FILLED);
    size = pread(memfd, sound, sizeof sound, 0);
    assert_true(size > 4096 && size < (ssize_t)sizeof sound);
    for (int at = 0; at < 8; at++)
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            uint64_t *word = (uint64_t *)sound + at, was = *word;
            int way;

            close(memfd);
            memfd = mu_share_create(path, sizeof path);
            *word = words[i];
            assert_int_equal(pwrite(memfd, sound, (size_t)size, 0), size);
            assert_int_equal(fcntl(memfd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
            *word = was;
            way = test_in_child(ask, NULL);
            if (way != MU_SHARE_LOADED && way != MU_SHARE_XML && !(way == MU_SHARE_ADOPTED && (at == 3 || at == 4)))
                fail_msg("word %d = %llx: %d", at, (unsigned long long)words[i], way);
        }
}

/* Sealed, but cut short, or empty. */
TEST_WITH(short_files_are_not_believed, set_up, tear_down)
{
    static char sound[8 << 20];
    ssize_t size;

    assert_int_equal(test_in_child(ask, NULL), MU_SHARE_FILLED);
    size = pread(memfd, sound, sizeof sound, 0);
    for (ssize_t cut = 0; cut < size; cut = cut * 3 + 1) {
        close(memfd);
        memfd = mu_share_create(path, sizeof path);
        assert_int_equal(pwrite(memfd, sound, (size_t)cut, 0), cut);
        assert_int_equal(fcntl(memfd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
        assert_int_equal(test_in_child(ask, NULL), MU_SHARE_LOADED);
    }
}

TEST_WITH(without_a_file_each_loads, set_up, tear_down)
{
    static const char *const paths[] = {"/nowhere", "/proc/self/fd/999", "/dev/null", "/", ""};
    hwloc_topology_t topology;
    enum mu_share_way way;

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(mu_share_get(&hwloc, paths[i], MU_SHARE_PATIENCE_NS, &topology, &way), 0);
        assert_int_equal(way, MU_SHARE_LOADED);
        hwloc.hwloc_topology_destroy(topology);
    }
}

/* The launcher has died, its pid is another's, and so is what is open there. */
TEST_WITH(what_is_somebody_elses_is_left_as_it_is, set_up, tear_down)
{
    static const char data[] = "nobody's topology";
    int fds[4] = {-1, memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    char others[64], text[sizeof data];
    hwloc_topology_t topology;
    enum mu_share_way way;
    FILE *file = tmpfile();

    assert_non_null(file);
    fds[0] = fileno(file);
    assert_int_equal(pipe2(fds + 2, O_CLOEXEC), 0);
    close(fds[3]); /* who opens it waits for a writer */
    for (int i = 0; i < 3; i++) {
        if (i < 2)
            assert_int_equal(pwrite(fds[i], data, sizeof data, 0), sizeof data);
        snprintf(others, sizeof others, "/proc/self/fd/%d", fds[i]);
        assert_int_equal(mu_share_get(&hwloc, others, MU_SHARE_PATIENCE_NS, &topology, &way), 0);
        assert_int_equal(way, MU_SHARE_LOADED);
        hwloc.hwloc_topology_destroy(topology);
        if (i == 2)
            continue;
        assert_int_equal(pread(fds[i], text, sizeof text, 0), sizeof data);
        assert_memory_equal(text, data, sizeof data);
    }
    fclose(file);
    close(fds[1]);
    close(fds[2]);
}

int main(void)
{
    char why[400];

    if (mu_hwloc_open(NULL, &hwloc, why, sizeof why)) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    return test_run(NULL, NULL);
}
