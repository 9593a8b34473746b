/*
 * compat/tcpstore_scan.c: which dialect, which request, and where it ends.
 *
 * A request is one byte and its fields, which a table spells: 'k' a key and 'v' a value (a length, then the bytes), '8'
 * and '4' so many bytes, '*' a count and then the fields behind it so many times. No byte is looked at twice, however
 * the request is cut; nothing is believed of a length but that it is within the bounds.
 *
 * B begins with VALIDATE: a zero and a magic number. In A a zero is a SET, and the four bytes behind it are the lower
 * half of a key's length, which would be a gigabyte.
 */
#include "compat/tcpstore_scan.h"

#include <string.h>

static const uint8_t magic[4] = {0xCE, 0xF7, 0x85, 0x3C};

static const struct {
    const char *name, *fields;
} ops[MU_TS_OPS] = {
    [MU_TS_VALIDATE] = {"VALIDATE", "4"},
    [MU_TS_SET] = {"SET", "kv"},
    [MU_TS_COMPARE_SET] = {"COMPARE_SET", "kvv"},
    [MU_TS_GET] = {"GET", "k"},
    [MU_TS_ADD] = {"ADD", "k8"},
    [MU_TS_CHECK] = {"CHECK", "*k"},
    [MU_TS_WAIT] = {"WAIT", "*k"},
    [MU_TS_NUM_KEYS] = {"GETNUMKEYS", ""},
    [MU_TS_DELETE] = {"DELETE_KEY", "k"},
    [MU_TS_APPEND] = {"APPEND", "kv"},
    [MU_TS_MULTI_GET] = {"MULTI_GET", "*k"},
    [MU_TS_MULTI_SET] = {"MULTI_SET", "*kv"},
    [MU_TS_CANCEL_WAIT] = {"CANCEL_WAIT", ""},
    [MU_TS_PING] = {"PING", "4"},
    [MU_TS_QUEUE_PUSH] = {"QUEUE_PUSH", "kv"},
    [MU_TS_QUEUE_POP] = {"QUEUE_POP", "k"},
    [MU_TS_QUEUE_LEN] = {"QUEUE_LEN", "k"},
    [MU_TS_LIST_KEYS] = {"LIST_KEYS", ""},
    [MU_TS_BARRIER] = {"BARRIER", "k8"},
    [MU_TS_WATCH_KEY] = {"WATCH_KEY", "k"},
};

static const enum mu_ts_op of_a[] = {MU_TS_SET,  MU_TS_COMPARE_SET, MU_TS_GET,       MU_TS_ADD,   MU_TS_CHECK,
                                     MU_TS_WAIT, MU_TS_NUM_KEYS,    MU_TS_WATCH_KEY, MU_TS_DELETE};

const char *mu_ts_op_name(enum mu_ts_op op)
{
    return ops[op].name;
}

const char *mu_ts_op_fields(enum mu_ts_op op)
{
    return ops[op].fields;
}

static int scan_faulty(struct mu_ts_scan *s, const char *why)
{
    s->fault = why;
    return -1;
}

/* The dialect, from the first bytes. */
static int dialect_recognise(struct mu_ts_scan *s, const uint8_t *bytes, size_t len)
{
    size_t more = len - 1 < sizeof magic ? len - 1 : sizeof magic;

    if (bytes[0] != 0 || memcmp(bytes + 1, magic, more) != 0)
        s->dialect = MU_TS_A;
    else if (more == sizeof magic)
        s->dialect = MU_TS_B;
    s->need = 1 + sizeof magic;
    return s->dialect != MU_TS_UNKNOWN;
}

static int scan_begin(struct mu_ts_scan *s, const uint8_t *bytes, size_t len)
{
    bool is_first = s->dialect == MU_TS_UNKNOWN;

    s->need = 1;
    if (len == 0 || (is_first && !dialect_recognise(s, bytes, len)))
        return 0;
    if (s->dialect == MU_TS_A) {
        if (bytes[0] >= sizeof of_a / sizeof of_a[0])
            return scan_faulty(s, is_first ? "it does not speak TCPStore's protocol" : "it asks for something unknown");
        s->op = of_a[bytes[0]];
    } else {
        if (bytes[0] >= MU_TS_WATCH_KEY)
            return scan_faulty(s, "it asks for something unknown");
        if (bytes[0] == MU_TS_VALIDATE && !is_first)
            return scan_faulty(s, "it says VALIDATE twice");
        s->op = (enum mu_ts_op)bytes[0];
    }
    s->fields = ops[s->op].fields;
    s->at = 1;
    return 1;
}

/* So many bytes more from where we are. */
static int scan_has(struct mu_ts_scan *s, uint64_t more, size_t len)
{
    if (more > MU_TS_REQUEST_MAX - s->at)
        return scan_faulty(s, "a request is longer than 128 MiB");
    s->need = s->at + (size_t)more;
    return len >= s->need;
}

static int scan_bytes(struct mu_ts_scan *s, const uint8_t *bytes, size_t len, uint64_t most, const char *why)
{
    uint64_t n;
    int rc = scan_has(s, 8, len);

    if (rc <= 0)
        return rc;
    n = mu_ts_u64(bytes + s->at);
    if (n > most)
        return scan_faulty(s, why);
    return scan_has(s, 8 + n, len);
}

static int scan_count(struct mu_ts_scan *s, const uint8_t *bytes, size_t len)
{
    int rc = scan_has(s, 8, len);

    if (rc <= 0)
        return rc;
    s->left = mu_ts_u64(bytes + s->at);
    if (s->left > MU_TS_KEYS_MAX)
        return scan_faulty(s, "a request has more than 131072 keys");
    s->loop = s->fields + 1;
    return 1;
}

static int scan_field(struct mu_ts_scan *s, const uint8_t *bytes, size_t len)
{
    switch (*s->fields) {
    case 'k': return scan_bytes(s, bytes, len, MU_TS_KEY_MAX, "a key is longer than 1 MiB");
    case 'v': return scan_bytes(s, bytes, len, MU_TS_VALUE_MAX, "a value is longer than 64 MiB");
    case '*': return scan_count(s, bytes, len);
    default: return scan_has(s, (uint64_t)(*s->fields - '0'), len);
    }
}

int mu_ts_scan(struct mu_ts_scan *s, const uint8_t *bytes, size_t len)
{
    int rc = s->fault ? -1 : s->fields ? 1 : scan_begin(s, bytes, len);

    while (rc == 1 && *s->fields) {
        rc = scan_field(s, bytes, len);
        if (rc != 1)
            break;
        s->at = s->need;
        s->fields++;
        if (s->loop == s->fields && s->left == 0) /* an empty list */
            s->fields += strlen(s->fields);
        else if (s->loop && !*s->fields && --s->left > 0)
            s->fields = s->loop;
    }
    return rc;
}

void mu_ts_scan_next(struct mu_ts_scan *s)
{
    s->fields = s->loop = NULL;
    s->left = 0;
    s->at = 0;
}
