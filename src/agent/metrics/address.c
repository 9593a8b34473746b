/*
 * agent/metrics/address.c: "HOST:PORT" and its relatives, from and to text.
 *
 * Without a host it is loopback: the user must say that a job's inside may be read from other machines.
 */
#include "agent/metrics/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int take_port(const char *text, unsigned *ret_port)
{
    size_t digits = strspn(text, "0123456789");
    unsigned long port = strtoul(text, NULL, 10);

    if (digits == 0 || digits > 5 || text[digits] || port > 65535)
        return -1;
    *ret_port = (unsigned)port;
    return 0;
}

static int address_fill(const char *host, unsigned port, int is_v6, struct sockaddr_storage *ret_socket)
{
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret_socket;
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret_socket;

    memset(ret_socket, 0, sizeof *ret_socket);
    if (is_v6) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        return inet_pton(AF_INET6, host, &v6->sin6_addr) == 1 ? 0 : -1;
    }
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &v4->sin_addr) == 1 ? 0 : -1;
}

int mu_metrics_address_parse(const char *text, struct mu_metrics_address *ret_address, char *why, size_t why_size)
{
    const char *colon = strrchr(text, ':'), *start = text, *end = colon;
    char host[64];
    unsigned port;
    int is_v6 = text[0] == '[';

    memset(ret_address, 0, sizeof *ret_address);
    if (strncmp(text, "unix:", 5) == 0) {
        if (text[5] &&
            (size_t)snprintf(ret_address->path, sizeof ret_address->path, "%s", text + 5) < sizeof ret_address->path)
            return 0;
        snprintf(why, why_size, "a socket's path has 1 to %zu bytes", sizeof ret_address->path - 1);
        return -1;
    }
    if (is_v6) {
        start++;
        end = colon && colon > text + 1 && colon[-1] == ']' ? colon - 1 : NULL;
    }
    if (take_port(colon ? colon + 1 : text, &port) || (is_v6 && !end)) {
        snprintf(why, why_size, "'%.80s' is no address: write :9464, 10.0.0.1:9464, [::1]:9464 or unix:PATH", text);
        return -1;
    }
    snprintf(host, sizeof host, "%.*s", !end ? 0 : end - start < 60 ? (int)(end - start) : 60, start);
    if (!is_v6 && (host[0] == 0 || strcmp(host, "localhost") == 0))
        snprintf(host, sizeof host, "127.0.0.1");
    else if (!is_v6 && strcmp(host, "*") == 0)
        snprintf(host, sizeof host, "0.0.0.0");
    if (address_fill(host, port, is_v6, &ret_address->socket) == 0)
        return 0;
    snprintf(why, why_size, "'%.60s' is no numeric address%s", host,
             !is_v6 && strchr(host, ':') ? "; put IPv6 in brackets: [::1]:9464"
             : strchr(host, '%')         ? "; one with a scope is not taken"
                                         : "");
    return -1;
}

void mu_metrics_address_print(const struct sockaddr_storage *socket, char *text, size_t size)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)socket;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)socket;
    char host[INET6_ADDRSTRLEN] = "?";

    if (socket->ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(text, size, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else {
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(text, size, "%s:%u", host, ntohs(v4->sin_port));
    }
}
