/*
 * tests/accel/agent_main.c: a task of a job that makes and gives up many NCCL ids, and looks at its launcher meanwhile.
 *
 * Task 0 prints the launcher's threads and descriptors before and after, and whether libnccl is mapped there.
 * Exit status 77: there is no libnccl, or it makes no ids here.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/muster.h>

enum { NAMES = 200 };

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, muster_last_error());
    exit(strstr(what, "id") && strstr(muster_last_error(), "libnccl") ? 77 : 1);
}

/* Entries of /proc/LAUNCHER/WHAT. */
static int entries(pid_t launcher, const char *what)
{
    char path[64];
    int count = 0;
    DIR *folder;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)launcher, what);
    folder = opendir(path);
    if (!folder) {
        perror(path);
        exit(1);
    }
    for (struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static int is_mapped(pid_t launcher, const char *what)
{
    char path[64], line[600];
    int found = 0;
    FILE *maps;

    snprintf(path, sizeof path, "/proc/%d/maps", (int)launcher);
    maps = fopen(path, "re");
    if (!maps) {
        perror(path);
        exit(1);
    }
    while (fgets(line, sizeof line, maps))
        found |= strstr(line, what) != NULL;
    fclose(maps);
    return found;
}

int main(void)
{
    int threads, descriptors, version;
    char name[32], id[MUSTER_NCCL_ID_BYTES];
    pid_t launcher = getppid();
    struct muster_group *all;
    struct muster *m;

    if (muster_nccl_version(&version))
        die("an id");
    if (muster_join(NULL, &m) || muster_group_create(m, "all", NULL, 0, 0, muster_after_ms(60000), &all))
        die("join");
    for (int i = 0; i < 60000 && entries(launcher, "task") < 2; i++) /* its watcher comes when the job is 10 ms old */
        usleep(1000);                                                /* sleep: it tells nobody */
    threads = entries(launcher, "task");
    descriptors = entries(launcher, "fd");
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "comm%d", i);
        if (muster_nccl_unique_id(m, name, muster_group_size(all), muster_group_rank(all), NULL, muster_after_ms(60000),
                                  id, NULL))
            die("an id");
        if (muster_group_barrier(all, muster_after_ms(60000)))
            die("barrier");
        if (muster_group_rank(all) == 0 && muster_nccl_abandon(m, name, 0, "enough"))
            die("abandon");
    }
    if (muster_group_rank(all) == 0)
        printf("threads %d %d descriptors %d %d libnccl %d muster %d\n", threads, entries(launcher, "task"),
               descriptors, entries(launcher, "fd"), is_mapped(launcher, "libnccl"), is_mapped(launcher, "/muster"));
    if (muster_group_barrier(all, muster_after_ms(60000)))
        die("barrier");
    muster_group_free(all);
    return muster_leave(m) ? 1 : 0;
}
