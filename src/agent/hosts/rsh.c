/*
 * agent/hosts/rsh.c: the commands by which the leader starts the other hosts' agents: "ssh b muster agent --join ...".
 *
 * The job's key goes through the command's standard input, its first line; what follows there is the launcher's own
 * input, for a task of that host that gets it. The pipe stays open until the end of the job: where it closes the agent
 * takes its launcher for dead. The agent of the task that gets the input learns that from its orders, which come by the
 * bridge: so the end of the input does not close its pipe before that agent has said that its tasks have started.
 * Output comes back through the launcher, whole lines at a time where lines have labels. The command's end before its
 * host is done is the host's loss.
 */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/hosts/bridge.h"
#include "base/process.h"
#include "bridge/link/address.h"

#define RSH "ssh -x -T -o BatchMode=yes"

enum { WORDS_MAX = 64 };

/* ---- where the other host finds us --------------------------------------------------------------------------------
 */

/* The address that this host has towards that one: routing knows it, and nothing is sent. -1: not known. */
static int address_towards(const char *host, char *ret_address, size_t size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *all = NULL;
    const char *at = strrchr(host, '@');
    struct sockaddr_storage own;
    int rc = -1;

    if (getaddrinfo(at ? at + 1 : host, "9", &hints, &all))
        return -1;
    for (const struct addrinfo *one = all; one && rc; one = one->ai_next) {
        socklen_t len = sizeof own;
        int fd = socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (fd >= 0 && connect(fd, one->ai_addr, one->ai_addrlen) == 0 &&
            getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
            getnameinfo((struct sockaddr *)&own, len, ret_address, (socklen_t)size, NULL, 0, NI_NUMERICHOST) == 0)
            rc = 0;
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(all);
    return rc;
}

static bool is_link_local(const struct sockaddr *a)
{
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

/* Of an interface that leads to other machines. -1: there is none. */
static int interface_address(char *ret_address, size_t size)
{
    struct ifaddrs *all = NULL;
    int rc = -1;

    if (getifaddrs(&all))
        return -1;
    for (const struct ifaddrs *one = all; one && rc; one = one->ifa_next) {
        int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
        socklen_t len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

        if ((family != AF_INET && family != AF_INET6) || !(one->ifa_flags & IFF_UP) ||
            (one->ifa_flags & IFF_LOOPBACK) || is_link_local(one->ifa_addr))
            continue;
        rc = getnameinfo(one->ifa_addr, len, ret_address, (socklen_t)size, NULL, 0, NI_NUMERICHOST);
    }
    freeifaddrs(all);
    return rc ? -1 : 0;
}

/*
 * By which a host finds this one where routing does not know the way to it, as where only rsh knows its name: this
 * host's name. Where that does not resolve, as in many containers, the address by which it is on the way to anywhere,
 * for which those of documentations stand; else an interface's; else there is no other machine.
 */
static void address_of_name(const char *name, char *ret_address, size_t size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;

    if (name[0] && getaddrinfo(name, NULL, &hints, &found) == 0) {
        freeaddrinfo(found);
        snprintf(ret_address, size, "%s", name);
    } else if (address_towards("192.0.2.1", ret_address, size) && address_towards("2001:db8::1", ret_address, size) &&
               interface_address(ret_address, size)) {
        snprintf(ret_address, size, "127.0.0.1");
    }
}

static int is_own(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), rc = 0;

    if (fd >= 0) {
        rc = bind(fd, a->ai_addr, a->ai_addrlen) == 0; /* to any port: a host without IPv6 has none of its addresses */
        close(fd);
    }
    return rc;
}

/*
 * A number is listened at if it is this host's. It may also be of one that passes connections on, and a name may be
 * another address here than elsewhere, as a host's own is often 127.0.1.1: then the port of all addresses is.
 */
void mu_agent_find_door(const struct mu_agent_hosts *hosts, char *ret_address, size_t size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *number = NULL;
    const char *address = hosts->list ? NULL : hosts->address, *port = address ? strrchr(address, ':') : NULL;
    struct mu_link_name name;

    snprintf(ret_address, size, "%s", port ? port : ":0");
    if (!port || mu_link_name_parse(address, &name) || !strcmp(name.host, "0.0.0.0") || !strcmp(name.host, "::") ||
        !name.host[0] || getaddrinfo(name.host, NULL, &hints, &number))
        return;
    if (is_own(number))
        snprintf(ret_address, size, "%s", address);
    else
        mu_agent_say("%s is no address of this host: listening at port %s of all that it has", name.host, name.port);
    freeaddrinfo(number);
}

/* As HOST:PORT. */
static void leader_for(const struct mu_agent_bridge *b, uint32_t host, char *ret_leader, size_t size)
{
    char address[256] = "";

    if (b->options->address)
        snprintf(address, sizeof address, "%s", b->options->address);
    else if (b->hosts[host].way[0])
        snprintf(address, sizeof address, "%s", b->hosts[host].way);
    else
        snprintf(address, sizeof address, "%s", b->own);
    snprintf(ret_leader, size, strchr(address, ':') ? "[%s]%s" : "%s%s", address, b->port);
}

void mu_agent_find_ways(struct mu_agent_bridge *b)
{
    bool needs_own = b->options->file != NULL;
    char name[sizeof b->own];

    for (uint32_t i = 1; b->options->list && !b->options->address && i < b->num_hosts && !b->stop; i++)
        if (address_towards(b->hosts[i].name, b->hosts[i].way, sizeof b->hosts[i].way)) {
            b->hosts[i].way[0] = '\0';
            needs_own = true;
        }
    mu_agent_own_name(b->options, name, sizeof name);
    snprintf(b->own, sizeof b->own, "%s", name);
    if (needs_own && !b->stop)
        address_of_name(name, b->own, sizeof b->own);
}

/* By which the other hosts find this one, if it is a name or a number, not whatever this host has, nor themselves. */
static bool is_host(const struct mu_agent_hosts *hosts, struct mu_link_name *ret_name)
{
    return hosts->nodes > 1 && hosts->address && !mu_link_name_parse(hosts->address, ret_name) && ret_name->host[0] &&
           strcmp(ret_name->host, "0.0.0.0") != 0 && strcmp(ret_name->host, "::") != 0 &&
           strcasecmp(ret_name->host, "localhost") != 0;
}

void mu_agent_find_master(const struct mu_agent_hosts *hosts, char *ret_master, size_t size)
{
    char own[256] = "";
    struct mu_link_name name;
    const char *at;

    ret_master[0] = 0;
    if (hosts->list && hosts->list->list[0].tasks == 0 && hosts->list->count > 1) {
        at = strrchr(hosts->list->list[1].name, '@');
        snprintf(ret_master, size, "%s", at ? at + 1 : hosts->list->list[1].name);
    } else if (hosts->list && hosts->address) {
        snprintf(ret_master, size, "%s", hosts->address);
    } else if (!hosts->list && is_host(hosts, &name)) {
        snprintf(ret_master, size, "%s", name.host);
    } else if (!hosts->list || address_towards(hosts->list->list[1].name, ret_master, size)) {
        gethostname(own, sizeof own - 1);
        address_of_name(own, ret_master, size);
    }
}

const char *mu_agent_master_here(const struct mu_agent_hosts *hosts)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *number = NULL;
    const char *master = hosts->orders->master, *here = master;

    if (hosts->node > 0 || hosts->tasks_here == 0 || getaddrinfo(master, NULL, &hints, &number))
        return master;
    if (!is_own(number))
        here = number->ai_family == AF_INET6 ? "::1" : "127.0.0.1";
    freeaddrinfo(number);
    return here;
}

