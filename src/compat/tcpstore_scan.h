/* compat/tcpstore_scan.h: where a request of PyTorch's TCPStore ends, as its bytes come. */
#ifndef MU_COMPAT_TCPSTORE_SCAN_H
#define MU_COMPAT_TCPSTORE_SCAN_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MU_TS_KEY_MAX     1048577u     /* bytes: 1 MiB, and the '/' that clients put in front of it */
#define MU_TS_VALUE_MAX   (64u << 20)  /* likewise */
#define MU_TS_KEYS_MAX    (1u << 17)   /* of one request */
#define MU_TS_REQUEST_MAX (128u << 20) /* bytes, all in all */

/* A: PyTorch 1.13 and 2.0. B: since 2.1, which begins with VALIDATE. */
enum mu_ts_dialect { MU_TS_UNKNOWN, MU_TS_A, MU_TS_B };

/* By B's numbers. */
enum mu_ts_op {
    MU_TS_VALIDATE = 0,
    MU_TS_SET = 1,
    MU_TS_COMPARE_SET = 2,
    MU_TS_GET = 3,
    MU_TS_ADD = 4,
    MU_TS_CHECK = 5,
    MU_TS_WAIT = 6,
    MU_TS_NUM_KEYS = 7,
    MU_TS_DELETE = 8,
    MU_TS_APPEND = 9,
    MU_TS_MULTI_GET = 10,
    MU_TS_MULTI_SET = 11,
    MU_TS_CANCEL_WAIT = 12,
    MU_TS_PING = 13,
    MU_TS_QUEUE_PUSH = 14,
    MU_TS_QUEUE_POP = 15,
    MU_TS_QUEUE_LEN = 16,
    MU_TS_LIST_KEYS = 17,
    MU_TS_BARRIER = 18,
    MU_TS_WATCH_KEY = 19, /* A's alone */
    MU_TS_OPS
};
const char *mu_ts_op_name(enum mu_ts_op op);
const char *mu_ts_op_fields(enum mu_ts_op op); /* as the table spells them */

struct mu_ts_scan {
    enum mu_ts_dialect dialect; /* of the connection */
    enum mu_ts_op op;
    const char *fields; /* of the request, which are still to come; NULL: it has not begun */
    const char *loop;   /* where those of one item of a list begin */
    uint64_t left;      /* items */
    size_t at;          /* bytes that have been looked at; of a request that is whole: its length */
    size_t need;        /* bytes, from its beginning, before there is more to look at */
    const char *fault;  /* a sentence's end */
};

/*
 * Look at the first `len` bytes of a request; from call to call they grow, or stay. 1: it is whole, and has
 * scan->at bytes: mu_ts_scan_next() before the next one; 0: not yet; -1: it is none, `fault` says why.
 */
int mu_ts_scan(struct mu_ts_scan *scan, const uint8_t *bytes, size_t len);
void mu_ts_scan_next(struct mu_ts_scan *scan);

/* Little-endian, wherever they lie. */
static inline uint64_t mu_ts_u64(const uint8_t *bytes)
{
    uint64_t v;

    memcpy(&v, bytes, sizeof v);
    return le64toh(v);
}

static inline void mu_ts_put_u64(uint8_t *to, uint64_t v)
{
    v = htole64(v);
    memcpy(to, &v, sizeof v);
}

#endif
