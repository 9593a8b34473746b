/*
 * cli/cli.h: what the verbs of the `muster` command share.
 *
 * A verb is a row of a table: name, operands, summary, options, function. The table drives dispatch, option parsing,
 * --help and the completion file; tests compare it with the man pages.
 *
 * Exit statuses: 0 OK, 1 the library's sentence on stderr, 2 usage, 3 NOT_FOUND, 4 DEADLINE_EXCEEDED, 128 + signal
 * when a wait was ended by one. `muster run` has its own: see agent/agent.h.
 */
#ifndef MU_CLI_CLI_H
#define MU_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <muster/muster.h>

#define MU_CLI_EXIT_OK        0
#define MU_CLI_EXIT_FAILURE   1
#define MU_CLI_EXIT_USAGE     2
#define MU_CLI_EXIT_NOT_FOUND 3
#define MU_CLI_EXIT_DEADLINE  4

/* ---- verbs and options ---------------------------------------------------------------------------------------- */

enum mu_cli_option_id {
    MU_OPT_ADDRESS,
    MU_OPT_ADOPT,
    MU_OPT_AFTER,
    MU_OPT_BIND_TO,
    MU_OPT_CHDIR,
    MU_OPT_CHECKPOINT_DIR,
    MU_OPT_CHECKPOINT_EVERY,
    MU_OPT_CHECKPOINT_KEEP,
    MU_OPT_CLIENT_MEMORY,
    MU_OPT_CODE,
    MU_OPT_COMPLETION,
    MU_OPT_COUNT,
    MU_OPT_CUDA,
    MU_OPT_DRY_RUN,
    MU_OPT_ELASTIC,
    MU_OPT_ENV,
    MU_OPT_EVERY,
    MU_OPT_FILTER,
    MU_OPT_FOLLOW,
    MU_OPT_FORCE,
    MU_OPT_FROM,
    MU_OPT_GLOBAL,
    MU_OPT_GPUS_PER_TASK,
    MU_OPT_GPU_VISIBILITY,
    MU_OPT_GRACE,
    MU_OPT_GRPC,
    MU_OPT_GRPC_ANY_USER,
    MU_OPT_GRPC_CA,
    MU_OPT_GRPC_PEER_URI,
    MU_OPT_GRPC_WORKERS,
    MU_OPT_GRPC_CERT,
    MU_OPT_GRPC_INSECURE,
    MU_OPT_GRPC_KEY,
    MU_OPT_GRPC_RECOVERABLE,
    MU_OPT_HEAP,
    MU_OPT_HEARTBEAT_TIMEOUT,
    MU_OPT_HELP,
    MU_OPT_HOSTFILE,
    MU_OPT_HOSTS,
    MU_OPT_HOST_NAME,
    MU_OPT_INPUT,
    MU_OPT_INSTANCE,
    MU_OPT_JOB,
    MU_OPT_JOBS,
    MU_OPT_JOIN,
    MU_OPT_JOIN_TIMEOUT,
    MU_OPT_JSON,
    MU_OPT_KEY_FILE,
    MU_OPT_KILL_ON_FAIL,
    MU_OPT_LABEL,
    MU_OPT_PTY,
    MU_OPT_LATENCY,
    MU_OPT_LIBTENSORFLOW,
    MU_OPT_LIVE,
    MU_OPT_MAP_BY,
    MU_OPT_MATRIX,
    MU_OPT_MEMFD,
    MU_OPT_METRICS,
    MU_OPT_MINDSPORE,
    MU_OPT_MINDSPORE_DIALECT,
    MU_OPT_MINDSPORE_INSECURE,
    MU_OPT_MINDSPORE_REST,
    MU_OPT_MINDSPORE_SCALING,
    MU_OPT_MPI,
    MU_OPT_NAMES,
    MU_OPT_NODES,
    MU_OPT_NODE_ID,
    MU_OPT_NUM,
    MU_OPT_OBJECTS,
    MU_OPT_ONCE,
    MU_OPT_ONLY,
    MU_OPT_ON_FAILURE,
    MU_OPT_OPS,
    MU_OPT_OUTPUT,
    MU_OPT_PROTO,
    MU_OPT_RAY,
    MU_OPT_RAY_INSECURE,
    MU_OPT_REGISTER_BARRIER,
    MU_OPT_REGISTER_TIMEOUT,
    MU_OPT_REMOVE,
    MU_OPT_REPORT_BINDINGS,
    MU_OPT_RESTARTS,
    MU_OPT_RESTART_DELAY,
    MU_OPT_RESTART_POLICY,
    MU_OPT_RSH,
    MU_OPT_SECONDS,
    MU_OPT_SERVERS,
    MU_OPT_SHUTDOWN_TIMEOUT,
    MU_OPT_SORT,
    MU_OPT_STATE,
    MU_OPT_STDIN,
    MU_OPT_STRAGGLERS,
    MU_OPT_SURVIVE,
    MU_OPT_SVG,
    MU_OPT_TASK,
    MU_OPT_TASKS,
    MU_OPT_TCPSTORE,
    MU_OPT_TCPSTORE_INSECURE,
    MU_OPT_TF_INSECURE,
    MU_OPT_TF_JOBS,
    MU_OPT_TF_MASTER,
    MU_OPT_TF_WORKERS,
    MU_OPT_THREADS,
    MU_OPT_TIMEOUT,
    MU_OPT_TRACE,
    MU_OPT_TYPE,
    MU_OPT_VALUES,
    MU_OPT_WAIT,
    MU_OPT_WATCH,
    MU_OPT_WORKERS,
    MU_OPT_WORKER_RESOURCES,
    MU_OPT_WORKER_COMMAND,
    MU_NUM_OPTIONS,
};

