/*
 * tests/accel/nccl_roots_test.c: which of a process's sockets is taken for a root's. The maker of ids is a FAKE of this
 * file, which opens a socket where it is told to, as libnccl does where the kernel tells it: no libnccl is needed.
 */
#include "cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accel/nccl_roots.h"

enum { TRIES = 100, SUCCESS = 0, SYSTEM_ERROR = 2 };

static in_port_t port; /* of the fake's next root */
static int root;

/* A socket that listens at 127.0.0.LAST; -1 where the port is somebody's already. */
static int listen_at(uint8_t last, in_port_t at, struct sockaddr_in *ret_own)
{
    socklen_t len = sizeof *ret_own;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    *ret_own = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = at};
    ret_own->sin_addr.s_addr = htonl(0x7f000000u | last);
    if (fd >= 0 && !bind(fd, (struct sockaddr *)ret_own, sizeof *ret_own) && !listen(fd, 4) &&
        !getsockname(fd, (struct sockaddr *)ret_own, &len))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int fake_get_unique_id(struct mu_nccl_id *id)
{
    struct sockaddr_in own;

    root = listen_at(1, port, &own);
    memcpy(id->bytes + 8, &own, sizeof own);
    return root < 0 ? SYSTEM_ERROR : SUCCESS;
}

static const char *fake_get_error_string(int result)
{
    return result ? "the fake's port is taken" : "";
}

static int try_to_connect(const struct sockaddr_in *to)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), rc = connect(fd, (const struct sockaddr *)to, sizeof *to) ? errno : 0;

    close(fd);
    return rc;
}

TEST(a_program_that_listens_on_the_same_port_elsewhere_is_left_alone)
{
    struct mu_nccl fake = {
        .version = 22809, .get_unique_id = fake_get_unique_id, .get_error_string = fake_get_error_string};
    struct mu_nccl_root_key key = {.handle = 1, .generation = 1, .name = "world"};
    struct sockaddr_in theirs, ours;
    struct mu_nccl_id id;
    int program = -1;

    for (int i = 0; i < TRIES; i++) { /* another process may have the port at the fake's address */
        program = listen_at(2, 0, &theirs);
        assert_true(program >= 0);
        port = theirs.sin_port;
        if (!mu_nccl_roots_make(&fake, &key, UINT64_MAX, 1, &id))
            break;
        close(program);
        program = -1;
    }
    assert_true(program >= 0 && program < root); /* it is met first */
    assert_int_equal(mu_nccl_roots_count(), 1);
    assert_int_equal(fcntl(program, F_GETFD), 0);
    assert_int_equal(fcntl(root, F_GETFD), FD_CLOEXEC);
    memcpy(&ours, id.bytes + 8, sizeof ours);
    mu_nccl_roots_end(&key);
    assert_int_equal(try_to_connect(&ours), ECONNREFUSED);
    assert_int_equal(try_to_connect(&theirs), 0);
    close(root);
    close(program);
    assert_int_equal(mu_nccl_roots_count(), 0);
}
