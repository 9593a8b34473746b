/*
 * tests/compat/pmix_abi_test.c: what compat/pmix_abi.h declares is what libpmix's own headers do, where they are.
 * variants: release
 */
#include <stdio.h>

#include "compat/pmix_abi.h"

#if __has_include(<pmix_server.h>)
#include <pmix_server.h>

#define SAME_SIZE(ours, theirs)        _Static_assert(sizeof(ours) == sizeof(theirs), #theirs)
#define SAME_PLACE(ours, a, theirs, b) _Static_assert(offsetof(ours, a) == offsetof(theirs, b), #theirs "." #b)
#define SAME(name)                     _Static_assert(MU_##name == (int)name, #name)
#define SAME_KEY(name)                                                                                                 \
    {                                                                                                                  \
#name, MU_##name, name                                                                                         \
    }

SAME_SIZE(struct mu_pmix_proc, pmix_proc_t);
SAME_SIZE(struct mu_pmix_value, pmix_value_t);
SAME_PLACE(struct mu_pmix_value, data, pmix_value_t, data);
SAME_SIZE(struct mu_pmix_info, pmix_info_t);
SAME_PLACE(struct mu_pmix_info, flags, pmix_info_t, flags);
SAME_PLACE(struct mu_pmix_info, value, pmix_info_t, value);
SAME_SIZE(struct mu_pmix_pdata, pmix_pdata_t);
SAME_PLACE(struct mu_pmix_pdata, key, pmix_pdata_t, key);
SAME_PLACE(struct mu_pmix_pdata, value, pmix_pdata_t, value);
SAME_SIZE(struct mu_pmix_array, pmix_data_array_t);
SAME_PLACE(struct mu_pmix_array, array, pmix_data_array_t, array);
SAME_SIZE(struct mu_pmix_buffer, pmix_data_buffer_t);
SAME_PLACE(struct mu_pmix_buffer, unpack_at, pmix_data_buffer_t, unpack_ptr);
SAME_PLACE(struct mu_pmix_buffer, used, pmix_data_buffer_t, bytes_used);
SAME_PLACE(struct mu_pmix_module, client_finalized, pmix_server_module_t, client_finalized);
SAME_PLACE(struct mu_pmix_module, abort, pmix_server_module_t, abort);
SAME_PLACE(struct mu_pmix_module, fence_nb, pmix_server_module_t, fence_nb);
SAME_PLACE(struct mu_pmix_module, direct_modex, pmix_server_module_t, direct_modex);
SAME_PLACE(struct mu_pmix_module, publish, pmix_server_module_t, publish);
SAME_PLACE(struct mu_pmix_module, lookup, pmix_server_module_t, lookup);
SAME_PLACE(struct mu_pmix_module, unpublish, pmix_server_module_t, unpublish);
SAME_PLACE(struct mu_pmix_module, client_connected2, pmix_server_module_t, client_connected2);
_Static_assert(sizeof(struct mu_pmix_module) >= sizeof(pmix_server_module_t), "what is newer is not served");

SAME(PMIX_SUCCESS);
SAME(PMIX_ERR_EXISTS);
SAME(PMIX_ERR_TIMEOUT);
SAME(PMIX_ERR_BAD_PARAM);
SAME(PMIX_ERR_NOMEM);
SAME(PMIX_ERR_NOT_FOUND);
SAME(PMIX_ERR_NOT_SUPPORTED);
SAME(PMIX_ERR_PARTIAL_SUCCESS);
SAME(PMIX_ERR_DUPLICATE_KEY);
SAME(PMIX_ERR_LOST_CONNECTION);
SAME(PMIX_OPERATION_SUCCEEDED);
SAME(PMIX_BOOL);
SAME(PMIX_STRING);
SAME(PMIX_INT);
SAME(PMIX_UINT16);
SAME(PMIX_UINT32);
SAME(PMIX_VALUE);
SAME(PMIX_INFO);
SAME(PMIX_DATA_ARRAY);
SAME(PMIX_PROC_RANK);
SAME(PMIX_REGEX);
SAME(PMIX_GLOBAL);

#include <string.h>

static int compare_keys(void)
{
    static const struct {
        const char *name, *ours, *theirs;
    } keys[] = {
        SAME_KEY(PMIX_SERVER_TMPDIR), SAME_KEY(PMIX_SYSTEM_TMPDIR), SAME_KEY(PMIX_TMPDIR),
        SAME_KEY(PMIX_NSDIR),         SAME_KEY(PMIX_TDIR_RMCLEAN),  SAME_KEY(PMIX_JOBID),
        SAME_KEY(PMIX_HOSTNAME),      SAME_KEY(PMIX_NODEID),        SAME_KEY(PMIX_NODE_MAP),
        SAME_KEY(PMIX_PROC_MAP),      SAME_KEY(PMIX_NUM_NODES),     SAME_KEY(PMIX_UNIV_SIZE),
        SAME_KEY(PMIX_JOB_SIZE),      SAME_KEY(PMIX_MAX_PROCS),     SAME_KEY(PMIX_JOB_NUM_APPS),
        SAME_KEY(PMIX_LOCAL_SIZE),    SAME_KEY(PMIX_NODE_SIZE),     SAME_KEY(PMIX_LOCAL_PEERS),
        SAME_KEY(PMIX_LOCALLDR),      SAME_KEY(PMIX_RANK),          SAME_KEY(PMIX_PROC_INFO_ARRAY),
        SAME_KEY(PMIX_GLOBAL_RANK),   SAME_KEY(PMIX_APP_RANK),      SAME_KEY(PMIX_LOCAL_RANK),
        SAME_KEY(PMIX_NODE_RANK),     SAME_KEY(PMIX_APPNUM),        SAME_KEY(PMIX_TIMEOUT),
        SAME_KEY(PMIX_WAIT),
    };
    int wrong = 0;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(keys[i].ours, keys[i].theirs) != 0)
            wrong += printf("%s is %s, not %s\n", keys[i].name, keys[i].theirs, keys[i].ours);
    printf("%zu keys are those of libpmix %ld.%ld.%ld\n", sizeof keys / sizeof keys[0], PMIX_VERSION_MAJOR,
           PMIX_VERSION_MINOR, PMIX_VERSION_RELEASE);
    return wrong > 0;
}

int main(void)
{
    return compare_keys();
}

#else
int main(void)
{
    printf("libpmix's headers are not installed (Debian: libpmix-dev): what muster declares was not compared\n");
    return 77;
}
#endif
