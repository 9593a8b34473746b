/*
 * tests/accel/checkin.c: an emulated rank, as far as its root is concerned.
 *
 * A connection begins with the id's number (8 bytes) and the kind of socket (4); then comes the length of what follows
 * (4) and the record: rank, ranks, root, roots, since 2.29 an offset, where the rank listens for its answer (28 bytes),
 * and 128 bytes for the next in the ring, which the root hands on unread.
 */
#include "checkin.h"

#include <arpa/inet.h>
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "accel/nccl_library.h"
#include "child.h"

enum { BOOTSTRAP = 1, ADDRESS = 28, HANDLE = 128 };

/* In a process of its own, for libnccl keeps what it starts. */
static int can_make_an_id(void *arg)
{
    const struct mu_nccl *nccl;
    struct mu_nccl_id id;
    char words[256];
    int result;

    (void)arg;
    if (mu_nccl_open(&nccl))
        return 1;
    result = nccl->get_unique_id(&id);
    if (!result)
        return 0;
    mu_nccl_describe(nccl, NULL, result, words, sizeof words);
    printf("NCCL makes no id on this machine: %s\n", words);
    return 77;
}

int test_nccl_required(void)
{
    int version;

    unsetenv("NCCL_COMM_ID"); /* then there would be no roots */
    if (muster_nccl_version(&version)) {
        printf("%s\n", muster_last_error());
        exit(77);
    }
    if (test_in_child(can_make_an_id, NULL))
        exit(77);
    return version;
}

bool test_checkin_known(int version)
{
    return version >= 22800 && version < 23300;
}

/* What each rank gives for its neighbour: bytes that nobody else gives. */
static void handle_of(uint32_t rank, uint8_t handle[HANDLE])
{
    for (uint32_t i = 0; i < HANDLE; i++)
        handle[i] = (uint8_t)(rank * 31 + i * 7 + 1);
}

static bool send_all(int fd, const void *data, size_t len)
{
    return send(fd, data, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static bool receive_all(int fd, void *data, size_t len)
{
    return recv(fd, data, len, MSG_WAITALL) == (ssize_t)len;
}

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static_assert(sizeof(union address) == ADDRESS, "as NCCL has it");

static socklen_t length_of(const union address *a)
{
    return a->any.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
}

static int connect_root(const void *id, union address *ret_own)
{
    union address root;
    socklen_t len = sizeof *ret_own;
    int fd, why;

    memcpy(&root, (const char *)id + 8, sizeof root);
    fd = socket(root.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    memset(ret_own, 0, sizeof *ret_own);
    if (!connect(fd, &root.any, length_of(&root)) && !getsockname(fd, &ret_own->any, &len))
        return fd;
    why = errno;
    close(fd);
    errno = why;
    return -1;
}

int test_connect_root(const void *id)
{
    union address own;
    int fd = connect_root(id, &own);

    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int listen_beside(union address *own)
{
    socklen_t len = sizeof *own;
    int fd = socket(own->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (own->any.sa_family == AF_INET6)
        own->v6.sin6_port = 0;
    else
        own->v4.sin_port = 0;
    if (bind(fd, &own->any, length_of(own)) || listen(fd, 8) || getsockname(fd, &own->any, &len)) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool introduce(int fd, const void *id, int version, uint32_t rank, uint32_t nranks, const union address *own)
{
    int32_t head[2] = {BOOTSTRAP, 0}, numbers[5] = {(int32_t)rank, (int32_t)nranks, 0, 1, 0};
    uint8_t address[ADDRESS] = {0}, handle[HANDLE];
    size_t count = version >= 22900 ? 5 : 4;

    head[1] = (int32_t)(count * 4 + sizeof address + sizeof handle);
    memcpy(address, own, sizeof *own);
    handle_of(rank, handle);
    return send_all(fd, id, 8) && send_all(fd, head, sizeof head) && send_all(fd, numbers, count * 4) &&
           send_all(fd, address, sizeof address) && send_all(fd, handle, sizeof handle);
}

static int take_answer(int listening, const void *id, uint32_t next)
{
    uint8_t number[8], handle[HANDLE], wanted[HANDLE];
    int32_t head[2] = {0, 0};
    int fd = accept(listening, NULL, NULL), step = 4;

    if (fd < 0)
        return step;
    handle_of(next, wanted);
    if (!receive_all(fd, number, sizeof number) || memcmp(number, id, sizeof number))
        step = 5;
    else if (!receive_all(fd, head, sizeof head) || head[0] != BOOTSTRAP || head[1] != HANDLE)
        step = 6;
    else if (!receive_all(fd, handle, sizeof handle) || memcmp(handle, wanted, sizeof handle))
        step = 7;
    else
        step = 0;
    close(fd);
    return step;
}

int test_check_in(const void *id, int version, uint32_t rank, uint32_t nranks)
{
    union address own;
    int root = connect_root(id, &own), listening, step = 0;

    if (root < 0) {
        printf("check-in of rank %u: no connection to the root: %s\n", rank, strerror(errno));
        return 1;
    }
    listening = listen_beside(&own);
    if (listening < 0)
        step = 2;
    else if (!introduce(root, id, version, rank, nranks, &own))
        step = 3;
    close(root);
    if (!step)
        step = take_answer(listening, id, (rank + 1) % nranks);
    if (step)
        printf("check-in of rank %u: step %d failed: %s\n", rank, step, strerror(errno));
    if (listening >= 0)
        close(listening);
    return step;
}

static unsigned count(const char *path)
{
    DIR *folder = opendir(path);
    unsigned n = 0;

    while (folder && readdir(folder))
        n++;
    closedir(folder);
    return n - 2;
}

struct test_use test_use(void)
{
    return (struct test_use){count("/proc/self/task"), count("/proc/self/fd") - 1};
}

struct test_use test_use_settles(struct test_use most)
{
    struct test_use now = test_use();

    for (int i = 0; i < 10000 && (now.threads > most.threads || now.fds > most.fds); i++) {
        struct timespec pause = {.tv_nsec = 1000000};

        nanosleep(&pause, NULL); /* sleep: threads of libnccl end when they end, and tell nobody */
        now = test_use();
    }
    return now;
}
