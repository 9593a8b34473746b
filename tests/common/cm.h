/* tests/common/cm.h: tests, and our ways of asserting. */
#ifndef TEST_CM_H
#define TEST_CM_H

#include "test.h"

#include <muster/status.h>

/* A status, by name when it is not the one expected. */
#define assert_status(expected, call)                                                                                  \
    do {                                                                                                               \
        enum muster_status got_ = (call);                                                                              \
        if (got_ != (expected))                                                                                        \
            fail_msg("%s gave %s, not %s (last error: %s)", #call, muster_status_name(got_), #expected,                \
                     muster_last_error());                                                                             \
    } while (0)
#define assert_ok(call) assert_status(MUSTER_OK, call)

/* The last sentence names what it should. */
#define assert_says(part)                                                                                              \
    do {                                                                                                               \
        if (!strstr(muster_last_error(), part))                                                                        \
            fail_msg("the sentence \"%s\" does not mention \"%s\"", muster_last_error(), part);                        \
    } while (0)

#endif
