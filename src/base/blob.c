/*
 * base/blob.c: bytes that several hold.
 */
#include "base/blob.h"

#include <stdlib.h>

#include "base/account.h"

struct mu_blob *mu_blob_new(size_t len)
{
    struct mu_blob *blob = len <= SIZE_MAX - sizeof *blob ? malloc(sizeof *blob + len) : NULL;

    if (blob) {
        blob->holders = 1;
        blob->len = len;
        blob->account = NULL;
        blob->seat = NULL;
    }
    return blob;
}

struct mu_blob *mu_blob_new_in(struct mu_account *account, bool kept, size_t len)
{
    struct mu_blob *blob;

    if (!account)
        return mu_blob_new(len);
    if (!mu_account_take(account, 0, len) && !(kept && mu_account_take_kept(account, len, 0)))
        return NULL;
    blob = mu_blob_new(len);
    if (blob)
        blob->account = account;
    else
        mu_account_give(account, len);
    return blob;
}

struct mu_blob *mu_blob_grow(struct mu_account *account, struct mu_blob *blob, size_t len)
{
    size_t old = blob ? blob->len : 0;
    struct mu_blob *larger;

    if (!blob)
        return mu_blob_new_in(account, false, len);
    if (account && !mu_account_take(account, old, len - old))
        return NULL;
    larger = len <= SIZE_MAX - sizeof *larger ? realloc(blob, sizeof *larger + len) : NULL;
    if (larger)
        larger->len = len;
    else if (account)
        mu_account_give(account, len - old);
    return larger;
}

void mu_blob_cut(struct mu_blob *blob, size_t len)
{
    if (blob->account)
        mu_account_give(blob->account, blob->len - len);
    blob->len = len;
}

void mu_blob_sit(struct mu_blob *blob, struct mu_blob **seat)
{
    if (*seat)
        (*seat)->seat = NULL;
    *seat = blob;
    blob->seat = seat;
}

struct mu_blob *mu_blob_hold(struct mu_blob *blob)
{
    blob->holders++;
    return blob;
}

void mu_blob_drop(struct mu_blob *blob)
{
    if (!blob || --blob->holders)
        return;
    if (blob->account)
        mu_account_give(blob->account, blob->len);
    if (blob->seat)
        *blob->seat = NULL;
    free(blob);
}
