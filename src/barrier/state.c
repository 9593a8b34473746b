/*
 * barrier/state.c: a named barrier's whole state, as one value: decoded into private memory, changed by plain
 * sequential code, encoded again. That it is one value behind one word is what makes its outcome one.
 */
#include "barrier/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool mu_barrier_participants(struct mu_barrier *b, const uint32_t *ids, uint32_t num, bool all)
{
    uint32_t *copy = all ? NULL : malloc((num ? num : 1) * sizeof *copy);
    uint32_t *marks = calloc(num ? num : 1, sizeof *marks);

    if ((!all && !copy) || !marks) {
        free(copy);
        free(marks);
        return false;
    }
    if (copy && num)
        memcpy(copy, ids, num * sizeof *copy);
    free(b->ids);
    free(b->marks);
    b->ids = copy;
    b->marks = marks;
    b->h.num = num;
    b->h.all = all;
    return true;
}

bool mu_barrier_decode(struct mu_barrier *b, const void *value, size_t len)
{
    const uint8_t *p = value;
    size_t lists;

    memset(b, 0, sizeof *b);
    if (len < sizeof b->h)
        return false;
    memcpy(&b->h, p, sizeof b->h);
    lists = (size_t)b->h.num * 4 * (b->h.all ? 1 : 2);
    if (b->h.num > 65536 || b->h.text_len >= MU_BARRIER_TEXT || len != sizeof b->h + lists + b->h.text_len)
        return false;
    p += sizeof b->h;
    if (!mu_barrier_participants(b, (const uint32_t *)p, b->h.num, b->h.all))
        return false;
    if (b->h.num)
        memcpy(b->marks, p + (b->h.all ? 0 : (size_t)b->h.num * 4), (size_t)b->h.num * 4);
    memcpy(b->text, p + lists, b->h.text_len);
    return true;
}

void *mu_barrier_encode(const struct mu_barrier *b, size_t *ret_len)
{
    struct mu_barrier_head h = b->h;
    size_t ids = b->ids ? (size_t)h.num * 4 : 0, marks = (size_t)h.num * 4;
    uint8_t *value;

    h.text_len = (uint32_t)strlen(b->text);
    *ret_len = sizeof h + ids + marks + h.text_len;
    value = malloc(*ret_len);
    if (!value)
        return NULL;
    memcpy(value, &h, sizeof h);
    if (ids)
        memcpy(value + sizeof h, b->ids, ids);
    if (marks)
        memcpy(value + sizeof h + ids, b->marks, marks);
    memcpy(value + sizeof h + ids + marks, b->text, h.text_len);
    return value;
}

void mu_barrier_done(struct mu_barrier *b)
{
    free(b->ids);
    free(b->marks);
    b->ids = b->marks = NULL;
}

int32_t mu_barrier_find(const struct mu_barrier *b, uint32_t task)
{
    uint32_t low = 0, high = b->h.num;

    while (low < high) {
        uint32_t mid = (low + high) / 2, id = mu_barrier_id(b, mid);

        if (id == task)
            return (int32_t)mid;
        if (id < task)
            low = mid + 1;
        else
            high = mid;
    }
    return -1;
}

uint32_t mu_barrier_arrived(const struct mu_barrier *b)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->h.num; i++)
        n += (b->marks[i] & MU_MARK_ARRIVED) != 0;
    return n;
}

bool mu_barrier_has_only_more(const struct mu_barrier *b, const void *before)
{
    struct mu_barrier_head old;
    const uint8_t *marks = (const uint8_t *)before + sizeof old;

    memcpy(&old, before, sizeof old);
    if (old.passed || b->h.passed || old.counter != b->h.counter || old.deadline != b->h.deadline ||
        old.num != b->h.num || old.all != b->h.all)
        return false;
    if (!b->h.version) /* a task that is out has come: the waiters are to look */
        return false;
    marks += old.all ? 0 : (size_t)old.num * 4;
    for (uint32_t i = 0; i < old.num; i++) {
        uint32_t mark;

        memcpy(&mark, marks + (size_t)i * 4, sizeof mark);
        if ((mark & MU_MARK_ARRIVED) && ((mark ^ b->marks[i]) & ~MU_MARK_UNTOLD))
            return false;
    }
    return true;
}

void mu_barrier_end(struct mu_barrier *b, enum muster_status code, const char *format, ...)
{
    va_list args;

    b->h.passed = 1;
    b->h.code = code;
    b->h.history[b->h.counter % MU_BARRIER_HISTORY] = (uint8_t)code;
    va_start(args, format);
    vsnprintf(b->text, sizeof b->text, format, args);
    va_end(args);
}
