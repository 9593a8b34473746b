/*
 * tests/launch/hosts_test.c: lists of hosts as people, Open MPI's and MPICH's files and Slurm write them; which tasks
 * run where; who an agent is, by environments that were recorded under Slurm 22.05, Open MPI 4.1 and MPICH 4.0's hydra,
 * and one of a pod; keys.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/hosts.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char why[400];

/* "a:8 b:1" */
static const char *shown(const struct mu_launch_hosts *hosts, int tasks)
{
    static char text[2000];
    size_t at = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < hosts->count && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s:%u", i ? " " : "", hosts->list[i].name,
                               tasks ? hosts->list[i].tasks : hosts->list[i].slots);
    return text;
}

TEST(lists_are_read_as_written)
{
    static const struct {
        const char *text, *is;
    } rows[] = {
        {"a", "a:1"},
        {"a:8,b:8", "a:8 b:8"},
        {"a,b:2,a:3", "a:4 b:2"},
        {"user@login.example.org:4", "user@login.example.org:4"},
        {"192.0.2.7:2,198.51.100.1", "192.0.2.7:2 198.51.100.1:1"},
        {"[fd00::2]:4,[fd00::3]", "fd00::2:4 fd00::3:1"},
        {"n[1-3]:2,m", "n1:2 n2:2 n3:2 m:1"},
        {"n[08-10,7]", "n08:1 n09:1 n10:1 n7:1"},
        {"r[1-2]n[1-2]x:3", "r1n1x:3 r1n2x:3 r2n1x:3 r2n2x:3"},
        {"me@site@gpu_1.,_x,fe80::2%eth0", "me@site@gpu_1.:1 _x:1 fe80::2%eth0:1"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct mu_launch_hosts hosts = {.list = NULL};

        if (mu_launch_hosts_parse(&hosts, rows[i].text, why, sizeof why))
            fail_msg("%s: %s", rows[i].text, why);
        assert_string_equal(shown(&hosts, 0), rows[i].is);
        mu_launch_hosts_done(&hosts);
    }
}

TEST(what_is_no_list_is_refused_in_words)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "a name is missing"},
        {"a,,b", "a name is missing"},
        {"a,", "a name is missing"},
        {"a:0", "no number of slots"},
        {"a:", "no number of slots"},
        {"a:x", "no number of slots"},
        {"a:8x", "no number of slots"},
        {"a:-1", "no number of slots"},
        {"a:4097", "no number of slots"},
        {"a:99999999999999999999", "no number of slots"},
        {"a:4096,a", "more than 4096 slots"},
        {"n[1-3", "brackets"},
        {"n1-3]", "brackets"},
        {"n[[1]]", "brackets"},
        {"n[]", "no name"},
        {"n[3-1]", "no name"},
        {"n[a-b]", "no name"},
        {"n[1-]", "no name"},
        {"n[1,,2]", "no name"},
        {"n[1,]", "no name"},
        {"n[1-99999]", "more than 4095 hosts"},
        {"-oProxyCommand=x", "no name"},
        {"a b", "no name"},
        {"a;b", "no name"},
        {"$(id)", "no name"},
        {"a@", "no name"},
        {"a@:2", "no name"},
        {"@a", "no name"},
        {"a@-x", "no name"},
        {".", "no name"},
        {"..:2", "no name"},
        {"a..b", "no name"},
        {".a", "no name"},
        {"%", "no name"},
        {"a:1:2", "no name"},
        {"[::g]:2", "no name"},
        {"fe80::2%", "no name"},
        {"a\x01", "no name"},
        {"a\x7f", "no name"},
        {"\xc3\xa9", "no name"},
    };
    char longest[400];

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct mu_launch_hosts hosts = {.list = NULL};

        why[0] = 0;
        assert_int_equal(mu_launch_hosts_parse(&hosts, rows[i].text, why, sizeof why), -1);
        if (!strstr(why, rows[i].says))
            fail_msg("'%s' says: %s", rows[i].text, why);
        mu_launch_hosts_done(&hosts);
    }
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    {
        struct mu_launch_hosts hosts = {.list = NULL};

        assert_int_equal(mu_launch_hosts_parse(&hosts, longest, why, sizeof why), -1);
        mu_launch_hosts_done(&hosts);
    }
}

