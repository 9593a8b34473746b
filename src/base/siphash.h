/* base/siphash.h: SipHash-2-4 with 128 bits (Aumasson and Bernstein): a short message's tag under a secret key. */
#ifndef MU_BASE_SIPHASH_H
#define MU_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

void mu_siphash(const uint64_t key[2], const void *bytes, size_t len, uint64_t ret_tag[2]);

#endif
