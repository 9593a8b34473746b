/*
 * base/cpus.h: sets of processors of any size (cpu_set_t ends at 1024, the CPU_*_S() forms do not).
 */
#ifndef MU_BASE_CPUS_H
#define MU_BASE_CPUS_H

#include <sched.h>
#include <stddef.h>

#define MU_CPUS_MAX (1u << 20) /* no kernel counts further; what claims more is damaged */

/* `size` in bytes, here and below. NULL: no memory. Freed with CPU_FREE(). */
cpu_set_t *mu_cpus_new(size_t size);
/* "0-3,8"; "" when empty. malloc()ed; NULL: no memory. */
char *mu_cpus_list(const cpu_set_t *set, size_t size);
/* Adds a list in the kernel's form. 0; 1: some do not fit into the set; -1: that is no list. */
int mu_cpus_parse(const char *list, cpu_set_t *set, size_t size);
/* What the calling thread may use, as sched_getaffinity() says: malloc()ed, of any size. -1: errno says why. */
int mu_cpus_allowed(cpu_set_t **ret_set, size_t *ret_size);
/* The value of Cpus_allowed_list in a status file of /proc: malloc()ed; NULL: errno says why. */
char *mu_cpus_of(const char *path);
/* The same of Mems_allowed_list: numbers of memory nodes, which are lists and sets like those of processors. */
char *mu_cpus_nodes_of(const char *path);

#endif
