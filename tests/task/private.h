/* tests/task/private.h: what stage.c and player.c share: the pipes between director and players. */
#ifndef MUSTER_TEST_STAGE_PRIVATE_H
#define MUSTER_TEST_STAGE_PRIVATE_H

#include "stage.h"

struct order {
    act_fn act; /* NULL: exit */
    size_t len;
    uint8_t arg[1024];
};

bool stage_send(int fd, const void *data, size_t len);
bool stage_receive(int fd, void *data, size_t len);
_Noreturn void stage_play(int orders, int answers);
void stage_print_tasks(void);

#endif
