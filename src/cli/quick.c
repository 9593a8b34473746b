/*
 * cli/quick.c: what the statically linked `muster` does first: most calls are its own, the others the whole one's.
 *
 * A job of plain programs is started by what needs nothing but the kernel, and of such a job's time the loader's work
 * for a launcher is a twentieth. So `muster` is linked without a loader (static-pie), and beside it lies the whole one,
 * of the same objects, for all that opens libraries or asks libc's for names: bindings, GPUs, several hosts, services.
 * Which it is to be is seen by the words alone; what is not known here is the whole one's. The few functions of libc
 * that would load something are answered here: nobody comes to them.
 */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/health/health.h"
#include "base/process.h"

/* The options of `run` that change nothing about which part is asked for what. `argument`: 1, in the next word or
 * behind '='; 0: there is none, or behind '=' alone. */
static const struct {
    const char *name;
    int argument;
} plain[] = {
    {"label", 0},
    {"pty", 0},
    {"memfd", 0},
    {"kill-on-fail", 0},
    {"survive", 0},
    {"trace", 0},
    {"job", 1},
    {"env", 1},
    {"chdir", 1},
    {"output", 1},
    {"timeout", 1},
    {"grace", 1},
    {"heap", 1},
    {"objects", 1},
    {"stdin", 1},
    {"restarts", 1},
    {"restart-policy", 1},
    {"restart-delay", 1},
    {"elastic", 1},
    {"on-failure", 1},
    {"live", 0},
    {"heartbeat-timeout", 1},
    {"threads", 1},
    {NULL, 0},
};

static bool is_number(const char *word)
{
    return *word && !word[strspn(word, "0123456789")];
}

/* How many words the option takes; 0: it is none of those. */
static int plain_option(char **argv)
{
    const char *word = argv[0];
    size_t len;

    if (strcmp(word, "-l") == 0)
        return 1;
    if (strcmp(word, "-n") == 0 || strcmp(word, "-np") == 0)
        return argv[1] && is_number(argv[1]) ? 2 : 0;
    if (strncmp(word, "-n", 2) == 0)
        return is_number(word + 2);
    if (strncmp(word, "--", 2) != 0)
        return 0;
    len = strcspn(word + 2, "=");
    for (size_t i = 0; plain[i].name; i++) {
        if (strlen(plain[i].name) != len || strncmp(plain[i].name, word + 2, len) != 0)
            continue;
        if (!plain[i].argument || word[2 + len])
            return 1;
        return argv[1] ? 2 : 0;
    }
    return 0;
}

/* The words behind "run": options of those above, one command. */
static bool is_plain_job(char **argv)
{
    int words;

    while (*argv && **argv == '-' && strcmp(*argv, "--") != 0) {
        words = plain_option(argv);
        if (words == 0)
            return 0;
        argv += words;
    }
    if (*argv && strcmp(*argv, "--") == 0)
        argv++;
    if (!*argv)
        return 0;
    for (; *argv; argv++)
        if (strcmp(*argv, ":") == 0) /* another command, with options of its own */
            return 0;
    return 1;
}

static bool is_ours(char **argv)
{
    static const char *const verbs[] = {"kv",     "barrier", "event",   "task", "segment",
                                        "status", "scale",   "version", NULL};

    if (!argv[0] || !argv[1] || strcmp(argv[0], MU_HEALTH_NAME) == 0)
        return 0;
    if (getenv("LD_PRELOAD") || getenv("LD_AUDIT") || getenv("MUSTER_TCPSTORE"))
        return 0;
    for (size_t i = 0; verbs[i]; i++)
        if (strcmp(argv[1], verbs[i]) == 0)
            return 1;
    return strcmp(argv[1], "run") == 0 && is_plain_job(argv + 2);
}

/* NULL: it may be run; else why not, with errno ENOENT where it is not there. */
static const char *path_forbids(const char *path, size_t folder_len, const struct stat *command)
{
    struct stat st;

    if (!mu_is_beside(path, folder_len, command->st_uid))
        return errno == EPERM ? "another user has put it there, or may" : strerror(errno);
    if (stat(path, &st))
        return strerror(errno);
    errno = 0;
    return st.st_dev == command->st_dev && st.st_ino == command->st_ino ? "that is this one" : NULL;
}

