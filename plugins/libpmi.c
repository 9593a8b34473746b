/*
 * plugins/libpmi.c: the library libpmi.so.0, PMI-1 as functions, for programs that load one: Open MPI 4.1 above all.
 *
 * It says each call as a line to the launcher (docs/MPI.md; the server is src/compat/pmi1.c) over the socket whose
 * number is in PMI_FD, or over TCP to PMI_PORT, and returns the answer. It needs libc alone, and nothing of muster's
 * library, so it may be loaded into any program. Functions and codes are those of MPICH's pmi.h: 0 is success.
 *
 * One call at a time is on its way: a lock sees to that. After a fork() the child must not call, as with any PMI.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

/* As MPICH's pmi.h declares them, which need not be there. */
PUBLIC int PMI_Init(int *spawned);
PUBLIC int PMI_Initialized(int *initialized);
PUBLIC int PMI_Finalize(void);
PUBLIC int PMI_Abort(int exit_code, const char error_msg[]);
PUBLIC int PMI_Get_size(int *size);
PUBLIC int PMI_Get_rank(int *rank);
PUBLIC int PMI_KVS_Get_name_length_max(int *length);
PUBLIC int PMI_KVS_Get_key_length_max(int *length);
PUBLIC int PMI_KVS_Get_value_length_max(int *length);
PUBLIC int PMI_Get_id_length_max(int *length);
PUBLIC int PMI_Get_universe_size(int *size);
PUBLIC int PMI_Get_appnum(int *appnum);
PUBLIC int PMI_KVS_Get_my_name(char name[], int length);
PUBLIC int PMI_Get_kvs_domain_id(char id[], int length);
PUBLIC int PMI_Get_id(char id[], int length);
PUBLIC int PMI_KVS_Put(const char name[], const char key[], const char value[]);
PUBLIC int PMI_KVS_Commit(const char name[]);
PUBLIC int PMI_KVS_Get(const char name[], const char key[], char value[], int length);
PUBLIC int PMI_Barrier(void);
PUBLIC int PMI_Get_clique_size(int *size);
PUBLIC int PMI_Get_clique_ranks(int ranks[], int length);
PUBLIC int PMI_Publish_name(const char service[], const char port[]);
PUBLIC int PMI_Unpublish_name(const char service[]);
PUBLIC int PMI_Lookup_name(const char service[], char port[]);
PUBLIC int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
                              const int info_keyval_sizes[], const void *info_keyval_vectors[], int preput_keyval_size,
                              const void *preput_keyval_vector, int errors[]);

enum {
    PMI_SUCCESS = 0,
    PMI_FAIL = -1,
    PMI_ERR_INIT = 1,
    PMI_ERR_INVALID_ARG = 3,
    PMI_ERR_INVALID_KEY = 4,
    PMI_ERR_INVALID_KEY_LENGTH = 5,
    PMI_ERR_INVALID_VAL = 6,
    PMI_ERR_INVALID_VAL_LENGTH = 7,
    PMI_ERR_INVALID_LENGTH = 8,
    LINE_MAX_BYTES = 8192
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over all that follows */
static int fd = -1, is_open;
static int rank_here, size_here, kvsname_max, key_max, value_max;
static char answer[LINE_MAX_BYTES], kvsname[257];

/* ---- lines ---- */

static int send_all(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        text += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Into `answer`. The launcher says one line, and nothing before it is asked again. */
static int receive(void)
{
    static char waiting[LINE_MAX_BYTES]; /* of the lines that follow: a port's welcome has four */
    static size_t len;
    char *end;

    while (!(end = memchr(waiting, '\n', len))) {
        ssize_t n = len < sizeof waiting ? recv(fd, waiting + len, sizeof waiting - len, 0) : 0;

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        len += (size_t)n;
    }
    *end = 0;
    memcpy(answer, waiting, (size_t)(end - waiting) + 1);
    len -= (size_t)(end - waiting) + 1;
    memmove(waiting, end + 1, len);
    return 0;
}

/* What the answer says of `name`, to the next blank or, of value, to its end. NULL: nothing. */
static const char *field(const char *name, char *to, size_t size)
{
    size_t name_len = strlen(name), len;

    for (const char *at = answer; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, name, name_len) != 0 || at[name_len] != '=')
            continue;
        at += name_len + 1;
        len = strcmp(name, "value") == 0 ? strlen(at) : strcspn(at, " ");
        if (len >= size)
            return NULL;
        memcpy(to, at, len);
        to[len] = 0;
        return to;
    }
    return NULL;
}

