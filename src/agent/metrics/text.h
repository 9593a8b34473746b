/* agent/metrics/text.h: a job's counts and states in the text format of Prometheus. */
#ifndef MU_AGENT_METRICS_TEXT_H
#define MU_AGENT_METRICS_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct muster;
struct mu_metrics_launcher;
struct mu_metrics_view;
struct mu_service;
struct mu_tcpstore;

/* A memory of the job's heartbeats. NULL: no memory. The handle stays the caller's. */
struct mu_metrics_view *mu_metrics_view_new(struct muster *muster);
void mu_metrics_view_free(struct mu_metrics_view *view);
/* Tell of that, too, until it is NULL. */
void mu_metrics_view_service(struct mu_metrics_view *view, struct mu_service *service);
void mu_metrics_view_tcpstore(struct mu_metrics_view *view, struct mu_tcpstore *store);                  /* likewise */
void mu_metrics_view_launcher(struct mu_metrics_view *view, const struct mu_metrics_launcher *launcher); /* copied */
/* Look at every task's heartbeat: as often as its age is to be exact. */
void mu_metrics_look(struct mu_metrics_view *view);
/* The text, malloc()ed; NULL with *ret_why said. `restarts`: how often a task has been started anew. */
char *mu_metrics_render(struct mu_metrics_view *view, uint64_t restarts, size_t *ret_len, const char **ret_why);

#endif