/* Open MPI's form, MPICH's, and the two mixed. */
TEST(files_of_both_forms_are_read)
{
    static const struct {
        const char *text, *is; /* NULL: refused, and ... */
        const char *says;
    } rows[] = {
        {"a slots=8\nb slots=4 max_slots=8\n", "a:8 b:4", NULL},
        {"# ours\n\n  a:2 # two\nb\r\n\tc slots=3", "a:2 b:1 c:3", NULL},
        {"a\na\na\n", "a:3", NULL},
        {"n[1-2]:4\n", "n1:4 n2:4", NULL},
        {"", NULL, "names no host"},
        {"# nobody\n", NULL, "names no host"},
        {"a\nb slots=\n", NULL, ":2: 'slots=' is not slots=N"},
        {"a slots=0\n", NULL, ":1: 'slots=0' is not slots=N"},
        {"a\n\nb cpus=3\n", NULL, ":3: 'cpus=3' is not slots=N"},
    };
    char path[300];

    snprintf(path, sizeof path, "%s/hosts", getenv("TMPDIR"));
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct mu_launch_hosts hosts = {.list = NULL};
        FILE *file = fopen(path, "w");
        int rc;

        assert_non_null(file);
        fputs(rows[i].text, file);
        fclose(file);
        rc = mu_launch_hosts_read(&hosts, path, why, sizeof why);
        if (rc != (rows[i].is ? 0 : -1) || (rc && !strstr(why, rows[i].says)))
            fail_msg("'%s' says: %s", rows[i].text, why);
        if (rows[i].is)
            assert_string_equal(shown(&hosts, 0), rows[i].is);
        mu_launch_hosts_done(&hosts);
    }
    {
        struct mu_launch_hosts hosts = {.list = NULL};

        assert_int_equal(mu_launch_hosts_read(&hosts, "/nonexistent/hosts", why, sizeof why), -1);
        assert_string_equal(why, "/nonexistent/hosts: No such file or directory");
        mu_launch_hosts_done(&hosts);
    }
}

TEST(tasks_go_to_this_host_first_then_in_order)
{
    static const struct {
        const char *text;
        uint32_t tasks;
        const char *is;
    } rows[] = {
        {"b:2,c:3", 0, "me:0 b:2 c:3"},
        {"b:2,localhost:4,c:3", 0, "me:4 b:2 c:3"},
        {"b:2,localhost,127.0.0.1,[::1]:2", 5, "me:4 b:1"},
        {"localhost:8,b:8,c:8", 9, "me:8 b:1"},
        {"localhost:8,b:8", 8, "me:8"},
        {"b:8", 3, "me:0 b:3"},
    };
    struct mu_launch_hosts hosts = {.list = NULL};

    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(mu_launch_hosts_parse(&hosts, rows[i].text, why, sizeof why), 0);
        assert_int_equal(mu_launch_hosts_place(&hosts, "me", rows[i].tasks, why, sizeof why), 0);
        assert_string_equal(shown(&hosts, 1), rows[i].is);
        mu_launch_hosts_done(&hosts);
    }
    assert_int_equal(mu_launch_hosts_parse(&hosts, "b:2,c", why, sizeof why), 0);
    assert_int_equal(mu_launch_hosts_place(&hosts, "me", 4, why, sizeof why), -1);
    assert_string_equal(why, "4 tasks need as many slots, and the hosts have 3 (say NAME:SLOTS)");
    mu_launch_hosts_done(&hosts);
}

/* It comes first, and the one task of "me" is there. */
static bool is_here(const char *name)
{
    struct mu_launch_hosts hosts = {.list = NULL};
    char text[320];
    bool found;

    snprintf(text, sizeof text, strchr(name, ':') ? "[%s]" : "%s", name);
    if (mu_launch_hosts_parse(&hosts, text, why, sizeof why) || mu_launch_hosts_place(&hosts, "me", 1, why, sizeof why))
        fail_msg("%s: %s", name, why);
    found = strcmp(shown(&hosts, 1), "me:1") == 0;
    mu_launch_hosts_done(&hosts);
    return found;
}

TEST(this_host_is_known_by_its_names_and_addresses)
{
    char own[256] = "", other[300];

    gethostname(own, sizeof own - 1);
    assert_true(is_here("localhost"));
    assert_true(is_here("127.0.0.1"));
    assert_true(is_here(own));
    if (!strchr(own, '.')) {
        snprintf(other, sizeof other, "%s.example.org", own);
        assert_true(is_here(other));
    }
    snprintf(other, sizeof other, "%sx", own);
    assert_false(is_here(other));
    assert_false(is_here("127.0.0.2"));
    assert_false(is_here("198.51.100.77"));
    assert_false(is_here("2001:db8::1"));
}

