/*
 * ray/ready.c: which worker takes which task.
 *
 * Between two requests no idle worker could run a task that is ready. So a task that becomes ready chooses among the
 * idle workers, and a worker that becomes idle among the ready tasks; both choose where the fewest of the task's
 * arguments are missing from the worker's store. Of workers that are as good the one that has been idle for longest is
 * taken, of tasks the oldest. A worker looks at no more than the LOOKS oldest tasks that it can run.
 */
#include "ray/private.h"

#include <stdlib.h>

#include "base/list.h"

enum { LOOKS = 128 };

bool mu_ray_knows(const struct mu_ray_function *f, uint32_t worker)
{
    return worker / 64 < f->num_words && (f->workers[worker / 64] >> worker % 64 & 1);
}

/* Arguments of the task, which are all ready, that this store does not have. */
static uint32_t arguments_missing(const struct mu_ray_sched *s, const struct mu_ray_task *t, uint32_t store)
{
    uint32_t missing = 0;

    for (uint32_t i = 0; i < t->num_args; i++) {
        struct mu_ray_object *canonical;

        if (mu_ray_is_ready(s, t->waits[i].object, &canonical))
            missing += !mu_ray_is_at(canonical, store);
    }
    return missing;
}

/* ---- a function's ready tasks: a heap, the oldest on top -------------------------------------------------------- */

static void heap_up(struct mu_ray_function *f, size_t at)
{
    struct mu_ray_task *t = f->heap[at];

    for (; at > 0 && f->heap[(at - 1) / 2]->operation > t->operation; at = (at - 1) / 2)
        f->heap[at] = f->heap[(at - 1) / 2];
    f->heap[at] = t;
}

static void heap_down(struct mu_ray_function *f, size_t at)
{
    struct mu_ray_task *t = f->heap[at];

    for (size_t child; (child = 2 * at + 1) < f->num_ready; at = child) {
        if (child + 1 < f->num_ready && f->heap[child + 1]->operation < f->heap[child]->operation)
            child++;
        if (f->heap[child]->operation > t->operation)
            break;
        f->heap[at] = f->heap[child];
    }
    f->heap[at] = t;
}

/* Its submission has made room, or its coming back. */
static void heap_push(struct mu_ray_sched *s, struct mu_ray_task *t)
{
    struct mu_ray_function *f = t->function;

    t->state = MU_RAY_READY;
    f->heap[f->num_ready] = t;
    heap_up(f, f->num_ready++);
    if (f->is_active)
        return;
    f->is_active = true;
    f->active_prev = NULL;
    f->active_next = s->active;
    if (s->active)
        s->active->active_prev = f;
    s->active = f;
}

static void heap_remove(struct mu_ray_sched *s, struct mu_ray_function *f, size_t at)
{
    f->heap[at] = f->heap[--f->num_ready];
    if (at < f->num_ready) {
        heap_up(f, at);
        heap_down(f, at);
    }
    if (f->num_ready > 0)
        return;
    f->is_active = false;
    *(f->active_prev ? &f->active_prev->active_next : &s->active) = f->active_next;
    if (f->active_next)
        f->active_next->active_prev = f->active_prev;
}

/* The oldest ready task that the worker can run, out of its heap. NULL: there is none. */
static struct mu_ray_task *heap_pop(struct mu_ray_sched *s, uint32_t worker)
{
    struct mu_ray_function *best = NULL;
    struct mu_ray_task *t;

    for (struct mu_ray_function *f = s->active; f; f = f->active_next)
        if (mu_ray_knows(f, worker) && (!best || f->heap[0]->operation < best->heap[0]->operation))
            best = f;
    if (!best)
        return NULL;
    t = best->heap[0];
    heap_remove(s, best, 0);
    t->state = MU_RAY_WAITING;
    return t;
}

/* ---- tasks and workers ------------------------------------------------------------------------------------------- */

void mu_ray_task_unqueue(struct mu_ray_sched *s, struct mu_ray_task *t)
{
    MU_QUEUE_DROP(s->queue, s->queue_last, t);
    s->num_queued--;
    t->function->num_queued--;
    if (t->state != MU_RAY_READY)
        return;
    for (size_t i = 0; i < t->function->num_ready; i++)
        if (t->function->heap[i] == t) {
            heap_remove(s, t->function, i);
            return;
        }
}

/* What was counted for it is its worker's: a reference to each argument and to each id in a value, two to each result,
 * one of them as its producer. */
static void task_hand_over(struct mu_ray_sched *s, const struct mu_ray_task *t, struct mu_ray_worker *w, int sign)
{
    for (uint32_t i = 0; i < t->num_args; i++)
        mu_ray_ledger_add(w, t->waits[i].object, sign);
    for (uint32_t i = 0; i < t->nested.count; i++)
        mu_ray_ledger_add(w, t->nested.all[i], sign);
    for (uint64_t i = 0; i < t->num_results; i++) {
        struct mu_ray_object *o = mu_ray_object_at(s, t->first_result + i);

        mu_ray_ledger_add(w, t->first_result + i, 2 * sign);
        if (o && !o->is_freed)
            o->producer = sign > 0 ? w->id : UINT32_MAX;
    }
}

