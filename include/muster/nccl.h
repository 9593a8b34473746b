/*
 * muster/nccl.h: NCCL's unique ids passed through the segment, and communicators that do not hang.
 *
 *     struct ncclComm *comm;
 *     cudaSetDevice(local_rank);
 *     if (muster_nccl_comm_init(m, "world", size, rank, NULL, muster_after_ms(60000), &comm) != MUSTER_OK)
 *         errx(1, "%s", muster_last_error());
 *
 * An id serves one communicator, once, and only as long as the process that made it lives: libnccl starts a thread and
 * a listening socket there, the root, at which every rank checks in. So an id belongs to a name and a generation of it:
 * the first rank that asks makes it, in its own process, the others take it from the segment; when all have, the next
 * that asks begins the next generation. A generation is dead as soon as its maker or a rank that took it dies, or one
 * of them gives it up; a rank that asks then begins another, and muster_nccl_check() tells the holders of the dead one.
 *
 * Library: libnccl.so.2 is loaded at the first call: the one that the process has loaded already, else the loader's,
 * else from the usual folders; MUSTER_NCCL_LIBRARY, a path, overrides all. Nothing links with it. Ids need any NCCL 2,
 * muster_nccl_comm_init() 2.14, several roots 2.23. All ranks of a communicator must have the same version; its
 * environment, NCCL_SOCKET_IFNAME above all, must name the same network for all.
 *
 * Threads: any; the ranks of one process may be threads. No call of libnccl is made inside another process than a
 * rank's: agents and launchers never load it. Fork: the listening sockets are closed in a forked child and, being
 * close-on-exec, in an exec'ed one. (In the instants between libnccl's making of a socket and its marking,
 * a posix_spawn() of another thread may still pass it on; a fork() may not.) Only tasks can take part, not observers.
 * Leaving the job gives up the generations that not all ranks have taken. A name stays in the segment, some 400 bytes
 * and 16 for each rank, until muster_nccl_comm_init() is through on all ranks, and longer where one of its
 * generations has died, for ranks that hold that still must be told; better use one again than ever new ones.
 *
 * In a job of several hosts a name is one for all of them (but see MUSTER_NCCL_HOST), and the same holds. The root
 * listens at an address of its maker's host, which NCCL chooses: every other host must reach it. Where it chose
 * loopback (NCCL_SOCKET_IFNAME=lo, or a machine without another network), ranks of hosts that do not share it are
 * refused (FAILED_PRECONDITION) and the generation is given up. NCCL_COMM_ID=ADDRESS:PORT names an address of rank 0's
 * host, and must be set alike for all ranks. What a host other than the first one asks takes a round trip.
 */
#ifndef MUSTER_NCCL_H
#define MUSTER_NCCL_H

#include <muster/task.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_NCCL_ID_BYTES  128u   /* of an ncclUniqueId */
#define MUSTER_NCCL_NAME_MAX  200u   /* bytes of a communicator's name */
#define MUSTER_NCCL_RANKS_MAX 65536u /* of one communicator */
#define MUSTER_NCCL_IDS_MAX   256u   /* of one communicator */

/* In a job of several hosts a name that begins so is each host's own: equal ones of two hosts do not meet. */
#define MUSTER_NCCL_HOST "muster/host/"

struct ncclComm; /* libnccl's: ncclComm_t is a pointer to it */

/* Zero or NULL in a field, or no options: the default. */
struct muster_nccl_options {
    uint64_t expiry_ns;      /* an id that not all ranks have taken by then is dead; ten minutes */
    uint32_t ranks_per_root; /* muster_nccl_comm_init(): one id for so many ranks; 256 */
    uint32_t flags;          /* 0 */
    const void *config;      /* muster_nccl_comm_init(): an ncclConfig_t, as NCCL_CONFIG_INITIALIZER begins it; what it
                                says of `blocking` is not followed. Copied. */
};

/* The library's version, as its ncclGetVersion() has it: 22809 is 2.28.9. NOT_FOUND, and where it was looked for. */
MUSTER_API enum muster_status muster_nccl_version(int *ret_version);

