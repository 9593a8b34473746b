/*
 * tests/bridge/frame_test.c: frames byte by byte, every field at its extremes, and streams cut at every place.
 */
#include "cm.h"

#include <stdlib.h>
#include <string.h>

#include "bridge/core/frame.h"

static const struct mu_frame_header sound = {
    .magic = MU_FRAME_MAGIC, .version = MU_BRIDGE_VERSION, .type = 16, .length = 5};

static struct mu_frame_reader reader;
static struct mu_message message;

static int setup(void)
{
    mu_frame_reader_init(&reader, MU_FRAME_MESSAGE);
    return 0;
}

static int teardown(void)
{
    mu_frame_reader_done(&reader);
    return 0;
}

/* What the reader says to this header alone. */
static enum mu_frame_fault fault_of(struct mu_frame_header h)
{
    uint8_t bytes[MU_FRAME_HEADER];
    const uint8_t *at = bytes;
    size_t left = sizeof bytes;
    struct mu_frame_reader r;
    enum mu_frame_fault fault;

    mu_frame_put(bytes, &h);
    mu_frame_reader_init(&r, MU_FRAME_MESSAGE);
    mu_frame_read(&r, &at, &left, &message);
    fault = r.fault;
    if (fault) { /* nothing was allocated for it, and it stays refused */
        assert_null(r.body);
        left = 0;
        assert_int_equal(mu_frame_read(&r, &at, &left, &message), -1);
    }
    mu_frame_reader_done(&r);
    return fault;
}

TEST_WITH(a_header_has_these_bytes, setup, teardown)
{
    static const uint8_t expected[MU_FRAME_HEADER] = {'M', 'u', 1, 24, 4, 3, 2, 1, 8, 7, 6, 5, 1, 0, 0, 0};
    struct mu_frame_header h = {MU_FRAME_MAGIC, 1, 24, 1, 0x01020304, 0x05060708, 0}, got;
    uint8_t bytes[MU_FRAME_HEADER];

    mu_frame_put(bytes, &h);
    assert_memory_equal(bytes, expected, sizeof bytes);
    mu_frame_get(bytes, &got);
    memset(bytes, 0xaa, sizeof bytes);
    mu_frame_put(bytes, &got);
    assert_memory_equal(bytes, expected, sizeof bytes);
}

#define WITH(field, value)                                                                                             \
    (__extension__({                                                                                                   \
        struct mu_frame_header h_ = sound;                                                                             \
        h_.field = value;                                                                                              \
        fault_of(h_);                                                                                                  \
    }))

TEST_WITH(each_field_is_refused_at_its_extremes, setup, teardown)
{
    assert_int_equal(fault_of(sound), MU_FRAME_SOUND);
    for (unsigned bit = 0; bit < 16; bit++)
        assert_int_equal(WITH(magic, MU_FRAME_MAGIC ^ (1u << bit)), MU_FRAME_BAD_MAGIC);
    for (unsigned version = 0; version < 256; version++)
        assert_int_equal(WITH(version, (uint8_t)version),
                         version == MU_BRIDGE_VERSION ? MU_FRAME_SOUND : MU_FRAME_BAD_VERSION);
    for (unsigned type = 0; type < 256; type++) /* which are known is not the reader's business */
        assert_int_equal(WITH(type, (uint8_t)type), MU_FRAME_SOUND);
    for (unsigned flags = 2; flags < 256; flags++)
        assert_int_equal(WITH(flags, (uint8_t)flags), MU_FRAME_BAD_FLAGS);
    for (unsigned bit = 0; bit < 24; bit++)
        assert_int_equal(WITH(zero, 1u << bit), MU_FRAME_BAD_FLAGS);
    assert_int_equal(WITH(length, 0), MU_FRAME_SOUND);
    assert_int_equal(WITH(length, MU_FRAME_PAYLOAD), MU_FRAME_SOUND);
    assert_int_equal(WITH(length, MU_FRAME_PAYLOAD + 1), MU_FRAME_BAD_LENGTH);
    assert_int_equal(WITH(length, 0x7fffffff), MU_FRAME_BAD_LENGTH);
    assert_int_equal(WITH(length, 0x80000000), MU_FRAME_BAD_LENGTH);
    assert_int_equal(WITH(length, UINT32_MAX), MU_FRAME_BAD_LENGTH);
    assert_int_equal(WITH(flags, MU_FRAME_MORE), MU_FRAME_BAD_LENGTH); /* to be continued, and not full */
    assert_int_equal(WITH(sequence, 1), MU_FRAME_BAD_SEQUENCE);
    assert_int_equal(WITH(sequence, UINT32_MAX), MU_FRAME_BAD_SEQUENCE);
}