TEST(slurms_counts_are_read)
{
    assert_int_equal(mu_launch_slurm_count("2(x2),1", 0), 2);
    assert_int_equal(mu_launch_slurm_count("2(x2),1", 1), 2);
    assert_int_equal(mu_launch_slurm_count("2(x2),1", 2), 1);
    assert_int_equal(mu_launch_slurm_count("2(x2),1", 3), 0);
    assert_int_equal(mu_launch_slurm_count("8", 0), 8);
    assert_int_equal(mu_launch_slurm_count("", 0), 0);
    assert_int_equal(mu_launch_slurm_count("2(x", 0), 0);
    assert_int_equal(mu_launch_slurm_count("2(x2", 0), 0);
    assert_int_equal(mu_launch_slurm_count("x", 0), 0);
    assert_int_equal(mu_launch_slurm_count("2;3", 0), 0);
}

/* ---- who an agent is --------------------------------------------------------------------------------------------- */

#define SLURM_OTHERS                                                                                                   \
    "SLURM_CLUSTER_NAME=muster", "SLURM_JOB_NODELIST=mn[1-3]", "SLURM_LAUNCH_NODE_IPADDR=127.0.0.1", "SLURM_NNODES=3", \
        "SLURM_NODELIST=mn[1-3]", "SLURM_STEPID=0", "SLURM_TASKS_PER_NODE=2(x2),1"

static char *slurm[] = {"SLURMD_NODENAME=mn3",
                        "SLURM_JOB_ID=2",
                        "SLURM_LOCALID=0",
                        "SLURM_NODEID=2",
                        "SLURM_PROCID=4",
                        "SLURM_STEP_ID=0",
                        "SLURM_STEP_NUM_NODES=3",
                        "SLURM_STEP_NUM_TASKS=5",
                        "SLURM_STEP_NODELIST=mn[1-3]",
                        "SLURM_STEP_TASKS_PER_NODE=2(x2),1",
                        SLURM_OTHERS,
                        NULL};
static char *slurm_second[] = {"SLURMD_NODENAME=mn1",
                               "SLURM_JOB_ID=2",
                               "SLURM_LOCALID=1",
                               "SLURM_NODEID=0",
                               "SLURM_PROCID=1",
                               "SLURM_STEP_ID=0",
                               "SLURM_STEP_NUM_NODES=3",
                               "SLURM_STEP_NUM_TASKS=5",
                               "SLURM_STEP_NODELIST=mn[1-3]",
                               "SLURM_STEP_TASKS_PER_NODE=2(x2),1",
                               SLURM_OTHERS,
                               NULL};
/* The shell that salloc starts on the first node (LaunchParameters=use_interactive_step). */
static char *slurm_interactive[] = {"SLURMD_NODENAME=mn1",     "SLURM_JOB_ID=2",
                                    "SLURM_LOCALID=0",         "SLURM_NODEID=0",
                                    "SLURM_PROCID=0",          "SLURM_STEP_ID=4294967290",
                                    "SLURM_STEP_NUM_NODES=1",  "SLURM_STEP_NUM_TASKS=1",
                                    "SLURM_STEP_NODELIST=mn1", "SLURM_STEP_TASKS_PER_NODE=1",
                                    "SLURM_STEPID=4294967290", NULL};
/* A batch script, outside of any step, is nobody's agent. */
static char *slurm_batch[] = {"SLURM_JOB_ID=3", "SLURM_NODEID=0", "SLURM_PROCID=0", "SLURM_NNODES=2", NULL};
static char *openmpi[] = {"OMPI_COMM_WORLD_NODE_RANK=1",
                          "OMPI_COMM_WORLD_RANK=3",
                          "PMIX_RANK=3",
                          "PMIX_NAMESPACE=209780737",
                          "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                          "OMPI_COMM_WORLD_SIZE=4",
                          "OMPI_COMM_WORLD_LOCAL_RANK=1",
                          "PMIX_HOSTNAME=vm",
                          "OMPI_MCA_orte_num_nodes=2",
                          NULL};
/* Open MPI 5's name spaces are words; and mpirun inside of a Slurm step. */
static char *prrte[] = {"OMPI_COMM_WORLD_RANK=1",
                        "PMIX_RANK=1",
                        "PMIX_NAMESPACE=prterun-n1-77@1",
                        "OMPI_COMM_WORLD_LOCAL_SIZE=1",
                        "OMPI_COMM_WORLD_SIZE=2",
                        "OMPI_COMM_WORLD_LOCAL_RANK=0",
                        "SLURM_STEP_ID=1",
                        "SLURM_NODEID=0",
                        NULL};
