/*
 * tests/layout/lines_test.c: invariant I9: what different processes write often lies on lines of its own, 128 bytes
 * apart, wherever in a segment it is.
 *
 * layout_test.c says that the format is the one that is kept; this, that the kept one is no worse than it should be.
 * What is shared by its nature, and may lie close together: the words of buckets, cells and events, and the heartbeats
 * that front-ends bring.
 */
#include "cm.h"

#include <string.h>

#include <muster/group.h>

#include "barrier/entry.h"
#include "segment/format.h"
#include "segment/heap.h"

/* Words of the header that change, each with writers of its own. */
TEST(each_changing_word_of_the_header_has_a_line)
{
    static const size_t words[] = {offsetof(struct mu_header, state),      offsetof(struct mu_header, epoch),
                                   offsetof(struct mu_header, cluster),    offsetof(struct mu_header, event_tail),
                                   offsetof(struct mu_header, slots_high), offsetof(struct mu_header, wanted),
                                   offsetof(struct mu_header, bell),       offsetof(struct mu_header, bridge)};

    assert_true(offsetof(struct mu_header, reserved1) / MU_LINE < words[0] / MU_LINE); /* behind what is constant */
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_int_equal(words[i] % MU_LINE, 0);
        assert_true(i == 0 || words[i] >= words[i - 1] + MU_LINE);
    }
}

TEST(no_two_slots_hosts_or_sections_share_a_line)
{
    static const struct muster_segment_config sizes[] = {
        {.num_tasks = 1},
        {.num_tasks = 3, .num_slots = 7, .num_buckets = 1, .num_events = 1},
        {.num_tasks = 2, .trace_events = 64},
        {.num_tasks = 8192, .num_slots = 16000}};
    uint32_t own[2];

    assert_int_equal(sizeof(struct mu_slot) % MU_LINE, 0);
    assert_int_equal(sizeof(struct mu_host) % MU_LINE, 0);
    assert_int_equal(sizeof(struct mu_ring) % MU_LINE, 0);
    /* the owner's pulse, the intent that only scavengers of the dead read, and the words that claimers look at */
    assert_int_not_equal(offsetof(struct mu_slot, heartbeat) / MU_LINE, offsetof(struct mu_slot, word) / MU_LINE);
    assert_int_not_equal(offsetof(struct mu_slot, act) / MU_LINE, offsetof(struct mu_slot, word) / MU_LINE);
    assert_int_not_equal(offsetof(struct mu_slot, act) / MU_LINE, offsetof(struct mu_slot, heartbeat) / MU_LINE);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int several = 0; several < 2; several++) {
            struct mu_hosts_config hosts = {.num_hosts = 2, .num_tasks = own};
            struct mu_header h;

            if (several && sizes[i].num_tasks < 2)
                continue;
            own[0] = 1;
            own[1] = sizes[i].num_tasks - 1;
            assert_int_equal(mu_format_plan_hosts("lines", &sizes[i], several ? &hosts : NULL, &h), MUSTER_OK);
            for (int k = 0; k < 9; k++) {
                const uint64_t offsets[] = {h.slots_offset,  h.beats_offset, h.chunks_offset,
                                            h.events_offset, h.cells_offset, h.buckets_offset,
                                            h.hosts_offset,  h.heap_offset,  h.trace_offset};

                assert_int_equal(offsets[k] % MU_LINE, 0);
            }
        }
}

/* A member's area lies in a block, and blocks begin at multiples of 64 bytes: those that hold areas, of 128. */
TEST(the_words_of_a_groups_member_have_lines_whatever_its_data)
{
    for (uint32_t bytes = 0; bytes <= MUSTER_GROUP_DATA_MAX; bytes += 8) {
        uint32_t c = mu_heap_class(mu_area_bytes(bytes));

        assert_true(c < MU_CLASSES);
        assert_int_equal(mu_class_granules[c] * MU_GRANULE % MU_LINE, 0);
    }
    assert_int_equal(MU_CHUNK % MU_LINE, 0);
    assert_int_equal((MU_BLOCK_HEADER + offsetof(struct mu_area, arrived)) % MU_LINE, 0);
    assert_int_equal((MU_BLOCK_HEADER + offsetof(struct mu_area, sign)) % MU_LINE, 0);
    assert_true(offsetof(struct mu_area, sign) >= offsetof(struct mu_area, arrived) + MU_LINE);
    assert_int_equal(sizeof(((struct mu_area *)0)->sign[0]), MU_LINE);
    assert_true(offsetof(struct mu_area, data) >= offsetof(struct mu_area, sign) + 2 * MU_LINE);
}