int mu_agent_set_part(const struct mu_agent *agent, struct mu_launch_job *job)
{
    const struct mu_agent_hosts *hosts = agent->options->hosts;

    if (!hosts)
        return 0;
    job->ports[0] = hosts->orders->ports[0];
    job->ports[1] = hosts->orders->ports[1];
    job->part = (struct mu_launch_whereabouts){.node = hosts->node,
                                               .nodes = hosts->nodes,
                                               .first_task = agent->first_task,
                                               .tasks = agent->local_tasks,
                                               .master = mu_agent_master_here(hosts)};
    return 1;
}

/* ---- the command --------------------------------------------------------------------------------------------------
 */

/* One word as a shell would have to be given it: the other side of rsh mostly is one. */
static char *word_quoted(const char *word)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    mu_agent_print_word(word, out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

struct command {
    char *words[WORDS_MAX + 1], *rsh;
    int own_from; /* those from here on were made by word_quoted() */
    int count, failed;
};

static void add_word(struct command *command, const char *word)
{
    char *text = word_quoted(word);

    command->failed |= !text || command->count >= WORDS_MAX;
    if (!command->failed)
        command->words[command->count++] = text;
    else
        free(text);
}

static void command_forget(struct command *command)
{
    for (int i = command->own_from; i < command->count; i++)
        free(command->words[i]);
    free(command->rsh);
}

/* Without its user. */
static const char *plain_name(const char *name)
{
    const char *at = strrchr(name, '@');

    return at ? at + 1 : name;
}

static int make_command(const struct mu_agent *agent, uint32_t host, struct command *ret_command)
{
    const struct mu_agent_bridge *b = agent->bridge;
    const char *name = b->hosts[host].name;
    uint64_t heartbeat = b->options->heartbeat_timeout_ns;
    char self[4096], leader[400], number[5][32], *save, *word;

    *ret_command = (struct command){.count = 0};
    ret_command->rsh = strdup(b->options->rsh ? b->options->rsh : RSH);
    if (!ret_command->rsh || mu_command_path(self, sizeof self))
        return -1;
    for (word = strtok_r(ret_command->rsh, " \t", &save); word && ret_command->count < WORDS_MAX / 2;
         word = strtok_r(NULL, " \t", &save))
        ret_command->words[ret_command->count++] = word;
    ret_command->own_from = ret_command->count;
    leader_for(b, host, leader, sizeof leader);
    snprintf(number[0], sizeof number[0], "%u", host);
    snprintf(number[1], sizeof number[1], "%u", b->num_hosts);
    snprintf(number[2], sizeof number[2], "%u", b->options->list->list[host].tasks);
    snprintf(number[3], sizeof number[3], "%lluns", (unsigned long long)b->options->join_timeout_ns);
    snprintf(number[4], sizeof number[4], "%lluns", (unsigned long long)heartbeat);
    {
        const char *const words[] = {name,         self,      "agent",          "--join",      leader,
                                     "--node-id",  number[0], "--nodes",        number[1],     "-n",
                                     number[2],    "--job",   agent->title,     "--host-name", plain_name(name),
                                     "--key-file", "-",       "--join-timeout", number[3]};

        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            add_word(ret_command, words[i]);
    }
    if (heartbeat) {
        add_word(ret_command, "--heartbeat-timeout");
        add_word(ret_command, number[4]);
    }
    if (b->options->latency)
        add_word(ret_command, "--latency");
    return ret_command->failed ? -1 : 0;
}

/* ---- standard input -----------------------------------------------------------------------------------------------
 */

int mu_agent_host_takes_input(const struct mu_agent *agent, const struct mu_agent_host *host)
{
    int32_t to = agent->options->stdin_to;

    return host->tasks > 0 && (to == MU_AGENT_STDIN_ALL || (to >= 0 && (uint32_t)to - host->first_task < host->tasks));
}

bool mu_agent_needs_feed(const struct mu_agent *agent)
{
    const struct mu_agent_bridge *b = agent->bridge;
    int needs = agent->options->stdin_to == MU_AGENT_STDIN_ALL && agent->local_tasks > 0;

    for (uint32_t i = 1; b && b->hosts && b->options->list && i < b->num_hosts; i++)
        needs |= mu_agent_host_takes_input(agent, &b->hosts[i]);
    return needs;
}

uint32_t mu_agent_num_rsh(const struct mu_agent *agent)
{
    const struct mu_agent_bridge *b = agent->bridge;

    return b && b->hosts && b->options->list ? b->num_hosts : 0;
}

int mu_agent_feed_rsh(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge;

    for (uint32_t i = 1; i < mu_agent_num_rsh(agent); i++)
        if (b->hosts[i].input >= 0 && !b->hosts[i].is_fed && mu_agent_host_takes_input(agent, &b->hosts[i])) {
            int fd = fcntl(b->hosts[i].input, F_DUPFD_CLOEXEC, 0);

            if (fd < 0)
                return -1;
            mu_launch_feed_take(agent->launching.feed, fd);
            b->hosts[i].is_fed = 1;
        }
    return 0;
}

void mu_agent_host_has_orders(struct mu_agent_host *host)
{
    if (host->is_fed && host->input >= 0) {
        close(host->input);
        host->input = -1;
    }
}

/* ---- starting, and the end ----------------------------------------------------------------------------------------
 */

static int send_key(const struct mu_agent_bridge *b, int fd)
{
    char text[MU_LAUNCH_KEY_TEXT + 1];
    ssize_t n;

    mu_launch_key_text(b->options->key, text);
    text[MU_LAUNCH_KEY_TEXT - 1] = '\n';
    n = write(fd, text, MU_LAUNCH_KEY_TEXT); /* a new pipe takes it at once */
    explicit_bzero(text, sizeof text);
    return n == MU_LAUNCH_KEY_TEXT ? 0 : -1;
}

static void close_all(int *fds, int count)
{
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static int command_spawn(struct mu_agent *agent, uint32_t host, struct command *command, int stdio[3])
{
    struct mu_agent_bridge *b = agent->bridge;
    struct mu_launch_failure failure;
    struct mu_launch_env env;
    struct mu_launch_image image = {
        .argv = command->words,
        .stdio = {stdio[0], stdio[1], stdio[2]},
        .keep = {-1, -1},
        .mask = agent->launching.mask_before,
        .defaults = agent->launching.defaults,
        .files = agent->launching.files_before,
        .survives = b->options->adopt_ns != 0, /* it is the agent's way to a terminal, or the agent itself */
    };
    struct mu_launch_begun begun;
    int rc = mu_launch_env_init(&env, environ, NULL);

    image.envp = env.vars;
    if (rc == 0)
        rc = mu_launch_begin(&image, &begun, &failure);
    else
        failure = (struct mu_launch_failure){"environment", ENOMEM};
    if (rc == 0) { /* the guard knows of it before it can have children */
        mu_launch_guard_command(agent->launching.guard, host, begun.pid);
        rc = mu_launch_settle(&image, &begun, &failure);
        mu_launch_guard_command(agent->launching.guard, host, rc ? 0 : begun.pid);
    }
    if (rc == 0) {
        b->hosts[host].rsh = begun.pid;
        close(begun.pidfd);
    } else if (strcmp(failure.step, "exec") == 0)
        mu_agent_say("cannot start host %s: cannot run %s: %s", b->hosts[host].name, command->words[0],
                     strerror(failure.error));
    else
        mu_agent_say("cannot start host %s: %s: %s", b->hosts[host].name, failure.step, strerror(failure.error));
    mu_launch_env_done(&env);
    return rc;
}

static int start_one(struct mu_agent *agent, uint32_t host)
{
    struct mu_agent_bridge *b = agent->bridge;
    int fds[4] = {-1, -1, -1, -1}, ends[2], rc; /* what it gets as 0, 1, 2; our end of the first */
    struct command command;

    rc = make_command(agent, host, &command);
    if (rc == 0 && (rc = pipe2(ends, O_CLOEXEC)) == 0) {
        fds[0] = ends[0];
        fds[3] = ends[1];
        rc = send_key(b, fds[3]) ||
             mu_launch_output_pass(agent->launching.output, host, 1, agent->options->label, &fds[1]) ||
             mu_launch_output_pass(agent->launching.output, host, 2, agent->options->label, &fds[2]);
    }
    if (rc)
        mu_agent_say("cannot start host %s: %s", b->hosts[host].name, strerror(errno));
    else
        rc = command_spawn(agent, host, &command, fds);
    close_all(fds, rc ? 4 : 3);
    if (rc == 0) {
        fcntl(fds[3], F_SETFL, O_NONBLOCK);
        b->hosts[host].input = fds[3];
    }
    command_forget(&command);
    return rc ? -1 : 0;
}

int mu_agent_start_rsh(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge;

    for (uint32_t i = 1; i < b->num_hosts && b->options->list; i++) {
        if (!b->hosts[i].rsh && start_one(agent, i))
            return -1;
        if (i == 1)
            sem_post(&b->called);
    }
    return 0;
}

uint32_t mu_agent_signal_rsh(struct mu_agent *agent, int number)
{
    struct mu_agent_bridge *b = agent->bridge;
    uint32_t left = 0;

    for (uint32_t i = 1; b && b->hosts && i < b->num_hosts; i++) {
        if (!b->hosts[i].rsh)
            continue;
        left++;
        if (number)
            kill(-b->hosts[i].rsh, number);
    }
    return left;
}
