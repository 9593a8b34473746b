/*
 * tests/sim/arena.c: malloc() for the library and the workloads while a schedule runs.
 *
 * Size classes of powers of two, cut from one mapping that is forgotten after each schedule: what a killed task had
 * allocated goes with it. Freed memory is overwritten, so that who uses it after that is caught or reads nonsense.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim.h"

#define ARENA (256ull << 20)
enum { CLASSES = 28, HEADER = 16, POISON_MAX = 512 };

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);
unsigned __wrap_mu_processors(void);

bool sim_arena_on;
static uint8_t *arena, *top;
static void *classes[CLASSES];

unsigned __wrap_mu_processors(void)
{
    return 1; /* the wait's first stage is skipped: it would only make schedules longer */
}

void sim_arena_reset(void)
{
    if (!arena)
        arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED)
        abort();
    if (top > arena + (8u << 20)) /* give most of it back */
        madvise(arena + (8u << 20), (size_t)(top - arena) - (8u << 20), MADV_DONTNEED);
    top = arena;
    memset(classes, 0, sizeof classes);
}

static bool is_ours(const void *p)
{
    return arena && (const uint8_t *)p >= arena && (const uint8_t *)p < arena + ARENA;
}

void *__wrap_malloc(size_t size)
{
    unsigned c = 5;
    uint64_t *p;

    if (!sim_arena_on)
        return __real_malloc(size);
    while ((1ull << c) < size + HEADER)
        c++;
    if (c < CLASSES && classes[c]) {
        p = classes[c];
        memcpy(&classes[c], p + 2, sizeof classes[c]);
        return p + 2;
    }
    if (c >= CLASSES || (size_t)(arena + ARENA - top) < (1ull << c)) {
        errno = ENOMEM;
        return NULL;
    }
    p = (uint64_t *)top;
    top += 1ull << c;
    p[0] = c;
    return p + 2;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p;

    if (!sim_arena_on)
        return __real_calloc(n, size);
    p = __wrap_malloc(n * size);
    if (p)
        memset(p, 0, n * size);
    return p;
}

void __wrap_free(void *p)
{
    uint64_t *header = (uint64_t *)p - 2;
    size_t size;

    if (!p)
        return;
    if (!is_ours(p)) {
        __real_free(p);
        return;
    }
    size = (1ull << header[0]) - HEADER;
    memset(p, 0xdd, size < POISON_MAX ? size : POISON_MAX);
    memcpy(p, &classes[header[0]], sizeof(void *));
    classes[header[0]] = header;
}

void *__wrap_realloc(void *p, size_t size)
{
    uint64_t *header = (uint64_t *)p - 2;
    size_t had;
    void *more;

    if (p && !is_ours(p))
        return __real_realloc(p, size);
    if (!p)
        return __wrap_malloc(size);
    had = (1ull << header[0]) - HEADER;
    if (size <= had)
        return p;
    more = __wrap_malloc(size);
    if (more) {
        memcpy(more, p, had);
        __wrap_free(p);
    }
    return more;
}
