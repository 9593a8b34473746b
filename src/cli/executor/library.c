/*
 * cli/executor/library.c: where TensorFlow's library is, and what is called of it.
 *
 * Its wheel has it as libtensorflow_cc.so.2, with the C API in it; a folder of TensorFlow's C library has
 * libtensorflow.so.2. What is said by hand comes first, then what python3 would import, without importing it.
 */
#include "cli/executor/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIND                                                                                                           \
    "import importlib.util as u; s = u.find_spec('tensorflow'); print(s.submodule_search_locations[0] if s else '')"

/* The folder of python3's package; "" where there is none. */
static void package_find(char *folder, size_t size)
{
    char *const words[] = {(char *)(uintptr_t) "python3", (char *)(uintptr_t) "-c", (char *)(uintptr_t)FIND, NULL};
    posix_spawn_file_actions_t actions;
    int fds[2], status = -1;
    size_t len = 0;
    ssize_t n = 0;
    pid_t pid;

    folder[0] = 0;
    if (pipe2(fds, O_CLOEXEC))
        return;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&pid, words[0], &actions, NULL, words, environ))
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    while (pid > 0 && len < size - 1 && (n = read(fds[0], folder + len, size - 1 - len)) > 0)
        len += (size_t)n;
    close(fds[0]);
    if (pid > 0)
        waitpid(pid, &status, 0);
    folder[status == 0 ? len : 0] = 0;
    folder[strcspn(folder, "\n")] = 0;
}

static int file_in(const char *folder, char *path, size_t size)
{
    static const char *const names[] = {"libtensorflow_cc.so.2", "libtensorflow_cc.so", "libtensorflow.so.2",
                                        "libtensorflow.so"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (snprintf(path, size, "%s/%s", folder, names[i]) < (int)size && access(path, R_OK) == 0)
            return 0;
    }
    return -1;
}

static int tensorflow_find(const char *given, char *path, size_t size, char *why, size_t why_size)
{
    const char *from = given ? given : getenv("MUSTER_LIBTENSORFLOW");
    char folder[3800];
    struct stat st;

    if (from && *from) {
        if (stat(from, &st) == 0 && !S_ISDIR(st.st_mode)) {
            snprintf(path, size, "%s", from);
            return 0;
        }
        if (file_in(from, path, size) == 0)
            return 0;
        snprintf(why, why_size, "%s is neither TensorFlow's library nor a folder with libtensorflow_cc.so.2 in it",
                 from);
        return -1;
    }
    package_find(folder, sizeof folder);
    if (folder[0] && file_in(folder, path, size) == 0)
        return 0;
    snprintf(why, why_size,
             "python3 has no package tensorflow with its library: install one (pip install tensorflow-cpu), or say "
             "where it is by --libtensorflow or MUSTER_LIBTENSORFLOW");
    return -1;
}

static int function_find(void *library, const char *name, void *ret_function)
{
    void *found = dlsym(library, name);

    memcpy(ret_function, &found, sizeof found);
    return found ? 0 : -1;
}

/* What only steps need that do not come over gRPC. */
static bool sessions_find(void *library, struct mu_tf_library *l)
{
    const struct {
        const char *name;
        void *at;
    } functions[] = {
        {"TF_NewGraph", &l->new_graph},
        {"TF_DeleteGraph", &l->delete_graph},
        {"TF_NewImportGraphDefOptions", &l->new_import},
        {"TF_DeleteImportGraphDefOptions", &l->delete_import},
        {"TF_GraphImportGraphDef", &l->import},
        {"TF_GraphOperationByName", &l->operation},
        {"TF_NewSessionOptions", &l->new_options},
        {"TF_DeleteSessionOptions", &l->delete_options},
        {"TF_SetTarget", &l->set_target},
        {"TF_SetConfig", &l->set_config},
        {"TF_NewSession", &l->new_session},
        {"TF_CloseSession", &l->close_session},
        {"TF_DeleteSession", &l->delete_session},
        {"TF_SessionRun", &l->run},
        {"TF_AllocateTensor", &l->new_tensor},
        {"TF_DeleteTensor", &l->delete_tensor},
        {"TF_TensorData", &l->tensor_data},
        {"TF_TensorByteSize", &l->tensor_bytes},
        {"TF_TensorType", &l->tensor_type},
        {"TF_NumDims", &l->tensor_dims},
        {"TF_Dim", &l->tensor_dim},
        {"TF_DeleteStatus", &l->delete_status},
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (function_find(library, functions[i].name, functions[i].at))
            return false;
    return true;
}

int mu_tf_open(const char *given, struct mu_tf_library *l, char *why, size_t size)
{
    char path[4096];
    void *library;
    const struct {
        const char *name;
        void *at;
    } functions[] = {
        {"TF_Version", &l->version},        {"TF_NewStatus", &l->new_status},
        {"TF_GetCode", &l->get_code},       {"TF_Message", &l->message},
        {"TF_GetAllOpList", &l->op_list},   {"TF_GetAllRegisteredKernels", &l->kernels},
        {"TF_NewServer", &l->new_server},   {"TF_ServerStart", &l->server_start},
        {"TF_ServerJoin", &l->server_join},
    };

    if (tensorflow_find(given, path, sizeof path, why, size))
        return -1;
    library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        snprintf(why, size, "%s", dlerror());
        return -1;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (function_find(library, functions[i].name, functions[i].at)) {
            snprintf(why, size, "%s has no %s: TensorFlow 2.12 and later have it", path, functions[i].name);
            return -1;
        }
    l->has_sessions = sessions_find(library, l);
    return 0;
}
