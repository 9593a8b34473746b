/*
 * tests/launch/ears_main.c: a task that writes down which signals it hears.
 *
 *   ears FOLDER mild|deaf      it and a child in its process group each append to FOLDER/heard.<who> a line "SIGNAL"
 *                              for every signal, <who> being task<id> or child<id>; ready.<who> says that it listens
 * Mild ones end by SIGTERM and SIGINT; deaf ones hear it and stay.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    int number;
    const char *name;
} signals[] = {{SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGWINCH, "WINCH"},
               {SIGQUIT, "QUIT"}, {SIGINT, "INT"},   {SIGTERM, "TERM"}};

static void touch(const char *folder, const char *kind, const char *who, const char *text)
{
    char path[512], line[32];
    int fd, len = snprintf(line, sizeof line, "%s\n", text);

    snprintf(path, sizeof path, "%s/%s.%s", folder, kind, who);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)len) != len)
        exit(9);
    close(fd);
}

int main(int argc, char **argv)
{
    const char *id = getenv("MUSTER_TASK_ID");
    char who[32];
    sigset_t set;

    if (argc != 3 || !id)
        return 2;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaddset(&set, signals[i].number);
    sigprocmask(SIG_BLOCK, &set, NULL);
    snprintf(who, sizeof who, "%s%.8s", fork() ? "task" : "child", id);
    touch(argv[1], "ready", who, "listening");
    for (;;) {
        int number;

        if (sigwait(&set, &number))
            return 8;
        for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
            if (signals[i].number == number)
                touch(argv[1], "heard", who, signals[i].name);
        if ((number == SIGTERM || number == SIGINT) && strcmp(argv[2], "mild") == 0)
            return 0;
    }
}
