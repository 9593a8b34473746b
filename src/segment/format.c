/*
 * segment/format.c: laying out a segment in memory, and believing one found there.
 *
 * Sections in order: header, slots, heartbeats, chunk words, event words, cell words, bucket words, hosts and calls
 * (where there are several hosts), heap, object words, unit words, trace rings, arena.
 * The header is copied out once, checked as a whole, and its numbers kept in private memory; nothing is read from the
 * shared header again but the atomic words.
 */
#include "segment/format.h"

#include <ctype.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "segment/trace.h"

#define DEFAULT_BUCKETS   32768u
#define DEFAULT_EVENTS    1024u
#define DEFAULT_HEAP      (1ull << 30)
#define DEFAULT_HEARTBEAT 10000000000ull
#define DEFAULT_SLOTS_MAX 8192u
#define DEFAULT_THREADS   16u
#define SLOTS_BESIDE      64u /* the agent's, and of commands and tools */
#define MAX_BUCKETS       (1u << 26)
#define MAX_EVENTS        (1u << 20)
#define MAX_TASKS         8192u
#define MAX_HEAP          (8ull << 30)
#define MIN_HEAP          (1ull << 20)
#define SECTION           4096u

enum muster_status mu_format_job(const char *job)
{
    size_t n = job ? strlen(job) : 0;

    if (!n)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "no job name (set MUSTER_JOB, or give one)");
    if (n > 200)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the job name is %zu bytes long; 200 is the most", n);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)job[i]) && !strchr("._-", job[i]))
            return mu_fail(
                MUSTER_INVALID_ARGUMENT,
                "the job name has a byte 0x%02x at position %zu; letters, digits, '.', '_' and '-' are allowed",
                (unsigned char)job[i], i);
    if (job[0] == '.')
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the job name starts with a dot");
    return MUSTER_OK;
}

static uint32_t power_of_two(uint32_t n)
{
    uint32_t p = 1;

    while (p < n)
        p *= 2;
    return p;
}

static uint64_t align_to(uint64_t n, uint64_t a)
{
    return (n + a - 1) / a * a;
}

/*
 * Chunks kept for task records: roots, blocks of records, messages, and one of each in flight. For many tasks all in
 * error that is about 480 bytes a task; a chunk holds those of 128. Behind them the deletes' reserve, claimed from the
 * start for blocks of the largest class, which hold any page.
 */
enum { RESERVE_CHUNKS = 2 };

static uint32_t system_chunks(uint32_t tasks)
{
    return 4 + tasks / 128 + RESERVE_CHUNKS;
}

uint32_t mu_format_slots(uint32_t tasks, uint32_t threads)
{
    uint64_t slots = tasks * (threads + 1ull) + SLOTS_BESIDE;

    return slots < MU_SLOTS_MAX ? (uint32_t)slots : MU_SLOTS_MAX;
}

/* Room for DEFAULT_THREADS of each task of this host, bounded so that half of the numbers of slots are left to an
 * agent's calls (bridge/call/lanes.h), and for two of each task of the job. */
static uint32_t slots_by_default(uint32_t tasks, uint32_t tasks_here)
{
    uint32_t least = mu_format_slots(tasks, 1), slots = mu_format_slots(tasks_here, DEFAULT_THREADS);

    slots = slots < DEFAULT_SLOTS_MAX ? slots : DEFAULT_SLOTS_MAX;
    return slots > least ? slots : least;
}

/* As many as the heap can hold: an object has two blocks of 64 bytes at least. */
static uint32_t num_objects(uint32_t chunks)
{
    uint64_t most = (uint64_t)chunks * MU_CHUNK_GRANULES / 2;

    most = align_to(most, MU_OBJECTS_RANGE);
    return most < MU_OBJECTS_MAX ? (uint32_t)most : MU_OBJECTS_MAX;
}

uint64_t mu_format_object_bytes(void)
{
    uint64_t most = (uint64_t)MU_UNITS_MAX * MU_UNIT, bytes;
    struct sysinfo info;

    if (sysinfo(&info))
        return DEFAULT_HEAP;
    bytes = (uint64_t)info.totalram * info.mem_unit;
    return bytes < most ? bytes : most;
}

static enum muster_status config_apply(const struct muster_segment_config *c, uint32_t tasks_here, struct mu_header *h)
{
    uint64_t heap = c->heap_bytes ? c->heap_bytes : DEFAULT_HEAP;

