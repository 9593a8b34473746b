/*
 * accel/stream_share.c: the memory of a stream barrier: made by the first member, handed over through /proc.
 *
 * It is not part of the segment. The kernel tells of a death when the process's memory goes, which is before its
 * descriptors go and the driver takes its channels down: for some milliseconds a GPU may go on writing the flags of a
 * process that is dead already. A block of the heap would belong to somebody else by then. Memory of its own, which
 * the driver holds as long as it may write there, cannot: nobody frees it but the kernel, after the last user.
 *
 * A SIGKILL anywhere leaves nothing: the memory has no name, and goes with its last mapping.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accel/stream.h"
#include "base/process.h"

#define NAME   "muster-stream"
#define PREFIX "/memfd:" NAME
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

size_t mu_stream_bytes(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (sizeof(struct mu_stream_page) + page - 1) / page * page;
}

static struct mu_stream_page *page_map(int fd)
{
    void *memory = mmap(NULL, mu_stream_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (memory == MAP_FAILED)
        return NULL;
    /* a forked child has nothing to do there, and the driver's registration is not its own */
    madvise(memory, mu_stream_bytes(), MADV_DONTFORK);
    return memory;
}

enum muster_status mu_stream_make(uint32_t size, uint64_t first, struct mu_stream_share *ret_share,
                                  struct mu_stream_page **ret_page)
{
    int fd = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING), error = 0;
    struct mu_stream_page *page = NULL;

    if (fd >= 0 && !mu_process_may_have(mu_stream_bytes()))
        error = EFBIG;
    else if (fd < 0 || ftruncate(fd, (off_t)mu_stream_bytes()))
        error = errno;
    while (!error && fallocate(fd, 0, 0, (off_t)mu_stream_bytes())) /* all there now: no SIGBUS later */
        error = errno == EINTR ? 0 : errno;
    if (!error && fcntl(fd, F_ADD_SEALS, SEALS))
        error = errno;
    if (!error) {
        page = page_map(fd);
        error = page ? 0 : errno;
    }
    if (error) {
        if (fd >= 0)
            close(fd);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for its flags: %s", strerror(error));
    }
    mu_random(page->nonce, sizeof page->nonce);
    mu_stream_format(page, size, first);
    memcpy(ret_share->nonce, page->nonce, sizeof page->nonce);
    ret_share->fd = fd;
    *ret_page = page;
    return MUSTER_OK;
}

enum muster_status mu_stream_adopt(const struct mu_stream_share *share, uint32_t size, struct mu_stream_page **ret_page)
{
    struct mu_stream_page *page = NULL;
    struct stat status;
    char path[64], target[sizeof PREFIX] = "";
    ssize_t len;
    int fd = -1;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", share->pid, share->fd);
    /* before anything is opened: that process may be dead, and the number another's, with a device there */
    len = readlink(path, target, sizeof target - 1);
    if (len >= 0 && strcmp(target, PREFIX) != 0)
        errno = ESTALE;
    else if (len >= 0)
        fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "the flags of process %d cannot be opened as %s: %s%s", share->pid,
                       path, strerror(errno),
                       errno == EACCES ? " (members must be of one user, and dumpable: see prctl(2))" : "");
    if (!fstat(fd, &status) && status.st_size == (off_t)mu_stream_bytes() && (fcntl(fd, F_GET_SEALS) & SEALS) == SEALS)
        page = page_map(fd);
    close(fd);
    if (page && !memcmp(page->nonce, share->nonce, sizeof page->nonce) && page->size == size) {
        *ret_page = page;
        return MUSTER_OK;
    }
    if (page)
        munmap(page, mu_stream_bytes());
    return mu_fail(MUSTER_FAILED_PRECONDITION, "%s is not the memory of this barrier", path);
}