/* The words that a value may be, by number, ended by NULL; or one that begins with '@' and says of which kind it is. */
typedef const char *mu_cli_words(size_t number);

struct mu_cli_option {
    enum mu_cli_option_id id;
    char letter;          /* 0: none */
    const char *name;     /* NULL ends an array */
    const char *argument; /* NULL: a flag; "[=no]": optional, only behind '=' */
    mu_cli_words *words;  /* NULL: nobody can guess the value, as a number or a name that is new */
    const char *help;
};

#define MU_CLI_JOB                                                                                                     \
    {                                                                                                                  \
        MU_OPT_JOB, 0, "job", "NAME", mu_cli_jobs,                                                                     \
            "the job: a name or a path (default: $MUSTER_JOB, else the only live job)"                                 \
    }
#define MU_CLI_JSON                                                                                                    \
    {                                                                                                                  \
        MU_OPT_JSON, 0, "json", NULL, NULL, "print JSON"                                                               \
    }
#define MU_CLI_HELP                                                                                                    \
    {                                                                                                                  \
        MU_OPT_HELP, 'h', "help", NULL, NULL, "print this help and exit"                                               \
    }
#define MU_CLI_END                                                                                                     \
    {                                                                                                                  \
        MU_OPT_HELP, 0, NULL, NULL, NULL, NULL                                                                         \
    }

struct mu_cli_call;

struct mu_cli_verb {
    const char *name;     /* NULL ends an array */
    const char *operands; /* as in the usage line */
    const char *summary;
    const struct mu_cli_option *options; /* of a verb without sub-verbs */
    int min, max;                        /* operands; max -1: any number */
    int is_command;                      /* the first operand ends the options: what follows is a command */
    int (*run)(struct mu_cli_call *call);
    const struct mu_cli_verb *verbs; /* sub-verbs, or NULL */
    mu_cli_words *words;             /* that operands may be, or NULL */
};

/* One invocation, parsed. */
struct mu_cli_call {
    const struct mu_cli_verb *verb;
    char path[64];                      /* "muster kv get" */
    const char *values[MU_NUM_OPTIONS]; /* NULL: not given; "" for a flag */
    char letters[MU_NUM_OPTIONS];       /* given as -n and not as --num-tasks: 'n' */
    char **operands;                    /* NULL-terminated */
    int count;
    char **env;   /* every --env, in order; NULL-terminated */
    char **words; /* all of it, as it was typed behind the verb; NULL-terminated */
};

extern const struct mu_cli_verb mu_cli_run, mu_cli_serve, mu_cli_agent, mu_cli_status, mu_cli_top, mu_cli_kv,
    mu_cli_barrier, mu_cli_checkpoint, mu_cli_task, mu_cli_event, mu_cli_object, mu_cli_scale, mu_cli_session,
    mu_cli_segment, mu_cli_worker, mu_cli_trace, mu_cli_topo, mu_cli_bench, mu_cli_doctor, mu_cli_executor,
    mu_cli_version, mu_cli_help;
