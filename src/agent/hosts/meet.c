/*
 * agent/hosts/meet.c: how the agents of a job come together.
 *
 * A follower meets the leader before anything else is there: it learns from it what to do. The leader waits beside its
 * loop, so that a signal, or a command by which it started a host and that has ended, ends the waiting. What comes
 * later is mail (mail.c).
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/hosts/bridge.h"
#include "agent/process/elastic.h"
#include "base/process.h"
#include "checkpoint/checkpoint.h"

enum { AGAIN_MS = 10 }; /* between two tries of a host that has stayed */

/* ---- what the bridge tells, in its threads ---------------------------------------------------------------------- */

static void hear_sentence(void *arg, const char *sentence)
{
    const struct mu_agent_bridge *b = arg;

    if (!b->comes_again) /* too early, perhaps: it tries again */
        mu_agent_say("%s", sentence);
}

/*
 * In the meeting's thread: names may take long to be found, and the loop has signals and the clock to look after. What
 * comes next here, to open OpenSSL, takes a processor for 3 ms; the first host's command, of which the kernel may put
 * the child behind us, shall have it before.
 */
static void hear_listens(void *arg, const char *address)
{
    struct mu_agent_bridge *b = arg;

    mu_agent_find_ways(b);
    if (!mu_agent_put_mail(b, &(struct mu_agent_mail){.what = MU_MAIL_LISTENS}, address, strlen(address)))
        return;
    while (sem_wait(&b->called) != 0) /* interrupted */
        ;
}

static bool hear_talk(void *arg, uint32_t host, uint32_t kind, const void *bytes, size_t len)
{
    return mu_agent_put_mail(arg, &(struct mu_agent_mail){.what = MU_MAIL_TALK, .host = host, .kind = kind}, bytes,
                             len);
}

static void hear_host(void *arg, uint32_t host, enum mu_peer_state state, const char *why)
{
    mu_agent_put_mail(arg, &(struct mu_agent_mail){.what = MU_MAIL_HOST, .host = host, .kind = state}, why,
                      why ? strlen(why) : 0);
}

struct mu_agent_bridge *mu_agent_new_bridge(const struct mu_agent_hosts *options)
{
    struct mu_agent_bridge *b = calloc(1, sizeof *b);

    if (!b)
        return NULL;
    b->options = options;
    b->num_hosts = options->nodes;
    b->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&b->lock, NULL);
    sem_init(&b->called, 0, 0);
    if (options->node == 0)
        b->hosts = calloc(options->nodes, sizeof *b->hosts);
    for (uint32_t i = 0; b->hosts && i < options->nodes; i++)
        b->hosts[i].input = -1;
    if (b->event_fd >= 0 && (b->hosts || options->node > 0))
        return b;
    if (b->event_fd >= 0)
        close(b->event_fd);
    free(b);
    return NULL;
}

static void free_bridge(struct mu_agent_bridge *b)
{
    struct mu_agent_mail *mail;

    if (b->bridge)
        mu_bridge_stop(b->bridge);
    while ((mail = mu_agent_take_mail(b)))
        free(mail);
    for (uint32_t i = 0; b->hosts && i < b->num_hosts; i++)
        if (b->hosts[i].input >= 0)
            close(b->hosts[i].input);
    close(b->event_fd);
    mu_pack_done(&b->welcome);
    free(b->hosts);
    free(b);
}

/* ---- meeting ----------------------------------------------------------------------------------------------------- */

static const char *name_of(void *arg, uint32_t host)
{
    const struct mu_agent_bridge *b = arg;

    return b->hosts && host < b->num_hosts ? b->hosts[host].name : NULL;
}

/* Of how many hosts all connect to the leader, if the user says so. 0: not. */
static uint32_t star_hosts(void)
{
    const char *text = getenv("MUSTER_STAR_HOSTS");
    char *end = NULL;
    unsigned long hosts = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;

    if (!text || (hosts > 0 && hosts <= MU_HOSTS_MAX && !*end))
        return (uint32_t)hosts;
    mu_agent_say("MUSTER_STAR_HOSTS is '%.40s', not a number of hosts from 1 to %u: it is ignored", text, MU_HOSTS_MAX);
    return 0;
}

