/*
 * rpc/reflect.c: grpc.reflection, v1 and v1alpha: grpcurl and its like ask which services there are, and what their
 * messages look like.
 *
 * A stream: each request is answered as it comes. What is told was made from our own .proto files (scripts/
 * descriptors.sh) and given to the server; it is read when somebody asks for the first time. Files are handed out as
 * they are: none imports another. There are no extensions in any of them.
 */
#include "rpc/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "rpc/codec.h"
#include "rpc/descriptor.pb-c.h"
#include "rpc/reflection.pb-c.h"
#include "topology/message.h"

typedef Mu__Descriptor__File file;
typedef Mu__Descriptor__Type type;
typedef Mu__Reflection__ServerReflectionRequest request;
typedef Mu__Reflection__ServerReflectionResponse response;

enum {
    NAMES_MAX = 32,       /* of services */
    SHOWN = 100,          /* bytes of what was asked for, in a sentence */
    REQUEST_MAX = 4 << 10 /* bytes: each comes back in its answer */
};

/* A file, and its bytes as they were given. */
struct described {
    file *read;
    ProtobufCBinaryData bytes;
};
struct mu_rpc_described {
    Mu__Descriptor__Files *set;
    size_t count;
    struct described files[];
};

/* ---- what is described ------------------------------------------------------------------------------------------- */

static void free_described(struct mu_rpc_described *d)
{
    for (size_t i = 0; d && i < d->count; i++)
        mu_codec_free(&d->files[i].read->base);
    if (d && d->set)
        mu_codec_free(&d->set->base);
    free(d);
}

/* NULL: no memory, or they are no descriptors. */
static struct mu_rpc_described *read_described(const void *bytes, size_t len)
{
    struct mu_rpc_described *d;
    ProtobufCMessage *set, *one;
    size_t count;

    if (mu_codec_read(&mu__descriptor__files__descriptor, (const char *const[]){"file", NULL}, bytes, len, &set))
        return NULL;
    count = ((Mu__Descriptor__Files *)set)->n_file;
    d = calloc(1, sizeof *d + count * sizeof d->files[0]);
    if (!d) {
        mu_codec_free(set);
        return NULL;
    }
    d->set = (Mu__Descriptor__Files *)set;
    for (; d->count < count; d->count++) {
        ProtobufCBinaryData each = d->set->file[d->count];

        if (mu_codec_read(&mu__descriptor__file__descriptor, NULL, each.data, each.len, &one)) {
            free_described(d);
            return NULL;
        }
        d->files[d->count] = (struct described){(file *)one, each};
    }
    return d;
}

void mu_rpc_reflection_done(struct mu_rpc *rpc)
{
    free_described(rpc->described);
    rpc->described = NULL;
}

/* ---- symbols ----------------------------------------------------------------------------------------------------- */

