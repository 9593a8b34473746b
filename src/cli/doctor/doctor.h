/* cli/doctor/doctor.h: what the probes of `muster doctor` share. */
#ifndef MU_CLI_DOCTOR_DOCTOR_H
#define MU_CLI_DOCTOR_DOCTOR_H

#include <stdint.h>
#include <sys/types.h>

#define MU_DOCTOR_FACTS_MAX 32

enum mu_doctor_mark {
    MU_DOCTOR_OK,
    MU_DOCTOR_NOTE,    /* muster works, less well than it could */
    MU_DOCTOR_PROBLEM, /* muster does not work */
};

struct mu_doctor_fact {
    uint32_t mark;
    char name[24];
    char text[320];
    char mend[320]; /* "": nothing to mend */
};

/* What one topic found. Written by the process that probes, read by the one that prints: see doctor.c. */
struct mu_doctor_page {
    uint32_t count;
    uint32_t is_done;
    struct mu_doctor_fact facts[MU_DOCTOR_FACTS_MAX];
};

/* One fact; `mend` is NULL or says what to do about it. */
void mu_doctor_say(struct mu_doctor_page *page, enum mu_doctor_mark mark, const char *name, const char *mend,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The file's first bytes, as a string without the newline at its end. Its length, or -1. */
ssize_t mu_doctor_read(const char *path, char *buffer, size_t size);
/* The number that the file begins with; 0, or -1 when there is none ("max" is none). */
int mu_doctor_read_number(const char *path, uint64_t *ret_value);
/* What refuses a system call: the kernel is too old, or a seccomp filter does. */
const char *mu_doctor_why_refused(const char *needs, char buffer[320]);

/* The topics. */
void mu_doctor_kernel(struct mu_doctor_page *page);
void mu_doctor_clock(struct mu_doctor_page *page);
void mu_doctor_shm(struct mu_doctor_page *page);
void mu_doctor_segments(struct mu_doctor_page *page);
void mu_doctor_limits(struct mu_doctor_page *page);
void mu_doctor_processors(struct mu_doctor_page *page);
void mu_doctor_memory(struct mu_doctor_page *page);
void mu_doctor_host(struct mu_doctor_page *page);
void mu_doctor_hwloc(struct mu_doctor_page *page);
void mu_doctor_topology(struct mu_doctor_page *page);
void mu_doctor_openssl(struct mu_doctor_page *page);
void mu_doctor_nvml(struct mu_doctor_page *page);
void mu_doctor_cuda(struct mu_doctor_page *page);
void mu_doctor_nccl(struct mu_doctor_page *page);
void mu_doctor_pci(struct mu_doctor_page *page);

#endif
