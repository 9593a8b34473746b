#include "mechanism.h"
static void *victim(void *arg)
{
    (void)arg;
    tid = 1;
    mortal = 1;
    put(&ctx[0], 10);
    mortal = 0;
    return 0;
}
static void *survivor(void *arg)
{
    tid = 2;
    put(&ctx[1], 20);
#ifdef TWO
    put(&ctx[1], 21);
#endif
    return 0;
}
int main(void)
{
    pthread_t v, s;
    void *died;
    uint64_t value;
    prepare();
    put(&ctx[MAIN], 9);
    pthread_create(&v, 0, victim, 0);
    pthread_create(&s, 0, survivor, 0);
    kill_owner(0);
    pthread_join(v, &died);
    mu_scavenge(&ctx[MAIN], 0, 0);
    mu_scavenge(&ctx[MAIN], 0, 0);
    pthread_join(s, 0);
    value = get(&ctx[MAIN]);
    audit();
    assert(value == 10 || value == 20 || value == 21);
    return 0;
}