TEST_WITH(a_fault_is_said_in_words, setup, teardown)
{
    static const struct {
        struct mu_frame_header h;
        const char *part;
    } cases[] = {
        {{.magic = 0x4547}, "does not speak muster's protocol (it begins with 47 45 00 00)"},
        {{.magic = 0x0316}, "speaks TLS, and here there is no key"},
        {{.magic = MU_FRAME_MAGIC, .version = 9}, "speaks version 9 of the bridge's protocol"},
        {{.magic = MU_FRAME_MAGIC, .version = MU_BRIDGE_VERSION, .flags = 0x80}, "unknown flags (80, 000000)"},
        {{.magic = MU_FRAME_MAGIC, .version = MU_BRIDGE_VERSION, .length = UINT32_MAX},
         "sent a frame of 4294967295 bytes; the most is 65536"},
        {{.magic = MU_FRAME_MAGIC, .version = MU_BRIDGE_VERSION, .sequence = 7}, "sent frame 7 where 0 was expected"},
    };
    uint8_t bytes[MU_FRAME_HEADER];
    char why[200];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint8_t *at = bytes;
        size_t left = sizeof bytes;

        mu_frame_put(bytes, &cases[i].h);
        mu_frame_reader_init(&reader, 100);
        assert_int_equal(mu_frame_read(&reader, &at, &left, &message), -1);
        mu_frame_say(&reader, why, sizeof why);
        if (!strstr(why, cases[i].part))
            fail_msg("\"%s\" does not mention \"%s\"", why, cases[i].part);
    }
}

/* Frames of one type with these payload lengths behind each other; the bytes are a counter's. */
static size_t build(uint8_t *to, const uint32_t *lengths, const uint8_t *flags, unsigned count, uint32_t sequence)
{
    size_t len = 0;

    for (unsigned i = 0; i < count; i++) {
        struct mu_frame_header h = sound;

        h.length = lengths[i];
        h.flags = flags[i];
        h.sequence = sequence + i;
        mu_frame_put(to + len, &h);
        len += MU_FRAME_HEADER;
        for (uint32_t b = 0; b < lengths[i]; b++)
            to[len + b] = (uint8_t)(b * 7 + i);
        len += lengths[i];
    }
    return len;
}

/* The rest of a payload to where it belongs, as a link reads it. */
static void fill(const uint8_t **at, size_t *left)
{
    size_t size;
    uint8_t *room = mu_frame_room(&reader, &size);

    if (!room)
        return;
    size = size < *left ? size : *left;
    if (size)
        memcpy(room, *at, size);
    mu_frame_fill(&reader, size);
    *at += size;
    *left -= size;
}

TEST_WITH(a_stream_reads_the_same_wherever_it_is_cut, setup, teardown)
{
    static const uint32_t lengths[] = {0, 1, 40, 0, 17};
    static const uint8_t flags[5];
    uint8_t bytes[256];
    size_t len = build(bytes, lengths, flags, 5, 0);

    for (size_t cut = 0; cut <= len; cut++)
        for (size_t second = cut; second <= len; second += 5) {
            const size_t ends[] = {cut, second, len};
            size_t from = 0;
            unsigned got = 0;

            mu_frame_reader_init(&reader, 64);
            for (unsigned part = 0; part < 3; part++) {
                uint8_t *piece =
                    malloc(ends[part] - from ? ends[part] - from : 1); /* exactly: what is behind is seen */
                const uint8_t *at = piece;
                size_t left = ends[part] - from;

                memcpy(piece, bytes + from, left);
                if (second % 2)
                    fill(&at, &left);
                while (mu_frame_read(&reader, &at, &left, &message) == 1) {
                    assert_int_equal(message.len, lengths[got]);
                    for (uint32_t b = 0; b < message.len; b++)
                        assert_int_equal(message.bytes[b], (uint8_t)(b * 7 + got));
                    got++;
                }
                assert_int_equal(left, 0);
                free(piece);
                from = ends[part];
            }
            assert_int_equal(got, 5);
            assert_int_equal(reader.frames, 5);
            mu_frame_reader_done(&reader);
        }
}

