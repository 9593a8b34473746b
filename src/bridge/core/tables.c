/*
 * bridge/core/tables.c: the bridge's three tables: modules, frames, and the calls that tasks make.
 *
 * src/bridge/PROTOCOL.md has a section for each frame and each call; a test compares them with these rows.
 */
#include "bridge/core/modules.h"

static const struct mu_module *const modules[MU_CORE_MODULES] = {
    [MU_M_CALLS] = &mu_module_calls,     [MU_M_COPIES] = &mu_module_copies, [MU_M_BARRIERS] = &mu_module_barriers,
    [MU_M_MEMBERS] = &mu_module_members, [MU_M_EVENTS] = &mu_module_events, [MU_M_GROUPS] = &mu_module_groups,
    [MU_M_CONTROL] = &mu_module_control, [MU_M_IDS] = &mu_module_ids,       [MU_M_LANES] = &mu_module_lanes,
    [MU_M_OBJECTS] = &mu_module_objects, [MU_M_EPOCHS] = &mu_module_epochs,
};

const struct mu_frame_kind mu_frame_kinds[] = {
    {MU_FRAME_CALL, "CALL", MU_FROM_FOLLOWER, 37, MU_FRAME_VALUE_MAX, mu_take_call},
    {MU_FRAME_ANSWER, "ANSWER", MU_FROM_LEADER, 21, MU_FRAME_VALUE_MAX, mu_take_answer},
    {MU_FRAME_ACK, "ACK", MU_FROM_FOLLOWER, 12, 12 * MU_FRAME_SLOTS, mu_take_ack},
    {MU_FRAME_COPIES, "COPIES", MU_FROM_LEADER, 5, MU_FRAME_COPIES_MAX, mu_take_copies},
    {MU_FRAME_FORGET, "FORGET", MU_FROM_FOLLOWER, 8, MU_FRAME_FORGET_MAX, mu_take_forget},
    {MU_FRAME_MEETING, "MEETING", MU_FROM_LEADER, 1, 2u << 20, mu_take_meeting},
    {MU_FRAME_RECORDS, "RECORDS", MU_FROM_BOTH, 8, MU_FRAME_RECORDS_MAX, mu_take_records},
    {MU_FRAME_HOSTS, "HOSTS", MU_FROM_BOTH, MU_FRAME_HOSTS_MIN, MU_FRAME_HOSTS_MAX, mu_take_hosts},
    {MU_FRAME_TO_OWNER, "TO_OWNER", MU_FROM_LEADER, 43, 43 + 256, mu_take_to_owner},
    {MU_FRAME_OWNER_SAYS, "OWNER_SAYS", MU_FROM_FOLLOWER, 24, 24 + 1024, mu_take_owner_says},
    {MU_FRAME_MEMBERSHIP, "MEMBERSHIP", MU_FROM_LEADER, MU_FRAME_MEMBERSHIP_MIN, MU_FRAME_MEMBERSHIP_MAX,
     mu_take_membership},
    {MU_FRAME_EVENTS, "EVENTS", MU_FROM_LEADER, 28, MU_FRAME_EVENTS_MAX, mu_take_events},
    {MU_FRAME_EVENTS_FROM, "EVENTS_FROM", MU_FROM_FOLLOWER, 8, 8, mu_take_events_from},
    {MU_FRAME_EVENTS_TAKEN, "EVENTS_TAKEN", MU_FROM_FOLLOWER, 8, 8, mu_take_events_taken},
    {MU_FRAME_GROUP, "GROUP", MU_FROM_BOTH, 18, MU_FRAME_VALUE_MAX, mu_take_group},
    {MU_FRAME_GROUP_END, "GROUP_END", MU_FROM_BOTH, 14, 1024, mu_take_group_end},
    {MU_FRAME_CONTROL, "CONTROL", MU_FROM_BOTH, 36, 36 + MU_CONTROL_MAX, mu_take_control},
    {MU_FRAME_OBJECT, "OBJECT", MU_FROM_BOTH, 17, MU_FRAME_OBJECT_MAX, mu_take_object},
};
const size_t mu_frame_kinds_count = sizeof mu_frame_kinds / sizeof *mu_frame_kinds;

const struct mu_op_kind mu_op_kinds[] = {
    {MU_OP_SYNC, "sync", mu_op_sync, NULL},
    {MU_OP_KV_GET, "kv get", mu_op_kv_get, NULL},
    {MU_OP_KV_DIR, "kv dir", mu_op_kv_dir, NULL},
    {MU_OP_KV_COUNT, "kv count", mu_op_kv_count, NULL},
    {MU_OP_BARRIER_WAIT, "barrier wait", mu_op_barrier_wait, mu_pending_call_abandoned},
    {MU_OP_BARRIER_GIVE_UP, "barrier give up", mu_op_barrier_give_up, mu_pending_call_abandoned},
    {MU_OP_BARRIER_CANCEL, "barrier cancel", mu_op_barrier_cancel, NULL},
    {MU_OP_TASK_ALIVE, "task alive", mu_op_task_alive, mu_pending_call_abandoned},
    {MU_OP_ERROR_REPORT, "error report", mu_op_error_report, NULL},
    {MU_OP_TASK_RESET, "task reset", mu_op_task_reset, mu_errand_abandoned},
    {MU_OP_TASK_HEARTBEAT, "task heartbeat", mu_op_task_heartbeat, mu_errand_abandoned},
    {MU_OP_MEMBERSHIP, "membership", mu_op_membership, NULL},
    {MU_OP_EVENT_SEND, "event send", mu_op_event_send, NULL},
    {MU_OP_KV_INSERT, "kv insert", mu_op_kv_change, NULL},
    {MU_OP_KV_SET, "kv set", mu_op_kv_change, NULL},
    {MU_OP_KV_COMPARE_AND_SET, "kv compare and set", mu_op_kv_change, NULL},
    {MU_OP_KV_INCREMENT, "kv increment", mu_op_kv_change, NULL},
    {MU_OP_KV_APPEND, "kv append", mu_op_kv_change, NULL},
    {MU_OP_KV_DELETE, "kv delete", mu_op_kv_delete, mu_deletion_abandoned},
    {MU_OP_NCCL_ID, "nccl id", mu_op_nccl_id, NULL},
    {MU_OP_GROUP_OPEN, "group open", mu_op_group_open, mu_op_group_abandoned},
    {MU_OP_GROUP_CLOSE, "group close", mu_op_group_close, NULL},
    {MU_OP_OBJECT_PULL, "object pull", mu_op_object_pull, NULL},
};
const size_t mu_op_kinds_count = sizeof mu_op_kinds / sizeof *mu_op_kinds;

const struct mu_core_tables mu_bridge_tables = {
    .modules = modules,
    .frames = mu_frame_kinds,
    .num_frames = sizeof mu_frame_kinds / sizeof *mu_frame_kinds,
    .ops = mu_op_kinds,
    .num_ops = sizeof mu_op_kinds / sizeof *mu_op_kinds,
};
