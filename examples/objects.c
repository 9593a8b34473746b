/*
 * objects.c: task 0 makes an object in shared memory and tells its reference by a key; task 1 reads the same bytes,
 * without a copy. When a producer ends before it seals, every waiter for the object is told so.
 * run: "$MUSTER" run -n 2 "$EXAMPLE"
 */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include <muster/muster.h>

static void check(enum muster_status status)
{
    if (status)
        errx(1, "%s: %s", muster_status_name(status), muster_last_error());
}

static void produce(struct muster *m)
{
    struct muster_object_room room;
    muster_object numbers, never;
    double *square;

    check(muster_object_create(m, 1000 * sizeof *square, 0, 0, &numbers, &room));
    square = room.data;
    for (int i = 0; i < 1000; i++)
        square[i] = (double)i * i;
    check(muster_object_seal(m, numbers)); /* from here on nobody changes it */
    check(muster_object_create(m, 8, 0, 0, &never, &room));

    check(muster_kv_set(m, "numbers", MUSTER_NTS, &numbers, sizeof numbers, NULL));
    check(muster_kv_set(m, "never", MUSTER_NTS, &never, sizeof never, NULL));
    /* the reader holds both by now, so they outlive this task */
    check(muster_barrier_wait(m, "held", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER));
}

static muster_object told(struct muster *m, const char *key)
{
    muster_object object;
    size_t len;

    check(muster_kv_get(m, key, MUSTER_NTS, MUSTER_FOREVER, &object, sizeof object, &len, NULL));
    return object;
}

static void consume(struct muster *m)
{
    muster_object objects[2] = {told(m, "numbers"), told(m, "never")};
    struct muster_object_view view;
    const double *square;

    check(muster_object_retain(m, objects, 2, NULL));
    check(muster_barrier_wait(m, "held", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER));
    check(muster_object_get(m, &objects[0], 1, MUSTER_FOREVER, &view, NULL));
    square = view.data;
    printf("the last of %zu bytes: %.0f\n", view.len, square[999]);
    muster_object_unview(m, &view, 1);

    if (muster_object_get(m, &objects[1], 1, MUSTER_FOREVER, &view, NULL) != MUSTER_UNAVAILABLE)
        errx(1, "an object was sealed by nobody");
    printf("%s\n", muster_last_error());
    check(muster_object_drop(m, objects, 2));
}

int main(void)
{
    struct muster *m;

    check(muster_join(NULL, &m));
    if (muster_task_id(m) == 0)
        produce(m);
    else
        consume(m);
    check(muster_leave(m));
    return 0;
}
