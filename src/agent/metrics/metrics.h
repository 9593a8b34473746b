/*
 * agent/metrics/metrics.h: a job's metrics over HTTP, for Prometheus: GET /metrics and /healthz.
 *
 * Everything happens in the caller's loop and thread, without ever blocking; no handle here keeps the loop alive. The
 * caller ignores SIGPIPE. Connections, the size of a request and every wait are bounded: a client that is slow or
 * means ill harms only itself.
 */
#ifndef MU_AGENT_METRICS_METRICS_H
#define MU_AGENT_METRICS_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

struct muster;
struct mu_account;
struct mu_metrics;
struct mu_service;
struct mu_tcpstore;

/*
 * Listen at `addr`: "HOST:PORT" with a numeric host or "localhost", "[V6]:PORT", ":PORT" or "PORT" (both loopback
 * only),
 * "*:PORT" (every IPv4 interface), "unix:PATH" (mode 0600; a socket there that nobody serves is replaced). Port 0: any.
 * 0, or -1 with the reason in `why`. `muster` must outlive mu_metrics_stop().
 */
int mu_metrics_start(uv_loop_t *loop, const char *addr, struct muster *muster, struct mu_metrics **ret_metrics,
                     char *why, size_t why_size);
/* Where it listens, for people: "http://127.0.0.1:9464/metrics", "unix:/run/muster.sock". */
const char *mu_metrics_address(const struct mu_metrics *metrics);
bool mu_metrics_is_open(const struct mu_metrics *metrics); /* other machines may reach it */
/* What it holds for clients counts there; the account outlives it. */
void mu_metrics_count(struct mu_metrics *metrics, struct mu_account *account);
/* Those of the coordination service, too; NULL: no longer. */
void mu_metrics_service(struct mu_metrics *metrics, struct mu_service *service);
void mu_metrics_tcpstore(struct mu_metrics *metrics, struct mu_tcpstore *store); /* likewise of PyTorch's store */
/* So many tasks have been started anew. */
void mu_metrics_restarted(struct mu_metrics *metrics, uint64_t count);
/* The launcher's knowledge of its tasks' processes, joined or not. */
struct mu_metrics_launcher {
    bool (*lives)(const void *arg, uint32_t task); /* that task's process does */
    const void *arg;
    const uint64_t *failures; /* so many have ended badly, by themselves */
    /* What a service counts, "ADDRESS [WORD] name N name N/WANTED ...", and its name; NULL: there are no more. */
    const char *(*service)(const void *arg, unsigned which, char *text, size_t size);
};
void mu_metrics_launcher(struct mu_metrics *metrics, const struct mu_metrics_launcher *launcher);
/* Close everything at once, answers in flight too. The memory goes in the loop's next turns. NULL is allowed. */
void mu_metrics_stop(struct mu_metrics *metrics);

#endif
