/*
 * tests/compat/pmix_test.c: libpmix's server in a loop, with real clients: they find each other, what they publish is
 * in the job's store, who aborts and who leaves without a word is known, and another attempt begins anew. What other
 * hosts might say is taken or dropped, whatever it is. And a libpmix that is missing, or too old, is said to be.
 */
#include "cm.h"

#include <fcntl.h>
#include <ftw.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compat/pmix.h"
#include "compat/pmix_library.h"
#include "job.h"

#define TASKS 3

__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libpmix\nleak:libhwloc\nleak:libevent\nleak:mca_\n"; /* what it keeps until the process ends */
}

static uv_loop_t loop;
static uv_timer_t timer;
static struct mu_pmix *server;
static struct test_job job;
static struct muster *m;
static char folder[256], output[300];

static struct {
    pid_t pids[TASKS];
    int statuses[TASKS];
    uint32_t running;
    int aborted_task, aborted_status, stranded_task, missing_task;
    char aborted_text[256];
} run;

/* ---- what the server asks of us ---- */

static void tell(void *arg, uint32_t host, const void *bytes, size_t len)
{
    (void)arg, (void)host, (void)bytes, (void)len;
}

static void gather(void *arg, const uint32_t *hosts, uint32_t num_hosts, const char *name, const void *bytes,
                   size_t len, uint32_t id)
{
    (void)arg, (void)hosts, (void)num_hosts, (void)name, (void)bytes, (void)len;
    mu_pmix_gathered(server, id, true, NULL, 0);
}

static void stranded(void *arg, uint32_t task, uint32_t missing)
{
    (void)arg;
    run.stranded_task = (int)task;
    run.missing_task = (int)missing;
}

static void aborted(void *arg, uint32_t task, int status, const char *text)
{
    (void)arg;
    run.aborted_task = (int)task;
    run.aborted_status = status;
    snprintf(run.aborted_text, sizeof run.aborted_text, "%s", text ? text : "");
}

/* ---- clients ---- */

static void start(uint32_t task, const char *what, const char *argument)
{
    char path[4096], **vars;
    int out;

    snprintf(path, sizeof path, "%s/tests/compat/pmix_client", getenv("BUILD"));
    assert_ok(mu_pmix_environment(server, task, &vars));
    out = open(output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(out >= 0);
    run.pids[task] = fork();
    if (run.pids[task] == 0) {
        dup2(out, 1);
        for (char **var = vars; *var; var++)
            putenv(*var);
        execl(path, path, what, argument, NULL);
        _exit(126);
    }
    assert_true(run.pids[task] > 0);
    close(out);
    for (char **var = vars; *var; var++)
        free(*var);
    free(vars);
    run.running++;
}

/* Some of them may have ended. */
static void look(uv_timer_t *t)
{
    (void)t;
    for (int i = 0; i < TASKS; i++)
        if (run.pids[i] > 0 && waitpid(run.pids[i], &run.statuses[i], WNOHANG) == run.pids[i]) {
            run.pids[i] = 0;
            run.running--;
        }
}

static void begin(const char *nspace)
{

    static const char *const names[] = {"here"};
    static const uint32_t tasks[] = {TASKS};
    const struct mu_pmix_job about = {.nspace = nspace,
                                      .num_tasks = TASKS,
                                      .num_apps = 1,
                                      .num_hosts = 1,
                                      .host_names = names,
                                      .host_tasks = tasks,
                                      .m = m};

    assert_ok(mu_pmix_begin(server, &about));
}

/* A job of all of them, until each has ended, or `until` is true. */
static void run_all(const char *what, const char *argument, bool (*until)(void))
{
    memset(&run, 0, sizeof run);
    run.aborted_task = run.stranded_task = run.missing_task = -1;
    unlink(output);
    for (uint32_t i = 0; i < TASKS; i++)
        start(i, what, argument);
    while (run.running > 0 && !(until && until()))
        uv_run(&loop, UV_RUN_ONCE);
}

static void must_succeed(const char *what, const char *argument)
{
    char text[4096] = "";
    FILE *file;

    run_all(what, argument, NULL);
    file = fopen(output, "re");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
    }
    for (int i = 0; i < TASKS; i++)
        if (run.statuses[i] != 0)
            fail_msg("%s: task %d has wait status %x; they said: %s", what, i, (unsigned)run.statuses[i], text);
    for (uint32_t i = 0; i < TASKS; i++)
        assert_false(mu_pmix_is_within(server, i));
}

