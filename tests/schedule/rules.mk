# The functions that a worker calls are the test program's own.
LDLIBS_schedule := -rdynamic
