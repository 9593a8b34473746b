/* tests/base/blob_test.c: bytes that several hold are there for as long as one does. */
#include "cm.h"

#include <string.h>

#include "base/account.h"
#include "base/blob.h"

TEST(the_last_holder_frees_it)
{
    struct mu_blob *blob = mu_blob_new(5), *other = mu_blob_hold(blob);
    const struct mu_slice slice = {blob, 2, 3}, none = {0};

    assert_ptr_equal(other, blob);
    assert_int_equal(blob->len, 5);
    memcpy(blob->bytes, "abcde", 5);
    mu_blob_drop(blob);
    assert_memory_equal(mu_slice_bytes(&slice), "cde", 3);
    assert_int_equal(other->holders, 1);
    mu_blob_drop(other);
    mu_blob_drop(NULL);
    assert_null(mu_slice_bytes(&none));
}

TEST(more_than_there_is_cannot_be_had)
{
    assert_null(mu_blob_new(SIZE_MAX));
    assert_null(mu_blob_new(SIZE_MAX - 8));
}

TEST(who_holds_much_leaves_as_much_as_it_has)
{
    struct mu_account a = {.most = 100, .kept = 40};

    assert_true(mu_account_take(&a, 0, 20));
    assert_false(mu_account_take(&a, 20, 11)); /* 31, and 29 would be left */
    assert_true(mu_account_take(&a, 20, 10));
    assert_true(mu_account_take(&a, 0, 15));
    assert_false(mu_account_take(&a, 0, 8));
    assert_false(mu_account_take_kept(&a, 26, 30));
    assert_true(mu_account_take_kept(&a, 25, 30));
    assert_false(mu_account_take(&a, 0, 1));
    assert_true(mu_account_take_kept(&a, 30, 0));
    assert_false(mu_account_take_kept(&a, 1, 0));
    mu_account_give(&a, 100);
    assert_int_equal(a.held, 0);
    assert_false(mu_account_take(&a, 0, SIZE_MAX));
    assert_false(mu_account_take_kept(&a, SIZE_MAX, 0));
}

TEST(a_counted_blob_counts_once_and_while_it_is_there)
{
    struct mu_account a = {.most = 200, .kept = 20};
    struct mu_blob *blob = mu_blob_new_in(&a, false, 40), *kept;

    assert_non_null(blob);
    assert_null(mu_blob_new_in(&a, false, 80));
    kept = mu_blob_new_in(&a, true, 150);
    assert_non_null(kept);
    mu_blob_drop(kept);
    blob = mu_blob_grow(&a, blob, 60);
    assert_int_equal(a.held, 60);
    assert_null(mu_blob_grow(&a, blob, 150));
    mu_blob_cut(blob, 10);
    assert_int_equal(a.held, 10);
    mu_blob_hold(blob);
    assert_int_equal(a.held, 10);
    mu_blob_drop(blob);
    mu_blob_drop(blob);
    assert_int_equal(a.held, 0);
}

TEST(a_seat_forgets_who_has_gone)
{
    struct mu_blob *first = mu_blob_new(1), *second = mu_blob_new(1), *seat = NULL;

    mu_blob_sit(first, &seat);
    assert_ptr_equal(seat, first);
    mu_blob_sit(second, &seat);
    mu_blob_drop(first);
    assert_ptr_equal(seat, second);
    mu_blob_drop(second);
    assert_null(seat);
}