/* The process that was to watch GPUs tells the launcher, which prints it: GPUs are not watched any more. */
static void tell_launcher(const char *descriptor, const char *path, const char *why)
{
    struct mu_health_record record = {.magic = MU_HEALTH_MAGIC, .kind = MU_HEALTH_END, .gpu_instance = -1};

    snprintf(record.text, sizeof record.text, "muster's other part (%s): %s", why, path);
    (void)!write((int)strtol(descriptor, NULL, 10), &record, sizeof record); /* a launcher that is deaf has ended */
}

/* Runs it; else why not. `ret_is_there`: something is there. */
static const char *try_whole(const char *path, size_t folder_len, const struct stat *command, char **argv,
                             int *ret_is_there)
{
    const char *why = path_forbids(path, folder_len, command);

    *ret_is_there = !why || errno != ENOENT;
    if (why)
        return why;
    execv(path, argv);
    return errno == ENOENT ? "it is there: what is not is its loader" : strerror(errno);
}

void mu_cli_quick(char **argv)
{
    static const char *const places[] = {"whole/muster", "../lib/muster/muster"};
    char self[PATH_MAX], path[PATH_MAX + 64] = "", *slash;
    const char *why = strerror(ENOENT);
    struct stat command;
    int is_there = 0;
    ssize_t len;

    if (is_ours(argv))
        return;
    len = readlink("/proc/self/exe", self, sizeof self - 1);
    self[len > 0 ? len : 0] = 0;
    if (len <= 0 && !realpath((const char *)getauxval(AT_EXECFN), self)) /* no /proc, which doctor can say */
        self[0] = 0;
    slash = strrchr(self, '/');
    if (slash && stat(len > 0 ? "/proc/self/exe" : self, &command))
        slash = NULL;
    for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++) {
        char place[sizeof path];
        const char *reason;
        int there;

        snprintf(place, sizeof place, "%.*s/%s", (int)(slash - self), self, places[i]);
        reason = try_whole(place, (size_t)(slash - self), &command, argv, &there);
        if (!is_there) { /* the first that is there, or else the last place, is what is spoken of */
            snprintf(path, sizeof path, "%s", place);
            why = reason;
            is_there = there;
        }
    }
    if (argv[0] && argv[1] && strcmp(argv[0], MU_HEALTH_NAME) == 0)
        tell_launcher(argv[1], path, why);
    fprintf(stderr,
            "muster: these words need its other part, %s: %s; whoever copies muster copies that, too ('make install' "
            "installs both)\n",
            path, why);
    _exit(strcmp(argv[1] ? argv[1] : "", "run") == 0 ? MU_AGENT_EXIT_FAILED : 127);
}

/* ---- what would load something: the linker gives these their names (--wrap) -----------------------------------------
 */

void *__wrap_dlopen(const char *file, int mode);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **ret_list);
void __wrap_freeaddrinfo(struct addrinfo *list);
struct passwd *__wrap_getpwuid(uid_t uid);
int __wrap_getpwuid_r(uid_t uid, struct passwd *passwd, char *buffer, size_t size, struct passwd **ret_passwd);

void *__wrap_dlopen(const char *file, int mode)
{
    (void)file;
    (void)mode;
    return NULL;
}

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **ret_list)
{
    (void)node;
    (void)service;
    (void)hints;
    *ret_list = NULL;
    return EAI_FAIL;
}

void __wrap_freeaddrinfo(struct addrinfo *list)
{
    (void)list;
}

struct passwd *__wrap_getpwuid(uid_t uid)
{
    (void)uid;
    return NULL;
}

int __wrap_getpwuid_r(uid_t uid, struct passwd *passwd, char *buffer, size_t size, struct passwd **ret_passwd)
{
    (void)uid;
    (void)passwd;
    (void)buffer;
    (void)size;
    *ret_passwd = NULL;
    return ENOENT;
}
