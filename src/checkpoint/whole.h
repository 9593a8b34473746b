/*
 * checkpoint/whole.h: whole generations in memory, for processes that are no tasks: what writes them to a disk, what
 * reads them back before tasks start, and what shows them.
 */
#ifndef MU_CHECKPOINT_WHOLE_H
#define MU_CHECKPOINT_WHOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <muster/checkpoint.h>

struct mu_checkpoint_whole {
    char name[MUSTER_CHECKPOINT_NAME_MAX + 1];
    uint64_t generation, step;
    uint32_t ranks;
};

/*
 * Of each head in the folder, a name and number of ranks, the newest whole generation; those that have none are left
 * out. A name may come several times: its newest is the one with the greatest generation. Never blocks. An error is of
 * the last head that could not be looked at, of another version of the library as a rule; the others were.
 */
typedef void (*mu_checkpoint_whole_visit)(void *arg, const struct mu_checkpoint_whole *whole);
enum muster_status mu_checkpoint_each_whole(const char *folder, mu_checkpoint_whole_visit visit, void *arg);

/*
 * The same for people, of one name or of all (NULL), with the bytes of its parts, and the ranks that have not saved the
 * generation behind it while others have ("1, 3 and 4"; NULL: none has). Locks nothing.
 */
typedef void (*mu_checkpoint_state_visit)(void *arg, const struct mu_checkpoint_whole *whole, uint64_t bytes,
                                          const char *missing);
void mu_checkpoint_each_state(const char *folder, const char *name, mu_checkpoint_state_visit visit, void *arg);

/* ---- reading a part ---- */

/* A rank's part as bytes of a file: all that a load needs. */
struct mu_checkpoint_source {
    int fd;
    uint64_t bytes, step;
};
/*
 * Open the part, locked as a viewer locks it: its rank leaves the file to us, and writes elsewhere. 0, or an errno:
 * EAGAIN: the rank is writing over it, or has; ENOENT: it is not there; EBADMSG: it is damaged. Never blocks.
 */
int mu_checkpoint_source_open(const char *folder, const struct mu_checkpoint_whole *whole, uint32_t rank,
                              struct mu_checkpoint_source *ret_source);
/* Without the lock its rank writes over it. Then mu_checkpoint_source_is_intact() says whether it has. */
void mu_checkpoint_source_unlock(const struct mu_checkpoint_source *source);
bool mu_checkpoint_source_is_intact(const struct mu_checkpoint_source *source, const struct mu_checkpoint_whole *whole);
void mu_checkpoint_source_close(struct mu_checkpoint_source *source);

/* ---- putting a generation back, while no task of the run lives ---- */

/* An empty file with room for the part. The descriptor, or -errno: ENOSPC, ENOMEM, EFBIG: there is no room. */
int mu_checkpoint_target_make(const char *folder, const struct mu_checkpoint_whole *whole, uint32_t rank,
                              uint64_t bytes);
/* What has been written there is this rank's part of this generation; whole->step is its step. */
bool mu_checkpoint_target_is_sound(int fd, const struct mu_checkpoint_whole *whole, uint32_t rank);
/* All parts are there: it is the newest whole generation. A failure says why, and leaves none. */
enum muster_status mu_checkpoint_whole_commit(const char *folder, const struct mu_checkpoint_whole *whole);
/* Remove the parts that were made. */
void mu_checkpoint_targets_remove(const char *folder, const struct mu_checkpoint_whole *whole);

#endif
