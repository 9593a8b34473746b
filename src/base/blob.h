/*
 * base/blob.h: bytes that several hold: what a large value is read into once, and then handed on without a copy.
 *
 * Whoever makes one fills it before anybody else sees it; nobody changes it afterwards. The count is a plain number:
 * all who hold a blob do so under one lock, or in one thread.
 */
#ifndef MU_BASE_BLOB_H
#define MU_BASE_BLOB_H

#include <stddef.h>
#include <stdint.h>

struct mu_blob {
    size_t holders, len;
    uint8_t bytes[];
};

struct mu_blob *mu_blob_new(size_t len); /* one holder; the bytes are garbage. NULL: no memory */
struct mu_blob *mu_blob_hold(struct mu_blob *blob);
void mu_blob_drop(struct mu_blob *blob); /* the last one frees it. NULL: nothing happens */

/* A run of a blob's bytes; without one: nothing. */
struct mu_slice {
    struct mu_blob *blob;
    size_t at, len;
};
static inline const uint8_t *mu_slice_bytes(const struct mu_slice *s)
{
    return s->blob ? s->blob->bytes + s->at : NULL;
}

#endif