    if (!c->num_tasks || c->num_tasks > MAX_TASKS)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%u tasks; a job has 1 to %u", c->num_tasks, MAX_TASKS);
    if (c->num_slots > MU_SLOTS_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%u slots; %u is the most", c->num_slots, MU_SLOTS_MAX);
    if (c->num_buckets > MAX_BUCKETS || c->num_events > MAX_EVENTS)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%u buckets, %u events; %u and %u are the most", c->num_buckets,
                       c->num_events, MAX_BUCKETS, MAX_EVENTS);
    if (heap < MIN_HEAP || heap > MAX_HEAP)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a heap of %llu bytes; 1 MiB to 8 GiB is possible",
                       (unsigned long long)heap);
    if (c->object_bytes > (uint64_t)MU_UNITS_MAX * MU_UNIT)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%llu bytes for objects; 16 TiB is the most",
                       (unsigned long long)c->object_bytes);
    if (c->trace_events > MU_TRACE_EVENTS_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%u events of a thread's trace; %u is the most", c->trace_events,
                       MU_TRACE_EVENTS_MAX);
    h->num_tasks = c->num_tasks;
    h->num_slots = (c->num_slots ? c->num_slots : slots_by_default(c->num_tasks, tasks_here)) + MU_SLOTS_RESERVED;
    h->num_buckets = power_of_two(c->num_buckets ? c->num_buckets : DEFAULT_BUCKETS);
    h->num_cells = power_of_two(c->num_tasks < 512 ? 1024 : 2 * c->num_tasks);
    if (h->num_cells > h->num_buckets)
        h->num_cells = h->num_buckets;
    h->num_events = power_of_two(c->num_events ? c->num_events : DEFAULT_EVENTS);
    h->num_system_chunks = system_chunks(c->num_tasks);
    h->num_chunks = (uint32_t)(heap / MU_CHUNK) + h->num_system_chunks;
    if (h->num_chunks > MU_INDEX_MAX / MU_CHUNK_GRANULES)
        h->num_chunks = MU_INDEX_MAX / MU_CHUNK_GRANULES;
    h->num_objects = num_objects(h->num_chunks);
    h->num_units = (uint32_t)((c->object_bytes + MU_UNIT - 1) / MU_UNIT);
    h->heartbeat_timeout = c->heartbeat_timeout_ns ? c->heartbeat_timeout_ns : DEFAULT_HEARTBEAT;
    return MUSTER_OK;
}

static enum muster_status apply_hosts(const struct mu_hosts_config *c, struct mu_header *h)
{
    uint64_t tasks = 0;

    if (c->num_hosts < 2 || c->num_hosts > MU_HOSTS_MAX || c->host >= c->num_hosts)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "host %u of %u; a job has 2 to %u hosts", c->host, c->num_hosts,
                       MU_HOSTS_MAX);
    for (uint32_t i = 0; i < c->num_hosts; i++)
        tasks += c->num_tasks[i];
    if (tasks != h->num_tasks)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the hosts have %llu tasks, the job %u", (unsigned long long)tasks,
                       h->num_tasks);
    h->num_hosts = c->num_hosts;
    h->own_host = c->host;
    h->adopt_ns = c->adopt_ns ? c->adopt_ns : MU_ADOPT_NS;
    return MUSTER_OK;
}

static uint64_t asks_bytes(uint32_t slots)
{
    return ((uint64_t)slots + 63) / 64 * 8;
}

enum muster_status mu_format_plan(const char *job, const struct muster_segment_config *config,
                                  struct mu_header *ret_header)
{
    return mu_format_plan_hosts(job, config, NULL, ret_header);
}

/* Where the sections lie; of what there is none, nowhere. */
static void place_sections(struct mu_header *h)
{
    h->slots_offset = MU_HEADER_SIZE;
    h->beats_offset = align_to(h->slots_offset + (uint64_t)h->num_slots * sizeof(struct mu_slot), SECTION);
    h->chunks_offset = align_to(h->beats_offset + (uint64_t)h->num_tasks * 8, SECTION);
    h->events_offset = align_to(h->chunks_offset + (uint64_t)h->num_chunks * 4, SECTION);
    h->cells_offset = align_to(h->events_offset + (uint64_t)h->num_events * 8, SECTION);
    h->buckets_offset = align_to(h->cells_offset + (uint64_t)h->num_cells * 8, SECTION);
    h->heap_offset = align_to(h->buckets_offset + (uint64_t)h->num_buckets * 8, SECTION);
    if (h->num_hosts) {
        h->hosts_offset = h->heap_offset;
        h->asks_offset = align_to(h->hosts_offset + (uint64_t)h->num_hosts * sizeof(struct mu_host), SECTION);
        h->heap_offset = align_to(h->asks_offset + asks_bytes(h->num_slots), SECTION);
    }
    h->objects_offset = h->heap_offset + (uint64_t)h->num_chunks * MU_CHUNK;
    h->queue_offset = h->objects_offset + (uint64_t)h->num_objects * 8;
    h->total_bytes = align_to(h->queue_offset + MU_QUEUE_BYTES, SECTION);
    if (h->num_units) {
        h->units_offset = align_to(h->total_bytes, SECTION);
        h->total_bytes = align_to(h->units_offset + (uint64_t)h->num_units * 8, SECTION);
    }
}

