/*
 * compat/pmix_abi.h: what muster uses of PMIx's interface, as OpenPMIx 4.2 to 6 have it.
 *
 * Declared here and not taken from its headers: these come with OpenMPI's development packages, their macros call
 * functions of the library that is not linked, and with them a build would be tied to one of its versions. The layouts
 * are of the PMIx standard, version 4; what the library hands out or is given goes through functions of its own where
 * it has them. tests/compat/pmix_abi_test.c compares all of it with the headers where they are installed.
 */
#ifndef MU_COMPAT_PMIX_ABI_H
#define MU_COMPAT_PMIX_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MU_PMIX_NSPACE_MAX 255
#define MU_PMIX_KEY_MAX    511

enum {
    MU_PMIX_SUCCESS = 0,
    MU_PMIX_ERR_EXISTS = -11,
    MU_PMIX_ERR_TIMEOUT = -24,
    MU_PMIX_ERR_BAD_PARAM = -27,
    MU_PMIX_ERR_NOMEM = -32,
    MU_PMIX_ERR_NOT_FOUND = -46,
    MU_PMIX_ERR_NOT_SUPPORTED = -47,
    MU_PMIX_ERR_PARTIAL_SUCCESS = -52,
    MU_PMIX_ERR_DUPLICATE_KEY = -53,
    MU_PMIX_ERR_LOST_CONNECTION = -61,
    MU_PMIX_OPERATION_SUCCEEDED = -157,
};

enum {
    MU_PMIX_BOOL = 1,
    MU_PMIX_STRING = 3,
    MU_PMIX_INT = 6,
    MU_PMIX_UINT16 = 13,
    MU_PMIX_UINT32 = 14,
    MU_PMIX_VALUE = 21,
    MU_PMIX_INFO = 24,
    MU_PMIX_PERSIST = 30,
    MU_PMIX_DATA_RANGE = 33,
    MU_PMIX_DATA_ARRAY = 39,
    MU_PMIX_PROC_RANK = 40,
    MU_PMIX_REGEX = 49,
};

#define MU_PMIX_RANK_WILDCARD (UINT32_MAX - 1)
#define MU_PMIX_GLOBAL        3 /* a scope */

/* Keys. */
#define MU_PMIX_SERVER_TMPDIR   "pmix.srvr.tmpdir"
#define MU_PMIX_SYSTEM_TMPDIR   "pmix.sys.tmpdir"
#define MU_PMIX_TMPDIR          "pmix.tmpdir"
#define MU_PMIX_NSDIR           "pmix.nsdir"
#define MU_PMIX_TDIR_RMCLEAN    "pmix.tdir.rmclean"
#define MU_PMIX_JOBID           "pmix.jobid"
#define MU_PMIX_HOSTNAME        "pmix.hname"
#define MU_PMIX_NODEID          "pmix.nodeid"
#define MU_PMIX_NODE_MAP        "pmix.nmap"
#define MU_PMIX_PROC_MAP        "pmix.pmap"
#define MU_PMIX_NUM_NODES       "pmix.num.nodes"
#define MU_PMIX_UNIV_SIZE       "pmix.univ.size"
#define MU_PMIX_JOB_SIZE        "pmix.job.size"
#define MU_PMIX_MAX_PROCS       "pmix.max.size"
#define MU_PMIX_JOB_NUM_APPS    "pmix.job.napps"
#define MU_PMIX_LOCAL_SIZE      "pmix.local.size"
#define MU_PMIX_NODE_SIZE       "pmix.node.size"
#define MU_PMIX_LOCAL_PEERS     "pmix.lpeers"
#define MU_PMIX_LOCALLDR        "pmix.lldr"
#define MU_PMIX_PROC_INFO_ARRAY "pmix.pdata"
#define MU_PMIX_RANK            "pmix.rank"
#define MU_PMIX_GLOBAL_RANK     "pmix.grank"
#define MU_PMIX_APP_RANK        "pmix.apprank"
#define MU_PMIX_LOCAL_RANK      "pmix.lrank"
#define MU_PMIX_NODE_RANK       "pmix.nrank"
#define MU_PMIX_APPNUM          "pmix.appnum"
#define MU_PMIX_REINCARNATION   "pmix.reinc"
#define MU_PMIX_TIMEOUT         "pmix.timeout"
#define MU_PMIX_WAIT            "pmix.wait"

