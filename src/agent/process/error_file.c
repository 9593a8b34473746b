/*
 * agent/process/error_file.c: what tasks leave behind that fail under torch.distributed.elastic's @record.
 *
 * TORCHELASTIC_ERROR_FILE names a file for each task and attempt, in the folder that goes with the attempt
 * (mpi/folder.c). What raises out of a function under @record is written there as JSON, where the first string called
 * "message" is the exception; then the process ends, which takes a while. So one exception brings others, and the task
 * that is reaped first need not be the one that raised first: of those that have left a file the oldest counts.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/mpi/mpi.h"
#include "base/process.h"
#include "base/utf8.h"

enum { FILE_MAX = 65536, TEXT_MAX = 400 };

const char *mu_agent_error_folder(const struct mu_agent *agent)
{
    return agent->pmix                      ? mu_agent_pmix_folder(agent)
           : mu_agent_mpi(agent)->folder[0] ? mu_agent_mpi(agent)->folder
                                            : NULL;
}

/* 0, or -1: it has none. */
static int error_path(const struct mu_agent *agent, uint32_t task_id, char *path, size_t size)
{
    const char *folder = mu_agent_error_folder(agent);

    if (folder)
        mu_launch_error_path(folder, task_id, agent->tasks[task_id].attempt, path, size);
    return folder ? 0 : -1;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* Of four hexadecimal digits; -1: they are none. */
static int32_t four_digits(const char *at)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef", *digit = at[i] ? strchr(digits, at[i] | 0x20) : NULL;

        if (!digit)
            return -1;
        value = value * 16 + (uint32_t)(digit - digits);
    }
    return (int32_t)value;
}

static size_t put_character(uint32_t code, char *to)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xe0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 0x3f));
        to[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 0x3f));
    to[2] = (char)(0x80 | (code >> 6 & 0x3f));
    to[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* Behind "\u": one character, of two escapes where it is above U+FFFF. Bytes that it takes; 0: it is none. */
static size_t read_escape(const char *at, uint32_t *ret_code)
{
    int32_t high = four_digits(at), low;

    if (high < 0 || high < 0x20)
        *ret_code = ' ';
    else
        *ret_code = (uint32_t)high;
    if (high < 0xd800 || high > 0xdfff)
        return high < 0 ? 0 : 4;
    low = at[4] == '\\' && at[5] == 'u' ? four_digits(at + 6) : -1;
    *ret_code = 0xfffd;
    if (high > 0xdbff || low < 0xdc00 || low > 0xdfff)
        return 4;
    *ret_code = 0x10000 + (((uint32_t)high & 0x3ff) << 10 | ((uint32_t)low & 0x3ff));
    return 10;
}

/* Behind the opening quote: what the string holds, in one line, its length. */
static size_t read_string(const char *at, char *text, size_t size)
{
    size_t len = 0, n;
    uint32_t code;

    for (; *at && *at != '"' && len + 4 < size; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            text[len++] = ' ';
        } else if (*at != '\\') {
            text[len++] = *at;
        } else if (*++at == 'u') {
            n = read_escape(at + 1, &code);
            at += n;
            len += put_character(code, text + len);
        } else if (!*at) {
            break;
        } else {
            text[len++] = strchr("bfnrt", *at) ? ' ' : *at;
        }
    }
    return len;
}

/* The exception in a file's text: malloc()ed, one line; NULL: there is none. */
char *mu_agent_error_text(const char *json)
{
    static const char key[] = "\"message\"";
    const char *at = json;
    char text[TEXT_MAX * 4], said[TEXT_MAX + sizeof " ..."];
    size_t len;

    do {
        at = strstr(at, key);
        if (!at)
            return NULL;
        at = skip_space(at + sizeof key - 1);
        at = skip_space(at + (*at == ':'));
    } while (*at == '{');
    if (*at != '"')
        return NULL;
    len = read_string(at + 1, text, sizeof text);
    while (len > 0 && text[len - 1] == ' ')
        len--;
    if (!mu_is_utf8(text, mu_utf8_cut(text, len, len)))
        return NULL;
    len = mu_utf8_copy(said, sizeof said, text, len);
    return len > 0 ? strndup(said, len) : NULL;
}

/* ---- tasks ------------------------------------------------------------------------------------------------------ */

void mu_agent_take_error(struct mu_agent *agent, uint32_t task_id)
{
    struct mu_agent_task *task = &agent->tasks[task_id];
    char path[320], *json;
    struct stat st;

    if (error_path(agent, task_id, path, sizeof path) || stat(path, &st) || !S_ISREG(st.st_mode))
        return;
    json = malloc(FILE_MAX);
    if (json && mu_read_file(path, json, FILE_MAX) > 0) {
        free(task->error);
        task->error = mu_agent_error_text(json);
        task->raised_at = st.st_mtim;
    }
    free(json);
    if (task->error && task->by_us && WIFSIGNALED(task->wait_status) && !task->words) {
        task->wait_status = 1 << 8; /* it had failed already, and would have said so */
        if (asprintf(&task->words, "failed: %s", task->error) < 0)
            task->words = NULL;
    }
}

static bool is_earlier(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

int32_t mu_agent_first_raised(const struct mu_agent *agent, int32_t task_id)
{
    struct timespec first;
    char path[320];
    struct stat st;

    if (!mu_agent_has_task(agent, (uint32_t)task_id) || !agent->tasks[task_id].error)
        return task_id;
    first = agent->tasks[task_id].raised_at;
    for (uint32_t i = agent->first_task; i < mu_agent_tasks_end(agent); i++) {
        if (!agent->tasks[i].started || error_path(agent, i, path, sizeof path) || stat(path, &st) ||
            !is_earlier(st.st_mtim, first))
            continue;
        first = st.st_mtim;
        task_id = (int32_t)i;
    }
    return task_id;
}
