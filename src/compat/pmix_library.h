/*
 * compat/pmix_library.h: libpmix, opened when `--mpi pmix` asks for it.
 *
 * muster runs without it, and is built without it: its wire is not specified for others to speak, so a user of PMIx has
 * the library.
 */
#ifndef MU_COMPAT_PMIX_LIBRARY_H
#define MU_COMPAT_PMIX_LIBRARY_H

#include "compat/pmix_abi.h"

/* What muster calls: each(result, name, (parameters)). */
#define MU_PMIX_CALLS(each)                                                                                            \
    each(const char *, PMIx_Get_version, (void)) each(const char *, PMIx_Error_string, (mu_pmix_status status)) each(  \
        mu_pmix_status, PMIx_server_init, (struct mu_pmix_module * module, struct mu_pmix_info * info, size_t count))  \
        each(mu_pmix_status, PMIx_server_finalize, (void)) each(mu_pmix_status, PMIx_generate_regex,                   \
                                                                (const char *names, char **ret_regex))                 \
            each(mu_pmix_status, PMIx_generate_ppn, (const char *ranks, char **ret_regex)) each(                       \
                mu_pmix_status, PMIx_server_register_nspace,                                                           \
                (const char *nspace, int local, struct mu_pmix_info *info, size_t count, mu_pmix_done *done,           \
                 void *data)) each(void, PMIx_server_deregister_nspace,                                                \
                                   (const char *nspace, mu_pmix_done *done, void *data))                               \
                each(mu_pmix_status, PMIx_server_setup_local_support,                                                  \
                     (const char *nspace, struct mu_pmix_info *info, size_t count, mu_pmix_done *done, void *data))    \
                    each(mu_pmix_status, PMIx_server_register_client,                                                  \
                         (const struct mu_pmix_proc *proc, uid_t uid, gid_t gid, void *object, mu_pmix_done *done,     \
                          void *data)) each(void, PMIx_server_deregister_client,                                       \
                                            (const struct mu_pmix_proc *proc, mu_pmix_done *done, void *data))         \
                        each(mu_pmix_status, PMIx_server_setup_fork, (const struct mu_pmix_proc *proc, char ***env))   \
                            each(mu_pmix_status, PMIx_server_dmodex_request,                                           \
                                 (const struct mu_pmix_proc *proc, mu_pmix_dmodex_done *done, void *data))             \
                                each(mu_pmix_status, PMIx_Info_load,                                                   \
                                     (struct mu_pmix_info * info, const char *key, const void *data, uint16_t type))   \
                                    each(mu_pmix_status, PMIx_Value_xfer,                                              \
                                         (struct mu_pmix_value * to, const struct mu_pmix_value *from))                \
                                        each(void, PMIx_Value_destruct, (struct mu_pmix_value * value)) each(          \
                                            mu_pmix_status, PMIx_Data_pack,                                            \
                                            (const struct mu_pmix_proc *target, struct mu_pmix_buffer *buffer,         \
                                             void *from, int32_t count, uint16_t type))                                \
                                            each(mu_pmix_status, PMIx_Data_unpack,                                     \
                                                 (const struct mu_pmix_proc *source, struct mu_pmix_buffer *buffer,    \
                                                  void *to, int32_t *count, uint16_t type))

struct mu_pmix_library {
#define MEMBER(result, name, parameters) result(*name) parameters;
    MU_PMIX_CALLS(MEMBER)
#undef MEMBER
    unsigned major; /* its version's first number */
};

/*
 * Open `library` (NULL: MUSTER_PMIX_LIBRARY, or the one that the system has). It is never closed: it leaves threads'
 * and exit's handlers behind. 0, or -1 with the reason and the remedy in `why`.
 */
int mu_pmix_library_open(const char *library, struct mu_pmix_library *ret_library, char *why, size_t size);

#endif
