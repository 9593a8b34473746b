/*
 * rpc/http.c: reading a request's head, from bytes that anybody may have sent.
 *
 * Strict where leniency has been abused: no folded headers, no space before a colon, no control characters, one Host,
 * one meaning of Content-Length. The head is parsed anew from its beginning when more has come; it is at most
 * MU_HTTP_HEAD_MAX bytes. Lines may end in CR LF or LF.
 */
#include "rpc/http.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

struct http_text {
    const char *at;
    size_t len;
};

static int text_equals(struct http_text text, const char *word)
{
    return text.len == strlen(word) && strncasecmp(text.at, word, text.len) == 0;
}

/* token of RFC 9110 */
static bool is_token(struct http_text text)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];

        if (!(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z') &&
            (c == 0 || !strchr(marks, c)))
            return 0;
    }
    return text.len > 0;
}

/* The next line without its end, and *at behind it. 0 when it is not complete. */
static int next_line(const char *data, size_t len, size_t *at, struct http_text *ret_line)
{
    const char *end = *at < len ? memchr(data + *at, '\n', len - *at) : NULL;

    if (!end)
        return 0;
    *ret_line = (struct http_text){data + *at, (size_t)(end - data) - *at};
    *at += ret_line->len + 1;
    if (ret_line->len > 0 && ret_line->at[ret_line->len - 1] == '\r')
        ret_line->len--;
    return 1;
}

static int text_copy(struct http_text text, char *buffer, size_t size)
{
    if (text.len >= size)
        return -1;
    memcpy(buffer, text.at, text.len);
    buffer[text.len] = 0;
    return 0;
}

/* "/path?query", "http://host/path", "*" */
static int take_target(struct http_text target, struct mu_http_request *request)
{
    const char *slash, *end;

    if (target.len > 7 && strncasecmp(target.at, "http://", 7) == 0) {
        slash = memchr(target.at + 7, '/', target.len - 7);
        target =
            slash ? (struct http_text){slash, target.len - (size_t)(slash - target.at)} : (struct http_text){"/", 1};
    }
    if (target.len == 0 || (target.at[0] != '/' && !text_equals(target, "*")))
        return -400;
    end = memchr(target.at, '?', target.len);
    if (end)
        target.len = (size_t)(end - target.at);
    return text_copy(target, request->path, sizeof request->path) ? -414 : 0;
}

static int take_request_line(struct http_text line, struct mu_http_request *request)
{
    const char *first = memchr(line.at, ' ', line.len), *last = memrchr(line.at, ' ', line.len);
    struct http_text method, target, version;
    int code;

    if (!first || first == last)
        return -400;
    method = (struct http_text){line.at, (size_t)(first - line.at)};
    target = (struct http_text){first + 1, (size_t)(last - first) - 1};
    version = (struct http_text){last + 1, line.len - (size_t)(last - line.at) - 1};
    if (!is_token(method) || memchr(target.at, ' ', target.len) ||
        text_copy(method, request->method, sizeof request->method))
        return -400;
    if (version.len != 8 || memcmp(version.at, "HTTP/", 5) != 0 || version.at[6] != '.' || version.at[5] < '0' ||
        version.at[5] > '9' || version.at[7] < '0' || version.at[7] > '9')
        return -400;
    if (version.at[5] != '1')
        return -505;
    code = take_target(target, request);
    if (code)
        return code;
    request->minor = version.at[7] - '0';
    request->keep_alive = request->minor > 0;
    return 0;
}

/* "keep-alive, x": the last word that means something to us counts. */
static void take_connection(struct http_text value, struct mu_http_request *request)
{
    while (value.len > 0) {
        const char *comma = memchr(value.at, ',', value.len);
        struct http_text word = {value.at, comma ? (size_t)(comma - value.at) : value.len};

        value.at += word.len + (comma != NULL);
        value.len -= word.len + (comma != NULL);
        for (; word.len > 0 && (*word.at == ' ' || *word.at == '\t'); word.len--)
            word.at++;
        while (word.len > 0 && (word.at[word.len - 1] == ' ' || word.at[word.len - 1] == '\t'))
            word.len--;
        if (text_equals(word, "close"))
            request->keep_alive = 0;
        else if (text_equals(word, "keep-alive"))
            request->keep_alive = 1;
    }
}

struct http_seen {
    unsigned headers, hosts, lengths;
};

static int header_take(struct http_text line, struct mu_http_request *request, struct http_seen *seen)
{
    const char *colon = memchr(line.at, ':', line.len);
    struct http_text name, value;

    if (++seen->headers > MU_HTTP_HEADERS_MAX)
        return -431;
    if (!colon)
        return -400;
    name = (struct http_text){line.at, (size_t)(colon - line.at)};
    value = (struct http_text){colon + 1, line.len - name.len - 1};
    if (!is_token(name)) /* so a folded line, or a space before the colon, is none either */
        return -400;
    for (; value.len > 0 && (*value.at == ' ' || *value.at == '\t'); value.len--)
        value.at++;
    while (value.len > 0 && (value.at[value.len - 1] == ' ' || value.at[value.len - 1] == '\t'))
        value.len--;
    if (text_equals(name, "connection"))
        take_connection(value, request);
    else if (text_equals(name, "host") && ++seen->hosts > 1)
        return -400;
    else if (text_equals(name, "transfer-encoding"))
        request->has_body = request->is_chunked = 1;
    else if (text_equals(name, "content-length")) {
        if (++seen->lengths > 1 || value.len == 0 || value.len > 18)
            return -400;
        for (size_t i = 0; i < value.len; i++) {
            if (value.at[i] < '0' || value.at[i] > '9')
                return -400;
            request->body_len = request->body_len * 10 + (uint64_t)(value.at[i] - '0');
        }
        request->has_body |= request->body_len > 0;
    }
    return 0;
}

/* A byte that no head contains: then it is not HTTP, or somebody tries something. */
static bool is_strange(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];

        if ((c < 0x20 && c != '\r' && c != '\n' && c != '\t') || c == 0x7f ||
            (c == '\r' && i + 1 < len && data[i + 1] != '\n'))
            return 1;
        if (c == '\n' && i + 1 < len && (data[i + 1] == '\n' || data[i + 1] == '\r'))
            return 0; /* the head's end: what follows is looked at in its turn */
    }
    return 0;
}

long mu_http_parse(const char *data, size_t len, struct mu_http_request *ret_request)
{
    size_t at = 0, within = len < MU_HTTP_HEAD_MAX ? len : MU_HTTP_HEAD_MAX;
    struct http_seen seen = {0, 0, 0};
    struct http_text line;
    int code;

    memset(ret_request, 0, sizeof *ret_request);
    while (at < within && at < 4 && (data[at] == '\r' || data[at] == '\n')) /* left by some clients behind a body */
        at++;
    if (is_strange(data + at, within - at))
        return -400;
    if (!next_line(data, within, &at, &line))
        return within == MU_HTTP_HEAD_MAX ? -431 : 0;
    code = take_request_line(line, ret_request);
    while (!code) {
        if (!next_line(data, within, &at, &line))
            return within == MU_HTTP_HEAD_MAX ? -431 : 0;
        if (line.len == 0)
            return ret_request->minor > 0 && seen.hosts == 0 ? -400 : (long)at;
        code = header_take(line, ret_request, &seen);
    }
    return code;
}

const char *mu_http_reason(int status)
{
    switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 414: return "URI Too Long";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Error";
    }
}
