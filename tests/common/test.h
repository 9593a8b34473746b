/* tests/common/test.h: how a test is written; cmocka with what its header needs before it. */
#ifndef TEST_TEST_H
#define TEST_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/*
 * A test is TEST(name) { … } and nothing more: it lists itself, and main() of tests/common/test.c runs a program's
 * tests in the order of its source. TEST_WITH() names what runs before and after it, `int f(void)` each, or NULL; when
 * one of the two returns anything but 0, the test fails. A program that has to do something first has a main() of its
 * own, which ends with `return test_run(NULL, NULL)`, or with what runs once before and after all.
 */
#define TEST(name)                     TEST_WITH(name, NULL, NULL)
#define TEST_WITH(name, before, after) TEST_AS(name, name, before, after)

/* A test that is listed by its name, and for which another function runs. */
#define TEST_AS(name, runs, before, after)                                                                             \
    static void name(void);                                                                                            \
    __attribute__((constructor)) static void list_##name(void)                                                         \
    {                                                                                                                  \
        static struct test_entry entry = {#name, __COUNTER__, runs, before, after, NULL};                              \
        test_list(&entry);                                                                                             \
    }                                                                                                                  \
    static void name(void)

struct test_entry {
    const char *name;
    int order; /* in the source: constructors run in any */
    void (*run)(void);
    int (*before)(void), (*after)(void);
    struct test_entry *next;
};
void test_list(struct test_entry *entry);

/* Runs all that are listed: cmocka's exit status. */
int test_run(int (*before)(void), int (*after)(void));

/*
 * Waits for a condition; after a minute the test fails with what was awaited, as printf() has it. Between two looks
 * `step` brings the condition about, or lets time pass: await() sleeps for a moment.
 */
#define await(condition, ...) await_by(test_pause(), condition, __VA_ARGS__)
#define await_by(step, condition, ...)                                                                                 \
    do {                                                                                                               \
        for (uint64_t until_ = test_patience(); !(condition);) {                                                       \
            if (test_is_over(until_))                                                                                  \
                fail_msg("after a minute still not so: " __VA_ARGS__);                                                 \
            step;                                                                                                      \
        }                                                                                                              \
    } while (0)
void test_pause(void);
uint64_t test_patience(void);
/* Says what else is known then: test_await_report(), if it is set. */
bool test_is_over(uint64_t until);
extern void (*test_await_report)(void);

#endif
