/* segment/format.h: laying out a segment in memory, and believing one found there. */
#ifndef MU_SEGMENT_FORMAT_H
#define MU_SEGMENT_FORMAT_H

#include "segment/hosts.h"

/* Check a job's name. */
enum muster_status mu_format_job(const char *job);

/* Fill a header from a configuration (defaults applied): sizes, counts, offsets, identity. */
enum muster_status mu_format_plan(const char *job, const struct muster_segment_config *config,
                                  struct mu_header *ret_header);
/* The same of one of several hosts. */
enum muster_status mu_format_plan_hosts(const char *job, const struct muster_segment_config *config,
                                        const struct mu_hosts_config *hosts, struct mu_header *ret_header);

/* The slots of a segment on a host with `tasks` tasks of `threads` threads each that write, beside the one of their
 * heartbeats; at most MU_SLOTS_MAX. */
uint32_t mu_format_slots(uint32_t tasks, uint32_t threads);

/* Of the arena, by default: as much as the machine's memory. */
uint64_t mu_format_object_bytes(void);

/* Bytes from the start that must be committed before the segment is used. */
uint64_t mu_format_committed(const struct mu_header *header);
/* Bytes from the start that mu_format_write() writes to, and that a look at the members reads. */
uint64_t mu_format_written(const struct mu_header *header);

/* Write a whole empty segment into zeroed memory of header->total_bytes. */
void mu_format_write(uint8_t *base, const struct mu_header *header);
/* Then, of several hosts: their runs of tasks. */
void mu_format_write_hosts(uint8_t *base, const struct mu_header *header, const struct mu_hosts_config *hosts);

/*
 * Believe a header that was copied out of a file of `file_bytes`, or say why not. Every offset and count is checked
 * against the others and the size; the segment's cached fields are filled. seg->base must be set by the caller after.
 */
enum muster_status mu_format_check(const struct mu_header *header, uint64_t file_bytes, const char *name,
                                   struct muster_segment *seg);

/* Set the section pointers once seg->base is mapped; of several hosts, believe their runs of tasks, or say why not. */
enum muster_status mu_format_bind(struct muster_segment *seg, const struct mu_header *header, const char *name);

#endif
