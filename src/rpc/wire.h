/* rpc/wire.h: the small texts of gRPC's headers, from and to bytes. No allocation. */
#ifndef MU_RPC_WIRE_H
#define MU_RPC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "305S", "501m": 1 to 8 digits and one of H M S m u n. In ns, at most UINT64_MAX / 4. */
bool mu_wire_timeout(const char *text, size_t len, uint64_t *ret_ns);

/* A header's name is that word. */
bool mu_wire_is(const uint8_t *bytes, size_t len, const char *word);

/* A status in one to three digits; 999: it is none. */
unsigned mu_wire_status(const uint8_t *digits, size_t len);

#define MU_WIRE_TEXT_MAX 3072u /* of an error's text in bytes; what is longer is cut, and says so */
#define MU_WIRE_CUT      "... [truncated]"

/*
 * grpc-message: percent-encoded, cut to MU_WIRE_TEXT_MAX bytes before and `size` bytes after encoding, never within a
 * character of UTF-8. Bytes that are no UTF-8 are not echoed: a '?' stands for them. Returns the length; no final zero.
 * `size` is at least 64.
 */
size_t mu_wire_text(const char *text, char *to, size_t size);

#define MU_WIRE_BASE64(len) (((len) / 3) * 4 + ((len) % 3 ? (len) % 3 + 1 : 0))
/* base64 without padding: MU_WIRE_BASE64(len) characters, no final zero. */
size_t mu_wire_base64(const void *bytes, size_t len, char *to);

#endif