/* The task is in no heap. */
static void task_assign(struct mu_ray_sched *s, struct mu_ray_task *t, struct mu_ray_worker *w)
{
    t->state = MU_RAY_RUNNING;
    mu_ray_task_unqueue(s, t);
    s->num_running++;
    MU_QUEUE_DROP(s->idle, s->idle_last, w);
    w->state = MU_RAY_BUSY;
    w->task = t;
    task_hand_over(s, t, w, 1);
    for (uint32_t i = 0; i < t->num_args; i++) {
        struct mu_ray_object *canonical;

        if (mu_ray_is_ready(s, t->waits[i].object, &canonical))
            mu_ray_bring(s, t->waits[i].object, w->store);
    }
    mu_ray_send(s, &(struct mu_ray_call){.kind = MU_RAY_EXECUTE, .peer = w->id, .body = t->body});
}

bool mu_ray_task_look(struct mu_ray_sched *s, struct mu_ray_task *t)
{
    for (uint32_t i = 0; i < t->num_args; i++) {
        const struct mu_ray_object *o = mu_ray_object_at(s, t->waits[i].object);

        if (!o || o->is_freed) {
            mu_ray_give_up(s, t, "an argument was freed: somebody dropped a reference that was another's");
            return false;
        }
        o = mu_ray_root(s, t->waits[i].object);
        if (o->is_lost) {
            mu_ray_give_up(s, t, "an argument is lost: %s", o->why ? o->why : "its maker is gone");
            return false;
        }
    }
    return true;
}

void mu_ray_task_ready(struct mu_ray_sched *s, struct mu_ray_task *t)
{
    struct mu_ray_worker *best = NULL;
    uint32_t least = UINT32_MAX;

    if (!mu_ray_task_look(s, t))
        return;
    for (struct mu_ray_worker *w = s->idle; w && least > 0; w = w->next)
        if (mu_ray_knows(t->function, w->id) && !w->importing) {
            uint32_t missing = arguments_missing(s, t, w->store);

            if (missing < least) {
                least = missing;
                best = w;
            }
        }
    if (best) {
        task_assign(s, t, best);
        return;
    }
    heap_push(s, t);
}

void mu_ray_task_requeue(struct mu_ray_sched *s, struct mu_ray_worker *w)
{
    struct mu_ray_task *t = w->task, *behind = s->queue;
    struct mu_ray_function *f = t->function;

    while (behind && behind->operation < t->operation)
        behind = behind->next;
    t->next = behind;
    t->prev = behind ? behind->prev : s->queue_last;
    *(t->prev ? &t->prev->next : &s->queue) = t;
    *(behind ? &behind->prev : &s->queue_last) = t;
    w->task = NULL;
    task_hand_over(s, t, w, -1);
    s->num_running--;
    s->num_queued++;
    f->num_queued++;
    t->state = MU_RAY_WAITING;
    if (mu_ray_grow(&f->heap, sizeof *f->heap, f->num_queued, &f->room)) /* another may have its place by now */
        mu_ray_task_ready(s, t);
    else
        mu_ray_give_up(s, t, "its worker is gone, and there is no memory to keep it for another");
}

void mu_ray_worker_offer(struct mu_ray_sched *s, struct mu_ray_worker *w)
{
    struct mu_ray_task *looked_at[LOOKS], *best = NULL;
    uint32_t count = 0, least = UINT32_MAX;

    if (w->state != MU_RAY_IDLE || w->importing)
        return;
    while (count < LOOKS && least > 0 && (looked_at[count] = heap_pop(s, w->id)) != NULL) {
        uint32_t missing;

        if (!mu_ray_task_look(s, looked_at[count]))
            continue;
        missing = arguments_missing(s, looked_at[count], w->store);
        if (missing < least) {
            least = missing;
            best = looked_at[count];
        }
        count++;
    }
    for (uint32_t i = 0; i < count; i++)
        if (looked_at[i] != best)
            heap_push(s, looked_at[i]);
    if (best)
        task_assign(s, best, w);
}

void mu_ray_worker_idle(struct mu_ray_sched *s, struct mu_ray_worker *w)
{
    w->state = MU_RAY_IDLE;
    MU_QUEUE_APPEND(s->idle, s->idle_last, w);
    mu_ray_worker_offer(s, w);
}

void mu_ray_wake(struct mu_ray_sched *s, uint64_t id)
{
    struct mu_ray_object *root = mu_ray_root(s, id);

    while (root->first_wait) {
        struct mu_ray_wait *wait = root->first_wait;

        mu_ray_wait_end(s, wait);
        if (!wait->task) {
            mu_ray_bring(s, wait->object, wait->store);
            free(wait);
        } else if (wait->task->state == MU_RAY_WAITING && --wait->task->missing == 0) {
            mu_ray_task_ready(s, wait->task);
        }
    }
}
