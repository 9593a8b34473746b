/*
 * topology/files.h: small files below a node's root, as the kernel writes them. Paths begin there.
 */
#ifndef MU_TOPOLOGY_FILES_H
#define MU_TOPOLOGY_FILES_H

#include <dirent.h>
#include <stdio.h>

#include "topology/node.h"

#define MU_FILE_MAX 16384 /* bytes of the largest that is read */

/*
 * The file, its last newline taken off; the path is printf's, below the root. Its length, or -1 (then `text` is "").
 */
ssize_t mu_file_read(struct muster_topology *node, char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A file of one number, in C's notations. 0, or -1: there is none. */
int mu_file_number(struct muster_topology *node, int64_t *ret_number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* NULL: it is not there. The last is malloc()ed, where links lead to. */
DIR *mu_file_folder(struct muster_topology *node, const char *path);
FILE *mu_file_open(struct muster_topology *node, const char *path);
char *mu_file_real(struct muster_topology *node, const char *path);
/* The value behind "key" and `separator` at the start of a line, without the white space around it; NULL: none. */
const char *mu_file_value(const char *text, const char *key, const char *separator, char *value, size_t size);

/* by_sysfs.c: what the PCI bus tells of a device that is on it. */
void mu_sysfs_describe(struct muster_topology *node, int32_t device);
/* by_sysfs_machine.c: packages and memory nodes, where hwloc told none. */
void mu_sysfs_machine(struct muster_topology *node);

#endif
