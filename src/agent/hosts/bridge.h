/* agent/hosts/bridge.h: what the files that look after other hosts share: meet.c, lead.c, rsh.c, follow.c, rejoin.c,
 * stay.c. */
#ifndef MU_AGENT_HOSTS_BRIDGE_H
#define MU_AGENT_HOSTS_BRIDGE_H

#include <semaphore.h>

#include "agent/hosts/orders.h"
#include "agent/hosts/stay.h"
#include "bridge/bridge.h"
#include "bridge/core/control.h"

/* A host as its leader sees it. */
struct mu_agent_host {
    char name[256];
    char way[64]; /* our address towards it; "": not known */
    uint32_t first_task, tasks;
    uint32_t running;    /* or about to be started; 0 of the leader itself */
    int over;            /* its tasks have ended, or it is lost: nothing more is awaited of it */
    int lost, away;      /* away: its agent is not there now */
    int stopped;         /* it has stopped its tasks, as it was told */
    uint64_t give_up_at; /* the job ends, and it is awaited until then, if it is away; 0: not yet decided */
    pid_t rsh;           /* 0: none, or it has ended */
    int input;           /* that command's standard input; -1: none */
    int stays, left;     /* it comes again for the next attempt; it has gone from this one */
    int is_fed;          /* the launcher's input goes there, too, by a descriptor of its own */
};

/* What the bridge's thread leaves for the loop. */
enum mu_agent_mail_kind { MU_MAIL_LISTENS, MU_MAIL_MET, MU_MAIL_TALK, MU_MAIL_HOST };
struct mu_agent_mail {
    struct mu_agent_mail *next;
    enum mu_agent_mail_kind what;
    uint32_t host, kind; /* kind: enum mu_agent_talk; of a host: enum mu_peer_state */
    size_t len;
    char bytes[]; /* of a host: why, with a NUL behind it */
};

struct mu_agent_bridge {
    const struct mu_agent_hosts *options;
    struct mu_bridge *bridge;
    struct mu_agent_host *hosts; /* the leader's */
    uint32_t num_hosts, open;    /* open: those that are not over */
    char listen_at[300], port[16];
    char own[256]; /* by which a host finds this one that has no way of its own */
    struct mu_pack welcome;

    pthread_t meeter; /* meeting is waited for beside the loop */
    int meeting;
    sem_t called;     /* the first host's command has been started, or all is said to the agents that look for us */
    _Atomic int stop; /* process-local: the meeting is to end */
    /* process-local: what the link says of connections is of no use, for hosts come again for the next attempt */
    _Atomic int comes_again;
    enum muster_status met;
    char why[1024];

    int event_fd; /* something lies in the list */
    uv_poll_t poll, input;
    pthread_mutex_t lock; /* over the next three */
    struct mu_agent_mail *first, *last;
    size_t mail_bytes;

    int is_over, told_status; /* a follower's: the leader has said so */
    int said_done, away;      /* likewise: the leader's agent is not there now */
    uint64_t part_until;      /* the leader's: the others' commands are waited for until then */
};

/* meet.c */
struct mu_agent_bridge *mu_agent_new_bridge(const struct mu_agent_hosts *options);
void mu_agent_bridge_options(struct mu_agent_bridge *b, struct mu_bridge_options *ret_options);
/* mail.c. Any thread: false: no memory, or too much lies there that the loop has not read. The loop: what is there. */
bool mu_agent_put_mail(struct mu_agent_bridge *b, const struct mu_agent_mail *head, const void *bytes, size_t len);
struct mu_agent_mail *mu_agent_take_mail(struct mu_agent_bridge *b); /* the first, to be freed; NULL: none */
void mu_agent_read_mail(struct mu_agent *agent);
void mu_agent_mail_is_here(uv_poll_t *poll, int status, int events);
/* 0, or -1 with the reason said. */
int mu_agent_hear_mail(struct mu_agent *agent);

/* stay.c: the leader's part. The job ends: which hosts are to stay for the next attempt, and for how long; those that
 * are waited for still; they are not to stay. The bridge goes, and another comes. */
void mu_agent_choose_stays(struct mu_agent *agent, uint64_t *ret_delay_ns);
uint32_t mu_agent_count_parting(const struct mu_agent_bridge *b);
void mu_agent_keep_stays(struct mu_agent *agent);
void mu_agent_take_stays(struct mu_agent *agent);
/* Its command has ended meanwhile: 1. No attempt follows. */
int mu_agent_stay_ended(struct mu_agent *agent, const siginfo_t *info);
void mu_agent_end_stays(struct mu_agent *agent);

/* rsh.c: the host's agent knows what its standard input is for, so the end of ours may be the end of it. */
void mu_agent_host_has_orders(struct mu_agent_host *host);
/* A task of it gets the launcher's. */
int mu_agent_host_takes_input(const struct mu_agent *agent, const struct mu_agent_host *host);

#endif
