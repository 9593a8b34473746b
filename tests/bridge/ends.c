/*
 * tests/bridge/ends.c: links driven by hand: their clock is ours, so nobody waits for a time limit to pass.
 */
#include "ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bridge/link/private.h"
#include "cm.h"

const uint8_t end_key[MU_KEY_BYTES] = "a key of thirty-two bytes, of us";
const uint8_t end_other_key[MU_KEY_BYTES] = "a key of thirty-two bytes, other";

static enum mu_join_verdict on_join(void *arg, uint32_t connection, const struct mu_join *join, uint32_t *ret_host,
                                    struct mu_pack *welcome, char *refusal, size_t size)
{
    struct end *e = arg;

    e->join = *join;
    e->connection = connection;
    *ret_host = join->node;
    if (strcmp(join->job, "the-job") != 0) {
        snprintf(refusal, size, "it belongs to job '%s'", join->job);
        return MU_JOIN_REFUSED;
    }
    if (e->verdict == MU_JOIN_REFUSED)
        snprintf(refusal, size, "the owner does not like host %s", join->host);
    mu_pack_text(welcome, "welcome");
    return e->verdict;
}

static void on_gone(void *arg, uint32_t connection)
{
    struct end *e = arg;

    e->gones++;
    assert_int_equal(connection, e->connection);
}

static void on_up(void *arg, uint32_t host, const void *welcome, size_t len)
{
    struct end *e = arg;
    struct mu_unpack u = mu_unpack_of(welcome, len);
    char text[16] = "";

    assert_true(host < END_HOSTS);
    assert_false(e->is_up[host]); /* the old connection's end is told first */
    if (e->options.join.host[0]) {
        mu_unpack_text(&u, text, sizeof text);
        assert_string_equal(text, "welcome");
    }
    e->is_up[host] = true;
    e->ups++;
    e->ups_of[host]++;
    e->last_host = host;
}

static void on_down(void *arg, uint32_t host, const char *why)
{
    struct end *e = arg;

    assert_true(e->is_up[host]);
    e->is_up[host] = false;
    e->downs++;
    e->last_host = host;
    snprintf(e->why, sizeof e->why, "%s", why);
}

static void on_left(void *arg, uint32_t host)
{
    struct end *e = arg;

    assert_true(e->is_up[host]);
    e->is_up[host] = false;
    e->lefts++;
}

static void on_refused(void *arg, const char *why)
{
    struct end *e = arg;

    e->refusals++;
    snprintf(e->why, sizeof e->why, "%s", why);
}

static void on_frame(void *arg, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    struct end *e = arg;
    const uint8_t *bytes = payload;

    e->before_up += !e->is_up[host];
    e->frames++;
    e->bytes += len;
    e->last_type = type;
    e->last_len = len;
    e->last_host = host;
    for (size_t i = 0; i<len; i += len> 100000 ? 997 : 1)
        e->sum = e->sum * 31 + bytes[i];
    if (e->echo)
        mu_link_send(e->link, host, type, payload, len);
}

static void on_said(void *arg, const char *sentence)
{
    struct end *e = arg;
    size_t len = strlen(e->said);

    snprintf(e->said + len, sizeof e->said - len, "%s\n", sentence);
}

void end_init(struct end *e)
{
    memset(e, 0, sizeof *e);
    e->verdict = MU_JOIN_ACCEPTED;
    e->options.timeout_ns = 10000000000u;
    e->options.patience_ns = 20000000000u;
    e->options.num_hosts = END_HOSTS;
    e->options.events =
        (struct mu_link_events){e, on_join, on_gone, on_up, on_down, on_left, on_refused, on_frame, on_said, NULL};
}

void end_listen(struct end *e)
{
    if (!e->options.address)
        e->options.address = "127.0.0.1:0";
    assert_ok(mu_link_listen(&e->options, &e->link));
}

