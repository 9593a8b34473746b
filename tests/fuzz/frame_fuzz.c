/*
 * tests/fuzz/frame_fuzz.c: libFuzzer on the bridge's frames. `make fuzz SECONDS=60`. An input is, by its
 * first byte, a stream (what begins as one does, too: so the recorded ones are seeds); a stream whose headers the
 * target makes sound, so that what lies behind them is reached; or changes (place, byte) to what two agents really
 * said.
 */
#include "frame.h"

#include <stdlib.h>
#include <string.h>

#include "bridge/core/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Headers at the places where they would be, with the fields that have only one value. */
static void mend(uint8_t *bytes, size_t size)
{
    size_t at = 0;

    for (uint32_t sequence = 0; size - at >= MU_FRAME_HEADER; sequence++) {
        struct mu_frame_header h;

        mu_frame_get(bytes + at, &h);
        h.magic = MU_FRAME_MAGIC;
        h.version = MU_BRIDGE_VERSION;
        h.zero = 0;
        h.flags = 0;
        h.sequence = sequence;
        h.length %= 200;
        mu_frame_put(bytes + at, &h);
        if (size - at - MU_FRAME_HEADER < h.length)
            return;
        at += MU_FRAME_HEADER + h.length;
    }
}

static void try_changed_session(const uint8_t *data, size_t size, struct frame_sum *sum)
{
    uint8_t bytes[1000];
    size_t len = frame_session(bytes, sizeof bytes);

    for (; size >= 3; data += 3, size -= 3)
        bytes[(data[0] | data[1] << 8) % len] = data[2];
    frame_try(bytes, len, sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame_sum sum = {0, 0};
    uint8_t *copy;

    if (!size || data[0] % 3 == 0 || data[0] == (MU_FRAME_MAGIC & 0xff)) {
        frame_try(data, size, &sum);
        return 0;
    }
    if (data[0] % 3 == 1) {
        try_changed_session(data + 1, size - 1, &sum);
        return 0;
    }
    copy = malloc(size);
    memcpy(copy, data, size);
    mend(copy, size);
    frame_try(copy, size, &sum);
    free(copy);
    return 0;
}
