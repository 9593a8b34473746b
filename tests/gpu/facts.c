/* tests/gpu/facts.c: what nvidia-smi, the CUDA driver and muster say of the same GPUs, and where they differ. */
#include "gpu.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What stands between `open` and the next `close`, from `at` and before `end`; NULL: it is not there. */
static const char *text_between(const char *at, const char *end, const char *open, const char *close, char *text,
                                size_t size)
{
    const char *from = strstr(at, open), *to = from ? strstr(from + strlen(open), close) : NULL;

    text[0] = 0;
    if (!to || (end && to > end))
        return NULL;
    from += strlen(open);
    snprintf(text, size, "%.*s", (int)(to - from), from);
    return to;
}

/* "GPU-12345678-1234-…" and "12345678 1234 …" are the same digits. */
static void uuid_copy(char to[GPU_TEXT_MAX], const char *from)
{
    size_t n = 0;

    if (strncmp(from, "GPU-", 4) == 0 || strncmp(from, "MIG-", 4) == 0)
        from += 4;
    for (; *from && n < 32; from++)
        if (isxdigit((unsigned char)*from))
            to[n++] = (char)tolower((unsigned char)*from);
    to[n] = 0;
}

/* nvidia-smi has eight digits for the domain, and capitals. */
static void pci_copy(char to[GPU_TEXT_MAX], const char *from)
{
    unsigned domain, bus, device, function;

    if (sscanf(from, "%x:%x:%x.%x", &domain, &bus, &device, &function) == 4)
        snprintf(to, GPU_TEXT_MAX, "%04x:%02x:%02x.%x", domain, bus, device, function);
    else
        snprintf(to, GPU_TEXT_MAX, "%.80s", from);
}

bool gpu_facts_smi(const char *xml, struct gpu_facts *ret)
{
    char text[GPU_TEXT_MAX];

    *ret = (struct gpu_facts){0};
    for (const char *at = strstr(xml, "<gpu id=\""); at; at = strstr(at + 1, "<gpu id=\"")) {
        const char *end = strstr(at, "</gpu>"), *parts = strstr(at, "</mig_devices>"), *own, *memory;
        struct gpu_fact *gpu = &ret->gpu[ret->count];

        own =
            parts && end && parts < end ? parts : at; /* a part has memory, and with some drivers a UUID, of its own */
        memory = strstr(own, "<fb_memory_usage>");
        if (!end || !memory || memory > end || ret->count == GPU_MAX)
            return false;
        text_between(at, end, "<gpu id=\"", "\"", text, sizeof text);
        pci_copy(gpu->pci, text);
        if (!text_between(at, end, "<product_name>", "<", gpu->name, sizeof gpu->name) ||
            !text_between(own, end, "<uuid>", "<", text, sizeof text))
            return false;
        uuid_copy(gpu->uuid, text);
        text_between(memory, end, "<total>", "<", text, sizeof text);
        gpu->bytes = strtoull(text, NULL, 10) << 20; /* "81559 MiB" */
        parts = strstr(at, "<mig_device>");
        gpu->is_mig = parts && parts < end;
        ret->count++;
    }
    return ret->count > 0;
}

bool gpu_facts_muster(const char *json, struct gpu_facts *ret)
{
    const char *devices = strstr(json, "\"devices\":[");
    char text[GPU_TEXT_MAX];

    *ret = (struct gpu_facts){0};
    for (const char *at = devices ? strstr(devices, "\"kind\":\"gpu\"") : NULL; at;
         at = strstr(at + 1, "\"kind\":\"gpu\"")) {
        const char *end = strchr(at, '}'), *from = at;
        struct gpu_fact *gpu = &ret->gpu[ret->count];
        int index;

        /* A container shows others' GPUs in /sys; a GPU that is lost has no word of the driver either. */
        if (text_between(at, end, "\"sources\":[", "]", text, sizeof text) && !strstr(text, "\"nvml\""))
            continue;
        if (!end || ret->count == GPU_MAX || !text_between(at, end, "\"name\":\"", "\"", gpu->name, sizeof gpu->name) ||
            !text_between(at, end, "\"uuid\":\"", "\"", text, sizeof text))
            return false;
        uuid_copy(gpu->uuid, text);
        text_between(at, end, "\"pci\":\"", "\"", text, sizeof text);
        pci_copy(gpu->pci, text);
        text_between(at, end, "\"memory_bytes\":", ",", text, sizeof text);
        gpu->bytes = strtoull(text, NULL, 10);
        while (from > json && *from != '{')
            from--;
        snprintf(text, sizeof text, "\"parent\":%d,", sscanf(from, "{\"index\":%d", &index) == 1 ? index : -1);
        gpu->is_mig = strstr(devices, text) != NULL; /* it has parts */
        ret->count++;
    }
    return ret->count > 0;
}

