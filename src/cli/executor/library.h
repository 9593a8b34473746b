/* cli/executor/library.h: TensorFlow's library, opened when it is asked for: the part of its C API that is used. */
#ifndef MU_CLI_EXECUTOR_LIBRARY_H
#define MU_CLI_EXECUTOR_LIBRARY_H

#include <stddef.h>

struct mu_tf_buffer { /* TF_Buffer */
    const void *data;
    size_t length;
    void (*dealloc)(void *data, size_t length);
};

struct mu_tf_library {
    const char *(*version)(void);
    void *(*new_status)(void);
    int (*get_code)(const void *status);
    const char *(*message)(const void *status);
    struct mu_tf_buffer *(*op_list)(void);
    struct mu_tf_buffer *(*kernels)(void *status);
    void *(*new_server)(const void *def, size_t len, void *status);
    void (*server_start)(void *server, void *status);
    void (*server_join)(void *server, void *status);
};

/* `given`: a file, or the package's folder; NULL: MUSTER_LIBTENSORFLOW, else the wheel of the first python3. 0, or -1
 * with the reason in why. */
int mu_tf_open(const char *given, struct mu_tf_library *ret_library, char *why, size_t size);

/* bind.c: from now on, sockets of this process that would listen on every interface listen on the loopback alone. */
void mu_tf_stay_home(void);

#endif
