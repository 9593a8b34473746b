/* tests/common/shm.h: a small file system for segments, which the child that mounts it alone sees. */
#ifndef TEST_SHM_H
#define TEST_SHM_H

#include <stdbool.h>
#include <stddef.h>

/* In a child: segments lie in a file system of `bytes` from now on. false: that is not allowed. */
bool test_small_shm(size_t bytes, char directory[64]);
void test_small_shm_end(const char *directory);

/* Somebody else takes all that is left of it, by a file whose path is returned. */
void test_fill_shm(const char *directory, char path[128]);

#define TEST_NOT_ALLOWED 77 /* what such a child returns then */
/* Runs it in a child; it must return 0. Skips the case, with the reason, where the child may not mount. */
void test_with_small_shm(int (*what)(void *arg));

#endif