bool gpu_facts_cuda(const char *lines, struct gpu_facts *ret)
{
    *ret = (struct gpu_facts){0};
    for (const char *at = lines; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        struct gpu_fact *gpu = &ret->gpu[ret->count];
        char uuid[GPU_TEXT_MAX], pci[GPU_TEXT_MAX];

        if (ret->count == GPU_MAX ||
            sscanf(at, "%*d %95s %95s %" SCNu64 " %95[^\n]", uuid, pci, &gpu->bytes, gpu->name) != 4)
            return false;
        uuid_copy(gpu->uuid, uuid);
        pci_copy(gpu->pci, pci);
        ret->count++;
    }
    return ret->count > 0;
}

static const struct gpu_fact *fact_of(const struct gpu_facts *facts, const char *uuid)
{
    for (size_t i = 0; i < facts->count; i++)
        if (strcmp(facts->gpu[i].uuid, uuid) == 0)
            return &facts->gpu[i];
    return NULL;
}

void gpu_facts_compare(const struct gpu_facts *muster, const struct gpu_facts *other, const char *who, char *text,
                       size_t size)
{
    text[0] = 0;
    if (muster->count != other->count) {
        snprintf(text, size, "muster has %zu GPUs, and %s %zu", muster->count, who, other->count);
        return;
    }
    for (size_t i = 0; i < other->count && !text[0]; i++) {
        const struct gpu_fact *theirs = &other->gpu[i], *ours = fact_of(muster, theirs->uuid);
        uint64_t most = theirs->bytes / 50 > 600ull << 20 ? theirs->bytes / 50 : 600ull << 20;

        if (!ours)
            snprintf(text, size, "muster has no GPU %s, which %s has", theirs->uuid, who);
        else if (strcmp(ours->pci, theirs->pci) != 0)
            snprintf(text, size, "GPU %s is at %s for muster, and at %s for %s", ours->uuid, ours->pci, theirs->pci,
                     who);
        else if (strcmp(ours->name, theirs->name) != 0)
            snprintf(text, size, "GPU %s is '%s' for muster, and '%s' for %s", ours->pci, ours->name, theirs->name,
                     who);
        else if (ours->bytes && theirs->bytes &&
                 (ours->bytes > theirs->bytes + most || theirs->bytes > ours->bytes + most))
            snprintf(text, size, "GPU %s has %" PRIu64 " bytes for muster, and %" PRIu64 " for %s", ours->pci,
                     ours->bytes, theirs->bytes, who);
    }
}

/* Of the line that begins with GPU`row`, the cell of GPU`column`: the words behind the label; "": no such line or cell.
 */
static void link_cell(const char *matrix, size_t row, size_t column, char cell[16])
{
    char label[24];

    cell[0] = 0;
    snprintf(label, sizeof label, "GPU%zu", row);
    for (const char *at = matrix; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        const char *word = at;

        if (strncmp(at, label, strlen(label)) != 0 || !isspace((unsigned char)at[strlen(label)]))
            continue;
        for (size_t i = 0; i <= column && *word; i++) {
            word += strcspn(word, " \t\n");
            word += strspn(word, " \t");
        }
        snprintf(cell, 16, "%.*s", (int)strcspn(word, " \t\n"), word);
        return;
    }
}

size_t gpu_links_compare(const char *muster, const char *smi, size_t count, char *text, size_t size)
{
    size_t alike = 0;

    text[0] = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++) {
            char ours[16], theirs[16];

            link_cell(muster, i, k, ours);
            link_cell(smi, i, k, theirs);
            if (i == k || (ours[0] && strcmp(ours, theirs) == 0))
                alike += i != k;
            else if (!text[0])
                snprintf(text, size, "GPU%zu to GPU%zu is '%s' for muster, and '%s' for nvidia-smi", i, k, ours,
                         theirs);
        }
    return alike;
}
