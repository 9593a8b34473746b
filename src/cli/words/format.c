/*
 * cli/words/format.c: ages, sizes, names and colours for people.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"

const char *mu_cli_colour(enum mu_cli_colour colour)
{
    static const char *const codes[] = {
        [MU_CLI_PLAIN] = "\033[0m",   [MU_CLI_RED] = "\033[31m", [MU_CLI_GREEN] = "\033[32m",
        [MU_CLI_YELLOW] = "\033[33m", [MU_CLI_BOLD] = "\033[1m", [MU_CLI_DIM] = "\033[2m",
    };
    static int on = -1;

    if (on < 0) {
        const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");

        on = isatty(1) && term && strcmp(term, "dumb") != 0 && !(no_color && *no_color);
    }
    return on ? codes[colour] : "";
}

static uint64_t age_at;

void mu_cli_age_at(uint64_t now_ns)
{
    age_at = now_ns;
}

const char *mu_cli_age(uint64_t since_ns, char buffer[32])
{
    uint64_t now = age_at ? age_at : muster_now_ns(), ns = now > since_ns ? now - since_ns : 0;
    double seconds = (double)ns / 1e9;

    if (since_ns == 0 || since_ns == UINT64_MAX)
        snprintf(buffer, 32, "-");
    else if (ns < 1000000)
        snprintf(buffer, 32, "%.0f us", seconds * 1e6);
    else if (ns < 1000000000)
        snprintf(buffer, 32, "%.0f ms", seconds * 1e3);
    else if (seconds < 120)
        snprintf(buffer, 32, "%.1f s", seconds);
    else if (seconds < 7200)
        snprintf(buffer, 32, "%.0f min", seconds / 60);
    else
        snprintf(buffer, 32, "%.1f h", seconds / 3600);
    return buffer;
}

const char *mu_cli_bytes(uint64_t bytes, char buffer[32])
{
    if (bytes < 1024)
        snprintf(buffer, 32, "%u B", (unsigned)bytes);
    else if (bytes < 1 << 20)
        snprintf(buffer, 32, "%.1f KiB", (double)bytes / 1024);
    else if (bytes < 1 << 30)
        snprintf(buffer, 32, "%.1f MiB", (double)bytes / (1 << 20));
    else
        snprintf(buffer, 32, "%.1f GiB", (double)bytes / (1 << 30));
    return buffer;
}

const char *mu_cli_state_name(enum muster_task_state state)
{
    switch (state) {
    case MUSTER_TASK_DISCONNECTED: return "DISCONNECTED";
    case MUSTER_TASK_CONNECTED: return "CONNECTED";
    case MUSTER_TASK_ERROR: return "ERROR";
    }
    return "?";
}

const char *mu_cli_cause_name(enum muster_cause cause)
{
    switch (cause) {
    case MUSTER_CAUSE_NONE: return "none";
    case MUSTER_CAUSE_REPORTED: return "reported";
    case MUSTER_CAUSE_DIED: return "died";
    case MUSTER_CAUSE_HEARTBEAT: return "silent";
    case MUSTER_CAUSE_RESTARTED: return "restarted";
    case MUSTER_CAUSE_EXITED: return "exited";
    case MUSTER_CAUSE_SERVICE: return "service";
    }
    return "?";
}

/* The letter in /proc/PID/stat; 0 when there is no such process here. */
static char process_letter(uint32_t pid)
{
    char path[64], text[512], *end;

    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    mu_read_file(path, text, sizeof text);
    end = strrchr(text, ')');
    return end && end[1] == ' ' ? end[2] : 0;
}

const char *mu_cli_process(const struct muster_task_info *info)
{
    char host[64] = "", letter = 0;

    if (mu_cli_is_ended(info))
        return "ended";
    if (info->attempt == 0)
        return "-";
    if (!info->alive)
        return info->state == MUSTER_TASK_DISCONNECTED ? "left" : info->guest ? "lost" : "dead";
    if (gethostname(host, sizeof host - 1) == 0 && strcmp(host, info->host) == 0)
        letter = process_letter(info->pid);
    switch (letter) {
    case 'T': return "stopped";
    case 't': return "traced";
    default:
        return info->guest ? "guest"
                           : "running"; /* Z, too: only its first thread has ended, or it is ending at this instant */
    }
}

void mu_cli_print_text(FILE *out, const void *data, size_t len)
{
    const unsigned char *at = data;

    while (len > 0) {
        size_t n = mu_cli_utf8_length(at, len);

        if (*at == '\n' || *at == '\t' || *at == '\\') {
            fprintf(out, "\\%c", *at == '\n' ? 'n' : *at == '\t' ? 't' : '\\');
        } else if (n == 0 || *at < 0x20 || *at == 0x7f) {
            fprintf(out, "\\x%02x", *at);
            n = 1;
        } else if (mu_cli_is_c1(at, len)) {
            fprintf(out, "\\x%02x\\x%02x", at[0], at[1]);
        } else {
            fwrite(at, 1, n, out);
        }
        at += n;
        len -= n;
    }
}

void mu_cli_print_line(FILE *out, const char *text)
{
    mu_cli_print_text(out, text, strlen(text));
}