TEST_WITH(a_message_in_one_piece_is_not_copied, setup, teardown)
{
    static const uint32_t lengths[] = {3000};
    static const uint8_t flags[1];
    static uint8_t bytes[4000];
    const uint8_t *at = bytes;
    size_t left = build(bytes, lengths, flags, 1, 0);

    assert_int_equal(mu_frame_read(&reader, &at, &left, &message), 1);
    assert_ptr_equal(message.bytes, bytes + MU_FRAME_HEADER);
    assert_null(reader.body);
}

/* Nobody is given more room than the frame announces, and none for a header or what has all come. */
TEST_WITH(there_is_room_for_the_rest_of_a_frame_alone, setup, teardown)
{
    static const uint32_t lengths[] = {MU_FRAME_PAYLOAD, 3};
    static const uint8_t flags[] = {MU_FRAME_MORE, 0};
    uint8_t *bytes = malloc(2 * MU_FRAME_PAYLOAD);
    const uint8_t *at = bytes;
    size_t len = build(bytes, lengths, flags, 2, 0), left = MU_FRAME_HEADER - 1, size;

    mu_frame_reader_init(&reader, MU_FRAME_MESSAGE);
    assert_null(mu_frame_room(&reader, &size));
    assert_int_equal(mu_frame_read(&reader, &at, &left, &message), 0);
    assert_null(mu_frame_room(&reader, &size));
    left = 101;
    assert_int_equal(mu_frame_read(&reader, &at, &left, &message), 0);
    assert_true(mu_frame_goes_on(&reader));
    assert_non_null(mu_frame_room(&reader, &size));
    assert_int_equal(size, MU_FRAME_PAYLOAD - 100);
    left = len - (size_t)(at - bytes);
    fill(&at, &left);
    assert_null(mu_frame_room(&reader, &size));
    assert_int_equal(mu_frame_read(&reader, &at, &left, &message), 1);
    assert_int_equal(message.len, MU_FRAME_PAYLOAD + 3);
    assert_memory_equal(message.bytes, bytes + MU_FRAME_HEADER, MU_FRAME_PAYLOAD);
    assert_null(mu_frame_room(&reader, &size));
    left = 0;
    assert_int_equal(mu_frame_read(&reader, &at, &left, &message), 0);
    mu_frame_reader_done(&reader);
    free(bytes);
}

TEST_WITH(a_long_message_comes_in_full_frames, setup, teardown)
{
    static const uint32_t lengths[] = {MU_FRAME_PAYLOAD, MU_FRAME_PAYLOAD, 3, 2};
    static const uint8_t flags[] = {MU_FRAME_MORE, MU_FRAME_MORE, 0, 0};
    uint8_t *bytes = malloc(3 * MU_FRAME_PAYLOAD);
    size_t len = build(bytes, lengths, flags, 4, 0), step = 1;
    unsigned rounds = 0;

    for (; step < len; step = rounds++ % 2 ? step * 3 + 1 : step) {
        unsigned got = 0;

        mu_frame_reader_init(&reader, 2 * MU_FRAME_PAYLOAD + 3);
        for (size_t from = 0; from < len; from += step) {
            const uint8_t *at = bytes + from;
            size_t left = len - from < step ? len - from : step;

            if (rounds % 2)
                fill(&at, &left);
            while (mu_frame_read(&reader, &at, &left, &message) == 1) {
                assert_int_equal(message.len, got ? 2u : 2 * MU_FRAME_PAYLOAD + 3);
                if (!got)
                    assert_memory_equal(message.bytes + MU_FRAME_PAYLOAD,
                                        bytes + MU_FRAME_PAYLOAD + 2 * MU_FRAME_HEADER, MU_FRAME_PAYLOAD);
                got++;
            }
        }
        assert_int_equal(got, 2);
        assert_int_equal(reader.fault, MU_FRAME_SOUND);
        assert_true(reader.body_capacity <= 2 * MU_FRAME_PAYLOAD + 3);
        mu_frame_reader_done(&reader);
    }
    free(bytes);
}

