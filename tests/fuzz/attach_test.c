/*
 * tests/fuzz/attach_test.c: the short form of attach_fuzz: known corruptions, then thousands drawn from a seed.
 * `TEST_SEED=… TEST_CASES=…` repeats or prolongs it; a case that crashes or hangs is printed as hex before it ends.
 */
/* variants: release asan */
#include "attach.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "seed.h"

enum { CASE_BYTES = 160, HANG_SECONDS = 30 };
static uint8_t now[CASE_BYTES];
static size_t now_size;
static unsigned long number;

static void last_words(int signal_number)
{
    char text[64];
    int n = snprintf(text, sizeof text, "\nsignal %d in case %lu: ", signal_number, number);

    if (write(1, text, (size_t)n) < 0)
        _exit(1);
    for (size_t i = 0; i < now_size; i++) {
        n = snprintf(text, sizeof text, "%02x", now[i]);
        if (write(1, text, (size_t)n) < 0)
            _exit(1);
    }
    if (write(1, "\n", 1) < 0)
        _exit(1);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void run_case(const uint8_t *bytes, size_t size)
{
    now_size = size < sizeof now ? size : sizeof now;
    memcpy(now, bytes, now_size);
    alarm(HANG_SECONDS); /* a watchdog, not a measurement: what does not end is a failure */
    attach_try(bytes, size);
    alarm(0);
    number++;
}

/* The file cut at every boundary that means something, and empty. */
static void truncations(void)
{
    size_t size;
    const uint8_t *image = attach_image(&size);
    uint8_t *whole = malloc(size + 1);

    whole[0] = 0;
    memcpy(whole + 1, image, size);
    for (size_t at = 0; at < size; at += at < 8192 ? 512 : 65536 - 512)
        run_case(whole, at + 1);
    run_case(whole, size);
    run_case(whole, size + 1);
    free(whole);
}

/* Every byte of the constant header, its top bit turned. */
static void header_bytes(void)
{
    size_t size;
    const uint8_t *image = attach_image(&size);
    uint8_t *whole = malloc(size + 1);

    whole[0] = 0;
    memcpy(whole + 1, image, size);
    for (size_t at = 0; at < 600; at += at < 256 ? 1 : 16) {
        whole[1 + at] ^= 0x80;
        run_case(whole, size + 1);
        whole[1 + at] ^= 0x80;
    }
    free(whole);
}

static unsigned from_hex(const char *text, uint8_t *bytes, unsigned capacity)
{
    unsigned n = 0, v;

    while (n < capacity && sscanf(text, "%2x", &v) == 1) {
        bytes[n++] = (uint8_t)v;
        text += 2;
    }
    return n;
}

int main(int argc, char **argv)
{
    const char *said = getenv("TEST_CASES");
    unsigned long cases = said ? strtoul(said, NULL, 0) : 1500;
    struct test_random r = {0};
    uint8_t bytes[CASE_BYTES];

    signal(SIGALRM, last_words);
    signal(SIGSEGV, last_words);
    signal(SIGBUS, last_words);
    signal(SIGABRT, last_words);
    signal(SIGFPE, last_words);
    if (argc > 1) { /* one case again, as printed */
        run_case(bytes, from_hex(argv[1], bytes, sizeof bytes));
        return 0;
    }
    r.state = test_seed();
    truncations();
    header_bytes();
    for (unsigned long i = 0; i < cases; i++) {
        size_t size = 8 + test_below(&r, i % 4 ? 24 : CASE_BYTES - 8);

        for (size_t k = 0; k < size; k++)
            bytes[k] = (uint8_t)test_random(&r);
        bytes[0] |= 1;
        run_case(bytes, size);
    }
    printf("%lu corrupt segments: no crash, no hang\n", number);
    return 0;
}
