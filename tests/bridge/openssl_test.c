/*
 * tests/bridge/openssl_test.c: OpenSSL is opened when it is needed, and what is missing is said.
 */
#include "cm.h"

#include <string.h>

#define MU_OPENSSL_ITSELF
#include "bridge/link/openssl.h"

static void expect_refusal(const char *library, const char *reason)
{
    char why[400] = "";

    assert_int_equal(mu_openssl_open(library, why, sizeof why), -1);
    assert_non_null(strstr(why, reason));
    assert_non_null(strstr(why, "apt-get install libssl3"));
    assert_null(mu_openssl.SSL_new);
}

TEST(a_library_that_is_missing_is_said_and_how_to_get_it)
{
    expect_refusal("libssl.so.of.nobody", "cannot load OpenSSL (libssl.so.of.nobody: ");
}

TEST(a_library_without_the_calls_is_not_used)
{
    expect_refusal("libc.so.6", "cannot use OpenSSL (");
}

/* Also after failures: and once it is there, nothing more is opened. */
TEST(the_one_that_muster_was_built_with_is_opened_once)
{
    char why[400] = "";

    assert_int_equal(mu_openssl_open(NULL, why, sizeof why), 0);
    assert_non_null(mu_openssl.SSL_new);
    assert_non_null(mu_openssl.TLS_method());
    assert_int_equal(mu_openssl_open("libssl.so.of.nobody", why, sizeof why), 0);
    assert_string_equal(why, "");
}
