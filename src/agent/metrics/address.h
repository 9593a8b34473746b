/* agent/metrics/address.h: where to listen, as a person writes it. */
#ifndef MU_AGENT_METRICS_ADDRESS_H
#define MU_AGENT_METRICS_ADDRESS_H

#include <stddef.h>
#include <sys/socket.h>

struct mu_metrics_address {
    char path[108]; /* of a Unix socket, or "" */
    struct sockaddr_storage socket;
};

/* 0, or -1 with the reason. No name is looked up: that might block. */
int mu_metrics_address_parse(const char *text, struct mu_metrics_address *ret_address, char *why, size_t why_size);
/* "127.0.0.1:9464", "[::1]:9464" */
void mu_metrics_address_print(const struct sockaddr_storage *socket, char *text, size_t size);

#endif
