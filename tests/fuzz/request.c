/*
 * tests/fuzz/request.c: an HTTP request's head from arbitrary bytes: rpc/http.c.
 *
 * Each length of the bytes is parsed from memory of exactly that size, so that a read behind it is seen. What has been
 * said of a beginning holds for the whole: a request stays that request, a refusal stays a refusal, and "more is
 * needed" ends at the limit.
 */
#include "request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/http.h"

static void must(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "the parser: %s\n", what);
    abort();
}

static long parse(const uint8_t *data, size_t size, struct mu_http_request *ret_request)
{
    char *exact = malloc(size ? size : 1);
    long said;

    memcpy(exact, data, size);
    said = mu_http_parse(exact, size, ret_request);
    free(exact);
    return said;
}

static void check_request(const uint8_t *data, long said, const struct mu_http_request *request)
{
    must(said <= (long)MU_HTTP_HEAD_MAX, "a head that is too long");
    must(data[said - 1] == '\n', "a head that does not end with a line");
    must(strlen(request->method) > 0 && strlen(request->path) > 0, "an empty word");
    must(request->path[0] == '/' || strcmp(request->path, "*") == 0, "a path that is none");
    must(!strpbrk(request->path, " ?\r\n") && !strpbrk(request->method, " \r\n:"), "a word with a separator in it");
    must(request->minor >= 0 && request->minor <= 9, "a version that is none");
}

long request_try(const uint8_t *data, size_t size)
{
    struct mu_http_request whole, part;
    long said = parse(data, size, &whole), before = 0;

    must(said <= (long)size, "more than there is");
    must(said != 0 || size < MU_HTTP_HEAD_MAX, "it waits for ever");
    must(said >= 0 || said == -400 || said == -414 || said == -431 || said == -505, "a status that is none");
    if (said > 0)
        check_request(data, said, &whole);
    for (size_t length = 0; length <= size; length += length < 600 ? 1 : 997) {
        long now = parse(data, length, &part);

        must(before == 0 || (before < 0) == (now < 0), "it changes its mind");
        must(before <= 0 || before == now, "the same request has another end");
        must(now <= 0 || said != now || memcmp(&part, &whole, sizeof part) == 0, "the same request reads differently");
        before = now;
    }
    must(before == 0 || (before < 0) == (said < 0), "it changes its mind at the end");
    return said;
}
