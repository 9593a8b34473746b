/*
 * topology/share.c: one load of hwloc per node. share.h says what the memfd holds, and which task fills it.
 *
 * What is read from it is bounded by the file's size before it is used. The tree itself is full of pointers, so it is
 * believed as far as the seals and the file's owner are: every process of the job could do to the job what it liked
 * anyway. hwloc checks that it was written by a compatible hwloc.
 */
#include "topology/share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "topology/node.h"

#define SEALS         (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define PAUSE_MAX_NS  10000000ull
#define LENGTH_MAX    (1ull << 30)
#define ADDRESS       0x200000000000ull /* 32 TiB: far from where kernels and sanitizers put things */
#define ADDRESS_STEP  0x010000000000ull
#define ADDRESS_TRIES 16

#define NAME "muster-topology"

static const char magic[16] = "muster-hwloc-1\n";

/* The first page. Offsets and lengths in bytes. */
struct head {
    char magic[16];
    uint64_t size;                /* of the file */
    uint64_t xml, xml_length;     /* with the NUL behind it */
    uint64_t image, image_length; /* to the file's end */
    uint64_t address;             /* where everybody maps the image */
};

int mu_share_create(char *ret_path, size_t size)
{
    int fd = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0)
        snprintf(ret_path, size, "/proc/%d/fd/%d", (int)getpid(), fd);
    return fd;
}

/*
 * The file at `path`, which is /proc/PID/fd/N: by now the pid may be another's, when the launcher has died, and what is
 * open there somebody's data, which filling would overwrite, or a FIFO. Only a memfd of that name is touched. -1: none.
 */
static int open_ours(const char *path, int flags)
{
    static const char link[] = "/memfd:" NAME " (deleted)";
    char text[sizeof link];

    if (readlink(path, text, sizeof text) != sizeof link - 1 || memcmp(text, link, sizeof link - 1) != 0)
        return -1;
    return open(path, flags | O_CLOEXEC);
}

/* ---- reading the memfd ------------------------------------------------------------------------------------------- */

static bool is_whole(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & SEALS) == SEALS;
}

static int read_head(int fd, struct head *ret_head)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct stat file;

    if (fstat(fd, &file) || pread(fd, ret_head, sizeof *ret_head, 0) != (ssize_t)sizeof *ret_head ||
        memcmp(ret_head->magic, magic, sizeof magic) != 0 || ret_head->size != (uint64_t)file.st_size)
        return -1;
    if (ret_head->size > 2 * LENGTH_MAX || ret_head->xml < sizeof *ret_head || ret_head->xml_length == 0 ||
        ret_head->xml_length > INT32_MAX || ret_head->xml > ret_head->image ||
        ret_head->xml_length > ret_head->image - ret_head->xml || ret_head->image % page || ret_head->address % page ||
        ret_head->image > ret_head->size || ret_head->image_length != ret_head->size - ret_head->image)
        return -1;
    return 0;
}

