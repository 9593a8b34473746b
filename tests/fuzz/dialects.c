/* tests/fuzz/dialects.c: any bytes as a request of any dialect. */
#include "dialects.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "rpc/merge.h"
#include "rpc/tsl_devices.h"
#include "topology/message.h"

static const struct mu_rpc_method *const tables[] = {mu_xla_coordination, mu_tsl_coordination, mu_xla_runtime};
enum { TABLES = sizeof tables / sizeof tables[0] };

static const struct mu_method *kind(unsigned number)
{
    for (size_t t = 0; t < TABLES; t++)
        for (size_t i = 0; tables[t][i].path; i++)
            if (number-- == 0)
                return tables[t][i].data;
    return NULL;
}

unsigned dialects_kinds(void)
{
    unsigned count = 0;

    while (kind(count))
        count++;
    return count;
}

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* Writes it, and reads that: the same bytes again. */
static void write_again(const struct mu_method *m, const ProtobufCMessage *message)
{
    ProtobufCMessage *again;
    void *once, *twice;
    size_t len, len_twice;

    check(!mu_message_pack(message, &once, &len));
    check(!mu_codec_read(m->request, m->dialect->not_text, once, len, &again));
    check(!mu_message_pack(again, &twice, &len_twice));
    check(len == len_twice && memcmp(once, twice, len) == 0);
    mu_codec_free(again);
    free(once);
    free(twice);
}

static void merge(const struct mu_method *m, const uint8_t *bytes, size_t size)
{
    size_t len;
    void *merged;

    if (!mu_merge_is_due(m->request, bytes, size))
        return;
    merged = mu_merge(m->request, bytes, size, &len);
    check(merged && len <= size && !mu_merge_is_due(m->request, merged, len));
    free(merged);
}

static void tell_devices(const uint8_t *bytes, size_t size)
{
    ProtobufCBinaryData two[2] = {{size, (uint8_t *)(uintptr_t)bytes}, {size, (uint8_t *)(uintptr_t)bytes}};
    void *answer;
    size_t len;

    for (size_t count = 1; count <= 2; count++)
        if (!mu_devices_together(two, count, 1, &answer, &len))
            free(answer);
}

int dialects_try(const uint8_t *data, size_t size)
{
    const struct mu_method *m;
    ProtobufCMessage *message;
    uint8_t *exact;

    if (!size)
        return 0;
    m = kind(data[0] % dialects_kinds());
    exact = malloc(size); /* so that a look beyond the end is seen */
    check(exact);
    memcpy(exact, data + 1, size - 1);
    merge(m, exact, size - 1);
    if (m->request == &mu__tsl_coordination__wait_for_all_tasks_request__descriptor)
        tell_devices(exact, size - 1);
    if (mu_codec_read(m->request, m->dialect->not_text, exact, size - 1, &message)) {
        check(mu_is_utf8(muster_last_error(), strlen(muster_last_error())));
        free(exact);
        return 0;
    }
    write_again(m, message);
    mu_codec_free(message);
    free(exact);
    return 1;
}
