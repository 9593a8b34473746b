/*
 * agent/hosts/orders.c: what the leader's agent tells those that come: the command line of the job, as it was typed,
 * where, and with which variables; so that each host reads its options as the leader's did, and binds by its own
 * machine.
 *
 * The leader's variables go over the host's own, but for those that say where a shell is and what it talks to. The
 * orders tell the leader's terminal and its size, for what the tasks write is seen there. The
 * agents must be of one version, for they must read the same line alike.
 */
#include <stdlib.h>
#include <string.h>

#include <muster/muster.h>

#include "agent/hosts/orders.h"
#include "base/error.h"

enum { ORDERS_FORM = 5, WORDS_MAX = 1 << 20, TEXT_MAX = 1 << 20, CHECKPOINTS_MAX = 16 << 20 };

/* Which of the leader's variables are not for another host. */
static int variable_stays(const char *variable)
{
    static const char *const names[] = {"DISPLAY",         "HOST",       "HOSTNAME", "MUSTER_KEY",
                                        "MUSTER_KEY_FILE", "OLDPWD",     "PWD",      "SHLVL",
                                        "TMPDIR",          "XAUTHORITY", "_"};
    static const char *const beginnings[] = {"SSH_", "XDG_", "DBUS_"};
    size_t len = strcspn(variable, "=");

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == len && strncmp(names[i], variable, len) == 0)
            return 1;
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (strncmp(beginnings[i], variable, strlen(beginnings[i])) == 0)
            return 1;
    return len == 0 || variable[len] != '=';
}

static void pack_list(struct mu_pack *p, char *const *list, int (*leaves_out)(const char *))
{
    size_t at = p->len;
    uint32_t count = 0;

    mu_pack_u32(p, 0);
    for (; list && *list; list++) {
        if (leaves_out && leaves_out(*list))
            continue;
        mu_pack_text(p, *list);
        count++;
    }
    mu_pack_put_u32(p, at, count);
}

void mu_agent_orders_pack(struct mu_pack *p, const struct mu_agent_orders *orders)
{
    mu_pack_u32(p, ORDERS_FORM);
    mu_pack_text(p, muster_version());
    mu_pack_u32(p, orders->attempt);
    mu_pack_u8(p, (uint8_t)((orders->colour[1] ? 1 : 0) | (orders->colour[2] ? 2 : 0) | (orders->serves ? 4 : 0) |
                            (orders->register_barrier ? 8 : 0) | (orders->shutdown_barrier ? 16 : 0)));
    mu_pack_u16(p, orders->size.rows);
    mu_pack_u16(p, orders->size.columns);
    mu_pack_u16(p, orders->ports[0]);
    mu_pack_u16(p, orders->ports[1]);
    mu_pack_text(p, orders->master);
    mu_pack_blob(p, orders->checkpoints, orders->checkpoints_len);
    mu_pack_u8(p, orders->words != NULL);
    if (!orders->words)
        return;
    mu_pack_text(p, orders->directory);
    pack_list(p, orders->words, NULL);
    pack_list(p, orders->env, variable_stays);
}

static void checkpoints_unpack(struct mu_unpack *u, struct mu_agent_orders *ret_orders)
{
    size_t len;
    const void *bytes = mu_unpack_blob(u, CHECKPOINTS_MAX, &len);

    if (!bytes || !len)
        return;
    ret_orders->checkpoints = malloc(len);
    u->failed |= !ret_orders->checkpoints;
    if (ret_orders->checkpoints)
        memcpy(ret_orders->checkpoints, bytes, ret_orders->checkpoints_len = len);
}

/* malloc()ed; NULL: it cannot be read. */
static char *unpack_text(struct mu_unpack *u)
{
    size_t len;
    const char *text = mu_unpack_blob(u, TEXT_MAX, &len);
    char *copy = text && !memchr(text, 0, len) ? malloc(len + 1) : NULL;

    if (!copy) {
        u->failed = true;
        return NULL;
    }
    memcpy(copy, text, len);
    copy[len] = 0;
    return copy;
}

static char **unpack_list(struct mu_unpack *u)
{
    uint32_t count = mu_unpack_u32(u);
    char **list;

    if (u->failed || count > WORDS_MAX || count > u->left / 4 || !(list = calloc(count + 1, sizeof *list))) {
        u->failed = true;
        return NULL;
    }
    for (uint32_t i = 0; i < count && !u->failed; i++)
        list[i] = unpack_text(u);
    return list;
}

enum muster_status mu_agent_orders_unpack(const void *bytes, size_t len, struct mu_agent_orders *ret_orders)
{
    struct mu_unpack u = mu_unpack_of(bytes, len);
    char version[64] = "";
    uint32_t form = mu_unpack_u32(&u);
    uint8_t bits;

    *ret_orders = (struct mu_agent_orders){.attempt = 0};
    mu_unpack_text(&u, version, sizeof version);
    if (!u.failed && (form != ORDERS_FORM || strcmp(version, muster_version()) != 0))
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "this host has muster %s, the leader's has %s: they must be the same", muster_version(),
                       version);
    ret_orders->attempt = mu_unpack_u32(&u);
    bits = mu_unpack_u8(&u);
    ret_orders->colour[1] = bits & 1;
    ret_orders->colour[2] = bits >> 1 & 1;
    ret_orders->serves = bits >> 2 & 1;
    ret_orders->register_barrier = bits >> 3 & 1;
    ret_orders->shutdown_barrier = bits >> 4 & 1;
    ret_orders->size.rows = mu_unpack_u16(&u);
    ret_orders->size.columns = mu_unpack_u16(&u);
    ret_orders->ports[0] = mu_unpack_u16(&u);
    ret_orders->ports[1] = mu_unpack_u16(&u);
    mu_unpack_text(&u, ret_orders->master, sizeof ret_orders->master);
    checkpoints_unpack(&u, ret_orders);
    if (mu_unpack_u8(&u)) {
        ret_orders->directory = unpack_text(&u);
        ret_orders->words = unpack_list(&u);
        ret_orders->env = unpack_list(&u);
    }
    if (mu_unpack_end(&u))
        return MUSTER_OK;
    mu_agent_orders_done(ret_orders);
    return mu_fail(MUSTER_DATA_LOSS, "what the leader told this host cannot be read (%zu bytes)", len);
}

static void free_list(char **list)
{
    for (char **at = list; at && *at; at++)
        free(*at);
    free(list);
}

void mu_agent_orders_done(struct mu_agent_orders *orders)
{
    free(orders->directory);
    free(orders->checkpoints);
    orders->checkpoints = NULL;
    orders->checkpoints_len = 0;
    free_list(orders->words);
    free_list(orders->env);
    orders->directory = NULL;
    orders->words = orders->env = NULL;
}
