/*
 * topology/apart.h: asking what may hang, crash or upset the asker, in a short-lived child process.
 */
#ifndef MU_TOPOLOGY_APART_H
#define MU_TOPOLOGY_APART_H

#include <stddef.h>
#include <stdint.h>

#define MU_APART_RECORD_MAX 3072u /* so that one is written at once or not at all */
#define MU_APART_LIMITS     3u    /* how many times the limit of a silence all may take */

/* Within the child: one more record. */
struct mu_apart_pipe {
    int fd;
    size_t record_size;
};
void mu_apart_tell(const struct mu_apart_pipe *pipe, const void *record);

/*
 * Run `tell` in a child; each record (without pointers, all of one size) that it tells of is taken in the caller, in
 * that order, as it comes. The child's stdout and stderr are the null device, it holds no other descriptor of ours, and
 * it does not outlive the call, unless the kernel cannot end it. 0: `tell` has returned. MU_APART_DIED: asking has
 * ended the child. -1: why it was not asked, or has not answered ("no answer within 10 s"; a record is an answer: a
 * driver may have to start each GPU that it is asked of); what was taken before holds. The caller's memory is copied on
 * write meanwhile: ask early, before it is large.
 */
#define MU_APART_DIED (-2)
int mu_apart(void (*tell)(const struct mu_apart_pipe *pipe, void *arg), void (*take)(const void *record, void *arg),
             void *arg, size_t record_size, unsigned limit_ms, char *ret_why, size_t size);

#endif
