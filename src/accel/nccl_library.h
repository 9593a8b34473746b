/*
 * accel/nccl_library.h: the entry points of libnccl that muster calls, found at run time. Declared here in our own
 * words: an installed nccl.h is not needed, and what a version lacks is NULL.
 */
#ifndef MU_ACCEL_NCCL_LIBRARY_H
#define MU_ACCEL_NCCL_LIBRARY_H

#include <stdbool.h>

#include <muster/nccl.h>

/* Passed by value, as ncclUniqueId is. */
struct mu_nccl_id {
    char bytes[MUSTER_NCCL_ID_BYTES];
};

/* ncclResult_t, what of it matters here. */
enum { MU_NCCL_SUCCESS = 0, MU_NCCL_IN_PROGRESS = 7 };

struct mu_nccl {
    int version; /* as ncclGetVersion() codes it */
    char path[512];
    int (*get_version)(int *version);
    int (*get_unique_id)(struct mu_nccl_id *id);
    const char *(*get_error_string)(int result);
    /* from here on: NULL in older libraries */
    const char *(*get_last_error)(struct ncclComm *comm);            /* 2.13 */
    int (*comm_get_async_error)(struct ncclComm *comm, int *result); /* 2.4 */
    int (*comm_abort)(struct ncclComm *comm);                        /* 2.4 */
    int (*comm_init_rank_config)(struct ncclComm **comm, int nranks, struct mu_nccl_id id, int rank,
                                 void *config); /* 2.14 */
    int (*comm_init_rank_scalable)(struct ncclComm **comm, int nranks, int rank, int nids, struct mu_nccl_id *ids,
                                   void *config); /* 2.23 */
};

/*
 * The library, loaded at the first call and never unloaded: its threads run in it. NOT_FOUND with the places that were
 * tried; FAILED_PRECONDITION: what was found is no libnccl.
 */
enum muster_status mu_nccl_open(const struct mu_nccl **ret_nccl);

/* "2.28.9" for 22809; "2.8.4" for 2804: two digits a part only since 2.9. */
#define MU_NCCL_VERSION_TEXT 24u
const char *mu_nccl_version_text(int version, char text[MU_NCCL_VERSION_TEXT]);

/* NCCL's words for a result, the last error's too where there is one; of `comm`, or of the thread (NULL). */
void mu_nccl_describe(const struct mu_nccl *nccl, struct ncclComm *comm, int result, char *text, size_t size);

#endif
