/*
 * tests/base/error_test.c: status names, the last sentence, deadlines.
 */
#include "cm.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/error.h"

TEST(every_code_has_a_name_that_leads_back_to_it)
{
    static const char *const names[] = {
        "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS"};

    for (int i = 0; i < 16; i++) { /* the numbers are those of the protocols */
        assert_string_equal(muster_status_name((enum muster_status)i), names[i]);
        assert_int_equal(muster_status_from_name(names[i]), i);
    }
    assert_int_equal(muster_status_from_name("not_found"), MUSTER_NOT_FOUND);
    assert_int_equal(muster_status_from_name("Not_Found"), MUSTER_NOT_FOUND);
}

TEST(what_is_no_code_has_no_name)
{
    static const int numbers[] = {16, 17, 100, -1, INT32_MIN, INT32_MAX};
    static const char *const names[] = {"", "?", "OKAY", "NOT FOUND", " OK", "OK ", "16"};

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        assert_string_equal(muster_status_name((enum muster_status)numbers[i]), "?");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(muster_status_from_name(names[i]), MUSTER_UNKNOWN);
    assert_int_equal(muster_status_from_name(NULL), MUSTER_UNKNOWN);
}

TEST(a_failure_is_one_line_that_keeps_errno)
{
    errno = ENOTTY;
    assert_int_equal(mu_fail(MUSTER_NOT_FOUND, "key %s not found in %d", "a/b", 7), MUSTER_NOT_FOUND);
    assert_int_equal(errno, ENOTTY);
    assert_string_equal(muster_last_error(), "key a/b not found in 7");
    mu_fail(MUSTER_INTERNAL, "again: %s", muster_last_error()); /* a sentence may quote the last one */
    assert_string_equal(muster_last_error(), "again: key a/b not found in 7");
}

TEST(a_long_sentence_is_cut)
{
    static char text[5000];

    memset(text, 'x', sizeof text - 1);
    mu_fail(MUSTER_INTERNAL, "%s", text);
    assert_true(strlen(muster_last_error()) > 500 && strlen(muster_last_error()) < 2000);
}

static void *fails_in_its_own_thread(void *arg)
{
    (void)arg;
    if (strcmp(muster_last_error(), ""))
        return "not empty at first";
    mu_fail(MUSTER_INTERNAL, "the other thread's");
    return NULL;
}

TEST(each_thread_has_its_own_sentence)
{
    pthread_t thread;
    void *complaint;

    mu_fail(MUSTER_INTERNAL, "mine");
    assert_int_equal(pthread_create(&thread, NULL, fails_in_its_own_thread, NULL), 0);
    pthread_join(thread, &complaint);
    assert_null(complaint);
    assert_string_equal(muster_last_error(), "mine");
}

TEST(deadlines_saturate_instead_of_wrapping)
{
    uint64_t before = muster_now_ns(), d;

    assert_true(muster_after_ns(UINT64_MAX) == MUSTER_FOREVER);
    assert_true(muster_after_ns(MUSTER_FOREVER - 1) == MUSTER_FOREVER);
    assert_true(muster_after_ms(-1) == MUSTER_FOREVER);
    assert_true(muster_after_ms(INT64_MIN) == MUSTER_FOREVER);
    assert_true(muster_after_ms(INT64_MAX) == MUSTER_FOREVER);
    d = muster_after_ms(1000);
    assert_true(d >= before + 1000000000u && d <= muster_now_ns() + 1000000000u);
    d = muster_after_ns(0);
    assert_true(d >= before && d <= muster_now_ns());
}