static void end_all(void)
{
    for (int i = 0; i < TASKS; i++)
        if (run.pids[i] > 0)
            kill(run.pids[i], SIGKILL);
    while (run.running > 0)
        uv_run(&loop, UV_RUN_ONCE);
}

/* ---- tests ---- */

TEST(tasks_find_each_other)
{
    static const char *const what[][2] = {{"ring", NULL}, {"direct", NULL}, {"facts", NULL}, {"large", "1000000"}};
    char nspace[16];

    for (size_t i = 0; i < sizeof what / sizeof what[0]; i++) { /* each in an attempt of its own */
        snprintf(nspace, sizeof nspace, "first-%zu", i);
        begin(nspace);
        must_succeed(what[i][0], what[i][1]);
        mu_pmix_end(server);
    }
}

TEST(what_is_published_is_in_the_store)
{
    struct mu_pmix_stats stats;

    begin("second");
    must_succeed("publish", NULL);
    mu_pmix_stats(server, &stats);
    assert_int_equal(stats.published, 1);
    mu_pmix_end(server);
}

/* How often they have said that. */
static int count_of(const char *what)
{
    char text[256] = "";
    FILE *file = fopen(output, "re");
    int count = 0;

    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
    }
    for (const char *at = text; (at = strstr(at, what)); at++)
        count++;
    return count;
}

/* The others wait for it no longer. */
static bool last_has_left(void)
{
    return run.pids[TASKS - 1] == 0 && count_of("released") == TASKS - 1;
}

TEST(who_leaves_without_a_word_is_within)
{
    begin("third");
    run_all("leave", NULL, last_has_left);
    assert_int_equal(run.statuses[TASKS - 1], 0);
    assert_true(mu_pmix_is_within(server, TASKS - 1));
    end_all();
    mu_pmix_end(server);
    assert_false(mu_pmix_is_within(server, TASKS - 1)); /* of no job */
}

static bool is_within(void)
{
    return mu_pmix_is_within(server, 0);
}

static bool has_stranded(void)
{
    return run.stranded_task >= 0;
}

/* Before the others begin, while they wait, and where another host says so. */
TEST(who_ends_without_it_is_missed)
{
    struct mu_pack word = {.bytes = NULL};
    uint32_t other = 77;

    mu_pack_u8(&word, 7);
    mu_pack_u32(&word, TASKS - 1);
    begin("sixth");
    assert_int_equal(mu_pmix_task_ended(server, TASKS - 1, &other), MU_PMIX_NEVER);
    run_all("stay", NULL, has_stranded);
    assert_int_equal(run.missing_task, TASKS - 1);
    assert_in_range(run.stranded_task, 0, TASKS - 1);
    end_all();
    mu_pmix_end(server);

    begin("seventh");
    run_all("stay", NULL, is_within);
    assert_int_equal(mu_pmix_task_ended(server, 0, &other), MU_PMIX_OPEN);
    for (uint32_t i = 1; i < TASKS; i++) /* of one that is on its way it cannot be told */
        if (!mu_pmix_is_within(server, i)) {
            assert_int_equal(mu_pmix_task_ended(server, i, &other), MU_PMIX_MISSED);
            assert_int_equal(other, 0);
        }
    end_all();
    mu_pmix_end(server);

    begin("eighth");
    run_all("stay", NULL, is_within);
    mu_pmix_told(server, 0, word.bytes, word.len);
    assert_int_equal(run.stranded_task, 0);
    assert_int_equal(run.missing_task, TASKS - 1);
    mu_pack_done(&word);
    end_all();
    mu_pmix_end(server);
}

/*
 * libpmix has then freed what it keeps of one, and has it in a list; and the server is used, and ends, all the same.
 * Unmended, it waited for ever at the one or the other, or crashed.
 */
