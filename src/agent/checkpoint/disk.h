/*
 * agent/checkpoint/disk.h: generations of checkpoints in a folder on a disk.
 *
 *     DIR/model@12/0, 1, 2, ...   the parts by rank, byte for byte as they were in memory
 *     DIR/model@12/manifest       lines of text: what it is, and each part's length and checksum; its own at the end
 *     DIR/.model@13.new/          one that is being written
 *     DIR/.model@9.old/           one that is being removed
 *
 * A generation is there when its folder has its name: one rename, behind all its bytes. What a killed writer leaves has
 * a name that begins with a dot, and the next job that uses DIR removes it. One job at a time uses DIR: it has the
 * kernel's lock of the folder (flock), which ends with it; a file system without such locks is used without.
 *
 * disk.c: the folder, what lies in it, copying; manifest.c: manifests; note.c: which folder; persist.c: writing one;
 * recall.c: reading generations back; writer.c: the thread that writes; keep.c: the component of the agent.
 */
#ifndef MU_AGENT_CHECKPOINT_DISK_H
#define MU_AGENT_CHECKPOINT_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "checkpoint/whole.h"

enum { MU_DISK_WHY = 400, MU_DISK_PATH_MAX = 4096, MU_DISK_PARTS_MAX = 65536 };

struct mu_disk {
    int fd; /* of the folder; -1: it is not open */
    dev_t device;
    ino_t inode;
    char path[MU_DISK_PATH_MAX]; /* absolute */
};

struct mu_disk_part {
    uint64_t bytes;
    uint32_t sum; /* zlib's crc32 */
};

/* A generation as its manifest says. */
struct mu_disk_generation {
    struct mu_checkpoint_whole whole;
    int64_t written; /* seconds since 1970 */
    uint64_t bytes;  /* of all parts */
    struct mu_disk_part *parts;
};

/* ---- disk.c ---- */

/* Open the folder; `make`: where there is none, make it (not what leads to it). 0, or -1 with the reason. */
int mu_disk_open(struct mu_disk *disk, const char *path, bool make, char why[MU_DISK_WHY]);
/* Be the one job that writes there, and remove what a killed writer has left. Waits for 2 s at most. */
int mu_disk_claim(const struct mu_disk *disk, char why[MU_DISK_WHY]);
/* The path still names the folder that was opened. 0, or -1 with the reason. */
int mu_disk_check(const struct mu_disk *disk, char why[MU_DISK_WHY]);
void mu_disk_close(struct mu_disk *disk);

/* What lies in the folder, by its name alone: names in order, of each the newest first. malloc()ed; -1: an errno. */
struct mu_disk_entry {
    char name[MUSTER_CHECKPOINT_NAME_MAX + 1];
    uint64_t generation;
};
int mu_disk_list(const struct mu_disk *disk, struct mu_disk_entry **ret_entries, size_t *ret_count);
void mu_disk_entry_path(const char *name, uint64_t generation, const char *before, const char *behind, char path[128]);
/* Remove a generation: it loses its name first. 0, or an errno. */
int mu_disk_remove(const struct mu_disk *disk, const char *name, uint64_t generation);
/* A folder of files, with them. */
int mu_disk_remove_folder(const struct mu_disk *disk, const char *path);

/* Called behind each piece of a long work; false: give it up. */
struct mu_disk_pace {
    bool (*goes_on)(void *arg, size_t bytes);
    void *arg;
};
enum mu_disk_copied { MU_DISK_COPIED, MU_DISK_NOT_READ, MU_DISK_NOT_WRITTEN, MU_DISK_GIVEN_UP };
/* So many bytes, from the beginning; to -1: they are only summed. errno says why not; 0: the file is shorter. */
enum mu_disk_copied mu_disk_copy(int from, int to, uint64_t bytes, const struct mu_disk_pace *pace, uint32_t *ret_sum);

/* ---- manifest.c ---- */

/* The text, malloc()ed; NULL: no memory. */
char *mu_disk_manifest_text(const struct mu_disk_generation *generation, size_t *ret_len);
/* Read the manifest of a generation in the folder, and see that its parts are there. Free what it has by
 * mu_disk_forget(). 0, or -1 with the reason. */
int mu_disk_manifest_read(const struct mu_disk *disk, const struct mu_disk_entry *entry,
                          struct mu_disk_generation *ret_generation, char why[MU_DISK_WHY]);
/* This user's; else errno is EPERM. */
bool mu_disk_is_own(int fd);
void mu_disk_forget(struct mu_disk_generation *generation);

/* ---- note.c ---- */

/* What a run's launcher writes where, noted in the run's folder in memory. */
struct mu_disk_note {
    uint32_t every, keep;
    char path[MU_DISK_PATH_MAX];
};
/* 0, or an errno. */
int mu_disk_note_write(const char *memory, const struct mu_disk_note *note);
/* False: nothing is written. */
bool mu_disk_note_read(const char *memory, struct mu_disk_note *ret_note);

/* ---- persist.c ---- */

enum mu_disk_end {
    MU_DISK_DONE,
    MU_DISK_OVERWRITTEN, /* its ranks have begun to write over it: nothing is left of it on the disk */
    MU_DISK_ENDED,       /* given up */
    MU_DISK_FAILED       /* why says it */
};
/*
 * Write a whole generation that lies in `memory`, a run's folder. `held`: its parts are left to us by their ranks,
 * which need other memory for what they save meanwhile; where there is none, or not `held`, it may turn out to be
 * overwritten. *ret_bytes: of its parts.
 */
enum mu_disk_end mu_disk_write(const struct mu_disk *disk, const char *memory, const struct mu_checkpoint_whole *whole,
                               bool held, const struct mu_disk_pace *pace, uint64_t *ret_bytes, char why[MU_DISK_WHY]);
/* Remove what is older than the `keep` newest up to this generation. */
void mu_disk_prune(const struct mu_disk *disk, const char *name, uint64_t generation, uint32_t keep);

/* ---- recall.c ---- */

/* Each part has its checksum. 0, or -1 with the reason. */
int mu_disk_verify(const struct mu_disk *disk, const struct mu_disk_generation *generation,
                   const struct mu_disk_pace *pace, char why[MU_DISK_WHY]);
/*
 * Read back into `memory`, of each name that it has no generation of, the newest sound one. What is read back or passed
 * over is said. 0; -1 with the reason: there is no room, or it was given up ("").
 */
int mu_disk_recall(const struct mu_disk *disk, const char *memory, const struct mu_disk_pace *pace,
                   char why[MU_DISK_WHY]);

#endif