static bool bytes_same(ProtobufCBinaryData a, ProtobufCBinaryData b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Takes "name" from the front of "name.rest" or "name": then what follows is left. */
static bool name_take(ProtobufCBinaryData *rest, ProtobufCBinaryData name)
{
    if (rest->len < name.len || memcmp(rest->data, name.data, name.len) != 0 ||
        (rest->len > name.len && rest->data[name.len] != '.'))
        return false;
    rest->data += name.len;
    rest->len -= name.len;
    if (rest->len > 0) {
        rest->data++;
        rest->len--;
        return rest->len > 0; /* "name." is none */
    }
    return true;
}

static bool is_among(Mu__Descriptor__Name *const *names, size_t count, ProtobufCBinaryData name)
{
    for (size_t i = 0; i < count; i++)
        if (bytes_same(names[i]->name, name))
            return true;
    return false;
}

/* The enum, or a value of it: values are named beside their enum. */
static bool is_in_enums(Mu__Descriptor__Enum *const *enums, size_t count, ProtobufCBinaryData name)
{
    for (size_t i = 0; i < count; i++)
        if (bytes_same(enums[i]->name, name) || is_among(enums[i]->value, enums[i]->n_value, name))
            return true;
    return false;
}

/* Of a type, or of what is in it, to any depth: our own files are not deep. *ret_is_type: a message is meant. */
static bool is_in_types(type *const *types, size_t count, ProtobufCBinaryData name, bool *ret_is_type)
{
    for (size_t i = 0; i < count; i++) {
        const type *t = types[i];
        ProtobufCBinaryData rest = name;

        if (!name_take(&rest, t->name))
            continue;
        *ret_is_type = rest.len == 0;
        if (rest.len == 0 || is_among(t->field, t->n_field, rest) || is_among(t->choice, t->n_choice, rest) ||
            is_in_enums(t->enums, t->n_enums, rest) || is_in_types(t->nested, t->n_nested, rest, ret_is_type))
            return true;
    }
    return false;
}

static bool is_in_services(const file *f, ProtobufCBinaryData name)
{
    for (size_t i = 0; i < f->n_service; i++) {
        ProtobufCBinaryData rest = name;

        if (name_take(&rest, f->service[i]->name) &&
            (rest.len == 0 || is_among(f->service[i]->method, f->service[i]->n_method, rest)))
            return true;
    }
    return false;
}

/* The file with "package.Message", "package.Service.method", ...; NULL: it is in none. */
static const struct described *find_symbol(const struct mu_rpc_described *d, ProtobufCBinaryData name,
                                           bool *ret_is_type)
{
    if (name.len > 0 && name.data[0] == '.') {
        name.data++;
        name.len--;
    }
    for (size_t i = 0; i < d->count; i++) {
        const file *f = d->files[i].read;
        ProtobufCBinaryData rest = name;

        *ret_is_type = false;
        if (name_take(&rest, f->package) && rest.len > 0 &&
            (is_in_types(f->type, f->n_type, rest, ret_is_type) || is_in_enums(f->enums, f->n_enums, rest) ||
             is_in_services(f, rest)))
            return &d->files[i];
    }
    return NULL;
}

static const struct described *find_file(const struct mu_rpc_described *d, ProtobufCBinaryData name)
{
    for (size_t i = 0; i < d->count; i++)
        if (bytes_same(d->files[i].read->name, name))
            return &d->files[i];
    return NULL;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* Or the refusal that it cannot be given. */
static void response_give(struct mu_rpc_call *call, const response *r)
{
    void *bytes;
    size_t len;

    if (mu_message_pack(&r->base, &bytes, &len)) {
        mu_rpc_call_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "no memory for an answer");
        return;
    }
    mu_rpc_send(call, bytes, len);
    free(bytes);
}

static void give_error(struct mu_rpc_call *call, response *r, enum muster_status status, const char *what,
                       ProtobufCBinaryData name)
{
    Mu__Reflection__ErrorResponse error = MU__REFLECTION__ERROR_RESPONSE__INIT;
    char text[SHOWN + 64];
    int shown = (int)mu_utf8_cut(name.data, name.len, SHOWN);

    error.error_code = (int32_t)status;
    error.error_message.data = (uint8_t *)text;
    error.error_message.len =
        (size_t)snprintf(text, sizeof text, "%s%.*s", what, shown, name.len ? (const char *)name.data : "");
    r->message_response_case = MU__REFLECTION__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    r->error_response = &error;
    response_give(call, r);
}

static void give_file(struct mu_rpc_call *call, response *r, const struct described *found, const char *what,
                      ProtobufCBinaryData name)
{
    Mu__Reflection__FileDescriptorResponse files = MU__REFLECTION__FILE_DESCRIPTOR_RESPONSE__INIT;
    ProtobufCBinaryData bytes;

    if (!found) {
        give_error(call, r, MUSTER_NOT_FOUND, what, name);
        return;
    }
    bytes = found->bytes;
    files.n_file_descriptor_proto = 1;
    files.file_descriptor_proto = &bytes;
    r->message_response_case = MU__REFLECTION__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    r->file_descriptor_response = &files;
    response_give(call, r);
}

/* The services of the methods that are served, each once, in the order of their tables. */
static size_t services_list(const struct mu_rpc *rpc, Mu__Reflection__ServiceResponse names[NAMES_MAX])
{
    size_t count = 0;

    for (unsigned i = 0; i < rpc->num_lists; i++)
        for (const struct mu_rpc_method *m = rpc->lists[i]; m->path && count < NAMES_MAX; m++) {
            ProtobufCBinaryData name = {strcspn(m->path + 1, "/"), (uint8_t *)(uintptr_t)m->path + 1};
            size_t known = 0;

            while (known < count && !bytes_same(names[known].name, name))
                known++;
            if (known < count)
                continue;
            mu__reflection__service_response__init(&names[count]);
            names[count++].name = name;
        }
    return count;
}

static void give_list(struct mu_rpc_call *call, response *r)
{
    Mu__Reflection__ListServiceResponse services = MU__REFLECTION__LIST_SERVICE_RESPONSE__INIT;
    Mu__Reflection__ServiceResponse names[NAMES_MAX], *each[NAMES_MAX];

    services.n_service = services_list(call->conn->rpc, names);
    for (size_t i = 0; i < services.n_service; i++)
        each[i] = &names[i];
    services.service = each;
    r->message_response_case = MU__REFLECTION__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    r->list_services_response = &services;
    response_give(call, r);
}

/* There are none, of a message that there is. */
static void give_extensions(struct mu_rpc_call *call, response *r, ProtobufCBinaryData name)
{
    Mu__Reflection__ExtensionNumberResponse none = MU__REFLECTION__EXTENSION_NUMBER_RESPONSE__INIT;
    bool is_type = false;

    if (!find_symbol(call->conn->rpc->described, name, &is_type) || !is_type) {
        give_error(call, r, MUSTER_NOT_FOUND, "there is no message here that is called ", name);
        return;
    }
    none.base_type_name = name;
    r->message_response_case =
        MU__REFLECTION__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
    r->all_extension_numbers_response = &none;
    response_give(call, r);
}

static void reflection_answer(struct mu_rpc_call *call, const request *q, response *r)
{
    const struct mu_rpc_described *d = call->conn->rpc->described;
    bool is_type;

    switch (q->message_request_case) {
    case MU__REFLECTION__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        give_file(call, r, find_file(d, q->file_by_filename), "there is no file here that is called ",
                  q->file_by_filename);
        break;
    case MU__REFLECTION__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        give_file(call, r, find_symbol(d, q->file_containing_symbol, &is_type), "nothing here is called ",
                  q->file_containing_symbol);
        break;
    case MU__REFLECTION__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
        give_error(call, r, MUSTER_NOT_FOUND, "there are no extensions here, nor of ",
                   q->file_containing_extension->containing_type);
        break;
    case MU__REFLECTION__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
        give_extensions(call, r, q->all_extension_numbers_of_type);
        break;
    case MU__REFLECTION__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES: give_list(call, r); break;
    default:
        give_error(call, r, MUSTER_INVALID_ARGUMENT, "the request asks for nothing that is known here",
                   (ProtobufCBinaryData){0, NULL});
    }
}

static void begin_info(struct mu_rpc_call *call, const void *body, size_t len)
{
    struct mu_rpc *rpc = call->conn->rpc;
    response r = MU__REFLECTION__SERVER_REFLECTION_RESPONSE__INIT;
    ProtobufCMessage *message;
    enum muster_status status;

    if (len > REQUEST_MAX) {
        mu_rpc_call_refuse(call, MUSTER_INVALID_ARGUMENT, "a question of %zu bytes; %d are the most", len, REQUEST_MAX);
        return;
    }
    status = mu_codec_read(&mu__reflection__server_reflection_request__descriptor, NULL, body, len, &message);
    if (status) {
        mu_rpc_call_refuse(call, status, "%s", muster_last_error());
        return;
    }
    if (!rpc->described)
        rpc->described = read_described(rpc->options.described, rpc->options.described_len);
    r.valid_host = ((request *)message)->host;
    r.original_request = (ProtobufCBinaryData){len, (uint8_t *)(uintptr_t)body};
    if (rpc->described)
        reflection_answer(call, (request *)message, &r);
    else
        mu_rpc_call_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "what is described here cannot be read: %s",
                           muster_last_error());
    mu_codec_free(message);
}

const struct mu_rpc_method mu_rpc_reflection_methods[] = {
    {.path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", .begin = begin_info, .last = mu_rpc_finish},
    {.path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     .begin = begin_info,
     .last = mu_rpc_finish},
    {.path = NULL},
};
