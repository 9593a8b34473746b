/*
 * tests/agent/orders_test.c: what the leader's agent tells the others comes as it was said, less the variables that are
 * its host's own; every beginning of it, and every damaged byte, is refused or harmless; another version is named.
 */
#include "cm.h"

#include <stdlib.h>
#include <string.h>

#include "agent/hosts/orders.h"

static char *words[] = {"--hosts", "a:1,b:1", "--label", "--", "sh", "-c", "echo \"it's\" $RANK", "", NULL};
static char *env[] = {"A=1",
                      "B=two words\nand a line",
                      "SSH_CLIENT=10.0.0.1",
                      "MUSTER_KEY=secret",
                      "TMPDIR=/x",
                      "DISPLAY=:0",
                      "XDG_RUNTIME_DIR=/run",
                      "EMPTY=",
                      "HOSTNAME=a",
                      NULL};

static struct mu_agent_orders orders_of(void)
{
    return (struct mu_agent_orders){.attempt = 3,
                                    .colour = {0, 1, 0},
                                    .serves = 1,
                                    .shutdown_barrier = 1,
                                    .ports = {4711, 4712},
                                    .master = "fd00::1",
                                    .directory = "/home/me/job",
                                    .words = words,
                                    .env = env};
}

TEST(orders_come_as_they_were_given)
{
    struct mu_agent_orders orders = orders_of(), got;
    struct mu_pack p = {.bytes = NULL};

    mu_agent_orders_pack(&p, &orders);
    assert_false(p.failed);
    assert_int_equal(mu_agent_orders_unpack(p.bytes, p.len, &got), MUSTER_OK);
    assert_int_equal(got.attempt, 3);
    assert_int_equal(got.colour[1], 1);
    assert_int_equal(got.colour[2], 0);
    assert_int_equal(got.serves, 1);
    assert_int_equal(got.register_barrier, 0);
    assert_int_equal(got.shutdown_barrier, 1);
    assert_int_equal(got.ports[0], 4711);
    assert_int_equal(got.ports[1], 4712);
    assert_string_equal(got.master, "fd00::1");
    assert_string_equal(got.directory, "/home/me/job");
    for (size_t i = 0; words[i]; i++)
        assert_string_equal(got.words[i], words[i]);
    assert_null(got.words[8]);
    assert_string_equal(got.env[0], "A=1");
    assert_string_equal(got.env[1], "B=two words\nand a line");
    assert_string_equal(got.env[2], "EMPTY=");
    assert_null(got.env[3]);
    mu_agent_orders_done(&got);
    mu_pack_done(&p);

    orders.words = NULL; /* each agent has its own */
    mu_agent_orders_pack(&p, &orders);
    assert_int_equal(mu_agent_orders_unpack(p.bytes, p.len, &got), MUSTER_OK);
    assert_null(got.words);
    assert_null(got.env);
    mu_agent_orders_done(&got);
    mu_pack_done(&p);
}

TEST(what_is_damaged_is_refused)
{
    struct mu_agent_orders orders = orders_of(), got;
    struct mu_pack p = {.bytes = NULL};

    mu_agent_orders_pack(&p, &orders);
    for (size_t len = 0; len < p.len; len++) {
        uint8_t *some = malloc(len + 1); /* its end is where a sanitizer sees it */

        memcpy(some, p.bytes, len);
        some = realloc(some, len ? len : 1);
        assert_int_not_equal(mu_agent_orders_unpack(some, len, &got), MUSTER_OK);
        free(some);
    }
    for (size_t i = 0; i < p.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            p.bytes[i] ^= (uint8_t)(1 << bit);
            if (mu_agent_orders_unpack(p.bytes, p.len, &got) == MUSTER_OK)
                mu_agent_orders_done(&got);
            p.bytes[i] ^= (uint8_t)(1 << bit);
        }
    mu_pack_u8(&p, 0); /* something behind the end */
    assert_int_equal(mu_agent_orders_unpack(p.bytes, p.len, &got), MUSTER_DATA_LOSS);
    mu_pack_done(&p);
}

TEST(another_version_is_named)
{
    struct mu_agent_orders orders = orders_of(), got;
    struct mu_pack p = {.bytes = NULL};

    mu_agent_orders_pack(&p, &orders);
    p.bytes[8]++; /* the first letter of the version */
    assert_int_equal(mu_agent_orders_unpack(p.bytes, p.len, &got), MUSTER_FAILED_PRECONDITION);
    assert_non_null(strstr(muster_last_error(), "this host has muster "));
    assert_non_null(strstr(muster_last_error(), "they must be the same"));
    mu_pack_done(&p);
}
