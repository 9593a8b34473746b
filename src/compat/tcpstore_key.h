/* compat/tcpstore_key.h: what keys of TCPStore are called in the job's store, and back. */
#ifndef MU_COMPAT_TCPSTORE_KEY_H
#define MU_COMPAT_TCPSTORE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/kv.h"

enum mu_ts_place { MU_TS_KEYS, MU_TS_QUEUES, MU_TS_BARRIERS };
extern const char *const mu_ts_directory[]; /* "tcpstore" */

/*
 * Under its directory a key is one part: its bytes as they are, but '/' is written ':', and ':', '%', bytes below a
 * blank and 0x7f as %XX, as are the dots of "." and ".."; the empty key is "%". What would be too long is "%H" and a
 * hash in hexadecimal digits: there the key lies in front of the value, with its length (8 bytes).
 */
struct mu_ts_name {
    size_t len;
    bool is_hash;
    char text[MUSTER_KEY_MAX];
};
void mu_ts_name(struct mu_ts_name *name, enum mu_ts_place place, const uint8_t *key, size_t len);
void mu_ts_name_under(struct mu_ts_name *name, const char *part); /* then that below it: "/part" */
void mu_ts_name_number(struct mu_ts_name *name, uint64_t number); /* the same, of a number */

/* Back, from a name without its directory. `to` has room for len bytes. False: it is a hash. */
bool mu_ts_key(const char *name, size_t len, uint8_t *to, size_t *ret_len);

#endif
