/*
 * rpc/merge.c: sub-messages that come twice are merged: proto3 says so, and protobuf-c loses what the first one said in
 * numbers. The encoding makes it easy: the bytes of two messages, one behind the other, are the merged one's. Nobody is
 * known to send such a thing, so all that is done for others is a look at the fields' numbers.
 *
 * Bytes that are no message are left to the reader that follows, which refuses them.
 */
#include "rpc/merge.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/pack.h"

enum {
    TYPE_NUMBER = 0,
    TYPE_64 = 1,
    TYPE_BYTES = 2,
    TYPE_32 = 5,
    FIELDS_MAX = 64 /* of one kind: a bit for each */
};

struct byte_span {
    const uint8_t *at;
    size_t len;
};
struct field {
    const ProtobufCFieldDescriptor *known; /* NULL: it is not, or is no message */
    struct byte_span all, body;            /* with its tag and length; without: of TYPE_BYTES only */
};

static bool next_number(struct byte_span *rest, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 70 && rest->len > 0; shift += 7) {
        uint8_t byte = *rest->at;

        rest->at++;
        rest->len--;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

/* false: what remains is none, and stays where it is. */
static bool next_field(const ProtobufCMessageDescriptor *kind, struct byte_span *rest_of, struct field *ret_field)
{
    struct byte_span rest = *rest_of;
    struct field f = {.all = rest};
    uint64_t tag, len = 0;

    if (!next_number(&rest, &tag))
        return false;
    switch (tag & 7) {
    case TYPE_NUMBER:
        if (!next_number(&rest, &len))
            return false;
        len = 0;
        break;
    case TYPE_64: len = 8; break;
    case TYPE_32: len = 4; break;
    case TYPE_BYTES:
        if (!next_number(&rest, &len))
            return false;
        break;
    default: return false;
    }
    if (len > rest.len)
        return false;
    f.body = (struct byte_span){rest.at, len};
    rest.at += len;
    rest.len -= len;
    f.all.len -= rest.len;
    if ((tag & 7) == TYPE_BYTES && tag >> 3 <= UINT32_MAX)
        f.known = protobuf_c_message_descriptor_get_field(kind, (unsigned)(tag >> 3));
    if (f.known && f.known->type != PROTOBUF_C_TYPE_MESSAGE)
        f.known = NULL;
    *ret_field = f;
    *rest_of = rest;
    return true;
}

bool mu_merge_is_due(const ProtobufCMessageDescriptor *kind, const void *bytes, size_t size)
{
    struct byte_span rest = {bytes, size};
    struct field f;
    uint64_t seen = 0;

    while (rest.len > 0 && next_field(kind, &rest, &f)) {
        uint64_t bit = f.known ? UINT64_C(1) << ((f.known - kind->fields) % FIELDS_MAX) : 0;

        if (!f.known)
            continue;
        if (f.known->label != PROTOBUF_C_LABEL_REPEATED && (seen & bit))
            return true;
        seen |= bit;
        if (mu_merge_is_due(f.known->descriptor, f.body.at, f.body.len))
            return true;
    }
    return false;
}

static bool comes_in(const ProtobufCMessageDescriptor *kind, struct byte_span rest,
                     const ProtobufCFieldDescriptor *known)
{
    struct field f;

    while (rest.len > 0 && next_field(kind, &rest, &f))
        if (f.known == known)
            return true;
    return false;
}

static void *spans_together(const ProtobufCMessageDescriptor *kind, struct byte_span all,
                            const ProtobufCFieldDescriptor *known, size_t *ret_size)
{
    struct mu_pack parts = {0};
    struct field f;
    void *merged;

    while (all.len > 0 && next_field(kind, &all, &f))
        if (f.known == known)
            mu_pack_raw(&parts, f.body.at, f.body.len);
    merged = parts.failed ? NULL : mu_merge(known->descriptor, parts.bytes, parts.len, ret_size);
    mu_pack_done(&parts);
    return merged;
}

/* Each where its last part stands: of a oneof, the last that was set counts. */
void *mu_merge(const ProtobufCMessageDescriptor *kind, const void *bytes, size_t size, size_t *ret_size)
{
    struct byte_span all = {bytes, size}, rest = all;
    struct mu_pack to = {0};
    struct field f;

    while (rest.len > 0 && next_field(kind, &rest, &f)) {
        bool is_list = f.known && f.known->label == PROTOBUF_C_LABEL_REPEATED;
        size_t len = 0;
        void *body;

        if (!f.known) {
            mu_pack_raw(&to, f.all.at, f.all.len);
            continue;
        }
        if (!is_list && comes_in(kind, rest, f.known))
            continue;
        body = is_list ? mu_merge(f.known->descriptor, f.body.at, f.body.len, &len)
                       : spans_together(kind, all, f.known, &len);
        mu_pack_var(&to, (uint64_t)f.known->id << 3 | TYPE_BYTES);
        mu_pack_var(&to, len);
        mu_pack_raw(&to, body, len);
        to.failed = to.failed || !body;
        free(body);
    }
    mu_pack_raw(&to, rest.at, rest.len); /* what is none, for the reader to refuse */
    if (to.failed) {
        mu_pack_done(&to);
        return NULL;
    }
    *ret_size = to.len;
    return to.bytes ? to.bytes : malloc(1);
}