static int number(const char *name, int otherwise)
{
    char text[32];

    return field(name, text, sizeof text) ? (int)strtol(text, NULL, 10) : otherwise;
}

/* Say it, and wait for the answer: its rc. */
static int ask(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int ask(const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (fd < 0 || len < 0 || len >= (int)sizeof line - 1)
        return PMI_FAIL;
    line[len++] = '\n';
    if (send_all(line, (size_t)len) || receive())
        return PMI_FAIL;
    return number("rc", 0) == 0 ? PMI_SUCCESS : PMI_FAIL;
}

/* One that is open has answered init. The caller unlocks in any case. */
static int enter(void)
{
    pthread_mutex_lock(&lock);
    return is_open ? PMI_SUCCESS : PMI_ERR_INIT;
}

static int leave(int rc)
{
    pthread_mutex_unlock(&lock);
    return rc;
}

/* ---- the connection ---- */

static int connect_to(const char *where)
{
    const char *colon = strrchr(where, ':');
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    char host[256];
    int sock = -1, on = 1;

    if (!colon || (size_t)(colon - where) >= sizeof host)
        return -1;
    memcpy(host, where, (size_t)(colon - where));
    host[colon - where] = 0;
    if (getaddrinfo(host, colon + 1, &hints, &list))
        return -1;
    for (const struct addrinfo *it = list; it && sock < 0; it = it->ai_next) {
        sock = socket(it->ai_family, it->ai_socktype | SOCK_CLOEXEC, it->ai_protocol);
        if (sock >= 0 && connect(sock, it->ai_addr, it->ai_addrlen)) {
            close(sock);
            sock = -1;
        }
    }
    freeaddrinfo(list);
    if (sock >= 0)
        setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return sock;
}

static int number_of(const char *name, int *ret_number)
{
    const char *text = getenv(name);
    char *end;
    long value = text && *text ? strtol(text, &end, 10) : -1;

    if (value < 0 || value > 0x7fffffff || *end)
        return -1;
    *ret_number = (int)value;
    return 0;
}

/* Which task this is: from the environment, or from the launcher. */
static int open_connection(void)
{
    const char *port = getenv("PMI_PORT");
    int id;

    if (fd >= 0) /* after a finalize: it is the same */
        return 0;
    if (number_of("PMI_FD", &fd) == 0)
        return number_of("PMI_RANK", &rank_here) || number_of("PMI_SIZE", &size_here) ? -1 : 0;
    fd = port && number_of("PMI_ID", &id) == 0 ? connect_to(port) : -1;
    if (fd < 0 || ask("cmd=initack pmiid=%d", id) != PMI_SUCCESS || receive())
        return -1;
    size_here = number("size", 0);
    if (receive())
        return -1;
    rank_here = number("rank", -1);
    return receive();
}

PUBLIC int PMI_Init(int *spawned)
{
    char text[8];

    pthread_mutex_lock(&lock);
    if (is_open)
        return leave(PMI_SUCCESS);
    if (open_connection() || ask("cmd=init pmi_version=1 pmi_subversion=1") != PMI_SUCCESS ||
        ask("cmd=get_maxes") != PMI_SUCCESS)
        return leave(PMI_FAIL);
    kvsname_max = number("kvsname_max", 0);
    key_max = number("keylen_max", 0);
    value_max = number("vallen_max", 0);
    if (ask("cmd=get_my_kvsname") != PMI_SUCCESS || !field("kvsname", kvsname, sizeof kvsname))
        return leave(PMI_FAIL);
    is_open = 1;
    if (spawned)
        *spawned =
            getenv("PMI_SPAWNED") && snprintf(text, sizeof text, "%s", getenv("PMI_SPAWNED")) == 1 && *text == '1';
    return leave(PMI_SUCCESS);
}

PUBLIC int PMI_Initialized(int *initialized)
{
    if (!initialized)
        return PMI_ERR_INVALID_ARG;
    pthread_mutex_lock(&lock);
    *initialized = is_open;
    return leave(PMI_SUCCESS);
}

PUBLIC int PMI_Finalize(void)
{
    int rc = enter();

    if (rc == PMI_SUCCESS)
        rc = ask("cmd=finalize");
    is_open = 0;
    return leave(rc);
}

/* Returns: the launcher ends the job, and the caller mostly ends by itself. */
PUBLIC int PMI_Abort(int exit_code, const char error_msg[])
{
    char line[1024];
    int len;

    pthread_mutex_lock(&lock);
    len =
        snprintf(line, sizeof line - 1, "cmd=abort exitcode=%d message=%.900s", exit_code, error_msg ? error_msg : "");
    for (int i = (int)strcspn(line, "m"); i < len; i++)
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    for (char *at = strstr(line, "message="); at && *at; at++)
        if (*at == ' ')
            *at = '_';
    line[len++] = '\n';
    return leave(fd < 0 || send_all(line, (size_t)len) ? PMI_FAIL : PMI_SUCCESS);
}

/* ---- numbers ---- */

static int tell(int *ret_number, const int *value)
{
    int rc = enter();

    if (rc == PMI_SUCCESS && !ret_number)
        rc = PMI_ERR_INVALID_ARG;
    if (rc == PMI_SUCCESS)
        *ret_number = *value;
    return leave(rc);
}

PUBLIC int PMI_Get_size(int *size)
{
    return tell(size, &size_here);
}

PUBLIC int PMI_Get_rank(int *rank)
{
    return tell(rank, &rank_here);
}

PUBLIC int PMI_KVS_Get_name_length_max(int *length)
{
    return tell(length, &kvsname_max);
}

PUBLIC int PMI_KVS_Get_key_length_max(int *length)
{
    return tell(length, &key_max);
}

PUBLIC int PMI_KVS_Get_value_length_max(int *length)
{
    return tell(length, &value_max);
}

PUBLIC int PMI_Get_id_length_max(int *length)
{
    return tell(length, &kvsname_max);
}

static int ask_number(const char *command, const char *name, int *ret_number)
{
    int rc = enter();

    if (rc == PMI_SUCCESS && !ret_number)
        rc = PMI_ERR_INVALID_ARG;
    if (rc == PMI_SUCCESS)
        rc = ask("cmd=%s", command);
    if (rc == PMI_SUCCESS)
        *ret_number = number(name, 0);
    return leave(rc);
}

PUBLIC int PMI_Get_universe_size(int *size)
{
    return ask_number("get_universe_size", "size", size);
}

PUBLIC int PMI_Get_appnum(int *appnum)
{
    return ask_number("get_appnum", "appnum", appnum);
}

/* ---- keys ---- */

static int copy(const char *text, char *to, int length)
{
    if (!to)
        return PMI_ERR_INVALID_ARG;
    if (length <= 0 || strlen(text) >= (size_t)length)
        return PMI_ERR_INVALID_LENGTH;
    memcpy(to, text, strlen(text) + 1);
    return PMI_SUCCESS;
}

PUBLIC int PMI_KVS_Get_my_name(char name[], int length)
{
    int rc = enter();

    return leave(rc == PMI_SUCCESS ? copy(kvsname, name, length) : rc);
}

PUBLIC int PMI_Get_kvs_domain_id(char id[], int length)
{
    return PMI_KVS_Get_my_name(id, length);
}

PUBLIC int PMI_Get_id(char id[], int length)
{
    return PMI_KVS_Get_my_name(id, length);
}

static int check_word(const char *word, int most, int bad, int too_long)
{
    if (!word || !*word || strpbrk(word, " =\n"))
        return bad;
    return strlen(word) > (size_t)most ? too_long : PMI_SUCCESS;
}

PUBLIC int PMI_KVS_Put(const char name[], const char key[], const char value[])
{
    int rc = enter();

    if (rc == PMI_SUCCESS && (!name || !*name))
        rc = PMI_ERR_INVALID_ARG;
    if (rc == PMI_SUCCESS)
        rc = check_word(key, key_max, PMI_ERR_INVALID_KEY, PMI_ERR_INVALID_KEY_LENGTH);
    if (rc == PMI_SUCCESS && (!value || strchr(value, '\n')))
        rc = PMI_ERR_INVALID_VAL;
    if (rc == PMI_SUCCESS && strlen(value) > (size_t)value_max)
        rc = PMI_ERR_INVALID_VAL_LENGTH;
    if (rc == PMI_SUCCESS)
        rc = ask("cmd=put kvsname=%s key=%s value=%s", name, key, value);
    return leave(rc);
}

/* The launcher has it already. */
PUBLIC int PMI_KVS_Commit(const char name[])
{
    int rc = enter();

    return leave(rc == PMI_SUCCESS && (!name || !*name) ? PMI_ERR_INVALID_ARG : rc);
}

static int get(const char *name, const char *key, char *value, int length)
{
    char text[LINE_MAX_BYTES];
    int rc = ask("cmd=get kvsname=%s key=%s", name, key);

    if (rc != PMI_SUCCESS)
        return rc;
    return field("value", text, sizeof text) ? copy(text, value, length) : PMI_FAIL;
}

PUBLIC int PMI_KVS_Get(const char name[], const char key[], char value[], int length)
{
    int rc = enter();

    if (rc == PMI_SUCCESS && (!name || !*name))
        rc = PMI_ERR_INVALID_ARG;
    if (rc == PMI_SUCCESS)
        rc = check_word(key, key_max, PMI_ERR_INVALID_KEY, PMI_ERR_INVALID_KEY_LENGTH);
    return leave(rc == PMI_SUCCESS ? get(name, key, value, length) : rc);
}

PUBLIC int PMI_Barrier(void)
{
    int rc = enter();

    return leave(rc == PMI_SUCCESS ? ask("cmd=barrier_in") : rc);
}

/* ---- the tasks of this host ---- */

/* Calls of the mapping's blocks, "(vector,(first,hosts,each),...)", host after host: the first and number of its ranks
 * where ours is among them; ourselves alone where it says nothing. */
static void find_clique(int *ret_first, int *ret_count)
{
    char map[LINE_MAX_BYTES];
    int next = 0, first, hosts, each, len;
    const char *at = map;

    *ret_first = rank_here;
    *ret_count = 1;
    if (get(kvsname, "PMI_process_mapping", map, sizeof map) != PMI_SUCCESS || strncmp(at, "(vector", 7) != 0)
        return;
    for (at += 7; sscanf(at, ",(%d,%d,%d)%n", &first, &hosts, &each, &len) == 3; at += len) {
        if (hosts <= 0 || each <= 0 || hosts > size_here || each > size_here)
            return;
        if (rank_here - next < hosts * (long)each) {
            *ret_first = next + (rank_here - next) / each * each;
            *ret_count = each < size_here - *ret_first ? each : size_here - *ret_first;
            return;
        }
        next += hosts * each;
    }
}

PUBLIC int PMI_Get_clique_size(int *size)
{
    int rc = enter(), first;

    if (rc == PMI_SUCCESS && !size)
        rc = PMI_ERR_INVALID_ARG;
    if (rc == PMI_SUCCESS)
        find_clique(&first, size);
    return leave(rc);
}

PUBLIC int PMI_Get_clique_ranks(int ranks[], int length)
{
    int rc = enter(), first, count;

    if (rc == PMI_SUCCESS && !ranks)
        rc = PMI_ERR_INVALID_ARG;
    if (rc != PMI_SUCCESS)
        return leave(rc);
    find_clique(&first, &count);
    if (length < count)
        return leave(PMI_ERR_INVALID_LENGTH);
    for (int i = 0; i < count; i++)
        ranks[i] = first + i;
    return leave(PMI_SUCCESS);
}

/* ---- names, and what muster does not do ---- */

PUBLIC int PMI_Publish_name(const char service[], const char port[])
{
    int rc = enter();

    if (rc == PMI_SUCCESS &&
        (check_word(service, LINE_MAX_BYTES / 2, PMI_FAIL, PMI_FAIL) || !port || strpbrk(port, " \n")))
        rc = PMI_ERR_INVALID_ARG;
    return leave(rc == PMI_SUCCESS ? ask("cmd=publish_name service=%s port=%s", service, port) : rc);
}

PUBLIC int PMI_Unpublish_name(const char service[])
{
    int rc = enter();

    if (rc == PMI_SUCCESS && check_word(service, LINE_MAX_BYTES / 2, PMI_FAIL, PMI_FAIL))
        rc = PMI_ERR_INVALID_ARG;
    return leave(rc == PMI_SUCCESS ? ask("cmd=unpublish_name service=%s", service) : rc);
}

/* `port` has room for a value of the greatest length, as the interface has it. */
PUBLIC int PMI_Lookup_name(const char service[], char port[])
{
    int rc = enter();

    if (rc == PMI_SUCCESS && (check_word(service, LINE_MAX_BYTES / 2, PMI_FAIL, PMI_FAIL) || !port))
        rc = PMI_ERR_INVALID_ARG;
    if (rc == PMI_SUCCESS)
        rc = ask("cmd=lookup_name service=%s", service);
    return leave(rc == PMI_SUCCESS && !field("port", port, (size_t)value_max) ? PMI_FAIL : rc);
}

/* A job of muster has as many tasks as it began with. */
PUBLIC int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
                              const int info_keyval_sizes[], const void *info_keyval_vectors[], int preput_keyval_size,
                              const void *preput_keyval_vector, int errors[])
{
    (void)cmds;
    (void)argvs;
    (void)maxprocs;
    (void)info_keyval_sizes;
    (void)info_keyval_vectors;
    (void)preput_keyval_size;
    (void)preput_keyval_vector;
    for (int i = 0; errors && i < count; i++)
        errors[i] = PMI_FAIL;
    return PMI_FAIL;
}
