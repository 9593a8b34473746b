/* tests/bridge/certificates.h: an authority and what it signed, made for the test in its TMPDIR. */
#ifndef TEST_CERTIFICATES_H
#define TEST_CERTIFICATES_H

#include "bridge/link/link.h"

/* "good": for 127.0.0.1 and localhost; "elsewhere": for another host; "foreign": by another authority. */
void certificates_make(void);
void certificates_use(struct mu_link_options *options, const char *which);

#endif