static char *hydra[] = {"MPI_LOCALNRANKS=2",
                        "PMI_SIZE=6",
                        "MPIR_CVAR_CH3_INTERFACE_HOSTNAME=hb",
                        "MPI_LOCALRANKID=1",
                        "HYDI_CONTROL_FD=9",
                        "PMI_FD=7",
                        "PMI_RANK=3",
                        NULL};
static char *pod[] = {"JOB_COMPLETION_INDEX=2", "MUSTER_NODES=4", "HOSTNAME=train-2", "KUBERNETES_SERVICE_PORT=443",
                      NULL};
static char *nobody[] = {"HOME=/root", "PATH=/bin", NULL};

static const char *hosts_file(const char *text)
{
    static char path[300];
    FILE *file;

    snprintf(path, sizeof path, "%s/etc-hosts", getenv("TMPDIR"));
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

TEST(agents_know_their_place)
{
    const char *in_service = hosts_file("127.0.0.1\tlocalhost\n# Pod\n10.1.0.9\ttrain-2.muster.lab.svc.cluster.local\t"
                                        "train-2\n");
    const struct {
        char **env;
        const char *launcher;
        uint32_t node, nodes, agent, agents;
        const char *leader, *file, *name;
    } rows[] = {
        {slurm, "Slurm", 2, 3, 0, 1, "mn1:20122", "", "mn3"},
        {slurm_second, "Slurm", 0, 3, 1, 2, "mn1:20122", "", "mn1"},
        {slurm_interactive, "Slurm", 0, 1, 0, 1, "mn1:31412", "", "mn1"},
        {openmpi, "Open MPI", 1, 2, 1, 2, "", "leader-209780737", ""},
        {prrte, "Open MPI", 1, 2, 0, 1, "", "leader-prterun-n1-77@1", ""},
        {hydra, "hydra", 1, 3, 1, 2, "", "", ""},
        {pod, "Kubernetes", 2, 4, 0, 1, "train-0.muster.lab.svc.cluster.local:21717", "", "train-2"},
    };
    struct mu_launch_node node;

    for (size_t i = 0; i < COUNT(rows); i++) {
        why[0] = 0;
        if (mu_launch_node_find(rows[i].env, in_service, &node, why, sizeof why))
            fail_msg("row %zu: %s", i, why);
        assert_string_equal(node.launcher, rows[i].launcher);
        assert_int_equal(node.node, rows[i].node);
        assert_int_equal(node.nodes, rows[i].nodes);
        assert_int_equal(node.agent, rows[i].agent);
        assert_int_equal(node.agents, rows[i].agents);
        assert_string_equal(node.leader, rows[i].leader);
        assert_string_equal(node.file, rows[i].file);
        assert_string_equal(node.name, rows[i].name);
    }
    assert_int_equal(mu_launch_node_find(nobody, in_service, &node, why, sizeof why), 0);
    assert_null(node.launcher);
    assert_int_equal(mu_launch_node_find(slurm_batch, in_service, &node, why, sizeof why), 0);
    assert_null(node.launcher);
}

/* Each environment with one variable gone, or changed. */
TEST(what_a_launcher_says_is_checked)
{
    static const struct {
        char **env;
        const char *variable, *is; /* NULL: unset */
        const char *says;
    } rows[] = {
        {slurm, "SLURM_NODEID", NULL, "Slurm: SLURM_NODEID is not set"},
        {slurm, "SLURM_NODEID", "3", "Slurm: SLURM_NODEID=3 is not what it should be"},
        {slurm, "SLURM_NODEID", "-1", "Slurm: SLURM_NODEID=-1 is not what it should be"},
        {slurm, "SLURM_STEP_NUM_NODES", "0", "SLURM_STEP_NUM_NODES=0 is not"},
        {slurm, "SLURM_STEP_NODELIST", NULL, "SLURM_STEP_NODELIST is not set"},
        {slurm, "SLURM_STEP_NODELIST", "mn[1-", "SLURM_STEP_NODELIST=mn[1- is not"},
        {slurm, "SLURM_STEP_TASKS_PER_NODE", "2(x2)", "SLURM_STEP_TASKS_PER_NODE=2(x2) is not"},
        {slurm, "SLURM_JOB_ID", NULL, "SLURM_JOB_ID is not set"},
        {slurm, "SLURM_STEP_ID", "4294967296", "SLURM_STEP_ID=4294967296 is not"},
        {openmpi, "OMPI_COMM_WORLD_SIZE", "5", "process 3 of 5 is number 1 of 2 on its node: start one process"},
        {openmpi, "OMPI_COMM_WORLD_RANK", "2", "process 2 of 4 is number 1 of 2"},
        {openmpi, "OMPI_COMM_WORLD_RANK", "x", "Open MPI: OMPI_COMM_WORLD_RANK=x is not"},
        {openmpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "0", "OMPI_COMM_WORLD_LOCAL_SIZE=0 is not"},
        {hydra, "PMI_SIZE", NULL, "hydra: PMI_SIZE is not set"},
        {pod, "MUSTER_NODES", NULL, "Kubernetes: MUSTER_NODES is not set"},
        {pod, "MUSTER_NODES", "2", "Kubernetes: JOB_COMPLETION_INDEX=2 is not"},
        {pod, "HOSTNAME", "train-3", "Kubernetes: HOSTNAME=train-3 is not"},
        {pod, "HOSTNAME", "x-train-2", "x-train-2 has no domain in"},
    };
    const char *in_service = hosts_file("10.1.0.9\ttrain-2.muster.lab.svc.cluster.local\ttrain-2\n");

    for (size_t i = 0; i < COUNT(rows); i++) {
        char *env[40], text[200];
        size_t n = 0, len = strlen(rows[i].variable);
        struct mu_launch_node node;

        for (char **at = rows[i].env; *at; at++)
            if (strncmp(*at, rows[i].variable, len) != 0 || (*at)[len] != '=')
                env[n++] = *at;
        snprintf(text, sizeof text, "%s=%s", rows[i].variable, rows[i].is ? rows[i].is : "");
        if (rows[i].is)
            env[n++] = text;
        env[n] = NULL;
        why[0] = 0;
        assert_int_equal(mu_launch_node_find(env, in_service, &node, why, sizeof why), -1);
        if (!strstr(why, rows[i].says))
            fail_msg("row %zu says: %s", i, why);
    }
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

TEST(keys_come_back_as_they_were_made)
{
    uint8_t key[MU_LAUNCH_KEY_BYTES], other[MU_LAUNCH_KEY_BYTES], again[MU_LAUNCH_KEY_BYTES];
    char text[MU_LAUNCH_KEY_TEXT + 2];

    mu_launch_key_make(key);
    mu_launch_key_make(other);
    assert_memory_not_equal(key, other, sizeof key);
    mu_launch_key_text(key, text);
    assert_int_equal(strlen(text), 64);
    assert_int_equal(mu_launch_key_parse(text, again), 0);
    assert_memory_equal(key, again, sizeof key);
    text[64] = '\n';
    text[65] = 0;
    assert_int_equal(mu_launch_key_parse(text, again), 0);
    text[64] = '0';
    assert_int_equal(mu_launch_key_parse(text, again), -1);
    text[63] = 0;
    assert_int_equal(mu_launch_key_parse(text, again), -1);
    text[10] = 'g';
    assert_int_equal(mu_launch_key_parse(text, again), -1);
    assert_int_equal(mu_launch_key_parse("", again), -1);
    assert_memory_equal(key, again, sizeof key); /* untouched by what failed */
}

static void put(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

TEST(a_keys_file_is_its_owners_alone)
{
    static const char text[] = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF\n";
    uint8_t key[MU_LAUNCH_KEY_BYTES];
    char path[300];

    snprintf(path, sizeof path, "%s/the-key", getenv("TMPDIR"));
    put(path, text, 0600);
    assert_int_equal(mu_launch_key_read(path, key, why, sizeof why), 0);
    assert_int_equal(key[1], 0x11);
    assert_int_equal(key[31], 0xff);
    for (size_t i = 0; i < 3; i++) {
        chmod(path, (mode_t[]){0640, 0604, 0620}[i]);
        assert_int_equal(mu_launch_key_read(path, key, why, sizeof why), -1);
        assert_non_null(strstr(why, "may be used by others (mode 6"));
    }
    if (geteuid() == 0) {
        chmod(path, 0600);
        assert_int_equal(chown(path, 4711, 4711), 0);
        assert_int_equal(mu_launch_key_read(path, key, why, sizeof why), -1);
        assert_non_null(strstr(why, "belongs to another user (uid 4711)"));
        assert_int_equal(chown(path, 0, 0), 0);
    }
    put(path, "secret\n", 0600);
    assert_int_equal(mu_launch_key_read(path, key, why, sizeof why), -1);
    assert_non_null(strstr(why, "holds no key"));
    assert_int_equal(mu_launch_key_read("/dev/null", key, why, sizeof why), -1);
    assert_non_null(strstr(why, "is no plain file"));
    assert_int_equal(mu_launch_key_read("/nonexistent", key, why, sizeof why), -1);
    assert_string_equal(why, "/nonexistent: No such file or directory");

    setenv("MUSTER_KEY_FILE", path, 1);
    assert_int_equal(mu_launch_key_given(key, why, sizeof why), -1);
    put(path, text, 0600);
    assert_int_equal(mu_launch_key_given(key, why, sizeof why), 0);
    setenv("MUSTER_KEY", "short", 1);
    assert_int_equal(mu_launch_key_given(key, why, sizeof why), -1);
    assert_non_null(strstr(why, "MUSTER_KEY is no key"));
    unsetenv("MUSTER_KEY");
    unsetenv("MUSTER_KEY_FILE");
    assert_int_equal(mu_launch_key_given(key, why, sizeof why), 1);
}

/* The first makes it, all others find the same. */
/* What lies in standard input, in pieces as another process writes them; what is left there comes back. */
static int read_from_input(const char *const *pieces, uint8_t *key, char *ret_rest, size_t size)
{
    int before = dup(0), ends[2], rc;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[0], 0), 0);
    close(ends[0]);
    pid = fork();
    if (pid == 0) {
        for (; *pieces; pieces++) {
            int waits = 1;

            if (write(ends[1], *pieces, strlen(*pieces)) < 0)
                _exit(1);
            while (pieces[1] && ioctl(ends[1], FIONREAD, &waits) == 0 && waits > 0) /* until that one is read */
                usleep(1000); /* sleep: the other side reads, and nothing tells of it */
        }
        _exit(0);
    }
    close(ends[1]);
    rc = mu_launch_key_read("-", key, why, sizeof why);
    waitpid(pid, NULL, 0);
    n = read(0, ret_rest, size - 1);
    ret_rest[n > 0 ? n : 0] = 0;
    dup2(before, 0);
    close(before);
    return rc;
}

TEST(a_key_from_standard_input_ends_with_its_line)
{
    static const char half[] = "00112233445566778899aabbccddeeff", other[] = "00112233445566778899AABBCCDDEEFF";
    uint8_t key[MU_LAUNCH_KEY_BYTES];
    char line[100], rest[100];

    snprintf(line, sizeof line, "%s%s\nfor a task\nmore", half, other);
    assert_int_equal(read_from_input((const char *const[]){line, NULL}, key, rest, sizeof rest), 0);
    assert_int_equal(key[31], 0xff);
    assert_string_equal(rest, "for a task\nmore");
    assert_int_equal(
        read_from_input((const char *const[]){half, "0", other + 1, " \r", "\nrest", NULL}, key, rest, sizeof rest), 0);
    assert_int_equal(key[31], 0xff);
    assert_string_equal(rest, "rest");
    assert_int_equal(read_from_input((const char *const[]){"short\n", NULL}, key, rest, sizeof rest), -1);
    assert_non_null(strstr(why, "standard input holds no key"));
    snprintf(line, sizeof line, "%s%s", half, other);
    assert_int_equal(read_from_input((const char *const[]){line, NULL}, key, rest, sizeof rest), -1);
    assert_string_equal(why, "standard input has no line with a key");
}

TEST(a_users_key_is_made_once)
{
    uint8_t key[MU_LAUNCH_KEY_BYTES], again[MU_LAUNCH_KEY_BYTES];
    char path[300];
    struct stat st;

    snprintf(path, sizeof path, "%s/home", getenv("TMPDIR"));
    mkdir(path, 0700);
    setenv("HOME", path, 1);
    assert_int_equal(mu_launch_key_of_user(0, key, why, sizeof why), 1);
    assert_int_equal(mu_launch_key_of_user(1, key, why, sizeof why), 0);
    assert_int_equal(mu_launch_key_of_user(1, again, why, sizeof why), 0);
    assert_memory_equal(key, again, sizeof key);
    assert_int_equal(mu_launch_key_of_user(0, again, why, sizeof why), 0);
    assert_memory_equal(key, again, sizeof key);
    snprintf(path, sizeof path, "%s/home/.muster/key", getenv("TMPDIR"));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_nlink, 1);
    chmod(path, 0644);
    assert_int_equal(mu_launch_key_of_user(1, again, why, sizeof why), -1);
}
