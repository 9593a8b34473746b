#ifndef MODEL_SHM_H
#define MODEL_SHM_H
#include_next "sync/shm.h"
#endif
