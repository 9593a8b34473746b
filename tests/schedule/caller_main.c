/* tests/schedule/caller_main.c: calls the C functions that are its words, each with the number before it, and prints
 * what comes: `caller 7 square`. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/muster.h>

static void check(enum muster_status status)
{
    if (status)
        errx(1, "%s", muster_last_error());
}

int main(int argc, char **argv)
{
    struct muster *m;

    check(muster_join(NULL, &m));
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t number = strtoull(argv[i], NULL, 0);
        struct muster_function_text text = {
            .name = argv[i + 1], .symbol = argv[i + 1], .kind = MUSTER_FUNCTION_LIBRARY, .num_results = 1};
        struct muster_argument argument = {.data = &number, .len = sizeof number};
        struct muster_object_view view;
        muster_function function;
        muster_object result;

        check(muster_function_export(m, &text, &function));
        check(muster_submit(m, function, &argument, 1, NULL, &result));
        if (muster_object_get(m, &result, 1, MUSTER_FOREVER, &view, NULL)) {
            puts(muster_last_error());
            continue; /* it is held until the end, for those that look at errors */
        }
        if (view.len == sizeof number)
            memcpy(&number, view.data, sizeof number);
        printf("%llu\n", (unsigned long long)number);
        muster_object_unview(m, &view, 1);
        check(muster_object_drop(m, &result, 1));
    }
    check(muster_leave(m));
    return 0;
}
