# One thread plays every host and every task: what would block, tell the time or draw a number asks the scheduler, and
# "locking" a slot's liveness writes its owner, so that a task can die without its thread.
VARIANTS_bridgesim ?= release
LDLIBS_bridgesim := -Wl,--wrap=mu_now,--wrap=mu_futex_wait,--wrap=mu_futex_wait_any,--wrap=mu_random \
	-Wl,--wrap=mu_processors,--wrap=nanosleep,--wrap=sched_yield \
	-Wl,--wrap=pthread_mutex_trylock,--wrap=pthread_mutex_unlock,--wrap=pthread_mutex_consistent
