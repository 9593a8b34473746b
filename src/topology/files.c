/*
 * topology/files.c: small files below a node's root, as the kernel writes them.
 *
 * They are read whole and at once, so that what is looked up in one is of one instant. A file that is missing, empty or
 * too long to be one of the kernel's tells nothing, which is no error: containers hide some.
 */
#include "topology/files.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"

/* What was not read for want of memory or descriptors is not missing: the node would not be whole. */
static void note_failure(struct muster_topology *node)
{
    if (errno == ENOMEM || errno == EMFILE || errno == ENFILE)
        node->failed = 1;
}

static ssize_t read_file(struct muster_topology *node, char *text, size_t size, const char *format, va_list args)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s", node->root);
    ssize_t got;

    text[0] = '\0';
    if (length < 0 || length >= (int)sizeof path)
        return -1;
    length += vsnprintf(path + length, sizeof path - (size_t)length, format, args);
    if (length >= (int)sizeof path)
        return -1;
    got = mu_read_file(path, text, size);
    if (got < 0)
        note_failure(node);
    if (got <= 0 || got == (ssize_t)size - 1) {
        text[0] = '\0';
        return -1;
    }
    if (text[got - 1] == '\n')
        text[--got] = '\0';
    return got;
}

ssize_t mu_file_read(struct muster_topology *node, char *text, size_t size, const char *format, ...)
{
    va_list args;
    ssize_t got;

    va_start(args, format);
    got = read_file(node, text, size, format, args);
    va_end(args);
    return got;
}

int mu_file_number(struct muster_topology *node, int64_t *ret_number, const char *format, ...)
{
    char text[64], *end;
    long long number;
    va_list args;
    ssize_t got;

    va_start(args, format);
    got = read_file(node, text, sizeof text, format, args);
    va_end(args);
    errno = 0;
    number = got > 0 ? strtoll(text, &end, 0) : 0;
    if (got <= 0 || end == text || *end || errno)
        return -1;
    *ret_number = number;
    return 0;
}

DIR *mu_file_folder(struct muster_topology *node, const char *path)
{
    char whole[PATH_MAX];
    DIR *folder;

    if (snprintf(whole, sizeof whole, "%s%s", node->root, path) >= (int)sizeof whole)
        return NULL;
    folder = opendir(whole);
    if (!folder)
        note_failure(node);
    return folder;
}

FILE *mu_file_open(struct muster_topology *node, const char *path)
{
    char whole[PATH_MAX];
    FILE *file;

    if (snprintf(whole, sizeof whole, "%s%s", node->root, path) >= (int)sizeof whole)
        return NULL;
    file = fopen(whole, "re");
    if (!file)
        note_failure(node);
    return file;
}

char *mu_file_real(struct muster_topology *node, const char *path)
{
    char whole[PATH_MAX], *real;

    if (snprintf(whole, sizeof whole, "%s%s", node->root, path) >= (int)sizeof whole)
        return NULL;
    real = realpath(whole, NULL);
    if (!real)
        note_failure(node);
    return real;
}

const char *mu_file_value(const char *text, const char *key, const char *separator, char *value, size_t size)
{
    size_t length = strlen(key), end;

    while (strncmp(text, key, length) != 0 || strncmp(text + length, separator, strlen(separator)) != 0) {
        text = strchr(text, '\n');
        if (!text)
            return NULL;
        text++;
    }
    text += length + strlen(separator);
    text += strspn(text, " \t");
    end = strcspn(text, "\n");
    while (end > 0 && strchr(" \t\r", text[end - 1]))
        end--;
    if (end == 0 || end >= size)
        return NULL;
    memcpy(value, text, end);
    value[end] = '\0';
    return value;
}
