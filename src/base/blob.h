/*
 * base/blob.h: bytes that several hold: what a large value is read into once, and then handed on without a copy.
 *
 * Its maker fills it before anybody else sees it; nobody changes it afterwards. The count is a plain number: all
 * holders of a blob share one lock, or one thread.
 *
 * A blob may count against an account, once, however many hold it. It may have a seat: a pointer that finds it without
 * holding it, for a later user of the same bytes, and that is NULL when it has gone.
 */
#ifndef MU_BASE_BLOB_H
#define MU_BASE_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mu_account;

struct mu_blob {
    size_t holders, len;
    struct mu_account *account; /* NULL: none */
    struct mu_blob **seat;      /* NULL: none */
    uint8_t bytes[];
};

struct mu_blob *mu_blob_new(size_t len); /* one holder; the bytes are garbage. NULL: no memory */
/* The same, counted. NULL also where the account has no room for it; it may have what that keeps. */
struct mu_blob *mu_blob_new_in(struct mu_account *account, bool kept, size_t len);
/* Longer; for its maker, while it fills it and alone has it. NULL: as mu_blob_new_in(); the old one stays. blob: NULL
 * is one of no bytes. */
struct mu_blob *mu_blob_grow(struct mu_account *account, struct mu_blob *blob, size_t len);
void mu_blob_cut(struct mu_blob *blob, size_t len);            /* for its maker: so long it is, and no longer */
void mu_blob_sit(struct mu_blob *blob, struct mu_blob **seat); /* in place of the one that sits there */
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
