/*
 * tests/fuzz/request_test.c: the short form of request_fuzz: known requests, then thousands of their mutations drawn
 * from a seed. `TEST_SEED=… TEST_CASES=…` repeats or prolongs it.
 */
/* variants: release asan */
#include "request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"

static const char *const requests[] = {
    "GET /metrics HTTP/1.1\r\nHost: localhost:9464\r\nUser-Agent: Prometheus/2.42.0\r\nAccept: "
    "text/plain;q=0.5,*/*;q=0.1\r\n"
    "Accept-Encoding: gzip\r\nX-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n",
    "HEAD /healthz HTTP/1.0\nConnection: x, keep-alive ,\n\n",
    "GET http://host:80/metrics?a=b HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost:\r\nTransfer-Encoding: chunked\r\n\r\n",
    "\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
};

static const struct mutation mutation = {STRANGE("\r\n\0 :\t?*/\x7f\x80\xff,;0HG"), .least = 1, .most = 6, .piece = 40,
                                         .room = 1000};

int main(void)
{
    const char *said = getenv("TEST_CASES");
    unsigned long cases = said ? strtoul(said, NULL, 0) : 3000, accepted = 0, refused = 0;
    struct test_random r = {.state = test_seed()};
    uint8_t bytes[12000];

    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        if (request_try((const uint8_t *)requests[i], strlen(requests[i])) <= 0) {
            printf("request %zu is refused\n", i);
            return 1;
        }
    for (int c = 1; c < 256; c++) { /* as long as can be, and longer, of every byte */
        memset(bytes, c, sizeof bytes);
        request_try(bytes, sizeof bytes);
        memcpy(bytes, "GET / HTTP/1.1\r\nX: ", 19);
        if (request_try(bytes, sizeof bytes) >= 0) {
            printf("a head without an end is taken, of byte %d\n", c);
            return 1;
        }
    }
    for (unsigned long i = 0; i < cases; i++) {
        const char *request = requests[i % (sizeof requests / sizeof requests[0])];
        size_t size = strlen(request);
        long result;

        memcpy(bytes, request, size);
        result = request_try(bytes, mutate(&r, &mutation, bytes, size));
        accepted += result > 0;
        refused += result < 0;
    }
    printf("%lu mutations: %lu requests, %lu refused\n", cases, accepted, refused);
    return cases >= 1000 && (accepted == 0 || refused == 0);
}
