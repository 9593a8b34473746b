/*
 * tests/lin/checker_test.c: the checker itself: histories made by hand, good ones that it must accept and bad ones that
 * it must reject. Each bad one is a bug that a store could have.
 */
#include <stdio.h>
#include <string.h>

#include "cm.h"

#include "history.h"

#define KILLED UINT64_MAX

static struct op ops[OPS_MAX];
static size_t count;

static struct op *add(uint64_t called, uint64_t returned, enum kind kind, const char *bytes)
{
    struct op *o = &ops[count++];

    *o = (struct op){.called = called, .returned = returned, .kind = kind, .len = (uint32_t)strlen(bytes)};
    memcpy(o->bytes, bytes, o->len);
    return o;
}

static void set(uint64_t called, uint64_t returned, const char *bytes, uint64_t version)
{
    add(called, returned, OP_SET, bytes)->version = version;
}

static void get(uint64_t called, uint64_t returned, const char *found, uint64_t version)
{
    struct op *o = add(called, returned, OP_GET, "");

    if (!found) {
        o->status = MUSTER_NOT_FOUND;
        return;
    }
    o->found_len = (uint32_t)strlen(found);
    memcpy(o->found, found, o->found_len);
    o->version = version;
}

static void cas(uint64_t called, uint64_t returned, uint64_t expected, const char *bytes, enum muster_status status,
                uint64_t version)
{
    struct op *o = add(called, returned, OP_CAS, bytes);

    o->expected = expected;
    o->status = status;
    o->version = version;
}

static void increment(uint64_t called, uint64_t returned, int64_t by, int64_t sum)
{
    struct op *o = add(called, returned, OP_INCREMENT, "");

    o->expected = (uint64_t)by;
    o->version = (uint64_t)sum;
}

static void append(uint64_t called, uint64_t returned, const char *bytes, uint32_t len)
{
    add(called, returned, OP_APPEND, bytes)->found_len = len;
}

static void delete (uint64_t called, uint64_t returned, uint64_t gone)
{
    add(called, returned, OP_DELETE, "")->version = gone;
}

static void insert(uint64_t called, uint64_t returned, const char *bytes, enum muster_status status)
{
    add(called, returned, OP_INSERT, bytes)->status = status;
}

static void judge(enum verdict wanted, const char *what)
{
    struct reg absent = {0};
    enum verdict v = history_check(&absent, ops, count, 1000000, NULL);

    if (v != wanted) {
        history_print(ops, count);
        fail_msg("%s: %s", what, v == LINEARIZABLE ? "accepted" : v == UNDECIDED ? "undecided" : "rejected");
    }
    count = 0;
}

TEST(good_histories_are_accepted)
{
    judge(LINEARIZABLE, "nothing");
    set(1, 2, "a", 1), get(3, 4, "a", 1), judge(LINEARIZABLE, "a write, then a read");
    set(1, 10, "a", 1), get(2, 3, NULL, 0), get(4, 5, "a", 1), judge(LINEARIZABLE, "a read before and one after");
    set(1, 10, "a", 2), set(1, 10, "b", 1), get(11, 12, "a", 2), judge(LINEARIZABLE, "two writes at once");
    increment(1, 9, 1, 2), increment(1, 9, 1, 3), increment(1, 9, 1, 1),
        judge(LINEARIZABLE, "three increments at once");
    append(1, 9, "a", 1), append(1, 9, "b", 2), get(10, 11, "ab", 7), judge(LINEARIZABLE, "two appends at once");
    set(1, 2, "a", 5), delete (3, 4, 1), insert(5, 6, "b", MUSTER_OK), get(7, 8, "b", 9);
    judge(LINEARIZABLE, "deleted and inserted again");
    set(1, 2, "a", 1), cas(3, 4, 1, "b", MUSTER_OK, 4), cas(5, 6, 1, "c", MUSTER_ABORTED, 4);
    judge(LINEARIZABLE, "a comparison that fails");
    cas(1, 2, 0, "a", MUSTER_OK, 1), cas(3, 4, 0, "b", MUSTER_ABORTED, 1), judge(LINEARIZABLE, "only if absent");
}

