/*
 * bridge/core/modules.h: what the tables of the bridge (bridge/core/tables.c) are made of: each module, the frames that
 * it takes and the calls that it carries out. A new module adds its lines here and there.
 */
#ifndef MU_BRIDGE_CORE_MODULES_H
#define MU_BRIDGE_CORE_MODULES_H

#include <muster/event.h>
#include <muster/membership.h>

#include "bridge/core/control.h"
#include "bridge/core/core.h"

/* Most bytes of a frame that holds a value: with its key, and what goes before them. */
#define MU_FRAME_VALUE_MAX (MU_VALUE_MAX + MU_KEY_MAX + 4096u)
/* Slots of a host: what may stand for one in a frame is below. Threads' are taken from the lowest on, lanes (lanes.h)
 * from the highest: what is kept of each lies in two tables, which are as long as they must be. */
#define MU_FRAME_SLOTS      16384u
#define MU_SLOT_TABLE(slot) ((slot) < MU_FRAME_SLOTS / 2 ? 0u : 1u)
#define MU_SLOT_PLACE(slot) ((slot) < MU_FRAME_SLOTS / 2 ? (slot) : MU_FRAME_SLOTS - 1 - (slot))
#define MU_ACK_FROM         (1u << 31) /* in an ACK: of all slots from this one on */

/* calls.c, dispatch.c */
extern const struct mu_module mu_module_calls;
bool mu_take_call(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_take_answer(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_take_ack(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_op_sync(struct mu_core *core, const struct mu_request *r);

/* lanes.c */
extern const struct mu_module mu_module_lanes;

/* barrier_ops.c, mirror.c */
extern const struct mu_module mu_module_barriers;
bool mu_take_meeting(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_op_barrier_wait(struct mu_core *core, const struct mu_request *r);
bool mu_op_barrier_give_up(struct mu_core *core, const struct mu_request *r);
bool mu_op_barrier_cancel(struct mu_core *core, const struct mu_request *r);
bool mu_op_task_alive(struct mu_core *core, const struct mu_request *r);
/* Of the first, the second and the last of these. */
void mu_pending_call_abandoned(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number);
/* kv_ops.c */
bool mu_op_kv_change(struct mu_core *core, const struct mu_request *r);
bool mu_op_kv_delete(struct mu_core *core, const struct mu_request *r);
void mu_deletion_abandoned(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number);

/* members.c, owner.c, roster.c */
extern const struct mu_module mu_module_members;
#define MU_FRAME_RECORDS_MAX (8u + 8192u * (52u + 256u)) /* each a run of its own, with an error's words */
#define MU_FRAME_HOSTS_MIN   8u
#define MU_FRAME_HOSTS_MAX   (MU_HOSTS_MAX * (52u + 64u))
/* The host has been told all records as of this word of theirs. False: not yet all. */
bool mu_members_told(struct mu_core *core, uint32_t host, uint64_t *ret_word);
bool mu_take_records(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_take_hosts(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_take_to_owner(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_take_owner_says(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_op_error_report(struct mu_core *core, const struct mu_request *r);
bool mu_op_task_reset(struct mu_core *core, const struct mu_request *r);
bool mu_op_task_heartbeat(struct mu_core *core, const struct mu_request *r);
void mu_errand_abandoned(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number);

/* epochs.c */
extern const struct mu_module mu_module_epochs;
#define MU_FRAME_MEMBERSHIP_MIN 92u
#define MU_FRAME_MEMBERSHIP_MAX (2048u + 8u * MUSTER_MEMBERS_MAX)
bool mu_take_membership(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_op_membership(struct mu_core *core, const struct mu_request *r);

/* events.c */
extern const struct mu_module mu_module_events;
#define MU_FRAME_EVENTS_MAX ((256u << 10) + 28u + MUSTER_EVENT_MAX)
bool mu_take_events(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_take_events_from(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_take_events_taken(struct mu_core *core, uint32_t host, struct mu_unpack *u);
/* The host has been told all events before this one. False: not yet all. A follower tells of none: UINT64_MAX. */
bool mu_events_told(struct mu_core *core, uint32_t host, uint64_t *ret_next);
bool mu_op_event_send(struct mu_core *core, const struct mu_request *r);

/* copies.c, replica.c */
extern const struct mu_module mu_module_copies;
#define MU_FRAME_COPIES_MAX (8u << 20)
#define MU_FRAME_FORGET_MAX (2u << 20)
bool mu_take_copies(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_take_forget(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_op_kv_get(struct mu_core *core, const struct mu_request *r);
/* What the host was told last of the buckets with keys that it wants: how many; more than `most`: SIZE_MAX. */
uint64_t mu_copies_collections(struct mu_core *core); /* moves when it does */
size_t mu_copies_told(struct mu_core *core, uint32_t host, uint32_t *ret_buckets, uint64_t *ret_words, size_t most);
/* listing.c */
bool mu_op_kv_dir(struct mu_core *core, const struct mu_request *r);
bool mu_op_kv_count(struct mu_core *core, const struct mu_request *r);

/* ids.c */
extern const struct mu_module mu_module_ids;
bool mu_op_nccl_id(struct mu_core *core, const struct mu_request *r);

/* control.c */
extern const struct mu_module mu_module_control;
bool mu_take_control(struct mu_core *core, uint32_t host, struct mu_unpack *u);

/* object/objects.c, pulls.c */
extern const struct mu_module mu_module_objects;
#define MU_FRAME_OBJECT_MAX ((1u << 20) + 25u) /* a piece, and what goes before it */
bool mu_take_object(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_op_object_pull(struct mu_core *core, const struct mu_request *r);

/* groups.c, groups_lead.c */
extern const struct mu_module mu_module_groups;
bool mu_take_group(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_take_group_end(struct mu_core *core, uint32_t host, struct mu_unpack *u);
bool mu_op_group_open(struct mu_core *core, const struct mu_request *r);
void mu_op_group_abandoned(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number);
bool mu_op_group_close(struct mu_core *core, const struct mu_request *r);

#endif
