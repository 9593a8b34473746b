/*
 * tests/bridge/link_early_test.c: a leader's port is told before OpenSSL is opened, and who comes in between is taken.
 *
 * Apart from link_test.c, because OpenSSL is opened once in a process.
 */
#include "cm.h"

#include <string.h>

#define MU_OPENSSL_ITSELF
#include "bridge/link/openssl.h"
#include "ends.h"

static struct end leader, follower;
static struct end *const all[] = {&leader, &follower};

static struct {
    unsigned count;
    bool was_open;
    char address[64];
    struct end *comes; /* at once */
} told;

static void on_listens(void *arg, const char *address)
{
    (void)arg;
    told.count++;
    told.was_open = mu_openssl.SSL_new != NULL;
    snprintf(told.address, sizeof told.address, "%s", address);
    if (!told.comes)
        return;
    told.comes->options.address = told.address;
    end_connect(told.comes, NULL, 3); /* opens OpenSSL, and begins */
    ends_turn(&told.comes, 1);        /* it has connected, and been sent its first words */
}

static int setup(void)
{
    end_init(&leader);
    end_init(&follower);
    memset(&told, 0, sizeof told);
    leader.options.key = follower.options.key = end_key;
    leader.options.events.listens = on_listens;
    return 0;
}

static int teardown(void)
{
    ends_free(all, 2);
    return 0;
}

/* The first: nothing has opened OpenSSL yet. */
TEST_WITH(the_port_is_told_before_openssl_is_opened, setup, teardown)
{
    end_listen(&leader);
    assert_int_equal(told.count, 1);
    assert_string_equal(told.address, mu_link_address(leader.link));
    assert_false(told.was_open);
    assert_non_null(mu_openssl.SSL_new);
}

TEST_WITH(who_comes_before_openssl_is_open_is_taken, setup, teardown)
{
    told.comes = &follower;
    end_listen(&leader);
    assert_int_equal(told.count, 1);
    ends_await(all, 2, leader.is_up[3] && follower.is_up[0], "both are up");
}

/* What can be known before is said before: nobody is called. */
TEST_WITH(nobody_is_called_where_nobody_could_come, setup, teardown)
{
    leader.options.address = "0.0.0.0:0";
    leader.options.certificate = "/nonexistent/cert.pem";
    assert_int_equal(mu_link_listen(&leader.options, &leader.link), MUSTER_INVALID_ARGUMENT);
    leader.options.certificate = NULL;
    leader.options.key = NULL;
    assert_int_equal(mu_link_listen(&leader.options, &leader.link), MUSTER_FAILED_PRECONDITION);
    assert_int_equal(told.count, 0);
    assert_null(leader.link);
}
