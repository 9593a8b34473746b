/*
 * Stands in for shm_layout/layout.h: the same format with the smallest geometry. A chunk has MODEL_BLOCKS granules
 * instead of 1024, and there is one size class, of one granule, so that an allocator meets its limits with three
 * blocks. MODEL_GRANULE is for those who need larger blocks than 64 bytes, MODEL_CLASSES for those who need a second
 * class, of two granules.
 */
#ifndef MODEL_LAYOUT_H
#define MODEL_LAYOUT_H

#include_next "shm_layout/layout.h"

#ifndef MODEL_BLOCKS
#define MODEL_BLOCKS 3u
#endif
#ifdef MODEL_GRANULE
#undef MU_GRANULE
#define MU_GRANULE MODEL_GRANULE
#endif
#undef MU_CHUNK
#define MU_CHUNK (MODEL_BLOCKS * MU_GRANULE)
#ifndef MODEL_CLASSES
#define MODEL_CLASSES 1u
#endif
#undef MU_CLASSES
#define MU_CLASSES MODEL_CLASSES
#undef MU_CLASS_GRANULES
#if MODEL_CLASSES > 1
#define MU_CLASS_GRANULES                                                                                              \
    {                                                                                                                  \
        1, 2                                                                                                           \
    }
#else
#define MU_CLASS_GRANULES                                                                                              \
    {                                                                                                                  \
        1                                                                                                              \
    }
#endif

#endif
