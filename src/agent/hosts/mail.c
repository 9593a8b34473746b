/*
 * agent/hosts/mail.c: how what the bridge's threads hear reaches the loop.
 *
 * It is put into a list by the bridge's thread and taken from there by the loop: nothing of the agent is touched by
 * another thread, and the bridge never waits for the agent.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/hosts/bridge.h"

enum { MAIL_MOST = 64 << 20 }; /* bytes that others have said and the loop has not read: then they say it again later */

bool mu_agent_put_mail(struct mu_agent_bridge *b, const struct mu_agent_mail *head, const void *bytes, size_t len)
{
    struct mu_agent_mail *mail = malloc(sizeof *mail + len + 1);
    uint64_t one = 1;
    bool has_room;

    if (!mail)
        return false;
    *mail = *head;
    mail->next = NULL;
    mail->len = len;
    if (len > 0)
        memcpy(mail->bytes, bytes, len);
    mail->bytes[len] = 0;
    pthread_mutex_lock(&b->lock);
    has_room = head->what != MU_MAIL_TALK || b->mail_bytes < MAIL_MOST;
    if (has_room) {
        *(b->last ? &b->last->next : &b->first) = mail;
        b->last = mail;
        b->mail_bytes += sizeof *mail + len;
    }
    pthread_mutex_unlock(&b->lock);
    if (has_room)
        (void)!write(b->event_fd, &one, sizeof one);
    else
        free(mail);
    return has_room;
}

/* Where the others find the leader, in a file that they look for. */
static int write_address(const struct mu_agent_bridge *b)
{
    const struct mu_agent_hosts *hosts = b->options;
    char path[4096], draft[4128], why[400];
    FILE *file;

    if (!hosts->file)
        return 0;
    if (mu_launch_home_file(hosts->file, path, sizeof path, why, sizeof why)) {
        mu_agent_say("%s", why);
        return -1;
    }
    snprintf(draft, sizeof draft, "%s.%d", path, (int)getpid());
    file = fopen(draft, "we");
    if (!file || fprintf(file, strchr(b->own, ':') ? "[%s]%s\n" : "%s%s\n", b->own, b->port) < 0 || fclose(file) ||
        rename(draft, path)) {
        mu_agent_say("%s: %s", path, strerror(errno));
        return -1;
    }
    return 0;
}

/* The port is known: the others can be started, or find us. */
static void call_others(struct mu_agent *agent, const char *address)
{
    struct mu_agent_bridge *b = agent->bridge;

    snprintf(b->port, sizeof b->port, "%s", strrchr(address, ':'));
    if (write_address(b) || mu_agent_start_rsh(agent))
        mu_agent_break(agent);
    sem_post(&b->called);
}

struct mu_agent_mail *mu_agent_take_mail(struct mu_agent_bridge *b)
{
    struct mu_agent_mail *mail;

    pthread_mutex_lock(&b->lock);
    mail = b->first;
    if (mail) {
        b->first = mail->next;
        b->mail_bytes -= sizeof *mail + mail->len;
    }
    if (!b->first)
        b->last = NULL;
    pthread_mutex_unlock(&b->lock);
    return mail;
}

void mu_agent_read_mail(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge;
    struct mu_agent_mail *mail;

    while ((mail = mu_agent_take_mail(b))) {
        struct mu_unpack u = mu_unpack_of(mail->bytes, mail->len);

        if (mail->what == MU_MAIL_MET)
            b->meeting = 0;
        else if (mail->what == MU_MAIL_LISTENS)
            call_others(agent, mail->bytes);
        else if (mail->what == MU_MAIL_TALK && mu_agent_follows(agent))
            mu_agent_follow(agent, (enum mu_agent_talk)mail->kind, &u);
        else if (mail->what == MU_MAIL_TALK)
            mu_agent_lead(agent, mail->host, (enum mu_agent_talk)mail->kind, &u);
        else if (mail->what == MU_MAIL_HOST && mail->kind == MU_PEER_LOST && mu_agent_follows(agent))
            mu_agent_leader_lost(agent, mail->bytes);
        else if (mail->what == MU_MAIL_HOST && mail->kind == MU_PEER_LOST)
            mu_agent_host_lost(agent, mail->host, mail->bytes);
        else if (mail->what == MU_MAIL_HOST && mu_agent_follows(agent))
            mu_agent_leader_moved(agent, mail->kind == MU_PEER_UP, mail->bytes);
        else if (mail->what == MU_MAIL_HOST)
            mu_agent_host_moved(agent, mail->host, mail->kind == MU_PEER_UP, mail->bytes);
        free(mail);
    }
}

void mu_agent_mail_is_here(uv_poll_t *poll, int status, int events)
{
    struct mu_agent *agent = poll->loop->data;
    uint64_t count;

    (void)status;
    (void)events;
    (void)!read(agent->bridge->event_fd, &count, sizeof count);
    mu_agent_read_mail(agent);
}
