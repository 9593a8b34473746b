/*
 * ps/private.h: what the files of the room share. A tensor is objects of segment/hold.h:
 *
 *   cell "P" name -> head: an object, its bundle the shards, or the table, and struct mu_ps_head
 *     shard: an object, its bundle {values, the optimizer's state, pushes that are kept} and struct ps_tail
 *       values, state, pushes: sealed objects, which never change
 *     table: a sealed object; the room changes its bytes in place, see rows.c
 *
 * config.c  what a tensor may be
 * ps.c      names, heads: create, open, close
 * shard.c   one shard: what it is now, and its next version by one commit
 * turn.c    turns of the pushes of a large shard
 * dense.c   push, set, wait
 * pull.c    pull, view
 * rows.c    tables
 * step.c    what a push makes of values
 * file.c    save and load
 */
#ifndef MU_PS_PRIVATE_H
#define MU_PS_PRIVATE_H

#include <muster/ps.h>

#include "object/holding.h"
#include "segment/bundle.h"
#include "segment/handle.h"

enum {
    PS_STATES_MAX = 2,
    PS_PARTS_MAX = 1 + PS_STATES_MAX, /* values, state */
    PS_TURN_WORDS = 16,               /* a turn has lines of its own */
    PS_SMALL = 4096                   /* bytes that are copied out sooner than held */
};
#define PS_MAGIC 0x31306e6573746d75ull

/* Data of the head's bundle. All but the rate and the turns, which follow, is constant. */
struct mu_ps_head {
    uint64_t magic;
    struct muster_ps_config config;
    mu_a64 rate; /* a double's bits */
};

struct muster_ps {
    struct muster *m;
    struct muster_segment *seg;
    char name[MUSTER_PS_NAME_MAX + 1];
    struct muster_ps_config config; /* as created */
    uint64_t head;                  /* its object, which the process holds */
    uint64_t count;                 /* numbers: of the tensor, or of a row */
    uint32_t width;                 /* bytes of a number */
    uint32_t states;                /* arrays of the optimizer, each as large as the values */
    mu_a64 *rate;
    mu_a64 *turns;
    uint64_t shards[MUSTER_PS_SHARDS_MAX]; /* objects; a table: its one */
    uint8_t *table;                        /* its bytes */
    uint64_t entries, buffers, row_words;  /* of a table; 0: it is dense */
    _Atomic uint32_t spare;                /* a hint: buffer that the last push of rows had left */
};

static inline uint64_t ps_first(const struct muster_ps *ps, uint32_t shard)
{
    return ps->count / ps->config.shards * shard +
           (shard < ps->count % ps->config.shards ? shard : ps->count % ps->config.shards);
}
static inline uint64_t ps_shard_bytes(const struct muster_ps *ps, uint32_t shard)
{
    return (ps_first(ps, shard + 1) - ps_first(ps, shard)) * ps->width;
}

/* ---- config.c ---- */

/* Whether there can be such a tensor, in words; *ret_count: its numbers, or a row's. */
enum muster_status mu_ps_config_check(const char *name, const struct muster_ps_config *c, uint64_t *ret_count);
enum muster_status mu_ps_config_refuse(const char *name, const char *why);
/* The same but for the rate; what does not count is zeros. */
void mu_ps_config_pack(struct muster_ps_config *to, const struct muster_ps_config *c);
/* The first in which two packed ones differ, in words; NULL: none. */
const char *mu_ps_config_difference(const struct muster_ps_config *a, const struct muster_ps_config *b);
/* The handle's numbers, from a packed one. */
void mu_ps_config_apply(struct muster_ps *ps, const struct muster_ps_config *packed, uint64_t count);

/* ---- step.c ---- */

/* What a push changes, and by what; `to` may be `from`. */
struct ps_step {
    const struct muster_ps *ps;
    double rate;
    uint64_t steps; /* this one counted */
    const void *from[PS_PARTS_MAX];
    void *to[PS_PARTS_MAX];
    const void *const *pushes;
    uint32_t num_pushes;
    bool sets; /* the values become the one push */
};
void mu_ps_step(const struct ps_step *s, uint64_t count);

/* ---- shard.c ---- */

struct ps_kept {
    uint64_t round, task;
};
struct ps_tail {
    uint64_t magic, version, steps;
    struct ps_kept kept[];
};
enum { PS_TAIL_WORDS = sizeof(struct ps_tail) / 8 };

