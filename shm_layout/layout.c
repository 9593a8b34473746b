/*
 * shm_layout/layout.c: the format as text, and its signature.
 *
 * One list of fields gives both: the text is compared with a golden copy in the tests; the signature is a hash of the
 * text and is stored in every segment, so that two builds which disagree about any offset, size or constant refuse
 * each other instead of misreading.
 */
#include "shm_layout/members.h"
#include "shm_layout/values.h"

#define FIELD(type, field)                                                                                             \
    {                                                                                                                  \
#type "." #field, offsetof(struct type, field), sizeof(((struct type *)0)->field)                              \
    }
#define SIZE(type)                                                                                                     \
    {                                                                                                                  \
        "sizeof " #type, sizeof(struct type), 0                                                                        \
    }
#define VALUE(name)                                                                                                    \
    {                                                                                                                  \
#name, (size_t)(name), 0                                                                                       \
    }

static const struct {
    const char *name;
    size_t a, b;
} rows[] = {
    VALUE(MU_LAYOUT_MAJOR),
    VALUE(MU_LINE),
    VALUE(MU_GRANULE),
    VALUE(MU_CHUNK),
    VALUE(MU_WORD_TAG_BITS),
    VALUE(MU_CLASSES),
    VALUE(MU_INTENT_REFS),
    VALUE(MU_WAIT_BUCKETS),
    VALUE(MU_PAGE_WORDS),
    VALUE(MU_ENTRY_WORDS),
    VALUE(MU_TASKS_PER_BLOCK),
    VALUE(MU_REF_DEEP),
    VALUE(MU_REF_HOLDS),
    {"sizeof pthread_mutex_t", sizeof(pthread_mutex_t), _Alignof(pthread_mutex_t)},
    SIZE(mu_header),
    FIELD(mu_header, magic),
    FIELD(mu_header, endian),
    FIELD(mu_header, major),
    FIELD(mu_header, minor),
    FIELD(mu_header, signature),
    FIELD(mu_header, total_bytes),
    FIELD(mu_header, run_id),
    FIELD(mu_header, boot_id),
    FIELD(mu_header, pid_namespace),
    FIELD(mu_header, time_namespace),
    FIELD(mu_header, uid),
    FIELD(mu_header, creator_pid),
    FIELD(mu_header, creator_start),
    FIELD(mu_header, created_unix_ns),
    FIELD(mu_header, hash_seed),
    FIELD(mu_header, heartbeat_timeout),
    FIELD(mu_header, num_tasks),
    FIELD(mu_header, num_slots),
    FIELD(mu_header, num_buckets),
    FIELD(mu_header, num_cells),
    FIELD(mu_header, num_events),
    FIELD(mu_header, num_chunks),
    FIELD(mu_header, num_system_chunks),
    FIELD(mu_header, flags),
    FIELD(mu_header, slots_offset),
    FIELD(mu_header, chunks_offset),
    FIELD(mu_header, events_offset),
    FIELD(mu_header, cells_offset),
    FIELD(mu_header, buckets_offset),
    FIELD(mu_header, heap_offset),
    FIELD(mu_header, beats_offset),
    FIELD(mu_header, trace_offset),
    FIELD(mu_header, trace_events),
    FIELD(mu_header, trace_names),
    FIELD(mu_header, trace_tsc),
    FIELD(mu_header, trace_ticks),
    FIELD(mu_header, trace_ns),
    FIELD(mu_header, trace_rate),
    FIELD(mu_header, job),
    FIELD(mu_header, host),
    FIELD(mu_header, hosts_offset),
    FIELD(mu_header, asks_offset),
    FIELD(mu_header, num_hosts),
    FIELD(mu_header, own_host),
    FIELD(mu_header, adopt_ns),
    FIELD(mu_header, objects_offset),
    FIELD(mu_header, num_objects),
    FIELD(mu_header, objects_high),
    FIELD(mu_header, num_units),
    FIELD(mu_header, units_offset),
    FIELD(mu_header, arena_offset),
    FIELD(mu_header, units_high),
    FIELD(mu_header, queue_offset),
    FIELD(mu_header, functions),
    FIELD(mu_header, queue_head),
    FIELD(mu_header, queue_tail),
    FIELD(mu_header, workers),
    FIELD(mu_header, queue_there),
    FIELD(mu_header, rescan),
    FIELD(mu_header, members),
    FIELD(mu_header, state),
    FIELD(mu_header, epoch),
    FIELD(mu_header, cluster),
    FIELD(mu_header, event_tail),
    FIELD(mu_header, slots_high),
    FIELD(mu_header, wanted),
    FIELD(mu_header, bell),
    FIELD(mu_header, bridge),
    SIZE(mu_host),
    FIELD(mu_host, first_task),
    FIELD(mu_host, num_tasks),
    FIELD(mu_host, name),
    FIELD(mu_host, state),
    FIELD(mu_host, heard),
    FIELD(mu_host, rtt),
    FIELD(mu_host, bytes_in),
    FIELD(mu_host, frames_out),
    FIELD(mu_host, asking),
    FIELD(mu_host, agent_pid),
    VALUE(MU_BRIDGE(1, 2, 3)),
    VALUE(MU_DONE_ID(1, 2)),
    VALUE(MU_DONE_WORDS),
    SIZE(mu_slot),
    FIELD(mu_slot, word),
    FIELD(mu_slot, task),
    FIELD(mu_slot, liveness),
    FIELD(mu_slot, pid_namespace),
    FIELD(mu_slot, ring),
    FIELD(mu_slot, heartbeat),
    FIELD(mu_slot, group_barriers),
    FIELD(mu_slot, barrier_waits),
    FIELD(mu_slot, act),
    FIELD(mu_slot, news),
    FIELD(mu_slot, olds),
    FIELD(mu_slot, pin),
    FIELD(mu_slot, pin_object),
    FIELD(mu_slot, kv_writes),
    FIELD(mu_slot, named_barriers),
    FIELD(mu_slot, deaths),
    FIELD(mu_slot, burials),
    FIELD(mu_slot, other_waits),
    FIELD(mu_slot, wait_since),
    FIELD(mu_slot, wait_text),
    FIELD(mu_slot, kv_waits),
    FIELD(mu_slot, kv_wait_ns),
    FIELD(mu_slot, barrier_wait_ns),
    FIELD(mu_slot, op),
    FIELD(mu_slot, op_object),
    FIELD(mu_slot, op_record),
    FIELD(mu_slot, ledger),
    FIELD(mu_slot, heir),
    FIELD(mu_slot, member),
    FIELD(mu_slot, failed),
    FIELD(mu_slot, worker),
    FIELD(mu_slot, calls),
    FIELD(mu_slot, bell),
    VALUE(MU_LEDGER_CLOSED(1)),
    VALUE(MU_HEIR(1, 2, 3)),
    SIZE(mu_object_root),
    FIELD(mu_object_root, ref),
    FIELD(mu_object_root, state),
    FIELD(mu_object_root, bytes),
    FIELD(mu_object_root, about),
    FIELD(mu_object_root, maker),
    FIELD(mu_object_root, waiting),
    SIZE(mu_bundle),
    SIZE(mu_call_data),
    SIZE(mu_function),
    VALUE(MU_QUEUE_BYTES),
    VALUE(MU_OBJECT_REF(1, 2, 3)),
    VALUE(MU_OBJECTS_RANGE),
    VALUE(MU_OBJECT_STATE(1, 2, MU_OBJECT_ERROR)),
    VALUE(MU_OBJECT_ABOUT(1, 2, 3)),
    VALUE(MU_OBJECT_MAKER(1, 2)),
    VALUE(MU_OBJECT_PAD),
    VALUE(MU_OBJECT_SMALL),
    VALUE(MU_OBJECT_MADE(1, 2)),
    VALUE(MU_UNIT),
    VALUE(MU_UNITS_RANGE),
    VALUE(MU_UNIT_BACKED),
    VALUE(MU_EXTENT_BYTES),
    VALUE(MU_HOLD_OP(1, MU_HOLD_DROP)),
    VALUE(MU_HOLD_MARK(1, 2)),
    VALUE(MU_HOLD_CLAIM(1, 2)),
    SIZE(mu_block),
    FIELD(mu_block, word),
    FIELD(mu_block, meta),
    SIZE(mu_task_record),
    FIELD(mu_task_record, state),
    FIELD(mu_task_record, cause),
    FIELD(mu_task_record, code),
    FIELD(mu_task_record, flags),
    FIELD(mu_task_record, pid),
    FIELD(mu_task_record, attempt),
    FIELD(mu_task_record, start),
    FIELD(mu_task_record, incarnation),
    FIELD(mu_task_record, since),
    FIELD(mu_task_record, slot),
    FIELD(mu_task_record, slot_incarnation),
    FIELD(mu_task_record, version),
    SIZE(mu_cluster_root),
    FIELD(mu_cluster_root, version),
    FIELD(mu_cluster_root, first_error),
    FIELD(mu_cluster_root, errors),
    FIELD(mu_cluster_root, ended),
    SIZE(mu_members),
    FIELD(mu_members, epoch),
    FIELD(mu_members, change),
    FIELD(mu_members, deadline),
    FIELD(mu_members, since),
    FIELD(mu_members, phase),
    FIELD(mu_members, outcome),
    FIELD(mu_members, count),
    FIELD(mu_members, least),
    FIELD(mu_members, most),
    FIELD(mu_members, flags),
    FIELD(mu_members, roles),
    FIELD(mu_members, text),
    SIZE(mu_member_row),
    FIELD(mu_member_row, rank),
    FIELD(mu_member_row, next),
    FIELD(mu_member_row, role),
    FIELD(mu_member_row, flags),
    FIELD(mu_member_row, attempt),
    SIZE(mu_area),
    FIELD(mu_area, arrived),
    FIELD(mu_area, wish),
    FIELD(mu_area, sign),
    FIELD(mu_area, sign[0].given),
    SIZE(mu_shortcut),
    FIELD(mu_shortcut, state),
    FIELD(mu_shortcut, ask),
    FIELD(mu_shortcut, port),
    FIELD(mu_shortcut, taken),
    FIELD(mu_shortcut, sight),
    FIELD(mu_shortcut, told),
    FIELD(mu_shortcut, cluster),
    FIELD(mu_shortcut, events),
    FIELD(mu_shortcut, watched),
    FIELD(mu_shortcut, host),
    FIELD(mu_shortcut, own),
    FIELD(mu_shortcut, peer),
    FIELD(mu_shortcut, key_in),
    FIELD(mu_shortcut, key_out),
    FIELD(mu_shortcut, bucket),
    SIZE(mu_event_record),
    FIELD(mu_event_record, sequence),
    FIELD(mu_event_record, time_ns),
    FIELD(mu_event_record, task),
    FIELD(mu_event_record, type),
    FIELD(mu_event_record, call),
    FIELD(mu_event_record, number),
    SIZE(mu_ring),
    FIELD(mu_ring, head),
    FIELD(mu_ring, names),
    SIZE(mu_ring_name),
    FIELD(mu_ring_name, text),
    SIZE(mu_ring_event),
    FIELD(mu_ring_event, what),
    FIELD(mu_ring_event, object),
    FIELD(mu_ring_event, value),
    VALUE(MU_TRACE(1, 2, 3, 4)),
    VALUE(MU_TRACE_CHANGE(1, 2, 3, 4)),
    VALUE(MU_TRACE_KINDS),
    VALUE(MU_TRACE_PAGE),
    VALUE(MU_TASK_RECOVERABLE),
    VALUE(MU_TASK_TRANSIENT),
    VALUE(MU_TASK_GUEST),
    VALUE(MU_TASK_REMOTE),
    VALUE(MU_TASK_SAID_CONNECTED),
    VALUE(MU_TASK_ENDED),
    VALUE(MU_TASK_HOW_UNKNOWN),
    VALUE(MU_TASK_HOW_FLAGS(0x1234)),
    SIZE(mu_barrier_head),
    FIELD(mu_barrier_head, counter),
    FIELD(mu_barrier_head, deadline),
    FIELD(mu_barrier_head, since),
    FIELD(mu_barrier_head, opened),
    FIELD(mu_barrier_head, version),
    FIELD(mu_barrier_head, passed),
    FIELD(mu_barrier_head, code),
    FIELD(mu_barrier_head, first),
    FIELD(mu_barrier_head, num),
    FIELD(mu_barrier_head, all),
    FIELD(mu_barrier_head, text_len),
    FIELD(mu_barrier_head, history),
    VALUE(MU_MARK_ARRIVED),
    VALUE(MU_MARK_UNTOLD),
    VALUE(MU_MARK(1, 1)),
    SIZE(mu_group_head),
    SIZE(mu_group_member),
    FIELD(mu_group_member, flags),
    FIELD(mu_group_member, incarnation),
    VALUE(MU_MEMBER_THERE),
    VALUE(MU_MEMBER_LEFT),
    SIZE(mu_alive_head),
    FIELD(mu_alive_head, count),
    SIZE(mu_alive_row),
    FIELD(mu_alive_row, incarnation),
};

