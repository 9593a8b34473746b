/* tests/common/shm.c: see shm.h */
#include "shm.h"

#include "cm.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"

bool test_small_shm(size_t bytes, char directory[64])
{
    char options[64];

    snprintf(directory, 64, "/tmp/muster-test-%d", (int)getpid());
    snprintf(options, sizeof options, "size=%zu,mode=1777", bytes);
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return false;
    mkdir(directory, 0777);
    if (mount("tmpfs", directory, "tmpfs", 0, options)) {
        rmdir(directory);
        return false;
    }
    setenv("MUSTER_SHM_DIR", directory, 1);
    return true;
}

void test_small_shm_end(const char *directory)
{
    umount2(directory, MNT_DETACH);
    rmdir(directory);
}

void test_fill_shm(const char *directory, char path[128])
{
    static char block[64 << 10];
    size_t size = sizeof block;
    ssize_t n;
    int fd;

    snprintf(path, 128, "%s/ballast", directory);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    while ((n = write(fd, block, size)) > 0)
        ;
    CHECK(n < 0 && errno == ENOSPC);
    close(fd);
}

void test_with_small_shm(int (*what)(void *arg))
{
    int rc = test_in_child(what, NULL);

    if (rc == TEST_NOT_ALLOWED) {
        print_message("skipped: mounting a small file system needs root\n");
        skip();
    }
    assert_int_equal(rc, 0);
}
