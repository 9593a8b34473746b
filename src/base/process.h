/* base/process.h: facts about processes, from /proc. */
#ifndef MU_BASE_PROCESS_H
#define MU_BASE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What a small file holds, size - 1 bytes at most, with a NUL behind it; its length, or -1. Never blocks: for /proc,
 * /sys and the like.
 */
ssize_t mu_read_file(const char *path, char *buffer, size_t size);
/* Start time of the process in clock ticks since boot; 0 when it cannot be read. */
uint64_t mu_process_start(pid_t pid);
/*
 * Whether the process's first thread has ended, and /proc shows no descriptors of it any more: then its other threads
 * are dying as a rule, or it is gone; it may also live on without that thread.
 */
bool mu_process_is_ending(pid_t pid);
/* Inode of a namespace of this process ("pid", "time"); 0 when it cannot be read. */
uint64_t mu_namespace(const char *kind);
/* This boot's id; zeros when it cannot be read. */
void mu_boot_id(uint8_t id[16]);
/* Whether the limit of file sizes lets a file grow to so many bytes: beyond it growth is not refused, but SIGXFSZ. */
bool mu_process_may_have(uint64_t bytes);
/* Words for a mapping that failed: want of address space has a limit for its cause, as a rule, and no want of memory.
 */
const char *mu_process_map_words(int error, char *words, size_t size);
/*
 * The path of the `muster` that this process is, as it may be told to others: of the whole one, which lies beside it
 * (cli/quick.c), that of the command, if that is there. 0, or -1 with errno: "" then.
 */
int mu_command_path(char *path, size_t size);
/*
 * Whether what belongs to a command, by a way from its folder (of `folder_len` bytes), is there, and was put there by
 * root, us, or a user that can exchange the command anyway: its owner and its folder's; and that not everybody may
 * write it. Where everybody may put files, as in /tmp, a stranger may have put his own beside it. Links are not
 * followed: what one of theirs has put there no stranger exchanges. Else errno; EPERM: it is a stranger's, or may be.
 */
bool mu_is_beside(const char *path, size_t folder_len, uid_t owner);
/* Random bytes from the kernel. */
void mu_random(void *buffer, size_t length);
/* Processors that the tasks of a job share: those that this thread may use, or more if more have been learnt of. */
unsigned mu_processors(void);
/* A thread of muster's own has begun (1) or ended (-1). Such threads never read or change the environment. */
void mu_own_thread(int change);
/* Whether no other thread runs in this process but those. */
bool mu_is_alone(void);
/* The launcher's word: it has bound each task to its own processors, `count` in all. */
void mu_processors_learn(unsigned count);

#endif
