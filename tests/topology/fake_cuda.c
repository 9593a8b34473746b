/*
 * tests/topology/fake_cuda.c: a fake libcuda.so.1 with what an enumeration asks for. No GPU is behind it.
 *
 * MUSTER_FAKE_CUDA is what it does: "N" (so many devices, at 0000:01:00.0, 0000:02:00.0, ..., UUID bytes 00 00 .. 01
 * and so on), "fail CODE" (of cuInit), "hang", "crash", "garbage". As the real one does, it refuses to be started in
 * the child of a process that has started it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

API int cuInit(unsigned flags);
API int cuDriverGetVersion(int *version);
API int cuDeviceGetCount(int *count);
API int cuDeviceGet(int *device, int ordinal);
API int cuDeviceGetName(char *name, int size, int device);
API int cuDeviceGetUuid_v2(char bytes[16], int device);
API int cuDeviceGetPCIBusId(char *text, int size, int device);
API int cuDeviceTotalMem_v2(size_t *bytes, int device);
API int cuDeviceGetAttribute(int *value, int attribute, int device);

static pid_t started_by;
static int garbage;

static const char *what(void)
{
    const char *text = getenv("MUSTER_FAKE_CUDA");

    return text ? text : "0";
}

int cuInit(unsigned flags)
{
    int code = 0;

    if (started_by && started_by != getpid())
        return 3;
    if (strcmp(what(), "hang") == 0)
        for (;;)
            pause();
    if (strcmp(what(), "crash") == 0)
        abort();
    garbage = strcmp(what(), "garbage") == 0;
    sscanf(what(), "fail %d", &code);
    if (code == 0)
        started_by = getpid();
    return flags ? 1 : code;
}

int cuDriverGetVersion(int *version)
{
    *version = 12040;
    return 0;
}

int cuDeviceGetCount(int *count)
{
    if (started_by != getpid())
        return 3;
    *count = garbage ? 2000000000 : 0;
    sscanf(what(), "%d", count);
    return *count ? 0 : 100;
}

int cuDeviceGet(int *device, int ordinal)
{
    if (garbage && ordinal > 0)
        return 101;
    *device = 70 + ordinal;
    return 0;
}

int cuDeviceGetName(char *name, int size, int device)
{
    if (garbage)
        memset(name, 0x9b, (size_t)size);
    else
        snprintf(name, (size_t)size, "Fake GPU %d", device - 70);
    return 0;
}

int cuDeviceGetUuid_v2(char bytes[16], int device)
{
    memset(bytes, 0, 16);
    bytes[15] = (char)(device - 69);
    return garbage ? 999 : 0;
}

int cuDeviceGetPCIBusId(char *text, int size, int device)
{
    if (garbage)
        memset(text, 'A', (size_t)size);
    else
        snprintf(text, (size_t)size, "0000:%02X:00.0", device - 69);
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    *bytes = (size_t)(device - 69) << 30;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    static const struct {
        int attribute, value;
    } known[] = {{16, 132}, {75, 9}, {76, 0}, {97, 232448}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attribute == attribute) {
            *value = garbage ? -1 : known[i].value;
            return device < 70;
        }
    return 1;
}
