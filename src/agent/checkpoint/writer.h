/*
 * agent/checkpoint/writer.h: a thread that writes each k-th whole generation of a run to a disk.
 */
#ifndef MU_AGENT_CHECKPOINT_WRITER_H
#define MU_AGENT_CHECKPOINT_WRITER_H

#include "agent/checkpoint/disk.h"

struct mu_writer;

struct mu_writer_options {
    const char *memory; /* the run's folder */
    uint32_t every, keep;
};

/* What has become of it so far. */
struct mu_writer_facts {
    uint64_t written, bytes; /* generations, and what their parts had */
    uint64_t overwritten;    /* given up: their ranks were quicker */
    uint64_t failed;
    struct mu_checkpoint_whole newest; /* the last that was written; generation 0: none */
};

/* Begin; the disk is the writer's from here on. 0, or an errno. */
int mu_writer_start(struct mu_disk *disk, const struct mu_writer_options *options, struct mu_writer **ret_writer);
void mu_writer_look(struct mu_writer *writer, struct mu_writer_facts *ret_facts);
/* No more is saved: write what is newest of each name, and end. */
void mu_writer_finish(struct mu_writer *writer);
/* Wait so long. True: it has ended. */
bool mu_writer_await(struct mu_writer *writer, unsigned ms);
/* Bytes that it has dealt with so far. */
uint64_t mu_writer_progress(struct mu_writer *writer);
/* End it without finishing: true: it has ended, and is freed; false: the kernel holds it, and it is left alone. */
bool mu_writer_stop(struct mu_writer *writer);

#endif
