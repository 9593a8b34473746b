/*
 * tests/layout/layout_test.c: the layout is the one that is kept in layout.txt, in every build.
 *
 * variants: release asan release-clang step step3 step-clang step3-clang
 *
 * Only the size of the C library's mutex may differ elsewhere; the signature then keeps such builds apart.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm_layout/layout.h"

static char golden[16384];

static const char *advice(void)
{
    return "The format of segments has changed. If that is meant: raise MU_LAYOUT_MAJOR in shm_layout/layout.h (or\n"
           "_MINOR, for additions in reserved space), say it in shm_layout/README.md, and run\n"
           "tests/layout/regenerate.sh to write tests/layout/layout.txt and the kept image anew.\n";
}

int main(void)
{
    FILE *f = fopen("tests/layout/layout.txt", "r");
    const char *now = mu_layout_text(), *was = golden;
    int line = 1;

    if (!f || !fread(golden, 1, sizeof golden - 1, f)) {
        printf("tests/layout/layout.txt cannot be read\n");
        return 1;
    }
    fclose(f);
    for (; *was || *now; line++) {
        size_t a = strcspn(was, "\n"), b = strcspn(now, "\n");
        int mutex = !strncmp(was, "sizeof pthread_mutex_t ", 23) && !strncmp(now, "sizeof pthread_mutex_t ", 23);

        if (!mutex && (a != b || strncmp(was, now, a))) {
            printf("line %d was '%.*s' and is '%.*s'\n%s", line, (int)a, was, (int)b, now, advice());
            return 1;
        }
        was += a + (was[a] == '\n');
        now += b + (now[b] == '\n');
    }
    printf("%d lines as kept, signature %016llx\n", line - 1, (unsigned long long)mu_layout_signature());
    return 0;
}