void mu_agent_bridge_options(struct mu_agent_bridge *b, struct mu_bridge_options *ret_options)
{
    const struct mu_agent_hosts *hosts = b->options;

    *ret_options = (struct mu_bridge_options){
        .leader = hosts->node == 0,
        .latency = hosts->latency,
        .num_hosts = hosts->nodes,
        .num_tasks = hosts->tasks_here,
        .adopt_ns = hosts->adopt_ns,
        .welcome = b->welcome.bytes,
        .welcome_len = b->welcome.len,
        .join_until = muster_after_ns(hosts->join_timeout_ns),
        .arg = b,
        .name_of = name_of,
        .said = hear_sentence,
        .control = hear_talk,
        .host_changed = hear_host,
    };
    ret_options->link.address = hosts->node == 0 ? b->listen_at : hosts->address;
    ret_options->link.key = hosts->key;
    ret_options->link.timeout_ns = hosts->heartbeat_timeout_ns;
    ret_options->link.star_hosts = hosts->node == 0 ? star_hosts() : 0;
    ret_options->link.is_called = hosts->is_called && !hosts->stays; /* the leader may not listen yet */
    ret_options->link.join.node = hosts->node;
    ret_options->link.join.nodes = hosts->nodes;
    ret_options->link.join.num_tasks = hosts->tasks_here;
    ret_options->link.join.pid = (uint32_t)getpid();
    memcpy(ret_options->link.join.incarnation, hosts->incarnation, sizeof hosts->incarnation);
    mu_agent_own_name(hosts, ret_options->link.join.host, sizeof ret_options->link.join.host);
}

/* The launcher's death ends the waiting, too. */
static void *watch_input(void *arg)
{
    struct mu_agent_bridge *b = arg;
    struct pollfd polls[2] = {{.fd = 0, .events = POLLRDHUP}, {.fd = b->event_fd, .events = POLLIN}};

    while (poll(polls, 2, -1) < 0)
        ;
    if (polls[0].revents)
        b->stop = 1;
    return NULL;
}

static void stop_watching(struct mu_agent_bridge *b, pthread_t watcher)
{
    uint64_t one = 1;

    (void)!write(b->event_fd, &one, sizeof one); /* the loop will find the list empty */
    pthread_join(watcher, NULL);
}

int mu_agent_come(struct mu_agent_hosts *hosts, const char *job)
{
    struct mu_agent_bridge *b = mu_agent_new_bridge(hosts);
    struct mu_bridge_options options;
    const struct mu_bridge_shape *shape;
    enum muster_status status;
    pthread_t watcher;
    int watched;

    hosts->met = NULL;
    if (!b) {
        mu_agent_say("out of memory");
        return MU_AGENT_EXIT_FAILED;
    }
    mu_random(hosts->incarnation, sizeof hosts->incarnation);
    mu_agent_bridge_options(b, &options);
    options.job = job;
    if (hosts->stays)
        options.join_until = muster_after_ns(hosts->join_timeout_ns + hosts->stays_ns);
    watched = hosts->watches_stdin && pthread_create(&watcher, NULL, watch_input, b) == 0;
    b->comes_again = hosts->stays;
    status = mu_bridge_meet(&options, &b->stop, &b->bridge);
    /* The leader may be in the attempt that is over, and refuse a host that it knows by another incarnation. */
    while (status && hosts->stays && !b->stop && muster_now_ns() < options.join_until) {
        poll(NULL, 0, AGAIN_MS);
        status = mu_bridge_meet(&options, &b->stop, &b->bridge);
    }
    b->comes_again = 0;
    if (watched)
        stop_watching(b, watcher);
    if (status != MUSTER_OK) {
        if (!b->stop || !hosts->stays) /* there is no other attempt */
            mu_agent_say("%s%s", b->stop ? "standard input, where --key-file - has the key, has ended: " : "",
                         muster_last_error());
        free_bridge(b);
        return MU_AGENT_EXIT_FAILED;
    }
    shape = mu_bridge_shape(b->bridge);
    if (mu_agent_orders_unpack(shape->welcome, shape->welcome_len, hosts->orders) != MUSTER_OK) {
        mu_agent_say("%s", muster_last_error());
        free_bridge(b);
        return MU_AGENT_EXIT_FAILED;
    }
    hosts->stays = 0;
    hosts->node = shape->host;
    hosts->adopt_ns = shape->adopt_ns;
    hosts->nodes = b->num_hosts = shape->num_hosts;
    hosts->orders->num_tasks = shape->num_tasks;
    hosts->orders->heap_bytes = shape->heap_bytes;
    hosts->orders->object_bytes = shape->object_bytes;
    hosts->orders->segment_timeout_ns = shape->heartbeat_timeout_ns;
    snprintf(hosts->orders->job, sizeof hosts->orders->job, "%s", shape->job);
    for (uint32_t i = 0; i < shape->host; i++)
        hosts->orders->first_task += shape->tasks[i];
    hosts->met = b;
    return 0;
}

