/* tests/rpc/certificates_main.c: writes the certificates of tests/bridge/certificates.h into TMPDIR. */
#include "certificates.h"

int main(void)
{
    certificates_make();
    return 0;
}
