/* tests/base/blob_test.c: bytes that several hold are there for as long as one does. */
#include "cm.h"

#include <string.h>

#include "base/blob.h"

static void the_last_holder_frees_it(void **state)
{
    struct mu_blob *blob = mu_blob_new(5), *other = mu_blob_hold(blob);
    const struct mu_slice slice = {blob, 2, 3}, none = {0};

    (void)state;
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

static void more_than_there_is_cannot_be_had(void **state)
{
    (void)state;
    assert_null(mu_blob_new(SIZE_MAX));
    assert_null(mu_blob_new(SIZE_MAX - 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_holder_frees_it),
        cmocka_unit_test(more_than_there_is_cannot_be_had),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
