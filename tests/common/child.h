/* tests/common/child.h: processes of a test. None outlives it. Usable without cmocka. */
#ifndef TEST_CHILD_H
#define TEST_CHILD_H

#include <sys/types.h>

/* A child that runs fn(arg) and exits with what it returns. Forks: the child must join jobs anew. */
pid_t test_fork(int (*fn)(void *arg), void *arg);

/* Waits for its end: its exit status, or 1000 + the signal that killed it. */
int test_reap(pid_t pid);

/* test_reap(test_fork(fn, arg)) */
int test_in_child(int (*fn)(void *arg), void *arg);

/* In a child: a failed check says where and ends the process with status 1. */
#define CHECK(condition) test_check(!!(condition), #condition, __FILE__, __LINE__)
void test_check(int ok, const char *condition, const char *file, int line);

/* Both ends of a meeting point between processes: a byte each way, no clock. */
struct test_gate {
    int to_child[2], to_parent[2];
};
int test_gate_open(struct test_gate *g);
void test_gate_close(struct test_gate *g);
/* The child says that it has come so far; the parent waits for it; and the other way about. */
void test_gate_arrive(struct test_gate *g);
void test_gate_await(struct test_gate *g);
void test_gate_release(struct test_gate *g);
void test_gate_pass(struct test_gate *g);

/* Until /proc says that the process's main thread sleeps in a futex (or is gone): it waits inside muster. */
void test_until_asleep(pid_t pid);

#endif
