/* cli/doctor/cgroup.h: the limits of the control groups that this process is in. */
#ifndef MU_CLI_DOCTOR_CGROUP_H
#define MU_CLI_DOCTOR_CGROUP_H

#include <stddef.h>
#include <stdint.h>

/*
 * Read the file `v2` (or, with version 1 of control groups, `v1`) of this process's group and of those above it; keep
 * the one for which `read` gives the least. `ret_folder` is where that was. 0, or -1 when nothing limits us.
 */
int mu_doctor_cgroup_least(const char *controller, const char *v2, const char *v1,
                           int (*read)(const char *path, double *ret_value), double *ret_least, char *ret_folder,
                           size_t folder_size);

#endif
