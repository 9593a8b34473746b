/*
 * tests/fuzz/h2_test.c: the short form of h2_fuzz: known connections, then thousands of their mutations drawn from a
 * seed, byte by byte and frame by frame. `TEST_SEED=… TEST_CASES=…` repeats or prolongs it.
 */
/* variants: release asan */
#include "h2.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "seed.h"

#define SIZE_MAX_BYTES 6000

enum { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION };

struct session {
    uint8_t bytes[SIZE_MAX_BYTES];
    size_t size;
};

static size_t message(uint8_t *to, uint8_t flag, const void *body, size_t len)
{
    const uint8_t head[5] = {flag, 0, 0, (uint8_t)(len >> 8), (uint8_t)len};

    memcpy(to, head, 5);
    memcpy(to + 5, body, len);
    return len + 5;
}

static void say(struct session *s, uint8_t kind, uint8_t flags, uint32_t stream, const void *payload, size_t len)
{
    s->size += h2_frame(s->bytes + s->size, kind, flags, stream, payload, len);
}

static void call(struct session *s, uint32_t stream, const char *method, const char *name, const char *value)
{
    uint8_t headers[400];

    say(s, HEADERS, 4, stream, headers, h2_request(headers, method, name, value));
}

static size_t gzipped(uint8_t to[400], const char *text)
{
    z_stream z = {0};
    size_t size;

    if (deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return 0;
    z.next_in = (Bytef *)(uintptr_t)text;
    z.avail_in = (unsigned)strlen(text);
    z.next_out = to;
    z.avail_out = 400;
    deflate(&z, Z_FINISH);
    size = 400 - z.avail_out;
    deflateEnd(&z);
    return size;
}

static const char *const methods[] = {"Echo", "Park", "Refuse", "Each", "None"};

/* Some calls of every kind, and what else a client says. */
static void compose(struct test_random *r, struct session *s)
{
    static const char *const headers[][2] = {{"grpc-encoding", "gzip"},
                                             {"grpc-timeout", "1S"},
                                             {"grpc-timeout", "0n"},
                                             {"te", "trailers"},
                                             {"grpc-timeout", "x"}};
    uint8_t bytes[500], packed[400];
    uint32_t stream = 1;

    s->size = 0;
    for (unsigned n = 1 + test_below(r, 6); n > 0; n--, stream += 2) {
        const char *const *header = headers[test_below(r, 5)];
        size_t len;

        call(s, stream, methods[test_below(r, 5)], header[0], header[1]);
        len = strcmp(header[1], "gzip") == 0 && test_below(r, 2)
                  ? message(bytes, 1, packed,
                            gzipped(packed, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))
                  : message(bytes, 0, "0123456789abcdef", test_below(r, 16));
        if (test_below(r, 3) == 0) {
            say(s, DATA, 0, stream, bytes, len / 2);
            say(s, PING, 0, 0, "12345678", 8);
            say(s, DATA, 1, stream, bytes + len / 2, len - len / 2);
        } else {
            say(s, DATA, 1, stream, bytes, len);
        }
        switch (test_below(r, 6)) {
        case 0: say(s, RST_STREAM, 0, stream, "\0\0\0\x8", 4); break;
        case 1: say(s, WINDOW_UPDATE, 0, test_below(r, 2) ? stream : 0, "\0\0\1\0", 4); break;
        case 2: say(s, SETTINGS, 0, 0, "\0\4\0\0\0\0\0\1\0\0\0\0", 12); break;
        case 3: say(s, GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8); break;
        default: break;
        }
    }
}

static void mutate(struct test_random *r, struct session *s)
{
    for (unsigned n = 1 + test_below(r, 5); n > 0 && s->size > 0; n--) {
        size_t at = test_below(r, (uint32_t)s->size), len = 1 + test_below(r, 60);

        len = len < s->size - at ? len : s->size - at;
        switch (test_below(r, 5)) {
        case 0: s->bytes[at] = (uint8_t)test_random(r); break;
        case 1: s->bytes[at] ^= (uint8_t)(1u << test_below(r, 8)); break;
        case 2: /* a piece out */
            memmove(s->bytes + at, s->bytes + at + len, s->size - at - len);
            s->size -= len;
            break;
        case 3: /* a piece twice */
            len = len < SIZE_MAX_BYTES - s->size ? len : SIZE_MAX_BYTES - s->size;
            memmove(s->bytes + at + len, s->bytes + at, s->size - at);
            s->size += len;
            break;
        default: /* cut */ s->size = at;
        }
    }
}

int main(void)
{
    const char *said = getenv("TEST_CASES");
    unsigned long cases = said ? strtoul(said, NULL, 0) : 3000, whole = 0, begun = 0;
    struct test_random r = {.state = test_seed()};
    struct session s = {.size = 0};

    call(&s, 1, "Echo", "te", "trailers");
    say(&s, DATA, 1, 1, "\0\0\0\0\1x", 6);
    if (h2_try(s.bytes, s.size) != 1) {
        printf("a call is not begun\n");
        return 1;
    }
    for (unsigned long i = 0; i < cases; i++) {
        compose(&r, &s);
        if (i % 4 == 0) {
            whole += h2_try(s.bytes, s.size);
            continue;
        }
        mutate(&r, &s);
        begun += h2_try(s.bytes, s.size);
    }
    printf("%lu connections: %lu calls begun by whole ones, %lu by others\n", cases, whole, begun);
    return cases >= 1000 && (whole == 0 || begun == 0);
}
