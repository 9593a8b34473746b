/* rpc/http.h: the requests of HTTP/1.0 and 1.1, as far as small servers need them. No allocation. */
#ifndef MU_RPC_HTTP_H
#define MU_RPC_HTTP_H

#include <stddef.h>
#include <stdint.h>

#define MU_HTTP_HEAD_MAX    8192u /* request line and headers, in bytes */
#define MU_HTTP_HEADERS_MAX 100u

struct mu_http_request {
    char method[16];
    char path[256]; /* without query and, in absolute form, without scheme and host; not decoded */
    int minor;      /* of HTTP/1.x */
    int keep_alive;
    int has_body;   /* behind the head: body_len bytes, */
    int is_chunked; /* or in chunks, which are not read */
    uint64_t body_len;
};

/*
 * Parse the head of a request that `data` begins with. Its length in bytes; 0 when more is needed; or minus the status
 * to refuse it with: 400, 414, 431, 505. What cannot become a request is refused as soon as that is seen.
 */
long mu_http_parse(const char *data, size_t len, struct mu_http_request *ret_request);
/* "Not Found" */
const char *mu_http_reason(int status);

#endif
