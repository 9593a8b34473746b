/* tests/bridge/fake_clock.c: the clock of the day of a host that is set wrongly; see there. */
#include "../checks/fake_clock.c"
