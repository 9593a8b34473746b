/*
 * rpc/desk_line.c: clients' connections, and what becomes of tasks when theirs is gone.
 *
 * A line's asks that wait are listed with it: they are dropped when it hangs up.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rpc/desk_private.h"

struct mu_line *mu_desk_line(struct mu_desk *desk, uint32_t pid, const char *name)
{
    struct mu_line *line = calloc(1, sizeof *line);

    if (!line) {
        mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a connection");
        return NULL;
    }
    line->desk = desk;
    line->pid = pid;
    snprintf(line->name, sizeof line->name, "%s", name);
    line->next = desk->lines;
    if (line->next)
        line->next->prev = line;
    desk->lines = line;
    return line;
}

void mu_desk_hang_up(struct mu_line *line, const char *why)
{
    struct mu_desk *desk = line->desk;

    (void)why;
    while (line->parked)
        mu_desk_drop(desk, line->parked->ask);
    *(line->prev ? &line->prev->next : &desk->lines) = line->next;
    if (line->next)
        line->next->prev = line->prev;
    free(line);
}
