/*
 * launch/process/tail.c: the last lines of what a task wrote, as they are said again below the root cause of a failure.
 */
#include "launch/launch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"

enum { LAST_LINE_MAX = 400 };

char *mu_launch_tail_last(const struct mu_launch_tail *tail, const char *sentence, char **explained, size_t *ret_len)
{
    const char *text = tail->text ? tail->text : "", *start;
    const char *lead = tail->is_passed ? "" : "; it said last";
    char line[LAST_LINE_MAX + sizeof " ..."], *said;
    size_t len = tail->len, size;

    while (len > 0 && (unsigned char)text[len - 1] <= ' ')
        len--;
    start = len > 0 ? memrchr(text, '\n', len) : NULL;
    start = start ? start + 1 : text;
    len -= (size_t)(start - text);
    len = mu_utf8_copy(line, sizeof line, start, len);
    size = strlen(sentence) + strlen(lead) + len + 5;
    said = malloc(size);
    if (!said)
        return NULL;
    *ret_len = (size_t)snprintf(said, size, "%s%s%s", sentence, len ? lead : "", len ? ": " : "");
    for (size_t i = 0; i < len; i++)
        said[(*ret_len)++] = (unsigned char)line[i] < ' ' || line[i] == 0x7f ? ' ' : line[i];
    said[(*ret_len)++] = '\n';
    said[*ret_len] = 0;
    free(*explained);
    *explained = strdup(said);
    return said;
}

char *mu_launch_tail_text(const struct mu_launch_tail *tail, const char *explained, size_t *ret_len)
{
    const char *text = tail->text;
    size_t len = tail->len, lines = 0, start;
    char *said = NULL;
    FILE *file;

    while (len > 0 && text[len - 1] == '\n')
        len--;
    for (start = len; start > 0; start--)
        if (text[start - 1] == '\n' && ++lines == MU_LAUNCH_TAIL_LINES)
            break;
    if (start == 0 && len > 0)
        lines++;
    if (len == 0 || !(file = open_memstream(&said, ret_len)))
        return NULL;
    fputs(explained ? explained : "", file);
    if (lines == 1)
        fprintf(file, "muster run: the last line of task %u's %s:\n", tail->task_id, tail->what);
    else
        fprintf(file, "muster run: the last %zu lines of task %u's %s:\n", lines, tail->task_id, tail->what);
    for (int first = 1; start < len; first = 0) {
        const char *end = memchr(text + start, '\n', len - start);
        size_t n = end ? (size_t)(end - text) - start : len - start;

        fputs(first && start == 0 && tail->cut ? "    ..." : "    ", file);
        fwrite(text + start, 1, n, file);
        putc('\n', file);
        start += n + 1;
    }
    if (fclose(file)) {
        free(said);
        return NULL;
    }
    return said;
}

char *mu_launch_files_tail(const char *path, uint32_t task_id, const char *what, size_t *ret_len)
{
    struct mu_launch_tail tail = {.task_id = task_id, .what = what};
    char text[8192], *said = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        off_t from = st.st_size > (off_t)sizeof text ? st.st_size - (off_t)sizeof text : 0;
        ssize_t n = pread(fd, text, sizeof text, from);

        tail.text = text;
        tail.len = n > 0 ? (size_t)n : 0;
        tail.cut = from > 0;
        said = mu_launch_tail_text(&tail, NULL, ret_len);
    }
    close(fd);
    return said;
}
