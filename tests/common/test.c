/* tests/common/test.c: the tests of a program, and the main() of those programs that have none of their own. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

static struct test_entry *listed;
static size_t count;
static int (*before_all)(void), (*after_all)(void);

void test_list(struct test_entry *entry)
{
    struct test_entry **at = &listed;

    while (*at && (*at)->order < entry->order)
        at = &(*at)->next;
    entry->next = *at;
    *at = entry;
    count++;
}

/* What cmocka calls: its state is the entry. */
static void entry_run(void **state)
{
    struct test_entry *entry = *state;

    entry->run();
}

static int entry_before(void **state)
{
    struct test_entry *entry = *state;

    return entry->before();
}

static int entry_after(void **state)
{
    struct test_entry *entry = *state;

    return entry->after();
}

static int all_before(void **state)
{
    (void)state;
    return before_all();
}

static int all_after(void **state)
{
    (void)state;
    return after_all();
}

int test_run(int (*before)(void), int (*after)(void))
{
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    size_t n = 0;
    int failed;

    if (!tests || !count) {
        print_error("no test is listed, or no memory is left\n");
        free(tests);
        return 1;
    }
    for (struct test_entry *e = listed; e; e = e->next)
        tests[n++] =
            (struct CMUnitTest){e->name, entry_run, e->before ? entry_before : NULL, e->after ? entry_after : NULL, e};
    before_all = before;
    after_all = after;
    failed = _cmocka_run_group_tests(program_invocation_short_name, tests, count, before ? all_before : NULL,
                                     after ? all_after : NULL);
    free(tests);
    return failed;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

void (*test_await_report)(void);

void test_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL); /* sleep: between two looks at a state */
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t test_patience(void)
{
    return now_ns() + 60000000000u;
}

bool test_is_over(uint64_t until)
{
    if (now_ns() <= until)
        return false;
    if (test_await_report)
        test_await_report();
    return true;
}

/* A program's own takes precedence. */
__attribute__((weak)) int main(void)
{
    return test_run(NULL, NULL);
}