void mu_agent_go(struct mu_agent_hosts *hosts)
{
    if (hosts->met)
        free_bridge(hosts->met);
    hosts->met = NULL;
    if (hosts->guard)
        mu_checkpoint_remove(hosts->run_id);
    mu_launch_guard_dismiss(hosts->guard);
    mu_launch_guard_free(hosts->guard);
    hosts->guard = NULL;
}

static void *hosts_meet(void *arg)
{
    struct mu_agent *agent = arg;
    struct mu_agent_bridge *b = agent->bridge;
    struct mu_bridge_options options;

    mu_agent_bridge_options(b, &options);
    options.job = agent->title;
    options.listens = hear_listens;
    options.heap_bytes = agent->options->heap_bytes;
    options.object_bytes = agent->options->object_bytes;
    options.heartbeat_timeout_ns = agent->options->heartbeat_timeout_ns;
    b->met = mu_bridge_meet(&options, &b->stop, &b->bridge);
    if (b->met != MUSTER_OK)
        snprintf(b->why, sizeof b->why, "%s", muster_last_error());
    mu_agent_put_mail(b, &(struct mu_agent_mail){.what = MU_MAIL_MET}, NULL, 0);
    return NULL;
}

int mu_agent_hear_mail(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge;
    int error = uv_poll_init(&agent->loop, &b->poll, b->event_fd);

    if (error == 0)
        error = uv_poll_start(&b->poll, UV_READABLE, mu_agent_mail_is_here);
    if (error)
        mu_agent_say("cannot set up: %s", uv_strerror(error));
    return error ? -1 : 0;
}

static void remove_address(const struct mu_agent_hosts *hosts)
{
    char path[4096], why[400];

    if (hosts->file && hosts->node == 0 && mu_launch_home_file(hosts->file, path, sizeof path, why, sizeof why) == 0)
        unlink(path);
}

/* What the attempts before have left: that of all hosts is this one's word. */
static void newest_prepare(struct mu_agent *agent)
{
    struct mu_agent_orders *orders = agent->bridge->options->orders;
    struct mu_pack p = {.bytes = NULL};

    if (agent->attempt)
        mu_checkpoint_pack_newest(agent->run_id, agent->num_tasks, &p);
    orders->checkpoints = p.bytes;
    orders->checkpoints_len = p.len;
}

/* What the leader says to those that come, and where it waits for them. */
static int meeting_prepare(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge;
    const struct mu_agent_hosts *hosts = b->options;
    const struct mu_agent_grpc *grpc = agent->options->grpc;
    struct mu_agent_orders *orders = hosts->orders;

    if (mu_launch_free_ports(orders->ports, 2, 1)) {
        mu_agent_say("no port is to be had: %s", strerror(errno));
        return -1;
    }
    mu_agent_find_door(hosts, b->listen_at, sizeof b->listen_at);
    mu_agent_take_stays(agent);
    newest_prepare(agent);
    orders->attempt = agent->attempt;
    orders->size = mu_launch_size_here();
    orders->colour[1] = mu_agent_shows_colour(1);
    orders->colour[2] = mu_agent_shows_colour(2);
    orders->serves = grpc != NULL;
    orders->register_barrier = grpc && grpc->register_barrier;
    orders->shutdown_barrier = grpc && grpc->shutdown_timeout_ns;
    mu_agent_orders_pack(&b->welcome, orders);
    free(orders->checkpoints); /* they have it */
    orders->checkpoints = NULL;
    orders->checkpoints_len = 0;
    if (b->welcome.failed) {
        mu_agent_say("out of memory");
        return -1;
    }
    for (uint32_t i = 0; i < b->num_hosts && hosts->list; i++)
        snprintf(b->hosts[i].name, sizeof b->hosts[i].name, "%s", hosts->list->list[i].name);
    return 0;
}