/*
 * The id of the communicator `name` for this `rank` of `nranks`: 128 bytes, for ncclCommInitRank(). Every rank calls
 * once for each communicator; then the same name may be used again. *ret_generation (may be NULL) tells which it was.
 *
 * Waits only while another rank makes the id. Errors: UNAVAILABLE (a task of the job is in error, or the maker could
 * not make one: its words), DEADLINE_EXCEEDED (its maker), ALREADY_EXISTS (this rank has the id of this generation
 * already, or another task has it for the same rank), INVALID_ARGUMENT (also: peers said another number of ranks),
 * FAILED_PRECONDITION (an observer, a task in error; or libnccl is of another version than the maker's: then the
 * generation is dead), NOT_FOUND (no libnccl), and those of writing calls.
 */
MUSTER_API enum muster_status muster_nccl_unique_id(struct muster *muster, const char *name, uint32_t nranks,
                                                    uint32_t rank, const struct muster_nccl_options *options,
                                                    muster_deadline deadline, void *ret_id, uint64_t *ret_generation);

/*
 * The same for a communicator of several roots, ncclCommInitRankScalable(): `count` ids, one after another in the order
 * that every rank must pass them in. All ranks say the same count.
 */
MUSTER_API enum muster_status muster_nccl_unique_ids(struct muster *muster, const char *name, uint32_t nranks,
                                                     uint32_t rank, uint32_t count,
                                                     const struct muster_nccl_options *options,
                                                     muster_deadline deadline, void *ret_ids, uint64_t *ret_generation);

/*
 * Whether a generation may still be used: for programs that initialise by themselves, non-blocking, and must know when
 * to call ncclCommAbort(). ABORTED with the reason when it is dead; UNAVAILABLE when a task of the job is in error.
 * Never blocks; a few microseconds. On a host other than the first one of several the first look at a name, and each at
 * one of which nothing is known there, takes a round trip (while there is no connection: 0.1 s, then MUSTER_OK).
 */
MUSTER_API enum muster_status muster_nccl_check(struct muster *muster, const char *name, uint64_t generation);

/*
 * Give a generation up (0: the present one), with a reason for the others; its maker ends its root. MUSTER_OK also
 * when it is dead already, or past.
 */
MUSTER_API enum muster_status muster_nccl_abandon(struct muster *muster, const char *name, uint64_t generation,
                                                  const char *reason);

/*
 * Make a communicator: the id, then ncclCommInitRankConfig() (ncclCommInitRankScalable() above ranks_per_root ranks),
 * not blocking, watched until it is done. The caller must have chosen its CUDA device, as for ncclCommInitRank(). As
 * soon as a task of the job is in error, a rank of the communicator dies, fails or gives up, or the deadline passes, it
 * is aborted and the sentence names the task; then the generation is dead for all, and all may call again.
 *
 * *ret_comm is the caller's, and non-blocking: calls on it may return ncclInProgress. Errors: those of
 * muster_nccl_unique_id(), ABORTED (a peer gave up), DEADLINE_EXCEEDED (names the ranks that have not come),
 * INTERNAL (NCCL's words: as without a GPU), UNIMPLEMENTED (a library before 2.14).
 */
MUSTER_API enum muster_status muster_nccl_comm_init(struct muster *muster, const char *name, uint32_t nranks,
                                                    uint32_t rank, const struct muster_nccl_options *options,
                                                    muster_deadline deadline, struct ncclComm **ret_comm);

enum muster_nccl_state {
    MUSTER_NCCL_NONE = 0,   /* nobody has asked, or all have initialised and no generation has died */
    MUSTER_NCCL_MAKING = 1, /* the owner is making the id */
    MUSTER_NCCL_READY = 2,
    MUSTER_NCCL_FAILED = 3, /* given up: `reason` */
};

struct muster_nccl_info {
    enum muster_nccl_state state;
    int32_t owner_task; /* the maker of the id */
    uint64_t generation;
    uint64_t since_ns; /* CLOCK_MONOTONIC of the last change of the state */
    uint32_t owner_rank;
    uint32_t nranks, ids;
    uint32_t taken;   /* ranks that have the id */
    uint32_t done;    /* ranks that are through muster_nccl_comm_init() */
    int version;      /* of the owner's library */
    char reason[120]; /* why the last generation that failed did; "" */
};

/* What the job knows of a communicator's name. Never blocks (on a host other than the first: 1 s); loads no library. */
MUSTER_API enum muster_status muster_nccl_get(struct muster *muster, const char *name,
                                              struct muster_nccl_info *ret_info);

#ifdef __cplusplus
}
#endif
#endif
