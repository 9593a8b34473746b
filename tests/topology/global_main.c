/*
 * tests/topology/global_main.c: muster_topology_global() behind a pipe, for the tests in Python.
 *
 * A request on stdin is the form, the number of locals, then each local's size and bytes; the answer on stdout is the
 * status, a size, and that many bytes: the global topology, or the sentence. Numbers are 32 bits, little-endian. Each
 * request is answered twice over and must be the same both times. Ends at the end of stdin.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/topology.h>

static uint32_t number(void)
{
    uint32_t n;

    if (fread(&n, sizeof n, 1, stdin) != 1)
        exit(0);
    return n;
}

static void answer(enum muster_status status, const void *bytes, size_t size)
{
    uint32_t head[2] = {status, (uint32_t)size};

    if (fwrite(head, sizeof head, 1, stdout) != 1 || fwrite(bytes, 1, size, stdout) != size || fflush(stdout))
        exit(1);
}

int main(void)
{
    for (;;) {
        enum muster_topology_form form = (enum muster_topology_form)number();
        uint32_t count = number();
        void **locals = calloc(count + 1, sizeof *locals), *bytes = NULL, *again = NULL;
        size_t *sizes = calloc(count + 1, sizeof *sizes), size = 0, size_again = 0;
        enum muster_status status;

        for (uint32_t i = 0; i < count; i++) {
            sizes[i] = number();
            locals[i] = malloc(sizes[i] + 1); /* exactly: a byte read past the end is the sanitizer's */
            if (sizes[i] && fread(locals[i], sizes[i], 1, stdin) != 1)
                return 1;
        }
        status = muster_topology_global(form, (const void *const *)locals, sizes, count, &bytes, &size);
        if (status != muster_topology_global(form, (const void *const *)locals, sizes, count, &again, &size_again) ||
            size != size_again || (size && memcmp(bytes, again, size) != 0)) {
            fprintf(stderr, "equal locals did not give equal bytes\n");
            return 1;
        }
        if (status)
            answer(status, muster_last_error(), strlen(muster_last_error()));
        else
            answer(status, bytes, size);
        for (uint32_t i = 0; i < count; i++)
            free(locals[i]);
        free(locals);
        free(sizes);
        free(bytes);
        free(again);
    }
}
