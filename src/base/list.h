/*
 * base/list.h: lists of members that know their neighbours, by `next` and `prev`, NULL at the ends.
 *
 * A list is a pointer to its first member, which are pushed in front; a queue has one to its last, too, behind which
 * they are appended. A chain is a list without `prev`, by any member `next`. Arguments are evaluated several times.
 */
#ifndef MU_BASE_LIST_H
#define MU_BASE_LIST_H

#include <stddef.h>

#define MU_LIST_PUSH(first, item)                                                                                      \
    do {                                                                                                               \
        (item)->prev = NULL;                                                                                           \
        (item)->next = (first);                                                                                        \
        if ((item)->next)                                                                                              \
            (item)->next->prev = (item);                                                                               \
        (first) = (item);                                                                                              \
    } while (0)

#define MU_LIST_DROP(first, item)                                                                                      \
    do {                                                                                                               \
        *((item)->prev ? &(item)->prev->next : &(first)) = (item)->next;                                               \
        if ((item)->next)                                                                                              \
            (item)->next->prev = (item)->prev;                                                                         \
    } while (0)

#define MU_QUEUE_APPEND(first, last, item)                                                                             \
    do {                                                                                                               \
        (item)->prev = (last);                                                                                         \
        (item)->next = NULL;                                                                                           \
        *((last) ? &(last)->next : &(first)) = (item);                                                                 \
        (last) = (item);                                                                                               \
    } while (0)

#define MU_QUEUE_DROP(first, last, item)                                                                               \
    do {                                                                                                               \
        *((item)->prev ? &(item)->prev->next : &(first)) = (item)->next;                                               \
        *((item)->next ? &(item)->next->prev : &(last)) = (item)->prev;                                                \
    } while (0)

/* The item need not be there. */
#define MU_CHAIN_DROP(first, item, next)                                                                               \
    do {                                                                                                               \
        __typeof__(item) *link_ = &(first);                                                                            \
                                                                                                                       \
        while (*link_ && *link_ != (item))                                                                             \
            link_ = &(*link_)->next;                                                                                   \
        if (*link_)                                                                                                    \
            *link_ = (item)->next;                                                                                     \
    } while (0)

/* The same of a queue without `prev`: `last` is the place of the pointer to the next one that comes. */
#define MU_LINE_DROP(first, last, item, next)                                                                          \
    do {                                                                                                               \
        __typeof__(item) *link_ = &(first);                                                                            \
                                                                                                                       \
        while (*link_ && *link_ != (item))                                                                             \
            link_ = &(*link_)->next;                                                                                   \
        if (*link_ && (last) == &(item)->next)                                                                         \
            (last) = link_;                                                                                            \
        if (*link_)                                                                                                    \
            *link_ = (item)->next;                                                                                     \
    } while (0)

#endif
