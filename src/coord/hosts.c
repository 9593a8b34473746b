/*
 * coord/hosts.c: the engines of a job of several hosts, and what they tell each other.
 *
 * Changes of keys, named barriers and records reach other hosts through the bridge. The engine's own two
 * barriers do not lie in the segment: host 0's engine counts the callers of all hosts, and says how they ended. A wire
 * client that registers on another host is connected there at once, since host 0 passes the barrier only when the
 * records of all are there; its call waits until that is told.
 *
 * A message on its way when a barrier ends is of a round that is over: the deciding engine has forgotten the round, and
 * the sending one answers all its waiters when it hears of the end.
 */
#include "coord/private.h"

#define LAST_CODE MUSTER_DATA_LOSS

void mu_coord_tell_of(struct mu_coord *coord, enum mu_coord_word word, uint32_t round, int32_t task)
{
    struct mu_coord_news news = {.word = word, .round = round, .task = (uint32_t)task, .text = ""};
    struct mu_task_record r;

    mu_coord_record(coord, task, &r, NULL);
    news.attempt = r.attempt;
    if (coord->o.tell && !coord->stopped)
        coord->o.tell(coord->o.arg, 0, &news);
}

void mu_coord_tell_all(struct mu_coord *coord, enum mu_coord_word word, uint32_t round, enum muster_status code,
                       const char *text, const char *brief)
{
    const struct mu_coord_news news = {
        .word = word, .round = round, .code = code, .text = text ? text : "", .brief = brief};

    if (coord->o.tell && !coord->stopped && mu_is_leader(coord->seg))
        coord->o.tell(coord->o.arg, UINT32_MAX, &news);
}

/* Only of its own tasks, only what is for us. */
static bool may_say(const struct mu_coord *coord, uint32_t host, const struct mu_coord_news *news)
{
    bool is_of_all = news->word == MU_WORD_REGISTERED || news->word == MU_WORD_LEFT;

    if (mu_coord_follows(coord))
        return host == 0 && is_of_all && news->code <= LAST_CODE;
    return host > 0 && !is_of_all && news->task < coord->num_tasks && mu_host_of(coord->seg, news->task) == host;
}

void mu_coord_told(struct mu_coord *coord, uint32_t host, const struct mu_coord_news *news)
{
    const uint32_t bit = news->word < 32 ? 1u << news->word : 0;

    if (coord->stopped || !may_say(coord, host, news))
        return;
    mu_coord_look_tasks(coord);
    for (const struct mu_coord_feature *const *f = coord->features; *f; f++)
        if ((*f)->words & bit)
            (*f)->told(coord, news);
    mu_coord_look_tasks(coord);
    mu_coord_deliver(coord);
}
