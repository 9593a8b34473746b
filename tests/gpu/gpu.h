/*
 * tests/gpu/gpu.h: `make gpu-check` and the bundle of `make gpu-bundle`: what wants a GPU, on a machine that has one.
 *
 *   check_main.c   the rows, the table, the report, the exit status
 *   rows.c         a row each: it runs a program, compares what it printed, and gives a verdict
 *   facts.c        what the vendor's own programs say of the GPUs, and what muster says
 *   spawn.c        a program that is run with a limit
 *   device_main.c  the programs of the rows that use a GPU; it calls the CUDA driver by itself
 */
#ifndef TEST_GPU_H
#define TEST_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GPU_SKIPPED = 77, GPU_MAX = 64, GPU_TEXT_MAX = 96, GPU_OUTPUT_MAX = 1 << 20 };

/* ---- spawn.c ----------------------------------------------------------------------------------------------------- */

struct gpu_run {
    int status; /* exit status; 128 + signal; -1: it could not be started, `err` says why */
    bool is_late;
    double seconds;
    char *out, *err; /* whole, ended by a NUL; each cut at GPU_OUTPUT_MAX */
};

/*
 * Runs argv[0] (by PATH) with the words of `env` ("NAME=VALUE", ended by NULL; NULL: none more) added to the
 * environment, and SIGKILLs its process group once `limit_s` have passed.
 */
struct gpu_run gpu_run(const char *const argv[], const char *const env[], int limit_s);
/* From here on all runs together take no more than `seconds`; how many are left. */
void gpu_limit(double seconds);
double gpu_seconds_left(void);
void gpu_run_free(struct gpu_run *run);

/* ---- facts.c ----------------------------------------------------------------------------------------------------- */

struct gpu_fact {
    char uuid[GPU_TEXT_MAX]; /* 32 hexadecimal digits */
    char pci[GPU_TEXT_MAX];  /* 0000:5d:00.0 */
    char name[GPU_TEXT_MAX];
    uint64_t bytes; /* 0: not told */
    bool is_mig;
};

struct gpu_facts {
    size_t count;
    struct gpu_fact gpu[GPU_MAX];
};

/* Of `nvidia-smi -q -x`, of `muster topo --cuda --json`, and of `device list`. False: the text is not what it should
 * be. */
bool gpu_facts_smi(const char *xml, struct gpu_facts *ret);
bool gpu_facts_muster(const char *json, struct gpu_facts *ret);
bool gpu_facts_cuda(const char *lines, struct gpu_facts *ret);

/* The first difference, in words; "": none. Memory may differ by 2 % or 600 MiB, which a driver keeps for itself. */
void gpu_facts_compare(const struct gpu_facts *muster, const struct gpu_facts *other, const char *who, char *text,
                       size_t size);

/* The same of two matrices of links, `muster topo --matrix` and `nvidia-smi topo -m`. Returns how many cells were
 * alike. */
size_t gpu_links_compare(const char *muster, const char *smi, size_t count, char *text, size_t size);

/* ---- rows.c ------------------------------------------------------------------------------------------------------ */

enum gpu_verdict { GPU_OK, GPU_FAILED, GPU_NOT_RUN };

struct gpu_result {
    enum gpu_verdict verdict;
    bool may_miss; /* what it wants beside a GPU need not be here: a program that says so was not run */
    char figure[GPU_TEXT_MAX];
    char words[400]; /* of a failure, or why it was not run */
};

struct gpu_row {
    const char *name, *what, *limit;
    void (*run)(struct gpu_result *result);
};

extern const struct gpu_row gpu_rows[];
extern const size_t gpu_num_rows;

/* The programs, by the environment: MUSTER, GPU_DEVICE, GPU_STREAM, GPU_NCCL. */
const char *gpu_program(const char *name);

#endif
