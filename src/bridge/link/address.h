/* bridge/link/address.h: "HOST:PORT" and its relatives, and looking a name up without waiting for it. */
#ifndef MU_BRIDGE_LINK_ADDRESS_H
#define MU_BRIDGE_LINK_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "muster/status.h"

struct mu_link_name {
    char host[256]; /* "": none was given */
    char port[6];
};

/* INVALID_ARGUMENT, with what may be written. */
enum muster_status mu_link_name_parse(const char *text, struct mu_link_name *ret_name);
bool mu_link_is_loopback(const struct sockaddr *a);
/* "127.0.0.1:9464", "[::1]:9464" */
void mu_link_print(const struct sockaddr *a, char *text, size_t size);

/* A look-up, by a thread of its own when the host is no number: names may take many seconds to fail. */
struct mu_lookup;
struct mu_lookup *mu_lookup_begin(const struct mu_link_name *name); /* NULL: no memory, or no thread */
int mu_lookup_fd(const struct mu_lookup *lookup);                   /* readable when it has ended */
/* After it has ended: 0 and a list that freeaddrinfo() frees, or one of getaddrinfo's errors. */
int mu_lookup_end(struct mu_lookup *lookup, struct addrinfo **ret_list);
void mu_lookup_abandon(struct mu_lookup *lookup); /* at any time, instead of end; NULL is fine */

#endif