static char text[8192];
static uint64_t signature = 0xcbf29ce484222325ull;

/* By hand: every process composes it when it joins, and printf() would take longer than all the rest of joining. */
static size_t word_put(size_t at, const char *word, char end)
{
    while (*word && at < sizeof text - 2)
        text[at++] = *word++;
    text[at++] = end;
    return at;
}

static size_t put_number(size_t at, size_t number, char end)
{
    char digits[24], *first = digits + sizeof digits - 1;

    *first = 0;
    do
        *--first = (char)('0' + number % 10);
    while (number /= 10);
    return word_put(at, first, end);
}

static void text_compose(void)
{
    const uint32_t granules[] = MU_CLASS_GRANULES;
    size_t n = 0;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        n = put_number(put_number(word_put(n, rows[i].name, ' '), rows[i].a, ' '), rows[i].b, '\n');
    for (uint32_t i = 0; i < MU_CLASSES; i++)
        n = put_number(put_number(word_put(n, "class", ' '), i, ' '), granules[i], '\n');
    for (const char *p = text; *p; p++)
        signature = (signature ^ (unsigned char)*p) * 0x100000001b3ull;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

const char *mu_layout_text(void)
{
    pthread_once(&once, text_compose);
    return text;
}

uint64_t mu_layout_signature(void)
{
    pthread_once(&once, text_compose);
    return signature;
}
