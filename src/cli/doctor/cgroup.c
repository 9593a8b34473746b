/*
 * cli/doctor/cgroup.c: finding the control groups that this process is in, versions 1 and 2, wherever they are mounted.
 *
 * A limit may stand in any group from ours up to the root; the least one counts. Inside a container the path in
 * /proc/self/cgroup may be the host's and lead nowhere: then only what is mounted is seen, the container's own group.
 */
#include "cli/doctor/cgroup.h"

#include <mntent.h>
#include <stdio.h>
#include <string.h>

#define LEVELS_MAX 64

/* Where the hierarchy with this controller is mounted; "" means version 2. */
static int find_mount(const char *controller, char *folder, size_t size)
{
    FILE *file = setmntent("/proc/self/mounts", "re");
    char text[4096];
    struct mntent entry;
    int found = -1;

    while (file && found < 0 && getmntent_r(file, &entry, text, sizeof text)) {
        int fits = controller[0] ? strcmp(entry.mnt_type, "cgroup") == 0 && hasmntopt(&entry, controller)
                                 : strcmp(entry.mnt_type, "cgroup2") == 0;

        if (fits && (size_t)snprintf(folder, size, "%s", entry.mnt_dir) < size)
            found = 0;
    }
    if (file)
        endmntent(file);
    return found;
}

/* Our path in the hierarchy: of the line "7:cpu,cpuacct:/a/b", or "0::/a/b" for version 2. */
static int find_path(const char *controller, char *path, size_t size)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[4096];
    int found = -1;

    while (file && found < 0 && fgets(line, sizeof line, file)) {
        char *names = strchr(line, ':'), *at = names ? strchr(names + 1, ':') : NULL, *rest = NULL;

        if (!at)
            continue;
        *at++ = 0;
        at[strcspn(at, "\n")] = 0;
        if (!controller[0] && names[1] == 0)
            found = 0;
        for (char *name = strtok_r(names + 1, ",", &rest); controller[0] && name; name = strtok_r(NULL, ",", &rest))
            if (strcmp(name, controller) == 0)
                found = 0;
        if (found == 0 && (size_t)snprintf(path, size, "%s", strstr(at, "..") ? "/" : at) >= size)
            found = -1;
    }
    if (file)
        fclose(file);
    return found;
}

static int least_of(const char *controller, const char *name, int (*read)(const char *path, double *ret_value),
                    double *ret_least, char *ret_folder, size_t folder_size)
{
    char mount[512], path[1024], file[2048];
    double value;
    int found = -1;

    if (find_mount(controller, mount, sizeof mount) || find_path(controller, path, sizeof path))
        return -1;
    for (int level = 0; level < LEVELS_MAX; level++) {
        char *slash = strrchr(path, '/');

        snprintf(file, sizeof file, "%s%s/%s", mount, strcmp(path, "/") == 0 ? "" : path, name);
        if (read(file, &value) == 0 && (found < 0 || value < *ret_least)) {
            *ret_least = value;
            snprintf(ret_folder, folder_size, "%.*s", (int)(strrchr(file, '/') - file), file);
            found = 0;
        }
        if (!slash || path[0] == 0)
            break;
        *slash = 0;
    }
    return found;
}

int mu_doctor_cgroup_least(const char *controller, const char *v2, const char *v1,
                           int (*read)(const char *path, double *ret_value), double *ret_least, char *ret_folder,
                           size_t folder_size)
{
    if (least_of("", v2, read, ret_least, ret_folder, folder_size) == 0)
        return 0;
    return least_of(controller, v1, read, ret_least, ret_folder, folder_size);
}
