/*
 * tests/topology/describe_main.c: says what each of the files in hwloc's XML form is: "== FILE", then the host, then
 * what describe.h writes; or the status and the sentence.
 */
#include <stdio.h>
#include <stdlib.h>

#include "describe.h"

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct muster_topology_source source = {.hwloc_xml = argv[i]};
        struct muster_topology *topology;
        enum muster_status status = muster_topology_load(&source, &topology);
        char *text;

        printf("== %s\n", argv[i]);
        if (status != MUSTER_OK) {
            printf("%s: %s\n", muster_status_name(status), muster_last_error());
            continue;
        }
        text = test_describe(topology);
        printf("host %s\n%s", muster_topology_host(topology), text);
        free(text);
        muster_topology_free(topology);
    }
    return 0;
}
