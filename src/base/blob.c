/*
 * base/blob.c: bytes that several hold.
 */
#include "base/blob.h"

#include <stdlib.h>

struct mu_blob *mu_blob_new(size_t len)
{
    struct mu_blob *blob = len <= SIZE_MAX - sizeof *blob ? malloc(sizeof *blob + len) : NULL;

    if (blob) {
        blob->holders = 1;
        blob->len = len;
    }
    return blob;
}

struct mu_blob *mu_blob_hold(struct mu_blob *blob)
{
    blob->holders++;
    return blob;
}

void mu_blob_drop(struct mu_blob *blob)
{
    if (blob && --blob->holders == 0)
        free(blob);
}
