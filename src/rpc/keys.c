/*
 * rpc/keys.c: the calls to the store, which are the same in both CoordinationServices but for where the fields of their
 * requests lie: a method says that.
 */
#include "rpc/dialect.h"
#include "rpc/tsl_coordination.pb-c.h"
#include "rpc/xla_coordination.pb-c.h"

typedef Mu__XlaCoordination__KeyValueEntry key_value;

_Static_assert(sizeof(key_value) == sizeof(Mu__TslCoordination__KeyValueEntry) &&
                   offsetof(key_value, key) == offsetof(Mu__TslCoordination__KeyValueEntry, key) &&
                   offsetof(key_value, value) == offsetof(Mu__TslCoordination__KeyValueEntry, value),
               "both have the same entry");

static const void *request_field(const ProtobufCMessage *request, size_t offset)
{
    return (const char *)request + offset;
}

static ProtobufCBinaryData request_key(const struct mu_visit *v, const ProtobufCMessage *request)
{
    return *(const ProtobufCBinaryData *)request_field(request, v->method->key);
}

void mu_visit_insert(struct mu_visit *v, const ProtobufCMessage *request)
{
    static const key_value none = MU__XLA_COORDINATION__KEY_VALUE_ENTRY__INIT;
    const key_value *said = *(const key_value *const *)request_field(request, v->method->key);
    const key_value *kv = said ? said : &none;

    mu_coord_insert(v->coord, &v->request, MU_BYTES(kv->key), MU_BYTES(kv->value),
                    *(const protobuf_c_boolean *)request_field(request, v->method->more));
}

void mu_visit_get(struct mu_visit *v, const ProtobufCMessage *request)
{
    ProtobufCBinaryData key = request_key(v, request);

    if (mu_visit_name(v, key))
        mu_coord_get(v->coord, &v->request, MU_BYTES(key));
}

void mu_visit_try(struct mu_visit *v, const ProtobufCMessage *request)
{
    ProtobufCBinaryData key = request_key(v, request);

    if (mu_visit_name(v, key))
        mu_coord_try_get(v->coord, &v->request, MU_BYTES(key));
}

void mu_visit_increment(struct mu_visit *v, const ProtobufCMessage *request)
{
    ProtobufCBinaryData key = request_key(v, request);

    if (mu_visit_name(v, key))
        mu_coord_increment(v->coord, &v->request, MU_BYTES(key),
                           *(const int64_t *)request_field(request, v->method->more));
}

void mu_visit_dir(struct mu_visit *v, const ProtobufCMessage *request)
{
    ProtobufCBinaryData key = request_key(v, request);

    v->request.write = mu_write_entry;
    mu_coord_get_dir(v->coord, &v->request, MU_BYTES(key));
}

void mu_visit_delete(struct mu_visit *v, const ProtobufCMessage *request)
{
    ProtobufCBinaryData key = request_key(v, request);

    mu_coord_delete(v->coord, &v->request, MU_BYTES(key));
}
