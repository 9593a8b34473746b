/* compat/pmi1_private.h: what the files of the PMI-1 server share: pmi1.c, and those named pmi1_*.c but for pmi1_map.c.
 */
#ifndef MU_COMPAT_PMI1_PRIVATE_H
#define MU_COMPAT_PMI1_PRIVATE_H

#include "base/pack.h"
#include "compat/pmi1.h"
#include "rpc/peer.h"

/* ---- pmi1_keys.c: keys and values ---- */

struct mu_pmi1_entry {
    uint64_t hash;
    uint32_t key_len, value_len;
    char bytes[]; /* the key, a NUL, the value, a NUL */
};

struct mu_pmi1_keys {
    struct mu_pmi1_entry **slots; /* open addressing; a power of two of them, at most half in use */
    size_t size, count;
    struct mu_account *account; /* NULL: none */
    size_t counted;             /* there */
};

/* 1: it is new, 0: another value was there; -1: no memory. */
int mu_pmi1_keys_put(struct mu_pmi1_keys *keys, const char *key, size_t key_len, const char *value, size_t value_len);
/* NULL: there is none. */
const char *mu_pmi1_keys_get(const struct mu_pmi1_keys *keys, const char *key, size_t key_len, size_t *ret_len);
void mu_pmi1_keys_done(struct mu_pmi1_keys *keys);

/* ---- a task's connection ---- */

enum mu_pmi1_state { MU_PMI1_NEW, MU_PMI1_IN, MU_PMI1_OUT, MU_PMI1_GIVEN_UP };

struct mu_pmi1_text {
    char in[MU_PMI1_LINE_MAX], out[2 * MU_PMI1_VALUE_MAX];
};

struct mu_pmi1_client {
    struct mu_pmi1 *server;
    struct mu_pmi1_client *next; /* of those that have not said which task they are */
    uint32_t task;               /* UINT32_MAX: it has not said */
    int fd;
    int held;        /* its own end, until it speaks; -1: not held */
    uint32_t events; /* that are waited for */
    enum mu_pmi1_state state;
    bool in_barrier, in_spawn, is_hearing, is_stranded;
    bool is_closed;   /* given up: what it still says is thrown away */
    long spawns_left; /* blocks of mcmd=spawn */
    uint32_t puts;
    struct mu_pmi1_text *text; /* NULL: it has not said anything */
    size_t in_len, out_len, out_at;
};

struct mu_pmi1_task {
    struct mu_pmi1_client *client; /* NULL: none */
    enum mu_pmi1_state state;      /* of the last one */
    bool gone;                     /* it will not come to a barrier: its process has ended */
};

struct mu_pmi1 {
    struct mu_pmi1_options options;
    struct mu_pmi1_task *tasks; /* of this host */
    struct mu_pmi1_keys keys, names;
    uint64_t name_changes; /* the highest number of a change of a name that was heard of */
    struct mu_pack fresh;  /* what was put here since the last barrier: for the other hosts */
    uint32_t waiting, num_gone;
    bool is_exchanging;
    int epoll_fd; /* all connections: one handle in the loop, and one call a task that says nothing */
    uv_poll_t poll;
    int listen_fd;
    uv_poll_t listener;
    uv_timer_t rest; /* of the listener, while no descriptor is left */
    bool has_rested; /* and that was said */
    struct mu_peers peers;
    char address[32];
    struct mu_pmi1_client *strangers;
    uint32_t num_strangers;
    int handles; /* in the loop; the last that is closed frees */
};

/* pmi1.c */
void mu_pmi1_unlink_stranger(struct mu_pmi1_client *client); /* if it is one still */
struct mu_pmi1_client *mu_pmi1_client_new(struct mu_pmi1 *server, uint32_t task, int fd);
void mu_pmi1_reply(struct mu_pmi1_client *client, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* It will not be heard again; `why`: said, NULL: nothing is. */
void mu_pmi1_give_up(struct mu_pmi1_client *client, const char *why);
void mu_pmi1_hear_lines(struct mu_pmi1_client *client); /* what it has said, as far as it may */
void mu_pmi1_flush(struct mu_pmi1_client *client);
void mu_pmi1_expect(struct mu_pmi1_client *client); /* what epoll is to tell of it */
/* pmi1_barrier.c: answer all that wait in it. */
void mu_pmi1_release(struct mu_pmi1 *server, const char *why);

/* pmi1_words.c: a line without its end. */
void mu_pmi1_hear(struct mu_pmi1_client *client, char *line);
void mu_pmi1_note(struct mu_pmi1 *server, char kind, const char *key, size_t key_len, const char *value,
                  size_t value_len);
/* What another host's tasks have put. */
bool mu_pmi1_take_notes(struct mu_pmi1 *server, struct mu_unpack *u);

/* pmi1_port.c */
enum muster_status mu_pmi1_listen(struct mu_pmi1 *server);
void mu_pmi1_stop_listening(struct mu_pmi1 *server, uv_close_cb closed);
/* initack: it says which task it is. */
void mu_pmi1_introduce(struct mu_pmi1_client *client, const struct mu_pmi1_line *line);

#endif
