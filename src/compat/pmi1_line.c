/*
 * compat/pmi1_line.c: a line of PMI-1 is words NAME=VALUE with a blank between them; the first says what it is.
 *
 * Values of keys are mostly hexadecimal, but may hold anything that is no line's end: so value= takes the rest.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compat/pmi1.h"

void mu_pmi1_parse(char *text, struct mu_pmi1_line *ret_line)
{
    ret_line->count = 0;
    for (char *at = text + strspn(text, " "); *at && ret_line->count < MU_PMI1_FIELDS_MAX;) {
        struct mu_pmi1_field *field = &ret_line->fields[ret_line->count++];
        bool is_rest = strncmp(at, "value=", 6) == 0;
        char *end = is_rest ? at + strlen(at) : at + strcspn(at, " ");
        char *next = *end ? end + 1 + strspn(end + 1, " ") : end, *equals;

        *end = 0;
        equals = strchr(at, '=');
        field->name = at;
        field->value = equals ? equals + 1 : end;
        if (equals)
            *equals = 0;
        at = next;
    }
}

const char *mu_pmi1_field(const struct mu_pmi1_line *line, const char *name)
{
    for (uint32_t i = 0; i < line->count; i++)
        if (strcmp(line->fields[i].name, name) == 0)
            return line->fields[i].value;
    return NULL;
}

long mu_pmi1_number(const struct mu_pmi1_line *line, const char *name, long otherwise)
{
    const char *text = mu_pmi1_field(line, name);
    char *end;
    long number;

    if (!text || !*text)
        return otherwise;
    errno = 0;
    number = strtol(text, &end, 10);
    return *end || errno ? otherwise : number;
}