enum muster_status mu_format_plan_hosts(const char *job, const struct muster_segment_config *config,
                                        const struct mu_hosts_config *hosts, struct mu_header *ret_header)
{
    struct mu_header *h = ret_header;
    enum muster_status status = mu_format_job(job);

    memset(h, 0, sizeof *h);
    if (!status)
        status = config_apply(
            config, hosts && hosts->host < hosts->num_hosts ? hosts->num_tasks[hosts->host] : config->num_tasks, h);
    if (!status && hosts)
        status = apply_hosts(hosts, h);
    if (status)
        return status;
    h->magic = MU_MAGIC;
    h->endian = MU_ENDIAN;
    h->major = MU_LAYOUT_MAJOR;
    h->minor = MU_LAYOUT_MINOR;
    h->signature = mu_layout_signature();
    place_sections(h);
    if (config->trace_events)
        mu_trace_plan(h, power_of_two(config->trace_events));
    if (h->num_units) {
        h->arena_offset = align_to(h->total_bytes, MU_ARENA_ALIGN);
        h->total_bytes = h->arena_offset + (uint64_t)h->num_units * MU_UNIT;
    }
    mu_random(h->run_id, sizeof h->run_id);
    if (hosts && (hosts->run_id[0] || hosts->run_id[1]))
        memcpy(h->run_id, hosts->run_id, sizeof h->run_id);
    mu_random(&h->hash_seed, sizeof h->hash_seed);
    mu_boot_id(h->boot_id);
    h->pid_namespace = mu_namespace("pid");
    h->time_namespace = mu_namespace("time");
    h->uid = (uint32_t)geteuid();
    h->creator_pid = (uint32_t)getpid();
    h->creator_start = mu_process_start(getpid());
    h->created_unix_ns = mu_unix_now();
    h->flags = (config->memfd ? MU_FLAG_MEMFD : 0) | (config->listened ? MU_FLAG_LISTENED : 0);
    memcpy(h->job, job, strlen(job));
    if (gethostname(h->host, sizeof h->host - 1))
        memcpy(h->host, "localhost", 10);
    return MUSTER_OK;
}

uint64_t mu_format_committed(const struct mu_header *header)
{
    return header->heap_offset + (uint64_t)header->num_system_chunks * MU_CHUNK;
}

uint64_t mu_format_written(const struct mu_header *header)
{
    return header->chunks_offset + align_to((uint64_t)header->num_system_chunks * 4, SECTION);
}

void mu_format_write(uint8_t *base, const struct mu_header *header)
{
    struct mu_header *h = (struct mu_header *)base;
    struct mu_slot *slots = (struct mu_slot *)(base + header->slots_offset);
    mu_a32 *chunks = (mu_a32 *)(base + header->chunks_offset);
    pthread_mutexattr_t attr;

    memcpy(base, header, sizeof *header);
    for (uint32_t i = 1; i <= RESERVE_CHUNKS; i++) /* release: as below */
        mu_store32_release(&chunks[header->num_system_chunks - i], MU_CLASSES | MU_CHUNK_SYSTEM);
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    for (uint32_t i = 0; i < header->num_slots; i++)
        pthread_mutex_init(&slots[i].liveness, &attr);
    pthread_mutexattr_destroy(&attr);
    /* the segment has no name yet, so these orders are for the linking that follows */
    mu_store32_release(&h->epoch, 1);
    mu_store32_release(&h->state, MU_OPEN);
}

void mu_format_write_hosts(uint8_t *base, const struct mu_header *header, const struct mu_hosts_config *config)
{
    struct mu_host *hosts = (struct mu_host *)(base + header->hosts_offset);
    uint32_t first = 0;

    for (uint32_t i = 0; i < config->num_hosts; i++) {
        hosts[i].first_task = first;
        hosts[i].num_tasks = config->num_tasks[i];
        first += config->num_tasks[i];
    }
}

