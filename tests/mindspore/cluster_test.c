/*
 * tests/mindspore/cluster_test.c: the cluster without sockets: what takes too long, or too many nodes, for real ones.
 */
#include "cm.h"

#include "mindspore/private.h"

static uint32_t pushes, beats;

static void on_push(void *arg, struct mu_ms_node *node, Mu__Ms__Command command, const void *body, size_t len)
{
    (void)arg, (void)node, (void)command, (void)body, (void)len;
    pushes++;
}

static void on_beat(void *arg, struct mu_ms_node *node, const void *body, size_t len)
{
    (void)arg, (void)node, (void)body, (void)len;
    beats++;
}

static void on_gone(void *arg, struct mu_ms_node *node)
{
    (void)arg, (void)node;
}

static void on_said(void *arg, const char *sentence)
{
    (void)arg, (void)sentence;
}

static struct mu_ms_cluster cluster_of(uint32_t servers)
{
    return (struct mu_ms_cluster){.out = {on_push, on_beat, on_gone, on_said, NULL},
                                  .want = {servers, 0},
                                  .wanted_first = {servers, 0},
                                  .scale_ns = 60000000000u,
                                  .silence_ns = 30000000000u};
}

/* The connection is a name only: nothing looks into it. */
static struct mu_ms_node *node_register(struct mu_ms_cluster *c, uint32_t number, uint32_t claim, uint64_t now)
{
    static char conns[MU_MS_NODES_MAX];
    struct mu_ms_node *node = NULL;
    char id[16];

    snprintf(id, sizeof id, "n%u", number);
    assert_null(mu_ms_cluster_register(c,
                                       &(struct mu_ms_register){.id = id, .ip = "127.0.0.1", .port = 1, .claim = claim},
                                       (struct mu_ms_conn *)&conns[number], now, &node));
    mu_ms_cluster_go_on(c, now);
    return node;
}

TEST(each_of_the_most_nodes_has_a_rank_of_its_own)
{
    struct mu_ms_cluster c = cluster_of(MU_MS_NODES_MAX);
    static bool taken[MU_MS_NODES_MAX];

    for (uint32_t i = 0; i < MU_MS_NODES_MAX; i++) {
        uint32_t claim = i % 3 ? MU_MS_NO_RANK : MU_MS_NODES_MAX - 1 - i, rank = node_register(&c, i, claim, 1)->rank;

        assert_true(rank < MU_MS_NODES_MAX && !taken[rank]);
        taken[rank] = true;
    }
    assert_int_equal(c.state, MU__MS__STATE__READY);
    assert_int_equal(pushes, MU_MS_NODES_MAX);
    mu_ms_cluster_free(&c);
}

TEST(a_node_that_has_finished_and_stays_keeps_no_other_cluster_out)
{
    struct mu_ms_cluster c = cluster_of(2);
    struct mu_ms_node *nodes[2] = {node_register(&c, 0, MU_MS_NO_RANK, 1), node_register(&c, 1, MU_MS_NO_RANK, 1)};

    mu_ms_cluster_finish(&c, nodes[0]);
    mu_ms_cluster_finish(&c, nodes[1]);
    assert_int_equal(c.state, MU__MS__STATE__EXIT);
    mu_ms_cluster_tick(&c, 30000000000u);
    assert_int_equal(c.state, MU__MS__STATE__EXIT); /* they may be about to end */
    mu_ms_cluster_tick(&c, 30000000002u);
    assert_int_equal(c.state, MU__MS__STATE__STARTING);
    node_register(&c, 0, MU_MS_NO_RANK, 30000000003u);
    mu_ms_cluster_free(&c);
}

TEST(nodes_that_never_say_that_they_are_done_end_the_scaling_together)
{
    struct mu_ms_cluster c = cluster_of(3);

    for (uint32_t i = 0; i < 3; i++)
        node_register(&c, i, MU_MS_NO_RANK, 1);
    assert_null(mu_ms_scale_out(&c, 0, 1, 2));
    for (uint32_t i = 0; i < 4; i++)
        node_register(&c, i, MU_MS_NO_RANK, 3);
    assert_true(c.is_told);
    for (struct mu_ms_node *n = c.nodes; n; n = n->next)
        n->heard_ns = 90000000000u;
    mu_ms_cluster_tick(&c, 60000000002u);
    assert_int_equal(c.state, MU__MS__STATE__SCALING_OUT);
    mu_ms_cluster_tick(&c, 60000000004u);
    assert_int_equal(c.state, MU__MS__STATE__NODE_TIMEOUT); /* all at once, not one each minute */
    mu_ms_cluster_free(&c);
}
