/*
 * tests/bridge/state_test.c: the table of a connection's life: whole, sound, and the same as in PROTOCOL.md.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/core/frame.h"
#include "bridge/link/state.h"

/* Any event in any state on any side: it is in the table exactly once, or refused. */
TEST(each_pair_has_one_answer)
{
    enum mu_link_state next;

    for (unsigned s = 0; s < MU_LINK_STATES; s++)
        for (unsigned e = 0; e < MU_LINK_EVENTS; e++)
            for (unsigned side = 1; side <= 2; side++) {
                unsigned rows = 0;

                for (unsigned i = 0; i < mu_link_rows_count; i++)
                    rows += mu_link_rows[i].state == s && mu_link_rows[i].event == e && (mu_link_rows[i].side & side);
                assert_true(rows <= 1);
                assert_int_equal(mu_link_step(s, e, side, &next), rows);
            }
}

TEST(whoever_is_open_can_be_broken_and_nobody_is_stuck)
{
    enum mu_link_state next;

    for (unsigned side = 1; side <= 2; side++)
        for (unsigned s = 0; s < MU_LINK_STATES; s++) {
            bool is_lived = s != MU_LINK_CLOSED && !(s == MU_LINK_CONNECTING && side == MU_LINK_LEADER) &&
                            !(s == MU_LINK_JOINING && side == MU_LINK_FOLLOWER);

            assert_int_equal(mu_link_step(s, MU_LINK_BROKEN, side, &next), is_lived);
            if (is_lived)
                assert_int_equal(next, MU_LINK_CLOSED);
        }
}

TEST(nothing_of_the_owners_is_heard_before_up)
{
    enum mu_link_state next;

    for (unsigned type = MU_FRAME_OWNER; type < 256; type++)
        for (unsigned s = 0; s < MU_LINK_STATES; s++)
            for (unsigned side = 1; side <= 2; side++)
                assert_int_equal(mu_link_step(s, mu_link_event_of((uint8_t)type), side, &next), s == MU_LINK_UP);
    for (unsigned s = 0; s < MU_LINK_STATES; s++) /* types of the link that it does not have */
        for (unsigned type = MU_FRAME_TRIP + 1; type < MU_FRAME_OWNER; type++)
            assert_false(mu_link_step(s, mu_link_event_of((uint8_t)type), MU_LINK_LEADER, &next));
}

TEST(the_document_has_the_same_rows)
{
    static const char *const sides[] = {"?", "leader", "follower", "both"};
    FILE *f = fopen("src/bridge/PROTOCOL.md", "r");
    char line[512], expected[128];
    unsigned row = 0;
    bool inside = false;

    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (strcmp(line, "| state | event | side | next |\n") == 0 && fgets(line, sizeof line, f))
            inside = true;
        else if (inside && line[0] == '|') {
            const struct mu_link_row *r = &mu_link_rows[row++];

            assert_true(row <= mu_link_rows_count);
            snprintf(expected, sizeof expected, "| %s | %s | %s | %s |\n", mu_link_state_name(r->state),
                     mu_link_event_name(r->event), sides[r->side], mu_link_state_name(r->next));
            assert_string_equal(line, expected);
        } else
            inside = false;
    }
    fclose(f);
    assert_int_equal(row, mu_link_rows_count);
}

TEST(the_document_has_a_section_for_each_frame_of_the_link)
{
    FILE *f = fopen("src/bridge/PROTOCOL.md", "r");
    bool seen[MU_FRAME_OWNER] = {false};
    char line[512], expected[64];

    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        unsigned type = strncmp(line, "## ", 3) == 0 ? (unsigned)strtoul(line + 3, NULL, 10) : 0;

        if (type == 0 || type >= MU_FRAME_OWNER)
            continue;
        snprintf(expected, sizeof expected, "## %u %s\n", type, mu_link_event_name(mu_link_event_of((uint8_t)type)));
        assert_string_equal(line, expected);
        seen[type] = true;
    }
    fclose(f);
    for (unsigned type = MU_FRAME_JOIN; type <= MU_FRAME_TRIP; type++)
        assert_true(seen[type]);
}
