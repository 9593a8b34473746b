/* cli/executor/library.h: TensorFlow's library, opened when it is asked for: the part of its C API that is used. */
#ifndef MU_CLI_EXECUTOR_LIBRARY_H
#define MU_CLI_EXECUTOR_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mu_tf_buffer { /* TF_Buffer */
    const void *data;
    size_t length;
    void (*dealloc)(void *data, size_t length);
};

struct mu_tf_output { /* TF_Output */
    void *operation;
    int index;
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
    /* Of sessions; has_sessions: all of these are there. */
    bool has_sessions;
    void *(*new_graph)(void);
    void (*delete_graph)(void *graph);
    void *(*new_import)(void);
    void (*delete_import)(void *import);
    void (*import)(void *graph, const struct mu_tf_buffer *def, const void *import, void *status);
    void *(*operation)(void *graph, const char *name);
    void *(*new_options)(void);
    void (*delete_options)(void *options);
    void (*set_target)(void *options, const char *target);
    void (*set_config)(void *options, const void *config, size_t len, void *status);
    void *(*new_session)(void *graph, const void *options, void *status);
    void (*close_session)(void *session, void *status);
    void (*delete_session)(void *session, void *status);
    void (*run)(void *session, const void *options, const struct mu_tf_output *inputs, void *const *fed, int num_fed,
                const struct mu_tf_output *outputs, void **fetched, int num_fetched, void *const *targets,
                int num_targets, void *metadata, void *status);
    void *(*new_tensor)(int type, const int64_t *dims, int num_dims, size_t len); /* at 64 bytes */
    void (*delete_tensor)(void *tensor);
    void *(*tensor_data)(const void *tensor);
    size_t (*tensor_bytes)(const void *tensor);
    int (*tensor_type)(const void *tensor);
    int (*tensor_dims)(const void *tensor);
    int64_t (*tensor_dim)(const void *tensor, int dim);
    void (*delete_status)(void *status);
};

/* `given`: a file, or the package's folder; NULL: MUSTER_LIBTENSORFLOW, else the wheel of the first python3. 0, or -1
 * with the reason in why. */
int mu_tf_open(const char *given, struct mu_tf_library *ret_library, char *why, size_t size);

/* steps.c: takes steps from the master by this socket, in threads of its own, and runs them on the server at `address`.
 * Returns at once. */
void mu_tf_steps(const struct mu_tf_library *library, const char *address, int fd);

/* bind.c: from now on, sockets of this process that would listen on every interface listen on the loopback alone. */
void mu_tf_stay_home(void);

#endif
