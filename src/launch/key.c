/*
 * launch/key.c: the key by which the hosts of a job know each other: 32 random bytes, written as 64 hexadecimal digits.
 *
 * It is never on a command line and in no task's environment. A file of it must be its reader's (or root's) and nobody
 * else's to read, as ssh has it. The user's own file is written under another name and linked into its place, so that
 * a reader that finds it finds all of it, also where the home folder is shared by several hosts.
 */
#include "launch/hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"

#define FOLDER ".muster"

void mu_launch_key_make(uint8_t key[MU_LAUNCH_KEY_BYTES])
{
    mu_random(key, MU_LAUNCH_KEY_BYTES);
}

void mu_launch_key_text(const uint8_t key[MU_LAUNCH_KEY_BYTES], char ret_text[MU_LAUNCH_KEY_TEXT])
{
    for (int i = 0; i < MU_LAUNCH_KEY_BYTES; i++)
        snprintf(ret_text + 2 * i, 3, "%02x", key[i]);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int mu_launch_key_parse(const char *text, uint8_t ret_key[MU_LAUNCH_KEY_BYTES])
{
    uint8_t key[MU_LAUNCH_KEY_BYTES];

    for (int i = 0; i < MU_LAUNCH_KEY_BYTES; i++) {
        int high = hex_digit(text[2 * i]), low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);

        if (low < 0)
            return -1;
        key[i] = (uint8_t)(high << 4 | low);
    }
    text += 2 * MU_LAUNCH_KEY_BYTES;
    if (text[strspn(text, " \t\r\n")])
        return -1;
    memcpy(ret_key, key, sizeof key);
    return 0;
}

/* What follows is somebody else's: as much at once as a key has, and the rest of the line byte by byte. */
static int read_line(char *text, size_t size, char *ret_why, size_t why_size)
{
    size_t len = 0;
    char *end = NULL;
    ssize_t n;

    while (!end && len + 1 < size) {
        n = read(0, text + len, len < 2 * MU_LAUNCH_KEY_BYTES ? 2 * MU_LAUNCH_KEY_BYTES - len : 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        end = memchr(text + len, '\n', (size_t)n);
        len += (size_t)n;
    }
    if (end)
        len = (size_t)(end - text);
    text[len] = 0;
    if (end)
        return 0;
    snprintf(ret_why, why_size, "standard input has no line with a key");
    return -1;
}

static int check_file(const char *path, int fd, char *ret_why, size_t size)
{
    struct stat st;

    if (fstat(fd, &st)) {
        snprintf(ret_why, size, "%s: %s", path, strerror(errno));
        return -1;
    }
    if (!S_ISREG(st.st_mode))
        snprintf(ret_why, size, "%s is no plain file", path);
    else if (st.st_uid != geteuid() && st.st_uid != 0)
        snprintf(ret_why, size, "%s belongs to another user (uid %u): the key in it is not secret", path,
                 (unsigned)st.st_uid);
    else if (st.st_mode & 077)
        snprintf(ret_why, size,
                 "%s may be used by others (mode %03o): the key in it is not secret; after 'chmod 600 %s' "
                 "make a new one",
                 path, (unsigned)st.st_mode & 0777, path);
    else
        return 0;
    return -1;
}

int mu_launch_key_read(const char *path, uint8_t ret_key[MU_LAUNCH_KEY_BYTES], char *ret_why, size_t size)
{
    char text[256] = "";
    ssize_t n = 0;
    int fd, rc = 0;

    if (strcmp(path, "-") == 0) {
        path = "standard input";
        rc = read_line(text, sizeof text, ret_why, size);
    } else {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0) {
            snprintf(ret_why, size, "%s: %s", path, strerror(errno));
            return -1;
        }
        rc = check_file(path, fd, ret_why, size);
        if (rc == 0)
            n = read(fd, text, sizeof text - 1);
        text[n > 0 ? n : 0] = 0;
        close(fd);
    }
    if (rc == 0 && mu_launch_key_parse(text, ret_key)) {
        snprintf(ret_why, size, "%s holds no key: 64 hexadecimal digits (make one with 'openssl rand -hex 32')", path);
        rc = -1;
    }
    explicit_bzero(text, sizeof text);
    return rc;
}

int mu_launch_key_given(uint8_t ret_key[MU_LAUNCH_KEY_BYTES], char *ret_why, size_t size)
{
    const char *path = getenv("MUSTER_KEY_FILE");
    char *text = getenv("MUSTER_KEY");

    if (text) {
        int rc = mu_launch_key_parse(text, ret_key);

        explicit_bzero(text, strlen(text)); /* what we start has no use for it, whatever it hands on or prints */
        unsetenv("MUSTER_KEY");
        if (rc == 0)
            return 0;
        snprintf(ret_why, size, "MUSTER_KEY is no key: 64 hexadecimal digits (make one with 'openssl rand -hex 32')");
        return -1;
    }
    return path ? mu_launch_key_read(path, ret_key, ret_why, size) : 1;
}

int mu_launch_home_file(const char *name, char *ret_path, size_t path_size, char *ret_why, size_t size)
{
    const char *home = getenv("HOME");
    struct passwd *user = home && *home ? NULL : getpwuid(geteuid());
    int n;

    if (user)
        home = user->pw_dir;
    if (!home || !*home) {
        snprintf(ret_why, size, "this user has no home folder");
        return -1;
    }
    n = snprintf(ret_path, path_size, "%s/" FOLDER, home);
    if (n < (int)path_size && mkdir(ret_path, 0700) && errno != EEXIST) {
        snprintf(ret_why, size, "%s: %s", ret_path, strerror(errno));
        return -1;
    }
    if (snprintf(ret_path, path_size, "%s/" FOLDER "/%s", home, name) < (int)path_size)
        return 0;
    snprintf(ret_why, size, "the path of the home folder is too long");
    return -1;
}

/* 0; 1: somebody else was quicker; -1 with the reason. */
static int put_key(const char *path, char *ret_why, size_t size)
{
    uint8_t key[MU_LAUNCH_KEY_BYTES];
    char text[MU_LAUNCH_KEY_TEXT + 1], draft[PATH_MAX + 32];
    unsigned random;
    ssize_t n = -1;
    int fd, rc;

    mu_launch_key_make(key);
    mu_launch_key_text(key, text);
    text[MU_LAUNCH_KEY_TEXT - 1] = '\n';
    mu_random(&random, sizeof random);
    snprintf(draft, sizeof draft, "%s.%d-%x", path, (int)getpid(), random);
    fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        n = write(fd, text, MU_LAUNCH_KEY_TEXT);
        if (fsync(fd) || close(fd))
            n = -1;
    }
    explicit_bzero(text, sizeof text);
    explicit_bzero(key, sizeof key);
    rc = n == MU_LAUNCH_KEY_TEXT ? link(draft, path) : -1;
    if (rc && n == MU_LAUNCH_KEY_TEXT && errno == EEXIST)
        rc = 1;
    else if (rc)
        snprintf(ret_why, size, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        unlink(draft);
    return rc;
}

int mu_launch_key_of_user(int make, uint8_t ret_key[MU_LAUNCH_KEY_BYTES], char *ret_why, size_t size)
{
    char path[PATH_MAX];

    if (mu_launch_home_file("key", path, sizeof path, ret_why, size))
        return -1;
    if (access(path, F_OK) && errno == ENOENT) {
        if (!make)
            return 1;
        if (put_key(path, ret_why, size) < 0)
            return -1;
    }
    return mu_launch_key_read(path, ret_key, ret_why, size);
}
