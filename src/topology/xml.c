/*
 * topology/xml.c: whether a text is whole XML, in the form that hwloc writes.
 *
 * hwloc's own parser (the one without libxml) looks for the end of what it has begun to read without looking for the
 * end of the text: a file that was cut short in its first element makes it read from NULL. And it descends by
 * recursion. So what it gets has been gone through once: elements are closed in order, attributes quoted, nesting
 * bounded. Nor does it miss the sets of an object: one that names some of its four must name all; and each begins like
 * a number, or hwloc's assertions end the process. What else the values mean is hwloc's to judge.
 *
 * hwloc sets the bit `os_index` of a processor or a memory node, so that number is bounded. A bridge and a PCI device
 * are in no set, and hwloc 1 wrote an address there, with the domain in bits 20 and above.
 */
#include "topology/xml.h"

#include <stdbool.h>
#include <string.h>

enum {
    DEPTH_MAX = 256,
    INDEX_DIGITS = 7, /* of a processor or a memory node: sets have a bit for each below, too */
};

struct xml_name {
    const char *text;
    size_t length;
};

#define SPACE " \t\r\n"
#define NAME  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-:."

static const char *skip_space(const char *at)
{
    return at + strspn(at, SPACE);
}

/* Behind the declarations that come before the first element. */
static const char *skip_prolog(const char *at)
{
    for (at = skip_space(at); at[0] == '<' && (at[1] == '?' || at[1] == '!'); at = skip_space(at + 1)) {
        at = strchr(at, '>');
        if (!at)
            return NULL;
    }
    return at;
}

/* Which of the sets that belong together the attribute is, as a bit; 0: none. */
static unsigned set_named(const char *start, size_t length)
{
    static const char *const names[] = {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"};

    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (length == strlen(names[i]) && memcmp(start, names[i], length) == 0)
            return 1u << i;
    return 0;
}

/* "cpuset", "allowed_nodeset", ... */
static bool is_set(const char *start, size_t length)
{
    return length >= 3 && memcmp(start + length - 3, "set", 3) == 0;
}

/* What the attributes of an element say, as far as it matters here. */
struct tag {
    unsigned sets;       /* bits of set_named() */
    int is_of_pci;       /* it names a type with an os_index that is no bit of a set */
    int is_other;        /* it names another type; a damaged file may do both */
    int has_large_index; /* too large for a bit of a set */
};

static bool is_word(const char *start, size_t length, const char *word)
{
    return length == strlen(word) && memcmp(start, word, length) == 0;
}

static void note_attribute(struct tag *tag, const char *name, size_t name_length, const char *value, size_t length)
{
    tag->sets |= set_named(name, name_length);
    if (is_word(name, name_length, "type")) {
        int is_of_pci = is_word(value, length, "Bridge") || is_word(value, length, "PCIDev");

        tag->is_of_pci |= is_of_pci;
        tag->is_other |= !is_of_pci;
    }
    if (is_word(name, name_length, "os_index"))
        tag->has_large_index |= length > INDEX_DIGITS;
}

/* Behind name="value" and the space before it; `at` itself where there is none; NULL: it is broken. */
static const char *skip_attribute(const char *at, struct tag *tag)
{
    const char *start = skip_space(at);
    size_t length = strspn(start, NAME);

    if (length == 0)
        return at;
    if (start == at || start[length] != '=' || start[length + 1] != '"')
        return NULL;
    at = start + length + 2;
    if (is_set(start, length) && strncmp(at, "0x", 2) != 0)
        return NULL;
    note_attribute(tag, start, length, at, strcspn(at, "\""));
    at += strcspn(at, "\"<");
    return *at == '"' ? at + 1 : NULL;
}

/* Behind an element's first tag, which opens names[*depth] or is whole. */
static const char *skip_start(const char *at, struct xml_name *names, size_t *depth, int may_lack)
{
    struct xml_name name = {.text = at + 1, .length = strspn(at + 1, NAME)};
    struct tag tag = {.sets = 0};

    if (name.length == 0)
        return NULL;
    at = name.text + name.length;
    for (const char *next; (next = skip_attribute(at, &tag)) != at; at = next)
        if (!next)
            return NULL;
    if (is_word(name.text, name.length, "object") && tag.sets && tag.sets != 15 && !may_lack)
        return NULL;
    if (tag.has_large_index && (tag.is_other || !tag.is_of_pci))
        return NULL;
    at = skip_space(at);
    if (at[0] == '/' && at[1] == '>')
        return at + 2;
    if (*at != '>' || *depth == DEPTH_MAX)
        return NULL;
    names[(*depth)++] = name;
    return at + 1;
}

static const char *skip_end(const char *at, const struct xml_name *names, size_t *depth)
{
    const struct xml_name *name;

    if (*depth == 0)
        return NULL;
    name = &names[--*depth];
    at += 2;
    if (strncmp(at, name->text, name->length) != 0)
        return NULL;
    at = skip_space(at + name->length);
    return *at == '>' ? at + 1 : NULL;
}

/* NULL: all is well. */
static const char *find_fault(const char *text, const char **ret_at)
{
    struct xml_name names[DEPTH_MAX];
    const char *at = skip_prolog(text), *next;
    int may_lack = !strstr(text, "<topology version="); /* hwloc 1 wrote fewer */
    size_t depth = 0;

    *ret_at = text;
    if (!at || *at != '<')
        return "it does not begin with an element";
    do {
        next = at[1] == '/' ? skip_end(at, names, &depth) : skip_start(at, names, &depth, may_lack);
        *ret_at = at;
        if (!next)
            return depth == DEPTH_MAX ? "its elements are nested too deep"
                                      : "an element is cut short, not closed, lacks a set or has a wrong set or index";
        at = next + strcspn(next, "<");
    } while (depth > 0 && *at);
    *ret_at = at;
    if (depth > 0)
        return "it is cut short";
    return *skip_space(next) ? "something follows its last element" : NULL;
}

const char *mu_xml_check(const char *text, size_t *ret_line)
{
    const char *at, *fault = find_fault(text, &at);

    *ret_line = 1;
    for (const char *c = text; c < at; c++)
        *ret_line += *c == '\n';
    return fault;
}
