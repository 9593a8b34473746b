/*
 * launch/hosts.h: the hosts of a job: their names, which tasks run where, which of them this one is, and the job's key.
 */
#ifndef MU_LAUNCH_HOSTS_H
#define MU_LAUNCH_HOSTS_H

#include <stddef.h>
#include <stdint.h>

#define MU_LAUNCH_HOSTS_MAX 4096u
#define MU_LAUNCH_SLOTS_MAX 4096u

/* ---- hosts.c: lists of hosts ------------------------------------------------------------------------------------ */

struct mu_launch_host {
    char *name;     /* as it was written, without its slots: for rsh and for messages */
    uint32_t slots; /* how many tasks it takes */
    uint32_t tasks; /* and how many it gets */
};

struct mu_launch_hosts {
    struct mu_launch_host *list;
    uint32_t count;
};

void mu_launch_hosts_done(struct mu_launch_hosts *hosts);
/*
 * Add those of "a:8,b:8", "n[01-12,20]:4", "[fd00::2]:4"; a host without a number has one slot, one named again has
 * more of them. 0, or -1 with what is wrong; so do those below. mu_launch_hosts_done() is due in every case.
 */
int mu_launch_hosts_parse(struct mu_launch_hosts *hosts, const char *text, char *ret_why, size_t size);
/* A file of them, one a line: "a slots=8", as Open MPI has it, "b:8" or "b", as MPICH has it; "#" begins a comment. */
int mu_launch_hosts_read(struct mu_launch_hosts *hosts, const char *path, char *ret_why, size_t size);
/*
 * Put the host that this is, by its name or an address, first (named `here`; with no slots when it is not of them),
 * then give out `num_tasks` from there on, to each as many as it has slots; 0: as many as there are slots. Hosts that
 * get none are dropped, but the first.
 */
int mu_launch_hosts_place(struct mu_launch_hosts *hosts, const char *here, uint32_t num_tasks, char *ret_why,
                          size_t size);

/* The n-th name of Slurm's compressed form, "gpu[01-03,7],login1", from 0: 0, or -1: it has fewer, or is none. */
int mu_launch_slurm_host(const char *list, uint32_t n, char *ret_name, size_t size);
/* The n-th number of "2(x3),1", from 0; 0: none. */
uint32_t mu_launch_slurm_count(const char *list, uint32_t n);

/* ---- nodes.c: which node this is in a job that another launcher has started -------------------------------------- */

struct mu_launch_node {
    const char *launcher;   /* "Slurm"; NULL: none is known */
    uint32_t node, nodes;   /* own number, and how many there are */
    uint32_t agents, agent; /* processes that it started on this node, and which of them this is */
    char leader[300];       /* where node 0 is: HOST:PORT; "": as it says in a file named ... */
    char file[120];         /* ... so in ~/.muster; "": it has no name */
    char name[256];         /* what this node is called; "": its host name */
};

/*
 * Reads the environment. 0: *ret_node, in which the launcher may be NULL; -1: a launcher is known, but its variables
 * cannot be used, with the reason. `hosts_file`: /etc/hosts, where a pod finds its name.
 */
int mu_launch_node_find(char *const *env, const char *hosts_file, struct mu_launch_node *ret_node, char *ret_why,
                        size_t size);
/* ---- key.c: the key by which the hosts of a job know each other -------------------------------------------------- */

#define MU_LAUNCH_KEY_BYTES 32
#define MU_LAUNCH_KEY_TEXT  (2 * MU_LAUNCH_KEY_BYTES + 1) /* in hexadecimal digits */

void mu_launch_key_make(uint8_t key[MU_LAUNCH_KEY_BYTES]);
void mu_launch_key_text(const uint8_t key[MU_LAUNCH_KEY_BYTES], char ret_text[MU_LAUNCH_KEY_TEXT]);
/* 64 hexadecimal digits, perhaps with white space behind them. 0, or -1. */
int mu_launch_key_parse(const char *text, uint8_t ret_key[MU_LAUNCH_KEY_BYTES]);
/* Of a file that nobody else may read; "-": the first line of standard input, of which no more is taken. 0, or -1 with
 * the reason. */
int mu_launch_key_read(const char *path, uint8_t ret_key[MU_LAUNCH_KEY_BYTES], char *ret_why, size_t size);
/* $MUSTER_KEY, else the file $MUSTER_KEY_FILE. 1: there is neither; -1 with the reason. */
int mu_launch_key_given(uint8_t ret_key[MU_LAUNCH_KEY_BYTES], char *ret_why, size_t size);
/* That of this user: ~/.muster/key. `make`: it is made when it is not there; else 1: it is not there (yet). */
int mu_launch_key_of_user(int make, uint8_t ret_key[MU_LAUNCH_KEY_BYTES], char *ret_why, size_t size);
/* A file in ~/.muster, a folder that is made when it is not there. 0, or -1 with the reason. */
int mu_launch_home_file(const char *name, char *ret_path, size_t path_size, char *ret_why, size_t size);

#endif
