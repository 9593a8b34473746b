#ifndef MODEL_STRING_H
#define MODEL_STRING_H
#include_next <string.h>
#define memset(p, value, size) ((void)0)
#endif