/* All of them, ended by NULL. */
extern const struct mu_cli_verb *const mu_cli_verbs[];

/* Of the executable without a loader alone (quick.c): what it does not do itself is the whole one's from here on. */
void mu_cli_quick(char **argv) __attribute__((weak));
/* dispatch.c */
int mu_cli_main(int argc, char **argv);
/* arguments.c: options into call->values, the rest into call->operands; both arrays of the call are malloc()ed. 0,
 * or 2. */
int mu_cli_parse(struct mu_cli_call *call, int argc, char **argv);
/*
 * Take the option at argv[*index] and its value, and move *index past them. 0, or 2 with a complaint printed. With
 * `look` only the words are counted.
 */
int mu_cli_take_option(struct mu_cli_call *call, int argc, char **argv, int *index, int look, size_t *num_env);
bool mu_cli_is_option(const char *word);
/* It may be given without its value. */
bool mu_cli_is_optional(const struct mu_cli_option *option);
/* "unknown option --NAME", with what was meant. Returns 2. */
int mu_cli_unknown_option(const struct mu_cli_call *call, const char *name, size_t len);
int mu_cli_unknown_letter(const struct mu_cli_call *call, const char *word);
/* usage.c */
int mu_cli_usage(const struct mu_cli_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An option of the verb or, for one with sub-verbs, of any of these. */
const struct mu_cli_option *mu_cli_find_option(const struct mu_cli_verb *verb, const char *name, size_t len,
                                               char letter);

/* ---- suggest.c: "did you mean" --------------------------------------------------------------------------------- */

#define MU_CLI_GUESS_TEXT 96

/* One mistyped word, while the right ones are shown to it. */
struct mu_cli_guess {
    const char *word;
    size_t len; /* 0: too short or too long to guess */
    unsigned distance;
    const char *nearest, *longer; /* by edits; beginning with the word */
    int is_tied;
    unsigned num_longer;
};

void mu_cli_guess_start(struct mu_cli_guess *guess, const char *word, size_t len);
void mu_cli_guess_see(struct mu_cli_guess *guess, const char *candidate);
/* The word that was meant, or NULL. */
const char *mu_cli_guess_end(const struct mu_cli_guess *guess);
/* The same as the end of a complaint: "; did you mean --json?" with "--" before it, or "". */
const char *mu_cli_did_you_mean(const struct mu_cli_guess *guess, const char *before, const char *after,
                                char buffer[MU_CLI_GUESS_TEXT]);

/* foreign.c: what does here what other launchers do by this option, with its dashes or without; or NULL. */
const char *mu_cli_foreign_option(const char *word);

/* ---- values.c: what the values of options may be ---------------------------------------------------------------- */

/* "@jobs", "@files", "@folders", "@commands": what the shell completes by. */
mu_cli_words mu_cli_jobs, mu_cli_files, mu_cli_folders, mu_cli_commands;
mu_cli_words mu_cli_answers; /* yes, no */

/*
 * Which of the option's words `text` is. 0, or 2 with a complaint printed: "--mpi is auto, pmix or none, not 'noe';
 * ..."
 */
int mu_cli_choice(const struct mu_cli_call *call, enum mu_cli_option_id id, const char *text, size_t *ret_index);
/* The option's own value the same way; *ret_index stays as it is where there is none. */
int mu_cli_word(const struct mu_cli_call *call, enum mu_cli_option_id id, size_t *ret_index);
/* Complains of the option's value: "--grace: '3' is no duration". Returns 2. */
int mu_cli_wrong(const struct mu_cli_call *call, enum mu_cli_option_id id, const char *text, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* verbs.c */
const struct mu_cli_verb *mu_cli_find(const char *name);
/* An option in the place of the verb. Returns 2. */
int mu_cli_misplaced_option(const struct mu_cli_call *call, const char *word);
/* "unknown command 'NAME'", with what was meant. Returns 2. */
int mu_cli_unknown_command(const struct mu_cli_call *call, const struct mu_cli_verb *verb, const char *name);
int mu_cli_unknown_verb(const struct mu_cli_call *call, const char *name);

/* What the option may be called besides its letter, behind one '-': "np", as mpirun has it; NULL: nothing. */
const char *mu_cli_second_name(const struct mu_cli_option *option);

/* help.c */
void mu_cli_print_help(const struct mu_cli_verb *verb, const char *path, FILE *out);
void mu_cli_print_general_help(FILE *out);
/* completion.c: the completion file for bash. */
void mu_cli_print_completion(FILE *out);

/* ---- job.c: reaching a live job --------------------------------------------------------------------------------- */

/*
 * Join the job that the call names, with MUSTER_JOIN_* `flags`; NO_CREATE is added. For a task, `task_id` >= 0.
 * Returns an exit status; on failure the sentence has been printed. SIGINT, SIGTERM and SIGHUP end waits from here on.
 */
int mu_cli_join(struct mu_cli_call *call, uint32_t flags, int32_t task_id, struct muster **ret_muster);
/* Leave, and see to it that what was printed has arrived. Returns `code`, or 1 when it has not, or 128 + signal. */
int mu_cli_leave(struct mu_cli_call *call, struct muster *muster, int code);
/* Print the library's sentence; the exit status for `status`. Silent when a signal ended the wait. */
int mu_cli_fail(const struct mu_cli_call *call, enum muster_status status);
/* SIGINT, SIGTERM and SIGHUP to `handler`, but those that are ignored (nohup). */
void mu_cli_catch(void (*handler)(int));
/* The number of the signal that ended the wait; 0: none. */
int mu_cli_interrupted(void);
/* Flush stdout. */
int mu_cli_finish(const struct mu_cli_call *call, int code);

/* ---- which.c: which job ----------------------------------------------------------------------------------------- */

/* The job's own segment is not here: put the name of this host's part of it there instead, and say so. 0: no part. */
int mu_cli_find_part(const struct mu_cli_call *call, char *job, size_t size);
/* Complains of what --job, an operand or a variable says. Returns 2. */
int mu_cli_no_job_name(const struct mu_cli_call *call, const char *job);
/* The name or path of the job. Exit status; on failure, said. */
int mu_cli_pick_job(struct mu_cli_call *call, char *ret_job, size_t size);
/* Complains that the job is not there, with those that are; else by the library's sentence. Returns 3. */
int mu_cli_no_job(const struct mu_cli_call *call, const char *job);

/* ---- parse.c: numbers from people; 0, or -1 -------------------------------------------------------------------- */

int mu_cli_parse_duration(const char *text, uint64_t *ret_ns); /* "500ms", "1.5s", "5m", "2h", "0" */
int mu_cli_parse_size(const char *text, uint64_t *ret_bytes);  /* "64M", "1GiB", "4096" */
int mu_cli_parse_unsigned(const char *text, uint64_t max, uint64_t *ret_value);
int mu_cli_parse_signed(const char *text, int64_t *ret_value);
/* "0,2-5": malloc()ed, ascending as written. */
int mu_cli_parse_list(const char *text, int32_t **ret_ids, size_t *ret_count);
int mu_cli_valid_job(const char *name);

/* The option's value, or leave *ret_value as it is when the option was not given. 0, or 2 with a complaint printed. */
int mu_cli_duration(const struct mu_cli_call *call, enum mu_cli_option_id id, uint64_t *ret_ns);
int mu_cli_size(const struct mu_cli_call *call, enum mu_cli_option_id id, uint64_t *ret_bytes);
int mu_cli_unsigned(const struct mu_cli_call *call, enum mu_cli_option_id id, uint64_t max, uint64_t *ret_value);
/* A duration, as the deadline that lies so far ahead. */
int mu_cli_deadline(const struct mu_cli_call *call, enum mu_cli_option_id id, muster_deadline *ret_deadline);

/* ---- format.c: for people ---------------------------------------------------------------------------------------- */

enum mu_cli_colour { MU_CLI_PLAIN, MU_CLI_RED, MU_CLI_GREEN, MU_CLI_YELLOW, MU_CLI_BOLD, MU_CLI_DIM };
/* "" unless stdout is a terminal that shows colours and NO_COLOR is not set. */
const char *mu_cli_colour(enum mu_cli_colour colour);
const char *mu_cli_age(uint64_t since_ns, char buffer[32]); /* "-" when 0 */
void mu_cli_age_at(uint64_t now_ns);                        /* ages are of then, from now on; 0: of the call */
const char *mu_cli_bytes(uint64_t bytes, char buffer[32]);
const char *mu_cli_state_name(enum muster_task_state state);
const char *mu_cli_cause_name(enum muster_cause cause);

/* Its process has ended, and that is no error of its record. */
static inline bool mu_cli_is_ended(const struct muster_task_info *info)
{
    return info->ended && info->state == MUSTER_TASK_DISCONNECTED;
}
/* "has ended (exited with status 0) without joining". */
const char *mu_cli_end(const struct muster_task_info *info, char buffer[192]);
/* What the task's process is doing: "running", "stopped", "dead", "left", "-". */
const char *mu_cli_process(const struct muster_task_info *info);
/* Bytes as one line: control characters (U+0080 to U+009F too) and bytes that are not UTF-8 escaped, nothing else. */
void mu_cli_print_text(FILE *out, const void *data, size_t len);
void mu_cli_print_line(FILE *out, const char *text); /* the same up to the NUL */

/* ---- json.c ------------------------------------------------------------------------------------------------------ */

struct mu_cli_json {
    FILE *out;
    unsigned depth;
    unsigned char filled[16]; /* the level has an element */
};

/* `key` is NULL in arrays and at the top. */
void mu_cli_json_start(struct mu_cli_json *json, FILE *out);
void mu_cli_json_open(struct mu_cli_json *json, const char *key, char bracket);
void mu_cli_json_close(struct mu_cli_json *json, char bracket);
void mu_cli_json_text(struct mu_cli_json *json, const char *key, const char *text); /* NULL: null */
void mu_cli_json_text_n(struct mu_cli_json *json, const char *key, const char *text, size_t len);
void mu_cli_json_unsigned(struct mu_cli_json *json, const char *key, uint64_t value);
void mu_cli_json_signed(struct mu_cli_json *json, const char *key, int64_t value);
void mu_cli_json_known(struct mu_cli_json *json, const char *key, int is_known, uint64_t value); /* else null */
/* A number with three decimals: nanoseconds as microseconds. */
void mu_cli_json_thousandths(struct mu_cli_json *json, const char *key, uint64_t thousandths);
void mu_cli_json_bool(struct mu_cli_json *json, const char *key, int value);
void mu_cli_json_null(struct mu_cli_json *json, const char *key);
/* "KEY": text when the bytes are UTF-8, else "KEY_base64". */
void mu_cli_json_bytes(struct mu_cli_json *json, const char *key, const void *data, size_t len);
/* A newline behind the top value. */
void mu_cli_json_end(struct mu_cli_json *json);

/* 1: well-formed UTF-8. */
bool mu_cli_is_utf8(const void *data, size_t len);
/* Bytes of the well-formed character that `text` begins with; 0: none. */
size_t mu_cli_utf8_length(const void *text, size_t len);
/* U+0080 to U+009F: terminals obey them as they obey ESC [ and its like. */
bool mu_cli_is_c1(const void *text, size_t len);

/* rows.c: what the segment says of tasks; more than that is in cli/status/picture.h. */
void mu_cli_json_task(struct mu_cli_json *json, const char *key, const struct muster_task_info *info);
void mu_cli_json_task_fields(struct mu_cli_json *json, const struct muster_task_info *info);
void mu_cli_print_task_head(void);
void mu_cli_print_task(const struct muster_task_info *info);
/* Every task, malloc()ed. */
enum muster_status mu_cli_tasks(struct muster *muster, struct muster_task_info **ret_infos, size_t *ret_count,
                                uint64_t *ret_version);
/*
 * A task that has not joined is nobody to the segment, and yet a rank that hangs before it joins holds the job up: its
 * process is the launcher's to know. Where a task of this host has a live process that has not joined, or not again,
 * "pid" and "alive" become that process's, and ret_unjoined[task] true. A task that has left, or has died as a task,
 * and lives on as a process, or has a parent that does, stays what it was: a process that was started anew began after
 * the one that had joined, which began at starts[task] (mu_task_run()).
 */
void mu_cli_find_unjoined(const struct muster_segment *seg, struct muster_task_info *infos, const uint64_t *starts,
                          size_t count, bool *ret_unjoined);

#endif