TEST_WITH(a_message_longer_than_allowed_is_refused_before_its_bytes, setup, teardown)
{
    static const uint32_t lengths[] = {MU_FRAME_PAYLOAD, 1};
    static const uint8_t flags[] = {MU_FRAME_MORE, 0};
    uint8_t *bytes = malloc(2 * MU_FRAME_PAYLOAD);
    const uint8_t *at = bytes;
    size_t left = build(bytes, lengths, flags, 2, 0);

    mu_frame_reader_init(&reader, MU_FRAME_PAYLOAD);
    assert_int_equal(mu_frame_read(&reader, &at, &left, &message), -1);
    assert_int_equal(reader.fault, MU_FRAME_TOO_LONG);
    assert_int_equal(left, 1); /* the second header was enough */
    mu_frame_reader_done(&reader);

    at = bytes;
    left = MU_FRAME_HEADER;
    mu_frame_reader_init(&reader, 1000);
    assert_int_equal(mu_frame_read(&reader, &at, &left, &message), -1);
    assert_int_equal(reader.fault, MU_FRAME_TOO_LONG);
    assert_null(reader.body);
    free(bytes);
}

TEST_WITH(another_type_within_a_message_is_refused, setup, teardown)
{
    static const uint32_t lengths[] = {MU_FRAME_PAYLOAD, 1};
    static const uint8_t flags[] = {MU_FRAME_MORE, 0};
    uint8_t *bytes = malloc(2 * MU_FRAME_PAYLOAD);
    const uint8_t *at = bytes;
    size_t left = build(bytes, lengths, flags, 2, 0);

    bytes[MU_FRAME_HEADER + MU_FRAME_PAYLOAD + 3] = 17;
    assert_int_equal(mu_frame_read(&reader, &at, &left, &message), -1);
    assert_int_equal(reader.fault, MU_FRAME_BAD_PART);
    free(bytes);
}

TEST_WITH(replayed_and_reordered_frames_are_refused, setup, teardown)
{
    static const uint32_t lengths[] = {4, 4, 4};
    static const uint8_t flags[3];
    static const unsigned orders[][3] = {{0, 0, 1}, {0, 2, 1}, {1, 0, 2}, {0, 1, 1}, {0, 1, 0}};
    uint8_t bytes[64], mixed[64];

    build(bytes, lengths, flags, 3, 0);
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        const uint8_t *at = mixed;
        size_t left = 60;
        int result;

        for (unsigned k = 0; k < 3; k++)
            memcpy(mixed + 20 * k, bytes + 20 * orders[i][k], 20);
        mu_frame_reader_init(&reader, 64);
        do
            result = mu_frame_read(&reader, &at, &left, &message);
        while (result == 1);
        assert_int_equal(result, -1);
        assert_int_equal(reader.fault, MU_FRAME_BAD_SEQUENCE);
        mu_frame_reader_done(&reader);
    }
}

TEST_WITH(the_sequence_goes_round, setup, teardown)
{
    static const uint32_t lengths[] = {1, 1};
    static const uint8_t flags[2];
    uint8_t bytes[64];
    const uint8_t *at = bytes;
    size_t left = build(bytes, lengths, flags, 2, UINT32_MAX);

    reader.sequence = UINT32_MAX;
    assert_int_equal(mu_frame_read(&reader, &at, &left, &message), 1);
    assert_int_equal(mu_frame_read(&reader, &at, &left, &message), 1);
    assert_int_equal(reader.sequence, 1);
}
