/*
 * accel/stream_lines.c: the protocol of the stream barrier on its shared words.
 *
 * Round n of a member: write n into my word, then wait for each other's word to be at least n. A word is written by one
 * stream only, which executes its operations in order, so it only grows; a member that has seen n in all words knows
 * that all have arrived. A write comes after all that the stream did before it, for all that see it (the executor's
 * duty: CUDA's write has a fence before it, the tests' a release), and what follows a wait comes after it (an acquire).
 *
 * Release. A wait compares 64 bits, of which the stream that arrives writes the low half only. Storing 1 into the high
 * half opens every wait on the word, now and for ever: nothing that a GPU still has in its queue can take it back, be
 * its process dead, dying, or alive and in error. (One flag of 32 bits, into which the releaser stores a large number,
 * has that flaw: the owner's next write puts the small one back, and the survivors hang again.) Reading the halves at
 * different times does no harm: each only grows, and either alone is reason enough to go on.
 *
 * Numbers. The low half counts 1 to 2^31, then the other word of the line is used from 1 on. It must be 0 by then: its
 * owner writes that as part of round 2^30 of each epoch. Then all members are past round 2^30 - 2, so nobody waits on
 * it with a number of the epoch before; and all see the 0 before they wait on it again, for their streams pass rounds
 * in between.
 *
 * Failure is one CAS of the word `failed`, which holds the last round that all were seen to have arrived at, and the
 * member to blame. It comes before any release: a stream that was let go by force finds it set. Rounds up to that
 * number are sound for everybody: all arrivals had been seen, and through them all that came before, before the first
 * release. A SIGKILL before the CAS changes nothing; after it, or between the releases, the survivors' watchdogs, which
 * find the dead or the word, do the same stores again.
 */
#include <stddef.h>

#include "accel/stream.h"
#include "sync/futex.h"

static_assert(sizeof(struct mu_stream_line) == MU_LINE && sizeof(struct mu_stream_note) == MU_LINE &&
                  offsetof(struct mu_stream_page, failed) == MU_LINE &&
                  offsetof(struct mu_stream_page, lines) == 2 * MU_LINE,
              "one line, one writer");
static_assert(offsetof(struct mu_stream_word, released) == 4, "the high half: little-endian only");

/* The round's epoch, and its number in it, from 1 on. */
static uint64_t epoch_of(uint64_t round)
{
    return (round - 1) / MU_STREAM_EPOCH;
}

static uint32_t number_of(uint64_t round)
{
    return (uint32_t)((round - 1) % MU_STREAM_EPOCH) + 1;
}

static uint32_t offset_of(uint32_t rank, uint64_t epoch)
{
    return (uint32_t)(offsetof(struct mu_stream_page, lines) + rank * sizeof(struct mu_stream_line) +
                      (epoch & 1) * sizeof(struct mu_stream_word));
}

void mu_stream_format(struct mu_stream_page *page, uint32_t size, uint64_t first)
{
    page->size = size;
    for (uint32_t i = 0; i < size && first > 1; i++) {
        uint64_t epoch = epoch_of(first - 1);
        struct mu_stream_word *words = page->lines[i].words;

        /* relaxed, as all here: the members map the memory later */
        mu_store32_relaxed(&words[epoch & 1].arrived, number_of(first - 1));
        if (epoch && number_of(first - 1) < MU_STREAM_RESET) /* left from the epoch before */
            mu_store32_relaxed(&words[~epoch & 1].arrived, (uint32_t)MU_STREAM_EPOCH);
    }
}

uint32_t mu_stream_plan(uint32_t rank, uint32_t size, uint64_t round, struct mu_stream_op ops[MU_STREAM_OPS_MAX])
{
    uint64_t epoch = epoch_of(round);
    uint32_t number = number_of(round), n = 0;

    if (number == MU_STREAM_RESET)
        ops[n++] = (struct mu_stream_op){MU_STREAM_WRITE_32, offset_of(rank, epoch + 1), 0};
    ops[n++] = (struct mu_stream_op){MU_STREAM_WRITE_32, offset_of(rank, epoch), number};
    for (uint32_t k = 1; k < size; k++) /* each begins with its neighbour: not all poll the same line at once */
        ops[n++] = (struct mu_stream_op){MU_STREAM_WAIT_64, offset_of((rank + k) % size, epoch), number};
    return n;
}

/*
 * The member is at most one round ahead of the caller, and less than 2^30 behind what the caller has enqueued
 * (MU_STREAM_AHEAD). So its round is in the epoch of the caller's next one or in that before; and then its word of the
 * newer epoch has been set back to 0.
 */
uint64_t mu_stream_arrived(const struct mu_stream_page *page, uint32_t rank, uint64_t enqueued)
{
    const struct mu_stream_word *words = page->lines[rank].words;
    uint64_t epoch = epoch_of(enqueued + 1);
    /* acquire: pairs with the owner's write, before which comes all that it did in the rounds before */
    uint32_t newer = mu_load32_acquire(&words[epoch & 1].arrived);

    if (newer || !epoch)
        return epoch * MU_STREAM_EPOCH + newer;
    return (epoch - 1) * MU_STREAM_EPOCH + mu_load32_acquire(&words[~epoch & 1].arrived); /* acquire: likewise */
}

uint64_t mu_stream_good(const struct mu_stream_page *page, uint32_t size, uint64_t enqueued)
{
    uint64_t good = UINT64_MAX;

    for (uint32_t i = 0; i < size; i++) {
        uint64_t arrived = mu_stream_arrived(page, i, enqueued);

        good = arrived < good ? arrived : good;
    }
    return good;
}

void mu_stream_fail(struct mu_stream_page *page, uint32_t size, uint64_t enqueued, uint32_t rank,
                    enum mu_stream_cause cause)
{
    /* acquire: pairs with the CAS below, in another process: what it read is final */
    if (!mu_load_acquire(&page->failed))
        /* acq_rel: after the loads of the arrivals, before the releases */
        mu_cas(&page->failed, 0, MU_STREAM_FAILED(mu_stream_good(page, size, enqueued), rank, cause));
    for (uint32_t i = 0; i < size; i++)
        for (uint32_t k = 0; k < 2; k++)
            /* release: a member let go by this finds `failed` set; pairs with the executor's wait */
            mu_store32_release(&page->lines[i].words[k].released, 1);
    mu_futex_wake(&page->failed);
}