static int load_xml(const struct mu_hwloc *hwloc, int fd, const struct head *head, hwloc_topology_t *ret_topology)
{
    char *xml = malloc(head->xml_length);
    int rc = -1;

    if (xml && pread(fd, xml, head->xml_length, (off_t)head->xml) == (ssize_t)head->xml_length &&
        xml[head->xml_length - 1] == '\0' && mu_hwloc_start(hwloc, ret_topology) == 0) {
        hwloc->hwloc_topology_set_io_types_filter(*ret_topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
        hwloc->hwloc_topology_set_flags(*ret_topology, HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM);
        rc = hwloc->hwloc_topology_set_xmlbuffer(*ret_topology, xml, (int)head->xml_length) ||
                     hwloc->hwloc_topology_load(*ret_topology)
                 ? -1
                 : 0;
        if (rc)
            hwloc->hwloc_topology_destroy(*ret_topology);
    }
    free(xml);
    return rc;
}

/* Another tree is begun first: it keeps hwloc's plugins out, which adopting alone would open (2 to 14 ms for 10 us). */
static int tree_adopt(const struct mu_hwloc *hwloc, int fd, const struct head *head, hwloc_topology_t *ret_topology)
{
    hwloc_topology_t first;
    int rc;

    if (mu_hwloc_start(hwloc, &first))
        return -1;
    rc = hwloc->hwloc_shmem_topology_adopt(ret_topology, fd, head->image, (void *)(uintptr_t)head->address,
                                           head->image_length, 0);
    hwloc->hwloc_topology_destroy(first);
    return rc;
}

/* 0, or -1: what is there cannot be used by this process. */
static int shared_use(const struct mu_hwloc *hwloc, const char *path, hwloc_topology_t *ret_topology,
                      enum mu_share_way *ret_way)
{
    int fd = open_ours(path, O_RDONLY), rc = -1; /* our own: hwloc moves the file's position */
    struct head head;

    if (fd < 0)
        return -1;
    if (is_whole(fd) && read_head(fd, &head) == 0) {
        *ret_way = MU_SHARE_ADOPTED;
        rc = tree_adopt(hwloc, fd, &head, ret_topology);
        if (rc) {
            *ret_way = MU_SHARE_XML;
            rc = load_xml(hwloc, fd, &head, ret_topology);
        }
    }
    close(fd);
    return rc;
}

/* ---- filling it -------------------------------------------------------------------------------------------------- */

/* Somewhere to map the image that is free here, and so probably elsewhere. 0: nowhere. */
static uint64_t find_address(size_t length)
{
    for (uint64_t i = 0, at = ADDRESS; i < ADDRESS_TRIES; i++, at += ADDRESS_STEP) {
        void *got = mmap((void *)(uintptr_t)at, length, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

        if (got != MAP_FAILED)
            munmap(got, length);
        if (got == (void *)(uintptr_t)at)
            return at;
    }
    return 0;
}

static int write_all(const struct mu_hwloc *hwloc, int fd, hwloc_topology_t topology, const char *xml, int xml_length)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct head head = {.xml = sizeof head, .xml_length = (uint64_t)xml_length};
    size_t length;

    memcpy(head.magic, magic, sizeof magic);
    if (xml_length <= 0 || hwloc->hwloc_shmem_topology_get_length(topology, &length, 0) || length > LENGTH_MAX)
        return -1;
    head.image = (head.xml + head.xml_length + page - 1) / page * page;
    head.image_length = (length + page - 1) / page * page;
    head.size = head.image + head.image_length;
    head.address = find_address(head.image_length);
    if (!head.address || !mu_process_may_have(head.size) || ftruncate(fd, 0) ||
        pwrite(fd, xml, head.xml_length, (off_t)head.xml) != xml_length ||
        pwrite(fd, &head, sizeof head, 0) != (ssize_t)sizeof head)
        return -1;
    if (hwloc->hwloc_shmem_topology_write(topology, fd, head.image, (void *)(uintptr_t)head.address, head.image_length,
                                          0))
        return -1;
    return fcntl(fd, F_ADD_SEALS, SEALS);
}

static void shared_fill(const struct mu_hwloc *hwloc, int fd, hwloc_topology_t topology)
{
    char *xml = NULL;
    int length = 0;

    hwloc->hwloc_topology_refresh(topology); /* what is worked out late would be written into a mapping */
    if (hwloc->hwloc_topology_export_xmlbuffer(topology, &xml, &length, 0))
        return;
    write_all(hwloc, fd, topology, xml, length); /* in vain: the next will try */
    hwloc->hwloc_free_xmlbuffer(topology, xml);
}

/* ---- the filler -------------------------------------------------------------------------------------------------- */

/* Wait until it is our turn to fill (1), or until it is whole (0). -1: neither came in time. */
static int filler_take_turn(int fd, uint64_t patience_ns)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct timespec pause = {.tv_nsec = 100000};
    uint64_t until = mu_now() + patience_ns;

    for (;;) {
        if (is_whole(fd))
            return 0;
        if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
            return !is_whole(fd);
        if ((errno != EAGAIN && errno != EACCES && errno != EINTR) || mu_now() > until)
            return -1;
        nanosleep(&pause, NULL);
        if ((uint64_t)pause.tv_nsec < PAUSE_MAX_NS)
            pause.tv_nsec *= 2;
    }
}

enum muster_status mu_share_get(const struct mu_hwloc *hwloc, const char *path, uint64_t patience_ns,
                                hwloc_topology_t *ret_topology, enum mu_share_way *ret_way)
{
    const struct mu_hwloc_wish wish = {.source = NULL};
    char note[MU_HWLOC_NOTE_SIZE];
    enum muster_status status;
    int fd, turn = -1;

    if (mu_hwloc_foreign())
        path = NULL;
    if (path && shared_use(hwloc, path, ret_topology, ret_way) == 0)
        return MUSTER_OK;
    fd = path ? open_ours(path, O_RDWR) : -1; /* our own open file: its lock is ours, and dies with us */
    if (fd >= 0) /* it may have become whole since we looked: then that is no turn, but a reason to look again */
        turn = filler_take_turn(fd, patience_ns);
    if (turn == 0 && shared_use(hwloc, path, ret_topology, ret_way) == 0) {
        close(fd);
        return MUSTER_OK;
    }
    status = mu_hwloc_load(hwloc, &wish, ret_topology, note);
    *ret_way = MU_SHARE_LOADED;
    if (status == MUSTER_OK && turn == 1) {
        mu_nvml_keep(hwloc, *ret_topology);
        shared_fill(hwloc, fd, *ret_topology);
        if (is_whole(fd))
            *ret_way = MU_SHARE_FILLED;
    }
    if (fd >= 0)
        close(fd); /* and the lock with it */
    return status;
}
