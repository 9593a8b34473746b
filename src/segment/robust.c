/*
 * segment/robust.c: libc's list of a thread's robust mutexes, where it lies in a segment.
 *
 * The mutexes that a thread holds are a list through the mutexes themselves, raw pointers in shared memory, which is
 * libc's format and not ours. To unlock one, libc follows its two pointers and writes behind them: where another
 * process has scribbled there, it writes anywhere. So before that the neighbours are asked whether they know this
 * mutex: they are read by a system call, which tells an address that is none. Where they do not, they are looked for
 * from the list's head, which is the thread's own memory, in both directions. A mutex that cannot be mended stays
 * locked: the kernel, which follows the list with care, ends that with the thread.
 *
 * Every pointer leads to a `next`, with a mark in bit 0 of a kind of mutex that is none of ours; the `prev` is the word
 * before it. In the head, too, though nothing says so but libc's source.
 */
#include "segment/robust.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#if defined(__GLIBC__) && defined(__PTHREAD_MUTEX_HAVE_PREV)

enum { LIST_MAX = 1 << 15 }; /* more slots than a segment has */

_Static_assert(offsetof(__pthread_list_t, __next) == sizeof(uintptr_t) && sizeof(uintptr_t) == 8,
               "prev is the word before next");

/* 0: there is no such address. Where the kernel lets nobody ask, it is read, as libc would. */
static uintptr_t word_at(uintptr_t address)
{
    uintptr_t word = 0;
    struct iovec to = {&word, sizeof word}, from = {(void *)address, sizeof word};
    ssize_t n = address % sizeof word ? 0 : process_vm_readv(getpid(), &to, 1, &from, 1, 0);

    if (n < 0 && (errno == ENOSYS || errno == EPERM))
        return *(const uintptr_t *)address;
    return n == sizeof word ? word & ~(uintptr_t)1 : 0;
}

static uintptr_t next_of(uintptr_t node)
{
    return word_at(node);
}

static uintptr_t prev_of(uintptr_t node)
{
    return word_at(node - sizeof node);
}

/* The node that has this one as its neighbour by `step`, from the head on; 0: none. */
static uintptr_t find_before(uintptr_t head, uintptr_t node, uintptr_t (*step)(uintptr_t node))
{
    uintptr_t at = head;

    for (int i = 0; at && i < LIST_MAX; i++) {
        uintptr_t to = step(at);

        if (to == node)
            return at;
        if (to == head)
            break;
        at = to;
    }
    return 0;
}

bool mu_robust_mend(pthread_mutex_t *mutex)
{
    __pthread_list_t *list = &mutex->__data.__list;
    uintptr_t node = (uintptr_t)&list->__next, before, behind;
    struct robust_list_head *head;
    size_t size;

    /* Read once each: another process may scribble meanwhile. */
    before = (uintptr_t) * (void *volatile *)&list->__prev & ~(uintptr_t)1;
    behind = (uintptr_t) * (void *volatile *)&list->__next & ~(uintptr_t)1;
    if (before && behind && next_of(before) == node && prev_of(behind) == node)
        return true;
    if (syscall(SYS_get_robust_list, 0, &head, &size))
        return false;
    before = find_before((uintptr_t)&head->list, node, next_of);
    behind = find_before((uintptr_t)&head->list, node, prev_of);
    if (!before || !behind)
        return false;
    list->__prev = (void *)before;
    list->__next = (void *)behind;
    return true;
}

#else

bool mu_robust_mend(pthread_mutex_t *mutex)
{
    (void)mutex;
    return true;
}

#endif
