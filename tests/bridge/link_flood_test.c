/*
 * tests/bridge/link_flood_test.c: somebody without the key who keeps connecting does not keep hosts from joining.
 *
 * Crowds of strangers stand before the leader's door when the hosts come, and whoever is turned away comes again at
 * once. Were each of them given the two seconds that a host may take while others wait, all would need a minute.
 */
/* timeout: 240 */
#include "cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ends.h"

enum { STRANGERS = 2000, HOSTS = 8 };

static struct end leader, followers[HOSTS];
static struct end *all[HOSTS + 1];
static struct pollfd strangers[STRANGERS];
static const char *words; /* that each of them says; NULL: nothing */
static unsigned turned_away;

static void come(struct pollfd *stranger)
{
    const char *port = strrchr(mu_link_address(leader.link), ':') + 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    a.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    stranger->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    stranger->events = POLLIN;
    assert_true(stranger->fd >= 0);
    if (connect(stranger->fd, (struct sockaddr *)&a, sizeof a) == 0 || errno == EINPROGRESS) {
        if (words && send(stranger->fd, words, 5, MSG_NOSIGNAL) < 0)
            assert_true(errno == EAGAIN || errno == ECONNRESET || errno == EPIPE || errno == ENOTCONN);
        return;
    }
    close(stranger->fd); /* no port is left for it just now */
    stranger->fd = -1;
}

static void come_again(void)
{
    poll(strangers, STRANGERS, 0);
    for (unsigned i = 0; i < STRANGERS; i++) {
        if (strangers[i].fd >= 0 && !strangers[i].revents)
            continue;
        turned_away++;
        if (strangers[i].fd >= 0)
            close(strangers[i].fd);
        come(&strangers[i]);
    }
}

static bool are_up(void)
{
    come_again();
    for (unsigned i = 0; i < HOSTS; i++)
        if (!followers[i].is_up[0] || !leader.is_up[i + 1])
            return false;
    return true;
}

static void hosts_join_among_them(void)
{
    end_init(&leader);
    leader.options.key = end_key;
    leader.options.timeout_ns = 60000000000u;
    all[0] = &leader;
    end_listen(&leader);
    turned_away = 0;
    for (unsigned i = 0; i < STRANGERS; i++)
        come(&strangers[i]);
    for (unsigned i = 0; i < HOSTS; i++) {
        all[i + 1] = &followers[i];
        end_init(&followers[i]);
        followers[i].options.key = end_key;
        followers[i].options.timeout_ns = 60000000000u;
        followers[i].options.patience_ns = 60000000000u;
        followers[i].options.num_hosts = 1;
        end_connect(&followers[i], &leader, i + 1);
    }
    ends_await(all, HOSTS + 1, are_up(), "all are up");
    assert_true(turned_away > 0);
    for (unsigned i = 0; i < STRANGERS; i++)
        if (strangers[i].fd >= 0)
            close(strangers[i].fd);
    ends_free(all, HOSTS + 1);
}

TEST(strangers_that_say_nothing)
{
    words = NULL;
    hosts_join_among_them();
    if (!strstr(leader.said, "connections that said nothing were closed, to let hosts join; the last was"))
        assert_true(turned_away < 2000); /* said of the first thousand that the leader has seen */
}

TEST(strangers_that_say_half_a_word)
{
    words = "\x16\x03\x01\x02\x00"; /* a record of TLS follows, but it does not */
    hosts_join_among_them();
}

int main(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < STRANGERS + 200u) {
        limit.rlim_cur = STRANGERS + 200;
        if (limit.rlim_cur > limit.rlim_max || setrlimit(RLIMIT_NOFILE, &limit)) {
            printf("2200 open files are not allowed here\n");
            return 77;
        }
    }
    return test_run(NULL, NULL);
}