/* All have come: which host has which tasks. */
static int take_shape(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge;
    const struct mu_bridge_shape *shape = mu_bridge_shape(b->bridge);
    uint32_t next = 0;

    for (uint32_t i = 0; b->hosts && i < b->num_hosts; i++) {
        if (!b->options->list)
            snprintf(b->hosts[i].name, sizeof b->hosts[i].name, "%s", shape->names[i]);
        b->hosts[i].first_task = next;
        b->hosts[i].tasks = shape->tasks[i];
        b->hosts[i].running = i > 0 ? mu_agent_at_first(agent, next, shape->tasks[i]) : 0;
        next += shape->tasks[i];
    }
    b->open = b->hosts ? b->num_hosts - 1 : 0;
    return mu_agent_take_tasks(agent, shape->num_tasks, agent->options->hosts->orders->first_task);
}

/* The leader: 0 when the others are waited for, beside the loop. */
static int meeting_begin(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge = mu_agent_new_bridge(agent->options->hosts);
    int error;

    if (!b) {
        mu_agent_say("out of memory");
        return -1;
    }
    if (meeting_prepare(agent) || mu_agent_hear_mail(agent))
        return -1;
    error = pthread_create(&b->meeter, NULL, hosts_meet, agent);
    if (error) {
        mu_agent_say("cannot wait for the other hosts: %s", strerror(error));
        return -1;
    }
    b->meeting = 1;
    if (agent->launching.output && agent->attempt == 0 && mu_launch_output_go(agent->launching.output))
        mu_agent_say("cannot relay output: %s", strerror(errno));
    return 0;
}

static void meeting_over(struct mu_agent *agent, int failed)
{
    if (failed) /* a signal and the timeout end the meeting, and are no fault of the launcher */
        agent->broken |= !agent->end_signal && !agent->timed_out;
    mu_agent_post(agent, failed ? MU_ON_NOT_MET : MU_ON_MET);
}

void mu_agent_meet(struct mu_agent *agent)
{
    struct mu_agent_hosts *hosts = agent->adopted ? NULL : agent->options->hosts; /* an adopter meets them later */
    int failed = 0;

    if (hosts && hosts->node == 0) {
        if (meeting_begin(agent) == 0)
            return; /* mu_agent_look_meeting() sees its end */
        failed = 1;
    } else if (hosts) {
        agent->bridge = hosts->met;
        hosts->met = NULL; /* ours from now on */
        failed = mu_agent_hear_mail(agent) || take_shape(agent);
    }
    meeting_over(agent, failed);
}

void mu_agent_look_meeting(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge;

    if (b->meeting)
        return;
    pthread_join(b->meeter, NULL);
    if (b->met != MUSTER_OK && !b->stop)
        mu_agent_say("%s", b->why);
    meeting_over(agent, b->met != MUSTER_OK || take_shape(agent));
}

void mu_agent_stop_meeting(struct mu_agent *agent)
{
    agent->bridge->stop = 1;
}

/* The end of standard input: our starter is gone. */
static void input_ended(uv_poll_t *poll, int status, int events)
{
    struct mu_agent *agent = poll->loop->data;

    (void)status;
    if (!(events & UV_DISCONNECT))
        return;
    uv_poll_stop(poll);
    if (agent->options->hosts->orders->words)
        mu_agent_leader_lost(agent, "the command that started this host's part has ended");
    else
        mu_agent_input_ended(agent);
}

int mu_agent_cross(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge;

    if (!b)
        return 0;
    if (mu_bridge_start(b->bridge, agent->muster) != MUSTER_OK) {
        mu_agent_say("%s", muster_last_error());
        return -1;
    }
    if (b->options->adopt_ns)
        mu_agent_note_part(agent);
    else if (b->options->watches_stdin && uv_poll_init(&agent->loop, &b->input, 0) == 0)
        uv_poll_start(&b->input, UV_DISCONNECT, input_ended);
    return 0;
}

void mu_agent_close_bridge(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge;

    if (!b)
        return;
    remove_address(b->options);
    mu_agent_keep_stays(agent);
    if (agent->has_loop && b->poll.loop)
        uv_close((uv_handle_t *)&b->poll, NULL);
    if (agent->has_loop && b->input.loop)
        uv_close((uv_handle_t *)&b->input, NULL);
    uv_run(&agent->loop, UV_RUN_NOWAIT); /* the handles lie in what is freed */
    free_bridge(b);
    agent->bridge = NULL;
}
