/*
 * session/names.c: the names of nodes, tensors and devices.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "session/private.h"

static bool letter_begins(char c)
{
    return isalnum((unsigned char)c) || c == '.';
}

static bool letter_goes_on(char c)
{
    return letter_begins(c) || c == '_' || c == '/' || c == '-';
}

/* Pieces of one form, with '>' between them. */
static bool name_is_legal(const char *name, size_t len)
{
    bool is_first = true;

    for (size_t i = 0; i < len; i++) {
        if (is_first ? !letter_begins(name[i]) : !letter_goes_on(name[i]) && name[i] != '>')
            return false;
        is_first = name[i] == '>';
    }
    return len > 0 && len <= MU_SS_NAME_MAX && !is_first;
}

bool mu_ss_name_is_legal(const char *name)
{
    return name_is_legal(name, strlen(name));
}

/* The digits behind a colon, without a zero in front. */
static bool output_read(const char *digits, int32_t *ret_output)
{
    long n = 0;

    if (!isdigit((unsigned char)digits[0]) || (digits[0] == '0' && digits[1]))
        return false;
    for (; *digits; digits++) {
        if (!isdigit((unsigned char)*digits) || n > 1000000)
            return false;
        n = n * 10 + (*digits - '0');
    }
    *ret_output = (int32_t)n;
    return true;
}

bool mu_ss_tensor_read(const char *tensor, struct mu_ss_endpoint *e)
{
    const char *colon = strrchr(tensor, ':');

    e->name = tensor;
    e->len = colon ? (size_t)(colon - tensor) : strlen(tensor);
    e->output = 0;
    return e->len > 0 && (!colon || output_read(colon + 1, &e->output));
}

bool mu_ss_input_read(const char *input, struct mu_ss_endpoint *e)
{
    if (input[0] == '^') {
        *e = (struct mu_ss_endpoint){input + 1, strlen(input + 1), -1};
        return name_is_legal(e->name, e->len);
    }
    return mu_ss_tensor_read(input, e) && name_is_legal(e->name, e->len);
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static bool number_read(const char *text, size_t len, int *ret_number)
{
    int n = 0;

    if (len == 1 && text[0] == '*')
        return true;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)text[i]) || n > 100000000)
            return false;
        n = n * 10 + (text[i] - '0');
    }
    *ret_number = n;
    return len > 0;
}

static bool word_read(const char *text, size_t len, char *word, size_t size)
{
    if (len == 1 && text[0] == '*')
        return true;
    if (!len || len >= size)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_')
            return false;
    memcpy(word, text, len);
    word[len] = 0;
    return true;
}

static bool part_is(const char *part, size_t len, const char *key)
{
    return len > strlen(key) && strncasecmp(part, key, strlen(key)) == 0;
}

/* "GPU:0", "CPU:*", "GPU" */
static bool device_read(const char *text, size_t len, struct mu_ss_spec *spec)
{
    const char *colon = memchr(text, ':', len);
    size_t type = colon ? (size_t)(colon - text) : len;

    if (!word_read(text, type, spec->type, sizeof spec->type))
        return false;
    if (strcasecmp(spec->type, "cpu") == 0 || strcasecmp(spec->type, "gpu") == 0)
        for (char *c = spec->type; *c; c++)
            *c = (char)toupper((unsigned char)*c);
    return !colon || number_read(colon + 1, len - type - 1, &spec->id);
}

static bool spec_part_read(const char *part, size_t len, struct mu_ss_spec *spec)
{
    if (part_is(part, len, "job:"))
        return word_read(part + 4, len - 4, spec->job, sizeof spec->job);
    if (part_is(part, len, "replica:"))
        return number_read(part + 8, len - 8, &spec->replica);
    if (part_is(part, len, "task:"))
        return number_read(part + 5, len - 5, &spec->task);
    if (part_is(part, len, "device:"))
        return device_read(part + 7, len - 7, spec);
    if (part_is(part, len, "cpu:") || part_is(part, len, "gpu:"))
        return device_read(part, len, spec);
    return false;
}

bool mu_ss_spec_read(const char *name, struct mu_ss_spec *spec)
{
    *spec = (struct mu_ss_spec){.replica = -1, .task = -1, .id = -1};
    while (*name) {
        size_t len;

        if (*name++ != '/')
            return false;
        len = strcspn(name, "/");
        if (len > 0 && !spec_part_read(name, len, spec))
            return false;
        name += len;
    }
    return true;
}

bool mu_ss_spec_has(const struct mu_ss_spec *spec, const struct mu_ss_spec *device)
{
    return (!spec->job[0] || strcmp(spec->job, device->job) == 0) &&
           (!spec->type[0] || strcmp(spec->type, device->type) == 0) &&
           (spec->replica < 0 || spec->replica == device->replica) && (spec->task < 0 || spec->task == device->task) &&
           (spec->id < 0 || spec->id == device->id);
}

bool mu_ss_spec_merge(struct mu_ss_spec *spec, const struct mu_ss_spec *other)
{
    struct mu_ss_spec merged = *spec;

    if ((spec->job[0] && other->job[0] && strcmp(spec->job, other->job) != 0) ||
        (spec->type[0] && other->type[0] && strcmp(spec->type, other->type) != 0) ||
        (spec->replica >= 0 && other->replica >= 0 && spec->replica != other->replica) ||
        (spec->task >= 0 && other->task >= 0 && spec->task != other->task) ||
        (spec->id >= 0 && other->id >= 0 && spec->id != other->id))
        return false;
    if (!spec->job[0])
        memcpy(merged.job, other->job, sizeof merged.job);
    if (!spec->type[0])
        memcpy(merged.type, other->type, sizeof merged.type);
    merged.replica = spec->replica >= 0 ? spec->replica : other->replica;
    merged.task = spec->task >= 0 ? spec->task : other->task;
    merged.id = spec->id >= 0 ? spec->id : other->id;
    *spec = merged;
    return true;
}

void mu_ss_spec_print(const struct mu_ss_spec *spec, char *text, size_t size)
{
    size_t n = 0;

    text[0] = 0;
    if (spec->job[0])
        n += (size_t)snprintf(text + n, size - n, "/job:%s", spec->job);
    if (spec->replica >= 0 && n < size)
        n += (size_t)snprintf(text + n, size - n, "/replica:%d", spec->replica);
    if (spec->task >= 0 && n < size)
        n += (size_t)snprintf(text + n, size - n, "/task:%d", spec->task);
    if (spec->type[0] && n < size)
        n += (size_t)snprintf(text + n, size - n, "/device:%s", spec->type);
    if (spec->type[0] && spec->id >= 0 && n < size)
        snprintf(text + n, size - n, ":%d", spec->id);
}

bool mu_ss_filter_has(char *const *filters, size_t count, const struct mu_executor *executor)
{
    struct mu_ss_spec spec, own = {.replica = 0, .task = (int)executor->task, .id = -1};

    snprintf(own.job, sizeof own.job, "%s", executor->job);
    for (size_t i = 0; i < count; i++) {
        if (!mu_ss_spec_read(filters[i], &spec))
            continue;
        spec.type[0] = 0;
        spec.id = -1;
        if (mu_ss_spec_has(&spec, &own))
            return true;
    }
    return count == 0;
}
