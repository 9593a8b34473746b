/*
 * tests/bridge/lookup_test.c: names looked up beside the loop: the thread that does it.
 *
 * The resolver here is ours: it answers when it is told to, and its thread takes its time to end.
 */
#include "cm.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/link/address.h"

static pthread_key_t ending;
static sem_t may_answer;
static atomic_int has_ended;

static void end_slowly(void *arg)
{
    (void)arg;
    poll(NULL, 0, 50);               /* sleep: who does not wait for the thread shall be seen to be too early */
    atomic_fetch_add(&has_ended, 1); /* acq_rel: pairs with the test's load */
}

/* In place of libc's. */
int getaddrinfo(const char *restrict node, const char *restrict service, const struct addrinfo *restrict hints,
                struct addrinfo **restrict ret_list)
{
    (void)node;
    (void)service;
    *ret_list = NULL;
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    pthread_setspecific(ending, "");
    while (sem_wait(&may_answer))
        ;
    return EAI_AGAIN;
}

static struct mu_lookup *begin(void)
{
    struct mu_link_name name;
    struct mu_lookup *lookup;

    assert_ok(mu_link_name_parse("a.name:4711", &name));
    atomic_store(&has_ended, 0); /* release: nobody else is there */
    lookup = mu_lookup_begin(&name);
    assert_non_null(lookup);
    return lookup;
}

/* Whoever forks then has one thread less that may hold a lock. */
TEST(a_look_up_that_has_ended_leaves_no_thread)
{
    struct mu_lookup *lookup = begin();
    struct pollfd fd = {.fd = mu_lookup_fd(lookup), .events = POLLIN};
    struct addrinfo *list;

    assert_int_equal(poll(&fd, 1, 0), 0);
    sem_post(&may_answer);
    assert_int_equal(poll(&fd, 1, 60000), 1);
    assert_int_equal(mu_lookup_end(lookup, &list), EAI_AGAIN);
    assert_null(list);
    assert_int_equal(atomic_load(&has_ended), 1); /* acquire: pairs with end_slowly() */
}

TEST(one_that_is_abandoned_is_not_waited_for)
{
    mu_lookup_abandon(begin());
    assert_int_equal(atomic_load(&has_ended), 0); /* acquire: pairs with end_slowly(), which cannot have been */
    sem_post(&may_answer);
    for (int i = 0; i < 6000 && !atomic_load(&has_ended); i++) /* acquire: likewise */
        poll(NULL, 0, 10);                                     /* sleep: until the thread is over */
    assert_int_equal(atomic_load(&has_ended), 1);              /* acquire: likewise */
}

int main(void)
{
    if (pthread_key_create(&ending, end_slowly) || sem_init(&may_answer, 0, 0))
        return 1;
    return test_run(NULL, NULL);
}