struct mu_pmix_proc {
    char nspace[MU_PMIX_NSPACE_MAX + 1];
    uint32_t rank;
};

struct mu_pmix_value {
    uint16_t type;
    union {
        bool flag;
        char *string;
        int integer;
        uint16_t uint16;
        uint32_t uint32;
        uint8_t byte; /* also a persistence, a range */
        struct {
            char *bytes;
            size_t size;
        } bo;
        void *pointer;
        struct {
            char *name, *value;
            char separator;
        } largest; /* pmix_envar_t */
    } data;
};

struct mu_pmix_info {
    char key[MU_PMIX_KEY_MAX + 1];
    uint32_t flags;
    struct mu_pmix_value value;
};

struct mu_pmix_pdata {
    struct mu_pmix_proc proc;
    char key[MU_PMIX_KEY_MAX + 1];
    struct mu_pmix_value value;
};

struct mu_pmix_array {
    uint16_t type;
    size_t size;
    void *array;
};

struct mu_pmix_buffer {
    char *base, *pack_at, *unpack_at;
    size_t allocated, used;
};

typedef int mu_pmix_status;
typedef void mu_pmix_released(void *data);
typedef void mu_pmix_done(mu_pmix_status status, void *data);
typedef void mu_pmix_modex_done(mu_pmix_status status, const char *bytes, size_t len, void *data,
                                mu_pmix_released *released, void *released_data);
typedef void mu_pmix_lookup_done(mu_pmix_status status, struct mu_pmix_pdata *found, size_t count, void *data);
typedef void mu_pmix_dmodex_done(mu_pmix_status status, char *bytes, size_t len, void *data);

/* What libpmix calls, on its own thread. What is void * here is not served. */
struct mu_pmix_module {
    void *client_connected;
    mu_pmix_status (*client_finalized)(const struct mu_pmix_proc *proc, void *object, mu_pmix_done *done, void *data);
    mu_pmix_status (*abort)(const struct mu_pmix_proc *proc, void *object, int status, const char *text,
                            struct mu_pmix_proc *procs, size_t num_procs, mu_pmix_done *done, void *data);
    mu_pmix_status (*fence_nb)(const struct mu_pmix_proc *procs, size_t num_procs, const struct mu_pmix_info *info,
                               size_t num_info, char *bytes, size_t len, mu_pmix_modex_done *done, void *data);
    mu_pmix_status (*direct_modex)(const struct mu_pmix_proc *proc, const struct mu_pmix_info *info, size_t num_info,
                                   mu_pmix_modex_done *done, void *data);
    mu_pmix_status (*publish)(const struct mu_pmix_proc *proc, const struct mu_pmix_info *info, size_t num_info,
                              mu_pmix_done *done, void *data);
    mu_pmix_status (*lookup)(const struct mu_pmix_proc *proc, char **keys, const struct mu_pmix_info *info,
                             size_t num_info, mu_pmix_lookup_done *done, void *data);
    mu_pmix_status (*unpublish)(const struct mu_pmix_proc *proc, char **keys, const struct mu_pmix_info *info,
                                size_t num_info, mu_pmix_done *done, void *data);
    void *spawn, *connect, *disconnect, *register_events, *deregister_events, *listener;
    void *notify_event, *query, *tool_connected, *log, *allocate, *job_control, *monitor;
    void *get_credential, *validate_credential, *iof_pull, *push_stdin, *group, *fabric;
    mu_pmix_status (*client_connected2)(const struct mu_pmix_proc *proc, void *object, struct mu_pmix_info *info,
                                        size_t num_info, mu_pmix_done *done, void *data);
    void *later[32]; /* a newer library reads on: it finds that nothing more is served */
};

#endif
