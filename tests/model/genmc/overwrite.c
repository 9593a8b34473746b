#include "mechanism.h"
static void *victim(void *arg)
{
    (void)arg;
    become(0, 0);
    mortal = 1;
    put(10);
    mortal = 0;
    return 0;
}
static void *survivor(void *arg)
{
    become(1, 0);
    put(20);
#ifdef TWO
    put(21);
#endif
    return 0;
}
int main(void)
{
    pthread_t v, s;
    void *died;
    uint64_t value;
    prepare();
    put(9);
    pthread_create(&v, 0, victim, 0);
    pthread_create(&s, 0, survivor, 0);
    kill_owner(0);
    pthread_join(v, &died);
    mu_scavenge(own(), 0, 0);
    mu_scavenge(own(), 0, 0);
    pthread_join(s, 0);
    value = get();
    audit();
    assert(value == 10 || value == 20 || value == 21);
    return 0;
}
