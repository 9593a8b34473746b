/*
 * muster/stream.h: a barrier between the GPU streams of different processes of one node, with no CPU in its path.
 *
 * A member puts one small batch of memory operations into a CUDA stream: write my flag, wait until each other's flag
 * has come as far. The flags lie in host memory that all members share, so the survivors can release them: when a
 * member dies, is put in error or leaves, a thread of each survivor's process opens all its waits within about a
 * millisecond of learning of it. The survivors' streams then run empty instead of hanging, and
 * muster_stream_barrier_status() names the lost member. The results of such a stream behind the failed round are
 * garbage; that is what the status is for:
 *
 *     muster_stream_barrier_create(m, "step", NULL, 0, MUSTER_FOREVER, &b);
 *     for (int i = 0; i < steps; i++) {
 *         launch_kernel(stream);
 *         if (muster_stream_barrier_enqueue(b, stream) != MUSTER_OK)
 *             break;
 *         launch_kernel_that_needs_the_others(stream);
 *     }
 *     cudaStreamSynchronize(stream);
 *     if (muster_stream_barrier_status(b, &good) != MUSTER_OK)
 *         errx(1, "%s", muster_last_error());      rounds 1 to good are sound, the rest must be thrown away
 *
 * Order. All work in the stream before the round is done and visible, to GPUs and CPUs of the node, before any member's
 * stream goes on behind it. Nothing is promised to other streams.
 *
 * Where it may not be used, and what happens there:
 * - Two members in one process: refused by create. CUDA does not know of these waits, and where the streams of one
 *   process share a hardware queue (CUDA_DEVICE_MAX_CONNECTIONS) a wait may lie before the write that would end it.
 * - For the same reason, nothing that other streams of the process must do for this round may be given to the GPU after
 *   it; in the legacy NULL stream, which waits for all others, a round stops all of them.
 * - CUDA graphs: a capture would bake one round's number into the graph. Refused: MUSTER_FAILED_PRECONDITION.
 * - Two processes on one GPU: without MPS they take turns, and a round costs time slices, milliseconds. With MPS the
 *   clients share hardware queues in some modes, and a fault of one ends all. MIG instances are separate GPUs here.
 * - A GPU that cannot register host memory or wait on 64 bits, and drivers before 11.7 (515): refused by create. Create
 *   tries the operations on the device, so that a driver on which a release does not work is refused, too.
 * - Members in different pid namespaces or of different users, or which are not dumpable (prctl(2)): the memory is
 *   handed over through /proc: refused by create.
 * - Rounds of one barrier belong into one stream. Another one may be used when all that was enqueued has been executed.
 * - More than a million rounds enqueued and not executed: MUSTER_RESOURCE_EXHAUSTED. The rounds in all are not limited.
 * - fork: the child has neither the memory nor the barrier; CUDA itself does not work in it.
 * - A GPU that hangs in a kernel while its process lives and beats is nobody's death. muster_stream_barrier_missing()
 *   names the members that the others wait for, and muster_stream_barrier_abort() gives up for all.
 *
 * A barrier that has failed stays failed: free it and make a new one, under the same name if wanted. Its memory is its
 * own (sealed: nobody can truncate it) and belongs to the kernel and the drivers that hold it: a GPU that writes a flag
 * late, when its process is declared dead or in error already, writes into memory that nobody uses for anything else.
 *
 * Threads: every call from any thread of the process; rounds are numbered in the order of the calls.
 */
#ifndef MUSTER_STREAM_H
#define MUSTER_STREAM_H

#include <muster/task.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_STREAM_NAME_MAX 240u
#define MUSTER_STREAM_SIZE_MAX 64u /* members */

struct muster_stream_barrier;
struct CUstream_st; /* what CUstream and cudaStream_t point to */

/*
 * Meet the others and make the barrier. Every member calls, with a CUDA context current (cudaSetDevice()), the same
 * name and the same tasks in the same order (NULL, 0: all tasks of the job). If one of them cannot take part, none gets
 * a barrier and all are told why. Starts a thread, which lives as long as the barrier does. Never calls cuInit(). Uses
 * a group named "stream:" and the name, which is gone when the call returns. Waits until all are there:
 * MUSTER_DEADLINE_EXCEEDED, MUSTER_UNAVAILABLE (a member died; or there is no CUDA here, with the loader's or the
 * driver's reason), MUSTER_FAILED_PRECONDITION, MUSTER_UNIMPLEMENTED as said above.
 */
MUSTER_API enum muster_status muster_stream_barrier_create(struct muster *muster, const char *name,
                                                           const int32_t *task_ids, size_t count,
                                                           muster_deadline deadline,
                                                           struct muster_stream_barrier **ret_barrier);

/*
 * Put the next round into the stream, and return. Each member's n-th call is round n, from 1 on. After a failure
 * nothing is enqueued, and the status is that of muster_stream_barrier_status(). Needs the stream's context current.
 */
MUSTER_API enum muster_status muster_stream_barrier_enqueue(struct muster_stream_barrier *barrier,
                                                            struct CUstream_st *stream);

/*
 * Whether all that this process has enqueued so far is, or can still become, sound. Ask after synchronizing with the
 * stream: MUSTER_OK then means that no round in it was passed before all had arrived. MUSTER_UNAVAILABLE names the lost
 * member, MUSTER_ABORTED one that gave up; MUSTER_CANCELLED: the job was closed. *ret_good (may be NULL) gets the last
 * round at which all members are known to have arrived; after a failure it is final and the same for all members.
 */
MUSTER_API enum muster_status muster_stream_barrier_status(struct muster_stream_barrier *barrier, uint64_t *ret_good);

/*
 * The members missing at the round that the furthest member's stream has reached: up to `capacity` task ids; *ret_count
 * gets their number. Reads host memory only; never blocks.
 */
MUSTER_API enum muster_status muster_stream_barrier_missing(struct muster_stream_barrier *barrier,
                                                            int32_t *ret_task_ids, size_t capacity, size_t *ret_count);

/* Give up for all: every member's waits open, and its status is MUSTER_ABORTED with the caller's name and message. */
MUSTER_API enum muster_status muster_stream_barrier_abort(struct muster_stream_barrier *barrier, const char *message);

/*
 * The device address of a 64-bit word that is zero until the barrier fails, for kernels that want to stop early. Read
 * it as volatile; it is written before any wait is opened.
 */
MUSTER_API uint64_t muster_stream_barrier_failed_word(const struct muster_stream_barrier *barrier);

/*
 * Take part no more. Synchronize with the stream first: while rounds of this process have not been executed the answer
 * is MUSTER_FAILED_PRECONDITION and nothing is freed. Needs a CUDA context current, as create did. The barrier fails
 * for members that have enqueued more rounds than this one. Comes before muster_leave(). In a forked child it frees the
 * child's copy only. NULL is allowed.
 */
MUSTER_API enum muster_status muster_stream_barrier_free(struct muster_stream_barrier *barrier);

#ifdef __cplusplus
}
#endif
#endif
