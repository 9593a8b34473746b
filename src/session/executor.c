/*
 * session/executor.c: what both kinds of executors share.
 */
#include "session/executor.h"

#include <stdio.h>

void mu_executor_name(const struct mu_executor *executor, char *text, size_t size)
{
    snprintf(text, size, "/job:%s/replica:0/task:%u", executor->job, executor->task);
}