TEST(who_goes_in_the_midst_of_its_beginning_does_no_harm)
{
    char nspace[32];

    mallopt(M_PERTURB, 0x5a); /* what lies in freed memory must not pass for what was there */
    for (int i = 0; i < 3; i++) {
        snprintf(nspace, sizeof nspace, "ninth-%d", i);
        begin(nspace);
        unlink(output);
        start((uint32_t)i % TASKS, "half", NULL); /* no other: libpmix would look for it in that list */
        while (run.running > 0)
            uv_run(&loop, UV_RUN_ONCE);
        assert_int_equal(count_of("went halfway"), 1);
        mu_pmix_end(server);
    }
    begin("tenth");
    must_succeed("ring", NULL);
    mu_pmix_end(server);
    mallopt(M_PERTURB, 0);
}

/* The words 1 and 2 name tasks of libpmix's: only broken ones of these. */
TEST(whatever_is_said_is_taken_or_dropped)
{
    static const uint32_t sizes[] = {0, 1, 2, 5, 9, 12, 13, 20, 64, 300};
    uint8_t bytes[300];
    unsigned seed = 7;

    begin("fourth");
    for (int i = 0; i < 20000; i++) {
        size_t len = sizes[(unsigned)rand_r(&seed) % (sizeof sizes / sizeof sizes[0])];

        for (size_t k = 0; k < len; k++)
            bytes[k] = rand_r(&seed) % 3 ? 0 : (uint8_t)rand_r(&seed);
        if (len > 0)
            bytes[0] = (uint8_t)(i % 9);
        if (len > 12)
            bytes[12] |= 0x80; /* no task has such a number */
        mu_pmix_told(server, i % 5 ? 0 : 7, bytes, len);
    }
    must_succeed("ring", NULL); /* it serves all the same */
    mu_pmix_end(server);
}

TEST(a_library_that_does_not_do_is_named)
{
    struct mu_pmix_library library;
    char why[400];

    assert_int_equal(mu_pmix_library_open("libno-such-pmix.so.2", &library, why, sizeof why), -1);
    assert_non_null(strstr(why, "cannot load libpmix"));
    assert_non_null(strstr(why, "apt-get install libpmix2"));
    assert_int_equal(mu_pmix_library_open("libc.so.6", &library, why, sizeof why), -1);
    assert_non_null(strstr(why, "libpmix is too old"));
}

/* ---- around them ---- */

static bool has_aborted(void)
{
    return run.aborted_task >= 0;
}

/* The last: libpmix is halted in it. */
TEST(who_aborts_is_named)
{
    begin("fifth");
    run_all("abort", "9", has_aborted);
    assert_int_equal(run.aborted_task, TASKS - 1);
    assert_int_equal(run.aborted_status, 9);
    assert_string_equal(run.aborted_text, "no such matrix");
    mu_pmix_halt(server); /* libpmix must not look on while they die within a fence */
    end_all();
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st, (void)kind, (void)place;
    return remove(path);
}

static int set_up(void)
{
    const struct mu_pmix_options options = {
        .loop = &loop,
        .directory = folder,
        .host_name = "here",
        .tell = tell,
        .gather = gather,
        .aborted = aborted,
        .stranded = stranded,
    };

    signal(SIGPIPE, SIG_IGN); /* as in the agent: libpmix may write to one that has just been killed */
    snprintf(folder, sizeof folder, "%s/pmix-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(output, sizeof output, "%s/output", folder);
    assert_ok(test_job_create(&job, NULL));
    m = test_join(job.name, -1, 0);
    assert_non_null(m);
    uv_loop_init(&loop);
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, look, 5, 5);
    assert_ok(mu_pmix_open(&options, &server)); /* once a process: libpmix 4.2 does not start again */
    return 0;
}

static int take_down(void)
{
    mu_pmix_close(server);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    muster_leave(m);
    assert_int_equal(test_job_end(&job), 0);
    assert_int_equal(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    return 0;
}

int main(void)
{
    struct mu_pmix_library library;
    char why[400];

    if (mu_pmix_library_open(NULL, &library, why, sizeof why)) {
        printf("%s\n", why);
        return 77;
    }
    return test_run(set_up, take_down);
}
