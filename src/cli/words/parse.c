/*
 * cli/words/parse.c: durations, sizes, numbers and lists as people type them. Checked: nothing is read as something
 * else.
 */
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct value_unit {
    const char *name;
    double factor;
};

/* "12.5unit" by a table of units; "" as a unit is allowed when the table has it. */
static int parse_with_unit(const char *text, const struct value_unit *units, uint64_t *ret_value)
{
    size_t digits = strspn(text, "0123456789.");
    char number_text[32], *end;
    double number;

    if (!isdigit((unsigned char)text[0]) || digits >= sizeof number_text)
        return -1;
    memcpy(number_text, text, digits); /* strtod() alone would take "1e3" and "0x10" too */
    number_text[digits] = 0;
    number = strtod(number_text, &end);
    if (*end)
        return -1;
    for (; units->name; units++) {
        if (strcmp(units->name, text + digits) != 0)
            continue;
        number = number * units->factor + 0.5;
        if (!(number < 9e18))
            return -1;
        *ret_value = (uint64_t)number;
        return 0;
    }
    return -1;
}

int mu_cli_parse_duration(const char *text, uint64_t *ret_ns)
{
    static const struct value_unit units[] = {{"ns", 1},   {"us", 1e3},   {"ms", 1e6},    {"s", 1e9},
                                              {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}, {NULL, 0}};

    if (strcmp(text, "0") == 0) {
        *ret_ns = 0;
        return 0;
    }
    return parse_with_unit(text, units, ret_ns);
}

int mu_cli_parse_size(const char *text, uint64_t *ret_bytes)
{
    static const struct value_unit units[] = {
        {"", 1},          {"B", 1},           {"K", 1024.0},       {"KiB", 1024.0},
        {"M", 1048576.0}, {"MiB", 1048576.0}, {"G", 1073741824.0}, {"GiB", 1073741824.0},
        {NULL, 0}};

    return parse_with_unit(text, units, ret_bytes);
}

int mu_cli_parse_unsigned(const char *text, uint64_t max, uint64_t *ret_value)
{
    char *end;
    unsigned long long value;

    if (!isdigit((unsigned char)text[0]))
        return -1;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno || *end || value > max)
        return -1;
    *ret_value = value;
    return 0;
}

int mu_cli_parse_signed(const char *text, int64_t *ret_value)
{
    char *end;
    long long value;

    if (!isdigit((unsigned char)text[text[0] == '-' || text[0] == '+']))
        return -1;
    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno || *end)
        return -1;
    *ret_value = value;
    return 0;
}

int mu_cli_parse_list(const char *text, int32_t **ret_ids, size_t *ret_count)
{
    int32_t *ids = malloc(sizeof *ids * 8192);
    size_t count = 0;

    if (!ids)
        return -1;
    for (;;) {
        char *end;
        unsigned long first, last;

        if (!isdigit((unsigned char)*text))
            break;
        first = last = strtoul(text, &end, 10);
        if (*end == '-' && isdigit((unsigned char)end[1]))
            last = strtoul(end + 1, &end, 10);
        if (first > last || last > 8191 || count + (last - first) >= 8192)
            break;
        while (first <= last)
            ids[count++] = (int32_t)first++;
        if (*end == 0) {
            *ret_ids = ids;
            *ret_count = count;
            return 0;
        }
        if (*end != ',')
            break;
        text = end + 1;
    }
    free(ids);
    return -1;
}

int mu_cli_valid_job(const char *name)
{
    size_t len = strlen(name);

    return len >= 1 && len <= 200 && name[0] != '.' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

int mu_cli_duration(const struct mu_cli_call *call, enum mu_cli_option_id id, uint64_t *ret_ns)
{
    const char *text = call->values[id];

    if (!text || mu_cli_parse_duration(text, ret_ns) == 0)
        return 0;
    return mu_cli_wrong(call, id, text, "is no duration: write 500ms, 30s, 5m");
}

int mu_cli_size(const struct mu_cli_call *call, enum mu_cli_option_id id, uint64_t *ret_bytes)
{
    const char *text = call->values[id];

    if (!text || mu_cli_parse_size(text, ret_bytes) == 0)
        return 0;
    return mu_cli_wrong(call, id, text, "is no size: write 64M, 1G");
}

int mu_cli_unsigned(const struct mu_cli_call *call, enum mu_cli_option_id id, uint64_t max, uint64_t *ret_value)
{
    const char *text = call->values[id];

    if (!text || mu_cli_parse_unsigned(text, max, ret_value) == 0)
        return 0;
    return mu_cli_wrong(call, id, text, "is no number from 0 to %llu", (unsigned long long)max);
}

int mu_cli_deadline(const struct mu_cli_call *call, enum mu_cli_option_id id, muster_deadline *ret_deadline)
{
    uint64_t ns = 0;
    int code = mu_cli_duration(call, id, &ns);

    if (code == 0 && call->values[id])
        *ret_deadline = muster_after_ns(ns);
    return code;
}
