/*
 * tests/rpc/workers_test.c: where workers are: the lists that people write, and what TF_CONFIG says.
 */
#include "cm.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/worker.h"

static void refuse(const char *list, uint32_t tasks, const char *words)
{
    assert_status(MUSTER_INVALID_ARGUMENT, mu_workers_check(list, tasks));
    assert_says(words);
}

TEST(lists_are_checked)
{
    char longer[400];

    assert_status(MUSTER_OK, mu_workers_check("a:1,10.0.0.1:2,[::1]:3", 3));
    assert_status(MUSTER_OK, mu_workers_check("grpc://a:1", 1));
    assert_status(MUSTER_OK, mu_workers_check("n{rank}:2222", 8192));
    assert_status(MUSTER_OK, mu_workers_check("n:222{rank}", 10));
    refuse("n:{rank}", 2, "'n:0' is no address of a worker: write HOST:PORT");
    refuse("n:6553{rank}", 7, "'n:65536' is no address");
    refuse("a:1", 2, "the list of workers has 1 addresses, and the job 2 tasks");
    refuse("a:1,b:2", 1, "has 2 addresses");
    refuse("a:1,", 2, "'' is no address");
    refuse("", 1, "'' is no address");
    refuse(":1", 1, "':1' is no address");
    refuse("a", 1, "'a' is no address");
    refuse("a:0", 1, "'a:0' is no address");
    refuse("::1:1", 1, "is no address");
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    refuse(longer, 1, "...' is no address");
}

static void find(const char *json, uint32_t tasks, const char *wanted)
{
    char *list = mu_workers_of_config(json, tasks);

    if (wanted) {
        assert_non_null(list);
        assert_string_equal(list, wanted);
    } else {
        assert_null(list);
    }
    free(list);
}

TEST(a_cluster_is_found)
{
    find("{\"cluster\": {\"worker\": [\"a:1\", \"b:2\"], \"ps\": [\"c:3\"]}, \"task\": {\"type\": \"worker\"}}", 2,
         "a:1,b:2");
    find(" { \"task\" : { \"index\" : 0, \"x\": [[1e5, null], {\"y\": \"}\\\"]\"}] } ,\n\t\"cluster\":{\"ps\":[],"
         "\"worker\":[\"grpc://[::1]:2\"]}}",
         1, "grpc://[::1]:2");
    find("{\"cluster\": {\"worker\": [\"a:1\", \"b:2\"]}}", 3, NULL);
    find("{\"cluster\": {\"chief\": [\"a:1\"]}}", 1, NULL);
    find("{\"cluster\": {\"worker\": [\"a\"]}}", 1, NULL);
    find("{\"cluster\": {\"worker\": {\"1\": \"a:1\"}}}", 1, NULL); /* a sparse one */
    find("{\"cluster\": {\"worker\": []}}", 0, NULL);
    find("", 1, NULL);
    find("[]", 1, NULL);
    find("null", 1, NULL);
}

/* Each beginning of it, and it with each byte another: ASan looks for what is read beyond the end. */
TEST(what_is_damaged_is_none_or_another)
{
    static const char whole[] =
        "{\"t\":[1,{\"a\":\"\\\\\"}],\"cluster\":{\"ps\":[\"c:3\"],\"worker\":[\"a:1\",\"b:2\"]}}";
    char *copy;

    for (size_t len = 0; len < sizeof whole - 3; len++) {
        copy = strndup(whole, len);
        find(copy, 2, NULL);
        free(copy);
    }
    for (size_t at = 0; at < sizeof whole - 1; at++)
        for (int byte = 0; byte < 256; byte++) {
            copy = strdup(whole);
            copy[at] = (char)byte;
            free(mu_workers_of_config(copy, 2));
            free(copy);
        }
    copy = malloc(100001);
    memset(copy, '[', 100000);
    memcpy(copy, "{\"x\":", 5);
    copy[100000] = 0;
    find(copy, 2, NULL);
    free(copy);
}