static enum muster_status format_corrupt(const char *name, const char *what)
{
    return mu_fail(MUSTER_DATA_LOSS, "%s is not a sound segment: %s", name, what);
}

static bool section_check(uint64_t offset, uint64_t bytes, uint64_t *end, uint64_t total)
{
    if (offset % SECTION || offset < *end || offset > total || bytes > total - offset)
        return false;
    *end = offset + bytes;
    return true;
}

static bool is_power(uint32_t n, uint32_t most)
{
    return n && n <= most && (n & (n - 1)) == 0;
}

static bool sections_fit(const struct mu_header *h)
{
    uint64_t end = MU_HEADER_SIZE;

    return section_check(h->slots_offset, (uint64_t)h->num_slots * sizeof(struct mu_slot), &end, h->total_bytes) &&
           section_check(h->beats_offset, (uint64_t)h->num_tasks * 8, &end, h->total_bytes) &&
           section_check(h->chunks_offset, (uint64_t)h->num_chunks * 4, &end, h->total_bytes) &&
           section_check(h->events_offset, (uint64_t)h->num_events * 8, &end, h->total_bytes) &&
           section_check(h->cells_offset, (uint64_t)h->num_cells * 8, &end, h->total_bytes) &&
           section_check(h->buckets_offset, (uint64_t)h->num_buckets * 8, &end, h->total_bytes) &&
           (!h->num_hosts ||
            (section_check(h->hosts_offset, (uint64_t)h->num_hosts * sizeof(struct mu_host), &end, h->total_bytes) &&
             section_check(h->asks_offset, asks_bytes(h->num_slots), &end, h->total_bytes))) &&
           section_check(h->heap_offset, (uint64_t)h->num_chunks * MU_CHUNK, &end, h->total_bytes) &&
           section_check(h->objects_offset, (uint64_t)h->num_objects * 8, &end, h->total_bytes) &&
           section_check(h->queue_offset, MU_QUEUE_BYTES, &end, h->total_bytes) &&
           (!h->num_units || section_check(h->units_offset, (uint64_t)h->num_units * 8, &end, h->total_bytes)) &&
           (!h->trace_events ||
            section_check(h->trace_offset,
                          (uint64_t)h->num_slots * mu_trace_ring_bytes(h->trace_events, h->trace_names), &end,
                          h->total_bytes)) &&
           (!h->num_units || section_check(h->arena_offset, (uint64_t)h->num_units * MU_UNIT, &end, h->total_bytes));
}

enum muster_status mu_format_check(const struct mu_header *header, uint64_t file_bytes, const char *name,
                                   struct muster_segment *seg)
{
    const struct mu_header *h = header;

