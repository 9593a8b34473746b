/*
 * cli/topo/topo.h: what the files of `muster topo` share: a machine, the ranks on it, and the forms in which it is
 * shown.
 */
#ifndef MU_CLI_TOPO_TOPO_H
#define MU_CLI_TOPO_TOPO_H

#include <stdio.h>

#include <muster/topology.h>

#include "cli/cli.h"
#include "topology/shape.h"

/* A task of the job on this machine. */
struct mu_cli_rank {
    int32_t task;
    uint32_t pid;
    char *cpus;       /* that it may use now; NULL: not known */
    int32_t box;      /* the smallest around these */
    int32_t *devices; /* that its environment shows it, by place */
    size_t num_devices;
    int is_restricted;   /* a variable of the environment names them */
    const char *unknown; /* why nothing more is known of it; NULL: all is known */
};

struct mu_cli_topo {
    struct muster_topology *topology;
    const char *input; /* as it was typed; NULL: this machine */
    int is_words;      /* it is no file */
    const struct mu_box *boxes;
    size_t num_boxes, num_devices, num_numas, num_gpus;
    char (*labels)[16]; /* of devices: "GPU3", "GPU3.1" for a part, "CPU0" */
    const char *job;    /* NULL: none was asked for */
    struct mu_cli_rank *ranks;
    size_t num_ranks;
    void *message; /* with --proto; malloc()ed */
    size_t message_size;
};

/* ---- topo/ranks.c ------------------------------------------------------------------------------------------------ */

/* The job's tasks that run here. An exit status; on failure it is said. */
int mu_cli_topo_ranks(struct mu_cli_call *call, struct mu_cli_topo *topo);
void mu_cli_topo_ranks_free(struct mu_cli_topo *topo);
/*
 * The tasks that this box, or one of the cores in it, belongs to, or, with a device, that see it: "task 3", "tasks
 * 0-3,8"; "" for none. Is malloc()ed.
 */
char *mu_cli_topo_ranks_at(const struct mu_cli_topo *topo, int32_t box, int32_t device, int with_cores, const char *one,
                           const char *many);

/* ---- topo/words.c: sentences that more than one form needs ------------------------------------------------------- */

/* "2 packages, 48 cores, 96 processors, 1.5 TiB, 16 GPUs" */
void mu_cli_topo_summary(const struct mu_cli_topo *topo, FILE *out);
/* The host's name, and where it is from; "a machine" without. */
const char *mu_cli_topo_name(const struct mu_cli_topo *topo);
/* "32 GiB", "1.5 MiB": without a decimal that is nought. */
const char *mu_cli_topo_bytes(uint64_t bytes, char buffer[32]);
/* "Tesla V100-SXM3-32GB", "10de:1db8"; "" where nothing is known. */
const char *mu_cli_topo_model(const struct muster_device *device, char buffer[32]);
/* What each name of a level means, from near to far; NULL: it is none. `name`: as in the legend, "NV#". */
const char *mu_cli_topo_level(enum muster_link_level level, const char **ret_name);

/* ---- topo/proto.c ------------------------------------------------------------------------------------------------ */

/* Which message --proto, --task and --global ask for. */
struct mu_cli_topo_proto {
    enum muster_topology_form form;
    int32_t task;
    size_t num_tasks; /* of a global topology; 0: a local one */
};

/* 0, or 2 with a complaint printed. */
int mu_cli_topo_proto_form(const struct mu_cli_call *call, struct mu_cli_topo_proto *ret_proto);
mu_cli_words mu_cli_topo_form; /* that --proto may name */
/* The message's bytes, malloc()ed. */
enum muster_status mu_cli_topo_proto(const struct mu_cli_topo *topo, const struct mu_cli_topo_proto *proto,
                                     void **ret_bytes, size_t *ret_size);

/* ---- the forms --------------------------------------------------------------------------------------------------- */

/* `width`: of the terminal; 0: lines may be as long as they like. */
void mu_cli_topo_tree(const struct mu_cli_topo *topo, FILE *out);
void mu_cli_topo_matrix(const struct mu_cli_topo *topo, unsigned width, FILE *out);
void mu_cli_topo_tasks(const struct mu_cli_topo *topo, FILE *out);
void mu_cli_topo_json(const struct mu_cli_topo *topo, FILE *out);
void mu_cli_topo_svg(const struct mu_cli_topo *topo, FILE *out);

#endif
