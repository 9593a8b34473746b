/*
 * tests/task/guests.h: the director as the agent of guests: what an agent does for them, by its observer.
 */
#ifndef MUSTER_TEST_GUESTS_H
#define MUSTER_TEST_GUESTS_H

#include "stage.h"

#include "task/client.h"

#define INCARNATION 4711u

/* A job in which nobody falls silent by itself. */
void guests_open(uint32_t tasks);
/* Of the job's state. */
uint64_t guests_version(void);

enum muster_status guest_comes(const struct mu_client *g);
enum muster_status guest_comes_as(uint32_t task, uint64_t incarnation, uint32_t flags);
enum muster_status guest_goes(uint32_t task);
/* Never refused; it need not be lost by it. */
void guest_is_lost(uint32_t task, uint64_t incarnation, const char *text);

#endif