    if (h->magic != MU_MAGIC)
        return format_corrupt(name, h->magic ? "wrong magic number" : "no magic number (half-written?)");
    if (h->endian != MU_ENDIAN)
        return format_corrupt(name, "other byte order");
    if (h->major != MU_LAYOUT_MAJOR)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "%s has layout version %u.%u, this muster (%s) reads %u.%u", name,
                       h->major, h->minor, muster_version(), MU_LAYOUT_MAJOR, MU_LAYOUT_MINOR);
    if (h->signature != mu_layout_signature())
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "%s has layout %u.%u with signature %016llx, this muster (%s) has %016llx: built differently",
                       name, h->major, h->minor, (unsigned long long)h->signature, muster_version(),
                       (unsigned long long)mu_layout_signature());
    if (file_bytes < h->total_bytes)
        return mu_fail(MUSTER_DATA_LOSS, "%s is truncated: %llu of %llu bytes are left", name,
                       (unsigned long long)file_bytes, (unsigned long long)h->total_bytes);
    if (!h->num_tasks || h->num_tasks > MAX_TASKS || h->num_slots <= MU_SLOTS_RESERVED ||
        h->num_slots > MU_SLOTS_MAX + MU_SLOTS_RESERVED)
        return format_corrupt(name, "impossible number of tasks or slots");
    if (!is_power(h->num_buckets, MAX_BUCKETS) || !is_power(h->num_cells, MAX_BUCKETS) ||
        !is_power(h->num_events, MAX_EVENTS))
        return format_corrupt(name, "impossible number of buckets, cells or events");
    if (!h->num_chunks || h->num_chunks > MU_INDEX_MAX / MU_CHUNK_GRANULES || h->num_system_chunks > h->num_chunks)
        return format_corrupt(name, "impossible number of chunks");
    if (!h->num_objects || h->num_objects > MU_OBJECTS_MAX || h->num_objects % MU_OBJECTS_RANGE)
        return format_corrupt(name, "impossible number of objects");
    if (h->num_units > MU_UNITS_MAX)
        return format_corrupt(name, "impossible number of units");
    if (h->trace_events &&
        (!is_power(h->trace_events, MU_TRACE_EVENTS_MAX) || !is_power(h->trace_names, MU_TRACE_EVENTS_MAX)))
        return format_corrupt(name, "impossible number of events or names of traces");
    if (h->num_hosts && (h->num_hosts < 2 || h->num_hosts > MU_HOSTS_MAX || h->own_host >= h->num_hosts))
        return format_corrupt(name, "impossible number of hosts");
    if (!sections_fit(h))
        return format_corrupt(name, "sections overlap or leave the file");
    if (!memchr(h->job, 0, sizeof seg->job) || mu_format_job(h->job) || !memchr(h->host, 0, sizeof h->host))
        return format_corrupt(name, "impossible job or host name");
    seg->size = h->num_units ? h->arena_offset : h->total_bytes;
    seg->file_bytes = h->total_bytes;
    seg->num_tasks = h->num_tasks;
    seg->num_slots = h->num_slots;
    seg->reserved_slots = MU_SLOTS_RESERVED;
    seg->num_buckets = h->num_buckets;
    seg->num_cells = h->num_cells;
    seg->num_events = h->num_events;
    seg->num_chunks = h->num_chunks;
    seg->num_system_chunks = h->num_system_chunks;
    seg->num_objects = h->num_objects;
    seg->num_units = h->num_units;
    seg->arena_offset = h->arena_offset;
    seg->num_hosts = h->num_hosts ? h->num_hosts : 1;
    seg->host = h->num_hosts ? h->own_host : 0;
    seg->listened = h->num_hosts || (h->flags & MU_FLAG_LISTENED);
    seg->first_task = 0;
    seg->local_tasks = h->num_tasks;
    seg->trace_events = h->trace_events;
    seg->trace_names = h->trace_names;
    seg->trace_tsc = h->trace_tsc != 0;
    seg->hash_seed = h->hash_seed;
    seg->heartbeat_timeout = h->heartbeat_timeout ? h->heartbeat_timeout : DEFAULT_HEARTBEAT;
    seg->foreign =
        !seg->maker && (h->pid_namespace != mu_namespace("pid") || h->time_namespace != mu_namespace("time"));
    memcpy(seg->job, h->job, sizeof seg->job);
    return MUSTER_OK;
}

enum muster_status mu_format_bind(struct muster_segment *seg, const struct mu_header *header, const char *name)
{
    uint64_t first = 0;

    seg->header = (struct mu_header *)seg->base;
    seg->slots = (struct mu_slot *)(seg->base + header->slots_offset);
    seg->beats = (mu_a64 *)(seg->base + header->beats_offset);
    seg->chunks = (mu_a32 *)(seg->base + header->chunks_offset);
    seg->events = (mu_a64 *)(seg->base + header->events_offset);
    seg->cells = (mu_a64 *)(seg->base + header->cells_offset);
    seg->buckets = (mu_a64 *)(seg->base + header->buckets_offset);
    seg->heap = seg->base + header->heap_offset;
    seg->objects = (mu_a64 *)(seg->base + header->objects_offset);
    seg->units = header->num_units ? (mu_a64 *)(seg->base + header->units_offset) : NULL;
    seg->idle = (mu_a64 *)(seg->base + header->queue_offset);
    seg->queue = seg->idle + MU_IDLE_WORDS;
    seg->trace = header->trace_events ? seg->base + header->trace_offset : NULL;
    seg->hosts = header->num_hosts ? (struct mu_host *)(seg->base + header->hosts_offset) : NULL;
    seg->asks = header->num_hosts ? (mu_a64 *)(seg->base + header->asks_offset) : NULL;
    for (uint32_t i = 0; i < header->num_hosts; i++) {
        uint32_t begins = seg->hosts[i].first_task, tasks = seg->hosts[i].num_tasks;

        if (begins != first || tasks > seg->num_tasks - first)
            return format_corrupt(name, "impossible tasks of a host");
        if (i == seg->host) {
            seg->first_task = begins;
            seg->local_tasks = tasks;
        }
        first += tasks;
    }
    return header->num_hosts && first != seg->num_tasks ? format_corrupt(name, "tasks of no host") : MUSTER_OK;
}