/* A shard as one commit left it. */
struct ps_shard {
    uint64_t ref, word, data; /* its object, the word as read, its bundle */
    uint64_t version, steps;
    uint32_t num_kept;
    uint64_t parts[PS_PARTS_MAX];
    uint64_t pushes[MUSTER_PS_KEPT_MAX];
    struct ps_kept kept[MUSTER_PS_KEPT_MAX];
};
enum muster_status mu_ps_shard_read(const struct muster_ps *ps, struct mu_ctx *ctx, uint32_t shard,
                                    struct ps_shard *ret_shard);

/* An object that the shard `was` names is gone. MUSTER_OK: by a commit, and the shard is another by now; DATA_LOSS: it
 * is as it was, and names what is not there. */
enum muster_status mu_ps_shard_moved(const struct muster_ps *ps, const struct ps_shard *was);

/* Copy a part out that lies in a block, without a hold. Without a sentence: NOT_FOUND: there is no such part; ABORTED:
 * its word has changed meanwhile, perhaps for another holder alone. */
enum muster_status mu_ps_part_copy(const struct muster_ps *ps, struct mu_ctx *ctx, uint64_t ref, uint64_t bytes,
                                   uint64_t *words);

/* A new sealed object of so many bytes in the i-th place of a bundle that ctx has; *ret_bytes: to write to, until
 * mu_ps_part_done(). */
struct ps_part {
    struct mu_object o;
    uint8_t *bytes;  /* where to write */
    uint8_t *target; /* not NULL: `bytes` is private memory, and is to be copied there */
};
enum muster_status mu_ps_part_begin(struct mu_ctx *ctx, uint64_t bytes, struct ps_part *part);
enum muster_status mu_ps_part_done(struct muster_ps *ps, struct mu_ctx *ctx, uint64_t bundle, uint32_t i,
                                   struct ps_part *part);
void mu_ps_part_drop(struct mu_ctx *ctx, struct ps_part *part);

/* The shard's next version, with its bundle `data` (taken over). ABORTED, without a sentence: it is not as it was. */
enum muster_status mu_ps_shard_commit(struct mu_ctx *ctx, const struct ps_shard *was, uint64_t data);

/* A bundle for a shard with so many pushes kept, and its tail. */
enum muster_status mu_ps_bundle_new(const struct muster_ps *ps, struct mu_ctx *ctx, uint32_t num_kept,
                                    uint64_t *ret_bundle, struct ps_tail **ret_tail);
/* Bundles that were not committed. */
void mu_ps_bundle_end(struct mu_ctx *ctx, uint64_t bundle);

/* ---- turn.c ---- */

struct ps_turn {
    mu_a64 *word; /* NULL: none is needed */
    uint64_t mine;
};
/* Wait for the turn, for as long as its owner may need, but no longer. DEADLINE_EXCEEDED and the like else. */
enum muster_status mu_ps_turn_take(struct muster_ps *ps, struct mu_ctx *ctx, uint32_t shard, muster_deadline deadline,
                                   struct ps_turn *ret_turn);
void mu_ps_turn_give(struct ps_turn *turn);

/* ---- dense.c ---- */

/* Replace all parts of the shard; parts[i] NULL: it stays. `steps`: of the optimizer. */
enum muster_status mu_ps_shard_replace(struct muster_ps *ps, uint32_t shard, const void *const *parts, uint64_t steps,
                                       uint64_t *ret_version);
enum muster_status mu_ps_refuse_kind(const struct muster_ps *ps, bool wants_rows);

/* ---- pull.c ---- */

/* Views of all parts of one instant, until muster_object_unview(). */
enum muster_status mu_ps_shard_view(struct muster_ps *ps, uint32_t shard, uint32_t parts,
                                    struct muster_object_view *ret_views, uint64_t *ret_version, uint64_t *ret_steps);

/* ---- rows.c ---- */

/* How large the table's arrays are, by its configuration. */
void mu_ps_table_plan(struct muster_ps *ps);
/* Bytes of the table's object. 0: too many. */
uint64_t mu_ps_table_bytes(const struct muster_ps *ps);
void mu_ps_table_clear(const struct muster_ps *ps, uint8_t *table);
uint64_t mu_ps_table_rows(const struct muster_ps *ps);
/* Bytes that a row has in a file, values and state; the i-th entry's row there, if there is one: its key. */
uint64_t mu_ps_row_bytes(const struct muster_ps *ps);
uint64_t mu_ps_table_entries(const struct muster_ps *ps);
bool mu_ps_row_read(const struct muster_ps *ps, uint64_t entry, uint64_t *ret_key, uint64_t *ret_words);
enum muster_status mu_ps_row_write(struct muster_ps *ps, uint64_t key, const uint64_t *words);

#endif
