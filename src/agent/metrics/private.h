/* agent/metrics/private.h: what metrics.c (the listener) and connection.c (one client) share. */
#ifndef MU_AGENT_METRICS_PRIVATE_H
#define MU_AGENT_METRICS_PRIVATE_H

#include "agent/metrics/metrics.h"
#include "rpc/http.h"
#include "agent/metrics/text.h"
#include "base/account.h"
#include "base/unix_socket.h"

/* An answer's body, shared by the connections that send it. */
struct mu_body {
    unsigned users;
    struct mu_account *account; /* that it counts against; NULL: none */
    uint64_t made_at;
    size_t len;
    char *text;
};

union mu_metrics_handle {
    uv_handle_t any;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

enum mu_phase { MU_READING, MU_WRITING, MU_LINGERING, MU_CLOSING };

struct mu_connection {
    union mu_metrics_handle handle; /* first: a handle is its connection */
    struct mu_metrics *metrics;
    struct mu_connection *next, *prev;
    enum mu_phase phase;
    uint64_t deadline, since; /* of the loop's clock, in ms */
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct mu_body *body;
    int keep_alive;
    size_t have, drained;
    char head[320];
    char in[MU_HTTP_HEAD_MAX];
};

struct mu_metrics {
    uv_loop_t *loop;
    union mu_metrics_handle listener, refused;
    uv_timer_t timer;
    struct mu_metrics_view *view;
    struct mu_connection *connections;
    unsigned count, open; /* connections; handles that are not closed */
    int stopping, refusing;
    uint64_t looked_at, restarts;
    struct mu_body *body; /* the last */
    struct mu_account *account;
    char address[160], path[MU_UNIX_PATH_MAX]; /* the latter of a Unix socket that we made; "": none */
    dev_t device;
    ino_t file;
    int is_open;
};

/* metrics.c: a handle of it is closed. */
void mu_metrics_release(struct mu_metrics *metrics);

/* connection.c */
void mu_body_drop(struct mu_body *body);
/* NULL: no memory, or others hold too much. */
struct mu_connection *mu_connection_new(const struct mu_metrics *metrics);
void mu_connection_free(const struct mu_metrics *metrics, struct mu_connection *c); /* one without a handle */
void mu_connection_begin(struct mu_connection *c);
void mu_connection_end(struct mu_connection *c);
void mu_connection_closed(uv_handle_t *handle);

#endif
