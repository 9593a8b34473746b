/*
 * bridge/member/members.h: what the files of the members module share: bridge/member/members.c, the tasks' records;
 * bridge/member/loss.c, hosts that are lost; bridge/core/owner.c, what is asked about tasks of other hosts;
 * bridge/member/roster.c, the hosts.
 */
#ifndef MU_BRIDGE_MEMBER_MEMBERS_H
#define MU_BRIDGE_MEMBER_MEMBERS_H

#include "bridge/core/modules.h"
#include "bridge/core/records.h"
#include "segment/cluster.h"

#define MU_MEMBERS_MANY 16u

/* Something asked of the agent of a task's host, which has not answered: the leader's. */
struct errand {
    uint32_t op, task, owner, code;
    uint32_t host, slot; /* the asking one's */
    uint64_t number, incarnation;
    bool again; /* it may have been carried out before */
};

/* What is to be said to a peer, or expected from it. */
struct member_told {
    uint64_t version;     /* up to which it knows our records */
    uint64_t first_error; /* that it was told of */
    uint64_t roster;      /* up to which it knows the hosts: as in members.hosts_changed */
    bool now;             /* it is told in this turn, whatever the pace is */
    uint64_t gone;        /* when it is given up; 0: it is there, or nobody expects it */
    bool is_replaced;     /* with `gone`: its agent has died, rather than the host, and may be replaced until then */
};

/* What the leader says of the hosts to those that were told up to `told`, as it was at a turn. */
struct mu_news {
    struct mu_pack list;
    uint64_t told, roster, at; /* roster: of members then, 0: none of this turn; at: when */
};

struct members {
    struct mu_task_record *records; /* ours to tell: the leader's all, another's own; as of `version` */
    uint32_t first, count;
    uint64_t word, version, first_error;
    bool read;
    /* Versions: `changed` lists what is later than `base`; all peers that are up know what is up to told_all; this turn
     * tells them what is up to tell_all. */
    uint64_t base, told_all, tell_all;
    uint32_t *changed, num_changed; /* places in `records` */
    uint64_t tell_at;               /* when what is not urgent is told next */
    uint64_t errors_told;           /* how many there were when all were told */
    bool telling, waiting;          /* all are told in this turn; something waits for the pace */
    struct member_told *told;       /* by peer */
    struct mu_pack list;            /* the records of `changed`, packed; empty: not yet */
    size_t *ends;                   /* where each of them ends there */
    struct mu_pack frame;
    /* Of the frame being taken: those of one block of records, which one commit takes. */
    struct mu_said said[MU_TASKS_PER_BLOCK];
    uint32_t said_tasks[MU_TASKS_PER_BLOCK];
    struct errand *errands;
    uint32_t num_errands, errands_capacity;
    uint64_t looked;                         /* for lost hosts; 0: there was no reason to */
    uint64_t roster_at, roster, roster_told; /* how many changes there were of what is known of hosts */
    /* The leader's, by host: */
    uint64_t *hosts_changed; /* the last of them that was its */
    uint64_t *named;         /* the last that gave it another name */
    uint64_t *rtt_told;
    struct mu_news news;
};

static inline struct members *mu_members_of(struct mu_core *core)
{
    return mu_core_state(core, MU_M_MEMBERS);
}
static inline uint32_t mu_members_peers(const struct mu_core *core)
{
    return core->leader ? core->num_hosts : 1;
}

/* Where there are many hosts what is not urgent is gathered. */
static inline bool mu_members_is_due(struct mu_core *core, uint32_t host)
{
    const struct members *m = mu_members_of(core);

    return core->num_hosts <= MU_MEMBERS_MANY || m->telling || m->told[host].now;
}

/* The leader's: the record was put in error here, and its host does not know yet, as far as the record tells. */
static inline bool mu_members_untold(const struct mu_task_record *r)
{
    return (r->flags & MU_TASK_REMOTE) && (r->flags & MU_TASK_SAID_CONNECTED) && r->state == MUSTER_TASK_ERROR;
}

/* loss.c */
void mu_loss_begin(struct mu_core *core);
void mu_loss_broken(struct mu_core *core, uint32_t host);
void mu_loss_look(struct mu_core *core);
uint64_t mu_loss_next(struct mu_core *core);
void mu_loss_of(struct mu_core *core, uint32_t host, const char *why);

/* owner.c */
void mu_owner_tell_error(struct mu_core *core, uint32_t task);
void mu_owner_up(struct mu_core *core, uint32_t host);
void mu_owner_lost(struct mu_core *core, uint32_t host);

/* roster.c */
bool mu_roster_init(struct mu_core *core); /* the leader's */
void mu_roster_begin(struct mu_core *core);
void mu_roster_set(struct mu_core *core, uint32_t host, uint32_t state);
void mu_roster_look(struct mu_core *core);
void mu_roster_tell(struct mu_core *core, uint32_t host);
uint64_t mu_roster_next(struct mu_core *core);

#endif
