/* Stands in for <string.h>: GenMC has no memset(). What is to be zeroed is zero already, or is set field by field. */
#ifndef MODEL_STRING_H
#define MODEL_STRING_H

#include_next <string.h>

#define memset(p, value, size) ((void)(p))

#endif
