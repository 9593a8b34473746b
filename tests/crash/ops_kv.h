/* tests/crash/ops_kv.h: rows of ops.c, by room. */
#ifndef CRASH_OPS_KV_H
#define CRASH_OPS_KV_H

#include "ops.h"

/* key-value store */
void kv_setup(const struct op *op);
void kv_setup_full(const struct op *op);
void kv_setup_alone(const struct op *op);
void kv_set(const struct op *op);
void kv_insert(const struct op *op);
void kv_increment(const struct op *op);
void kv_append(const struct op *op);
void kv_cas(const struct op *op);
void kv_cas_stale(const struct op *op);
void kv_delete(const struct op *op);
void kv_get(const struct op *op);
void kv_get_dir(const struct op *op);
void kv_get_pinned(const struct op *op);
void kv_get_waiting(const struct op *op);
void kv_setup_call(const struct op *op);
void kv_call(const struct op *op);
void kv_call_after(const struct op *op);

/* tasks and slots */
void task_setup_served(const struct op *op);
void task_setup_alive(const struct op *op);
void task_join(const struct op *op);
void task_register(const struct op *op);
void task_ended(const struct op *op);
void task_leave(const struct op *op);
void task_report(const struct op *op);
void task_report_other(const struct op *op);
void task_reset(const struct op *op);
void task_beat_known(const struct op *op);
void task_beat_stale(const struct op *op);
void task_heartbeat(const struct op *op);
void task_alive(const struct op *op);
void task_death_wait(const struct op *op);
void guest_setup(const struct op *op);
void guest_come(const struct op *op);
void guest_come_anew(const struct op *op);
void guest_go(const struct op *op);
void guest_lose(const struct op *op);
void guest_after(const struct op *op);
void slot_setup_agent_dead(const struct op *op);
void slot_setup(const struct op *op);
void slot_setup_dead_mutex(const struct op *op);
void slot_claim(const struct op *op);
void slot_claim_release(const struct op *op);
void slot_release(const struct op *op);
void slot_setup_spare_dead(const struct op *op);
void slot_scavenge(const struct op *op);

/* barriers, groups, events */
void barrier_setup_others(const struct op *op);
void barrier_setup_expired(const struct op *op);
void barrier_setup_passed(const struct op *op);
void barrier_arrive(const struct op *op);
void barrier_conflict(const struct op *op);
void barrier_cancel(const struct op *op);
void barrier_after(const struct op *op);
void group_setup(const struct op *op);
void group_setup_others_arrived(const struct op *op);
void group_setup_others_came(const struct op *op);
void group_setup_others_left(const struct op *op);
void group_create(const struct op *op);
void group_barrier(const struct op *op);
void group_allgather(const struct op *op);
void group_free(const struct op *op);
void group_after(const struct op *op);
void event_setup_full(const struct op *op);
void event_send(const struct op *op);
void event_read(const struct op *op);

/* exchanges of topologies */
void topology_setup_others(const struct op *op);
void topology_exchange(const struct op *op);
void topology_interfere(const struct op *op);
void topology_after(const struct op *op);

/* objects */
void call_setup(const struct op *op);
void call_setup_taken(const struct op *op);
void call_setup_asking(const struct op *op);
void call_setup_lent(const struct op *op);
void call_setup_taken_two(const struct op *op);
void call_setup_queued(const struct op *op);
void call_setup_place(const struct op *op);
void call_submit(const struct op *op);
void call_submit_large(const struct op *op);
void call_submit_waiting(const struct op *op);
void call_submit_placed(const struct op *op);
void call_seal(const struct op *op);
void call_take(const struct op *op);
void call_take_placed(const struct op *op);
void call_end(const struct op *op);
void call_forward(const struct op *op);
void call_fail(const struct op *op);
void call_cancel(const struct op *op);
void call_export(const struct op *op);
void call_open_place(const struct op *op);
void call_close_place(const struct op *op);
void call_drop(const struct op *op);
void call_after(const struct op *op);
void call_in_take(const struct op *op);
void call_in_submit(const struct op *op);
void call_in_cancel(const struct op *op);

#define QUEUE_OBJECT (MUSTER_QUEUE_INLINE_MAX + 8) /* a message that just has an object of its own */
void queue_setup(const struct op *op);
void queue_setup_anchor(const struct op *op);
void queue_setup_read(const struct op *op);
void queue_write(const struct op *op);
void queue_publish(const struct op *op);
void queue_read(const struct op *op);
void queue_create(const struct op *op);
void queue_open(const struct op *op);
void queue_close(const struct op *op);
void queue_after(const struct op *op);
void queue_in_churn(const struct op *op);
void queue_in_read(const struct op *op);
void queue_in_open(const struct op *op);
void members_begin(const struct op *op);
void members_setup(const struct op *op);
void members_setup_served(const struct op *op);
void members_propose(const struct op *op);
void members_setup_change(const struct op *op);
void members_setup_others_ready(const struct op *op);
void members_setup_others_done(const struct op *op);
void members_ready(const struct op *op);
void members_done(const struct op *op);
void members_cancel(const struct op *op);
void members_in_ready(const struct op *op);
void members_in_propose(const struct op *op);
void members_after(const struct op *op);
void members_setup_anew(const struct op *op);
void members_setup_wish(const struct op *op);
void members_wish(const struct op *op);
void members_take(const struct op *op);
void members_after_anew(const struct op *op);
void object_setup(const struct op *op);
void object_setup_large(const struct op *op);
void object_put(const struct op *op);
void object_create(const struct op *op);
void object_seal(const struct op *op);
void object_fail(const struct op *op);
void object_retain(const struct op *op);
void object_drop_shared(const struct op *op);
void object_drop_own(const struct op *op);
void object_drop_open(const struct op *op);
void object_drop_lone(const struct op *op);
void object_get(const struct op *op);
void object_after(const struct op *op);
void object_in_retain(const struct op *op);
void object_in_drop(const struct op *op);
void object_in_put(const struct op *op);
/* Put, get and drop by `who`; got by `to`, where that is a task. */
void crash_object_second(int who, int to);

void ps_setup(const struct op *op);
void ps_setup_pushed(const struct op *op);
void ps_push(const struct op *op);
void ps_rows(const struct op *op);
void ps_create(const struct op *op);
void ps_after(const struct op *op);
void ps_in_push(const struct op *op);
void ps_in_rows(const struct op *op);

#endif
