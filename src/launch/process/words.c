/*
 * launch/process/words.c: how a process ended, in a person's words and as a launcher's exit status.
 */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"

const char *mu_launch_signal_name(int signal_number, char buffer[32])
{
    const char *name = sigabbrev_np(signal_number);

    if (name)
        snprintf(buffer, 32, "SIG%s", name);
    else if (signal_number >= SIGRTMIN && signal_number <= SIGRTMAX)
        snprintf(buffer, 32, "SIGRTMIN+%d", signal_number - SIGRTMIN);
    else
        snprintf(buffer, 32, "no name");
    return buffer;
}

const char *mu_launch_words(int wait_status, char *buffer, size_t size)
{
    char name[32];

    if (WIFSIGNALED(wait_status))
        snprintf(buffer, size, "was killed by signal %d (%s%s)", WTERMSIG(wait_status),
                 mu_launch_signal_name(WTERMSIG(wait_status), name), WCOREDUMP(wait_status) ? ", core dumped" : "");
    else
        snprintf(buffer, size, "exited with status %d", WEXITSTATUS(wait_status));
    return buffer;
}

const char *mu_launch_hint(int wait_status, enum mu_launch_oom oom)
{
    if (!WIFSIGNALED(wait_status))
        switch (WEXITSTATUS(wait_status)) {
        case 126: return "a shell's word for: found, but cannot be executed";
        case 127: return "a shell's word for: command not found";
        default: return NULL;
        }
    switch (WTERMSIG(wait_status)) {
    case SIGKILL:
        return oom == MU_LAUNCH_OOM ? "the kernel ran out of memory and chose it"
               : oom == MU_LAUNCH_OOM_MAY
                   ? "perhaps for want of memory: the kernel's out-of-memory killer has struck here"
                   : NULL;
    case SIGSEGV: return "it touched memory that it may not touch";
    case SIGBUS: return "it touched memory that is not there: a file cut short, or /dev/shm or a device that is full";
    case SIGFPE: return "arithmetic: a division by zero, most often";
    case SIGILL: return "an instruction that this processor does not have";
    case SIGABRT: return "it gave up by itself: abort(), a failed assertion";
    case SIGXCPU: return "its limit of processor time, ulimit -t";
    case SIGXFSZ: return "its limit of file size, ulimit -f";
    case SIGSYS: return "a system call that a filter forbids";
    case SIGPIPE: return "it wrote to a pipe or socket that nobody reads";
    default: return NULL;
    }
}

/* The number behind `key` at the beginning of a line of the file. */
static uint64_t number_in_file(const char *path, const char *key)
{
    char text[16384] = "\n", *at;

    if (mu_read_file(path, text + 1, sizeof text - 1) <= 0)
        return 0;
    at = strstr(text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

uint64_t mu_launch_oom_kills(void)
{
    return number_in_file("/proc/vmstat", "\noom_kill ");
}

/*
 * The kernel's log names the processes that it chose, by their numbers in the first pid namespace (which has a fixed
 * inode), to those that may read it.
 */
enum mu_launch_oom mu_launch_oom_of(pid_t pid, uint64_t before)
{
    char record[2048], name[48];
    struct stat namespace;
    int fd;
    ssize_t n;

    if (mu_launch_oom_kills() <= before)
        return MU_LAUNCH_OOM_NOT;
    fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || stat("/proc/self/ns/pid", &namespace) || namespace.st_ino != 0xeffffffcu) {
        if (fd >= 0)
            close(fd);
        return MU_LAUNCH_OOM_MAY;
    }
    snprintf(name, sizeof name, "Killed process %d (", (int)pid);
    while ((n = read(fd, record, sizeof record - 1)) > 0 || (n < 0 && errno == EPIPE)) { /* EPIPE: some were lost */
        record[n > 0 ? n : 0] = 0;
        if (strstr(record, name)) {
            close(fd);
            return MU_LAUNCH_OOM;
        }
    }
    close(fd);
    return MU_LAUNCH_OOM_NOT;
}

int mu_launch_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}
