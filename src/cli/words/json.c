/*
 * cli/words/json.c: writes JSON. Strings are always well-formed: what is not UTF-8 becomes U+FFFD, and values that are
 * not text are written as base64 under another key.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"

size_t mu_cli_utf8_length(const void *data, size_t len)
{
    return mu_utf8_length(data, len);
}

bool mu_cli_is_c1(const void *text, size_t len)
{
    const unsigned char *at = text;

    return len >= 2 && at[0] == 0xc2 && at[1] >= 0x80 && at[1] <= 0x9f;
}

bool mu_cli_is_utf8(const void *data, size_t len)
{
    return mu_is_utf8(data, len);
}

static void put_string(FILE *out, const char *text, size_t len)
{
    const unsigned char *at = (const unsigned char *)text;

    putc('"', out);
    while (len > 0) {
        size_t n = mu_cli_utf8_length(at, len);

        if (n == 0) {
            fputs("\\ufffd", out);
            n = 1;
        } else if (*at == '"' || *at == '\\') {
            fprintf(out, "\\%c", *at);
        } else if (*at == '\n') {
            fputs("\\n", out);
        } else if (*at == '\t') {
            fputs("\\t", out);
        } else if (*at < 0x20 || *at == 0x7f) {
            fprintf(out, "\\u%04x", *at);
        } else if (mu_cli_is_c1(at, len)) { /* for a reader on a terminal */
            fprintf(out, "\\u%04x", at[1]);
        } else {
            fwrite(at, 1, n, out);
        }
        at += n;
        len -= n;
    }
    putc('"', out);
}

static void put_key(struct mu_cli_json *json, const char *key)
{
    if (json->filled[json->depth])
        putc(',', json->out);
    json->filled[json->depth] = 1;
    if (key) {
        put_string(json->out, key, strlen(key));
        putc(':', json->out);
    }
}

void mu_cli_json_start(struct mu_cli_json *json, FILE *out)
{
    memset(json, 0, sizeof *json);
    json->out = out;
}

void mu_cli_json_open(struct mu_cli_json *json, const char *key, char bracket)
{
    put_key(json, key);
    putc(bracket, json->out);
    json->depth++;
    json->filled[json->depth] = 0;
}

void mu_cli_json_close(struct mu_cli_json *json, char bracket)
{
    putc(bracket, json->out);
    json->depth--;
}

void mu_cli_json_text_n(struct mu_cli_json *json, const char *key, const char *text, size_t len)
{
    put_key(json, key);
    put_string(json->out, text, len);
}

void mu_cli_json_text(struct mu_cli_json *json, const char *key, const char *text)
{
    if (text)
        mu_cli_json_text_n(json, key, text, strlen(text));
    else
        mu_cli_json_null(json, key);
}

void mu_cli_json_unsigned(struct mu_cli_json *json, const char *key, uint64_t value)
{
    put_key(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void mu_cli_json_signed(struct mu_cli_json *json, const char *key, int64_t value)
{
    put_key(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void mu_cli_json_known(struct mu_cli_json *json, const char *key, int is_known, uint64_t value)
{
    if (is_known)
        mu_cli_json_unsigned(json, key, value);
    else
        mu_cli_json_null(json, key);
}

void mu_cli_json_thousandths(struct mu_cli_json *json, const char *key, uint64_t thousandths)
{
    put_key(json, key);
    fprintf(json->out, "%" PRIu64 ".%03u", thousandths / 1000, (unsigned)(thousandths % 1000));
}

void mu_cli_json_bool(struct mu_cli_json *json, const char *key, int value)
{
    put_key(json, key);
    fputs(value ? "true" : "false", json->out);
}

void mu_cli_json_null(struct mu_cli_json *json, const char *key)
{
    put_key(json, key);
    fputs("null", json->out);
}

static void put_base64(FILE *out, const unsigned char *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    putc('"', out);
    for (size_t i = 0; i < len; i += 3) {
        unsigned bits = (unsigned)data[i] << 16;

        bits |= i + 1 < len ? (unsigned)data[i + 1] << 8 : 0;
        bits |= i + 2 < len ? data[i + 2] : 0;
        putc(digits[bits >> 18], out);
        putc(digits[bits >> 12 & 63], out);
        putc(i + 1 < len ? digits[bits >> 6 & 63] : '=', out);
        putc(i + 2 < len ? digits[bits & 63] : '=', out);
    }
    putc('"', out);
}

void mu_cli_json_bytes(struct mu_cli_json *json, const char *key, const void *data, size_t len)
{
    char other[64];

    if (mu_cli_is_utf8(data, len)) {
        mu_cli_json_text_n(json, key, data, len);
        return;
    }
    snprintf(other, sizeof other, "%s_base64", key);
    put_key(json, other);
    put_base64(json->out, data, len);
}

void mu_cli_json_end(struct mu_cli_json *json)
{
    putc('\n', json->out);
}
