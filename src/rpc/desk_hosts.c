/*
 * rpc/desk_hosts.c: the desks of a job of several hosts, and what they tell each other.
 *
 * Keys, named barriers and records reach other hosts through the bridge, whoever changed them. The desk's own two
 * barriers do not lie in the segment: host 0's desk counts who is at them anywhere, and says how they ended. A guest
 * that registers on another host is connected there at once, since host 0 passes the barrier only when the records
 * of all are there; its call waits until that is told.
 *
 * What is on its way when a barrier ends is of a round that is over: who decided has forgotten it, and who told it
 * answers all who wait when he hears.
 */
#include "rpc/desk_private.h"

#define LAST_CODE MUSTER_DATA_LOSS

void mu_desk_tell_of(struct mu_desk *desk, enum mu_desk_word word, uint32_t round, int32_t task)
{
    struct mu_desk_news news = {.word = word, .round = round, .task = (uint32_t)task, .text = ""};
    struct mu_task_record r;

    mu_desk_record(desk, task, &r, NULL);
    news.attempt = r.attempt;
    if (desk->o.tell && !desk->stopped)
        desk->o.tell(desk->o.arg, 0, &news);
}

void mu_desk_tell_all(struct mu_desk *desk, enum mu_desk_word word, uint32_t round, enum muster_status code,
                      const char *text)
{
    const struct mu_desk_news news = {.word = word, .round = round, .code = code, .text = text ? text : ""};

    if (desk->o.tell && !desk->stopped && mu_is_leader(desk->seg))
        desk->o.tell(desk->o.arg, UINT32_MAX, &news);
}

/* Only of its own tasks, only what is for us. */
static bool may_say(const struct mu_desk *desk, uint32_t host, const struct mu_desk_news *news)
{
    bool is_of_all = news->word == MU_WORD_REGISTERED || news->word == MU_WORD_LEFT;

    if (mu_desk_follows(desk))
        return host == 0 && is_of_all && news->code <= LAST_CODE;
    return host > 0 && !is_of_all && news->task < desk->num_tasks && mu_host_of(desk->seg, news->task) == host;
}

void mu_desk_told(struct mu_desk *desk, uint32_t host, const struct mu_desk_news *news)
{
    if (desk->stopped || !may_say(desk, host, news))
        return;
    mu_desk_look_tasks(desk);
    switch (news->word) {
    case MU_WORD_COMES:
    case MU_WORD_GOES:
    case MU_WORD_REGISTERED: mu_registering_told(desk, news); break;
    case MU_WORD_LEAVES:
    case MU_WORD_LEFT: mu_leaving_told(desk, news); break;
    }
    mu_desk_look_tasks(desk);
    mu_desk_deliver(desk);
}
