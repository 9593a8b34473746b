/*
 * tests/compat/pmi1_map_test.c: which task is on which host, as PMI-1 says it.
 */
#include "cm.h"

#include <string.h>

#include "compat/pmi1.h"

TEST(the_mapping_is_without_a_blank)
{
    static const struct {
        uint32_t tasks[5], hosts;
        const char *text;
    } rows[] = {
        {{4}, 1, "(vector,(0,1,4))"},
        {{4, 4}, 2, "(vector,(0,2,4))"},
        {{1, 2, 2, 3, 3}, 5, "(vector,(0,1,1),(1,2,2),(3,2,3))"},
        {{0, 2, 2}, 3, "(vector,(1,2,2))"},
    };
    uint32_t many[400];
    char text[MU_PMI1_VALUE_MAX];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mu_pmi1_map(rows[i].tasks, rows[i].hosts, text, sizeof text);
        assert_string_equal(text, rows[i].text);
    }
    for (uint32_t i = 0; i < 400; i++)
        many[i] = 1 + i % 2;
    mu_pmi1_map(many, 400, text, sizeof text); /* longer than a value: the clients find out by themselves */
    assert_string_equal(text, "");
}