TEST(what_was_killed_may_have_happened_or_not_but_only_once_and_for_all)
{
    set(1, KILLED, "a", 0), get(5, 6, NULL, 0), judge(LINEARIZABLE, "it has not happened");
    set(1, KILLED, "a", 0), get(5, 6, "a", 3), judge(LINEARIZABLE, "it has happened");
    set(1, KILLED, "a", 0), get(5, 6, NULL, 0), get(7, 8, "a", 3), judge(LINEARIZABLE, "it happened later");
    set(1, KILLED, "a", 0), get(5, 6, "a", 3), get(7, 8, NULL, 0), judge(NOT_LINEARIZABLE, "it was undone");
    increment(1, KILLED, 1, 0), increment(5, 6, 1, 2), judge(LINEARIZABLE, "a killed increment counts");
    increment(1, KILLED, 1, 0), increment(5, 6, 1, 3), judge(NOT_LINEARIZABLE, "a killed increment counts twice");
    set(5, KILLED, "a", 0), get(1, 2, "a", 3), judge(NOT_LINEARIZABLE, "it was seen before it was called");
    cas(1, KILLED, 7, "a", MUSTER_OK, 0), get(5, 6, "a", 8),
        judge(NOT_LINEARIZABLE, "a killed comparison that could not match");
}

TEST(bad_histories_are_rejected)
{
    get(1, 2, "a", 1), judge(NOT_LINEARIZABLE, "a value that nobody wrote");
    set(1, 2, "a", 1), get(3, 4, NULL, 0), judge(NOT_LINEARIZABLE, "a lost write");
    set(1, 2, "a", 1), set(3, 4, "b", 2), get(5, 6, "a", 1), judge(NOT_LINEARIZABLE, "a stale read");
    set(1, 2, "a", 1), set(3, 20, "b", 2), get(4, 5, "b", 2), get(6, 7, "a", 1),
        judge(NOT_LINEARIZABLE, "new, then old");
    set(1, 2, "abcd", 1), set(1, 2, "wxyz", 2), get(3, 4, "abyz", 2), judge(NOT_LINEARIZABLE, "a torn read");
    set(1, 2, "a", 1), get(3, 4, "a", 2), judge(NOT_LINEARIZABLE, "a wrong version");
    set(1, 2, "a", 4), set(3, 4, "b", 3), judge(NOT_LINEARIZABLE, "a version that went back");
    set(1, 2, "a", 4), delete (3, 4, 1), set(5, 6, "b", 4),
        judge(NOT_LINEARIZABLE, "a version used again after a delete");
    set(1, 2, "a", 1), cas(3, 9, 1, "b", MUSTER_OK, 2), cas(3, 9, 1, "c", MUSTER_OK, 3);
    judge(NOT_LINEARIZABLE, "two winners of one comparison");
    set(1, 2, "a", 1), cas(3, 4, 1, "b", MUSTER_ABORTED, 1),
        judge(NOT_LINEARIZABLE, "a comparison that fails for nothing");
    set(1, 2, "a", 1), cas(3, 4, 2, "b", MUSTER_ABORTED, 3),
        judge(NOT_LINEARIZABLE, "a version found that was not there");
    increment(1, 9, 1, 1), increment(1, 9, 1, 1), judge(NOT_LINEARIZABLE, "a lost increment");
    increment(1, 2, 1, 2), judge(NOT_LINEARIZABLE, "a doubled increment");
    increment(1, 2, 5, 5), get(3, 4, "4", 9), judge(NOT_LINEARIZABLE, "a sum that is not what is read");
    append(1, 2, "a", 1), append(3, 4, "b", 2), get(5, 6, "ba", 9), judge(NOT_LINEARIZABLE, "appends out of order");
    append(1, 9, "a", 1), append(1, 9, "b", 1), judge(NOT_LINEARIZABLE, "a lost append");
    insert(1, 9, "a", MUSTER_OK), insert(1, 9, "b", MUSTER_OK), judge(NOT_LINEARIZABLE, "two first inserts");
    insert(1, 2, "a", MUSTER_ALREADY_EXISTS), judge(NOT_LINEARIZABLE, "an insert refused for nothing");
    set(1, 2, "a", 1), delete (3, 4, 0), judge(NOT_LINEARIZABLE, "a delete that found nothing");
    set(1, 2, "a", 1), delete (3, 4, 1), get(5, 6, "a", 1), judge(NOT_LINEARIZABLE, "read after delete");
    set(1, 2, "x", 1), increment(3, 4, 1, 1), judge(NOT_LINEARIZABLE, "a sum with what is no number");
}

/* 3 writers with 60 operations each, all at once: only the memory makes this end. */
TEST(large_windows_are_decided)
{
    struct reg absent = {0};
    uint64_t steps;

    for (int i = 0; i < 180; i++)
        increment((uint64_t)i, (uint64_t)i + 6, 1, i / 2 * 2 + 2 - i % 2);
    assert_int_equal(history_check(&absent, ops, count, 1000000, &steps), LINEARIZABLE);
    ops[90].version++;
    assert_int_equal(history_check(&absent, ops, count, 1000000, &steps), NOT_LINEARIZABLE);
    print_message("%llu configurations\n", (unsigned long long)steps);
    count = 0;
}