void end_connect(struct end *e, const struct end *leader, uint32_t node)
{
    if (leader)
        e->options.address = mu_link_address(leader->link);
    e->options.join.node = node;
    e->options.join.num_tasks = 2;
    e->options.join.pid = (uint32_t)getpid();
    if (!e->options.join.job[0])
        snprintf(e->options.join.job, sizeof e->options.join.job, "the-job");
    snprintf(e->options.join.host, sizeof e->options.join.host, "host-%u", node);
    assert_ok(mu_link_connect(&e->options, &e->link));
}

static void *free_one(void *arg)
{
    struct end *e = arg;

    mu_link_free(e->link);
    e->link = NULL;
    return NULL;
}

void ends_free(struct end *const *ends, unsigned count)
{
    pthread_t threads[END_HOSTS];

    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, free_one, ends[i]), 0);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(ends[i]->before_up, 0);
    }
}

void ends_turn(struct end *const *ends, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (ends[i]->link)
            mu_link_turn(ends[i]->link, mu_now() + ends[i]->ahead);
}

static const struct end *first_end;

static void report_first_end(void)
{
    print_message("the last sentences: %s %s\n", first_end->why, first_end->said);
}

void ends_step(struct end *const *ends, unsigned count)
{
    uint64_t now = mu_now(), next = now + 20000000;
    struct pollfd fds[END_HOSTS];

    first_end = ends[0];
    test_await_report = report_first_end;
    for (unsigned i = 0; i < count; i++) {
        uint64_t due = ends[i]->link ? mu_link_next(ends[i]->link) : UINT64_MAX;

        due = due > ends[i]->ahead ? due - ends[i]->ahead : 0;
        next = due < next ? due : next;
        fds[i] = (struct pollfd){.fd = ends[i]->link ? mu_link_fd(ends[i]->link) : -1, .events = POLLIN};
    }
    poll(fds, count, next > now ? (int)((next - now) / 1000000) : 0);
    ends_turn(ends, count);
}

/* ---- sockets by hand ---- */

int end_socket(const struct end *leader)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval ten = {10, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_port = htons((uint16_t)strtoul(strrchr(mu_link_address(leader->link), ':') + 1, NULL, 10));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &ten, sizeof ten);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

int end_listener(char address[64])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    mu_link_print((struct sockaddr *)&a, address, 64);
    return fd;
}

size_t end_frame(uint8_t *to, uint8_t type, uint32_t sequence, const void *payload, size_t len)
{
    mu_frame_put(to, &(struct mu_frame_header){.magic = MU_FRAME_MAGIC,
                                               .version = MU_BRIDGE_VERSION,
                                               .type = type,
                                               .length = (uint32_t)len,
                                               .sequence = sequence});
    if (len)
        memcpy(to + MU_FRAME_HEADER, payload, len);
    return MU_FRAME_HEADER + len;
}

void end_write(int fd, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    while (len) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

        if (n < 0) /* it was closed: what is then read tells why */
            return;
        at += n;
        len -= (size_t)n;
    }
}

size_t end_join_frame(uint8_t *to, uint32_t node)
{
    struct mu_join join = {.node = node, .num_tasks = 2, .job = "the-job", .host = "by-hand"};
    struct mu_pack p = {0};
    size_t len;

    mu_join_pack(&join, &p);
    len = end_frame(to, MU_FRAME_JOIN, 0, p.bytes, p.len);
    mu_pack_done(&p);
    return len;
}

static bool read_all(int fd, void *to, size_t len)
{
    for (size_t have = 0; have < len;) {
        ssize_t n = recv(fd, (uint8_t *)to + have, len - have, 0);

        if (n <= 0)
            return false;
        have += (size_t)n;
    }
    return true;
}

uint8_t end_read_frame(int fd, void *payload, size_t size, size_t *ret_len)
{
    uint8_t head[MU_FRAME_HEADER];
    struct mu_frame_header h;

    if (!read_all(fd, head, sizeof head))
        return 0;
    mu_frame_get(head, &h);
    assert_int_equal(h.magic, MU_FRAME_MAGIC);
    assert_true(h.length < size);
    if (!read_all(fd, payload, h.length))
        return 0;
    ((uint8_t *)payload)[h.length] = 0;
    if (ret_len)
        *ret_len = h.length;
    return h.type;
}
