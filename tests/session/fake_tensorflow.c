/*
 * TensorFlow's library as tests need it: its lists of ops and kernels are the files that FAKE_OPS and FAKE_KERNELS
 * name. A server becomes the program FAKE_SERVER of the interpreter FAKE_PYTHON, given its address; without these, none
 * can be made.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct buffer {
    const void *data;
    size_t length;
    void (*dealloc)(void *data, size_t length);
};

static struct buffer *file_read(const char *variable, struct buffer *ret)
{
    const char *path = getenv(variable);
    FILE *file = path ? fopen(path, "rb") : NULL;
    char *bytes = malloc(1 << 20);

    if (!file || !bytes) {
        free(bytes);
        if (file)
            fclose(file);
        return NULL;
    }
    *ret = (struct buffer){bytes, fread(bytes, 1, 1 << 20, file), NULL};
    fclose(file);
    return ret;
}

EXPORT const char *TF_Version(void);
EXPORT void *TF_NewStatus(void);
EXPORT int TF_GetCode(const void *status);
EXPORT const char *TF_Message(const void *status);
EXPORT struct buffer *TF_GetAllOpList(void);
EXPORT struct buffer *TF_GetAllRegisteredKernels(void *status);
EXPORT void *TF_NewServer(const void *def, size_t len, void *status);
EXPORT void TF_ServerStart(void *server, void *status);
EXPORT void TF_ServerJoin(void *server, void *status);

const char *TF_Version(void)
{
    return "0.fake";
}

void *TF_NewStatus(void)
{
    static int status;

    return &status;
}

int TF_GetCode(const void *status)
{
    return *(const int *)status;
}

const char *TF_Message(const void *status)
{
    (void)status;
    return "a fake serves nothing";
}

struct buffer *TF_GetAllOpList(void)
{
    static struct buffer list;

    return file_read("FAKE_OPS", &list);
}

struct buffer *TF_GetAllRegisteredKernels(void *status)
{
    static struct buffer list;

    (void)status;
    return file_read("FAKE_KERNELS", &list);
}

void *TF_NewServer(const void *def, size_t len, void *status)
{
    static char address[128];
    const char *found = memmem(def, len, "127.0.0.1:", 10);

    *(int *)status = getenv("FAKE_SERVER") && found ? 0 : 14;
    if (*(int *)status)
        return NULL;
    snprintf(address, sizeof address, "%.*s", 10 + (int)strspn(found + 10, "0123456789"), found);
    return address;
}

void TF_ServerStart(void *server, void *status)
{
    (void)server;
    (void)status;
}

void TF_ServerJoin(void *server, void *status)
{
    execl(getenv("FAKE_PYTHON"), "python3", getenv("FAKE_SERVER"), (char *)server, NULL);
    *(int *)status = 14;
}
