/*
 * segment/hold_look.c: reading objects of the tasks: what a root says, and the sentences of those that are not there.
 */
#include "segment/hold.h"

#include "segment/file.h"

mu_a64 *mu_object_word(const struct muster_segment *seg, uint64_t ref)
{
    uint32_t index = MU_OBJECT_INDEX(ref);

    return MU_OBJECT_GENERATION(ref) && MU_OBJECT_HOST(ref) == seg->host && index < mu_objects_high(seg)
               ? &seg->objects[index]
               : NULL;
}

static enum muster_status object_foreign(uint64_t ref)
{
    return mu_fail(MUSTER_INVALID_ARGUMENT, "0x%016llx is no reference to an object of this job",
                   (unsigned long long)ref);
}

static enum muster_status object_gone(uint64_t ref)
{
    return mu_fail(MUSTER_NOT_FOUND, "object 0x%016llx is gone: nobody held it any more", (unsigned long long)ref);
}

static bool has_changed(const struct muster_segment *seg, const struct mu_object *o)
{
    const mu_a64 *word = mu_object_word(seg, o->ref);

    return word && !mu_word_same(mu_recheck(word), o->word);
}

/* Whether the first and the last of the units of so many bytes are the block's: so are those between, for a run is
 * claimed whole. An orphan has no bytes any more, and a unit at least. */
static bool units_are(const struct muster_segment *seg, uint32_t start, uint64_t bytes, uint64_t ref)
{
    uint32_t high = mu_units_high(seg), units = bytes ? mu_arena_units(bytes) : 1;

    /* acquire, both: pair with the claims */
    return start < high && units <= high - start && mu_load_acquire(&seg->units[start]) == (ref | MU_UNIT_BACKED) &&
           mu_load_acquire(&seg->units[start + units - 1]) == (ref | MU_UNIT_BACKED);
}

/* Whether the object's bytes and metadata lie within the block, or the units, that are said to have them. Of an object
 * that has changed since, the units may be another's by now: its root is believed, for a change of it fails. */
static bool object_fits(const struct muster_segment *seg, const struct mu_object *o)
{
    uint32_t limit;

    if (o->data & MU_REF_HOLDS) /* its head says how large it is: mu_bundle_at() */
        return mu_heap_block(seg, MU_REF_INDEX(o->data), NULL) != NULL;
    if (!o->data)
        return o->state >= MU_OBJECT_ERROR || (!o->bytes && !o->meta && !o->extent);
    if (!mu_heap_block(seg, MU_REF_INDEX(o->data), &limit))
        return false;
    if (o->extent)
        return o->bytes <= (uint64_t)seg->num_units * MU_UNIT &&
               (units_are(seg, o->extent - 1, mu_object_whole(o), o->data) || has_changed(seg, o));
    if (o->bytes > limit || o->meta > limit)
        return false;
    return MU_BLOCK_HEADER + mu_object_pad(mu_object_whole(o)) + mu_object_whole(o) <= limit;
}

bool mu_object_parse(const struct muster_segment *seg, const struct mu_root *root, struct mu_object *o)
{
    const struct mu_object_root *r = (const struct mu_object_root *)mu_root_data(root);

    if (root->type != MU_TYPE_OBJECT || root->refs != 1 || root->bytes < sizeof *r)
        return false;
    *o = (struct mu_object){.word = root->word,
                            .ref = r->ref,
                            .data = root->body[0],
                            .bytes = r->bytes,
                            .maker = (uint32_t)r->maker,
                            .extent = (uint32_t)(r->maker >> 32),
                            .state = MU_OBJECT_IS(r->state),
                            .count = MU_OBJECT_COUNT(r->state),
                            .meta = MU_OBJECT_META(r->about),
                            .task = MU_OBJECT_TASK(r->about),
                            .code = MU_OBJECT_CODE(r->about),
                            .num_marks = MU_OBJECT_MARKS(r->state),
                            .waiting = r->waiting,
                            .marks = r->marks};
    return root->bytes == sizeof *r + o->num_marks * 8ull && o->state >= MU_OBJECT_WRITING &&
           o->state < MU_OBJECT_STATES && object_fits(seg, o);
}

static enum muster_status object_corrupt(const struct muster_segment *seg, uint64_t ref)
{
    return mu_fail(MUSTER_DATA_LOSS, "the segment of job %s is corrupt at object 0x%016llx", seg->job,
                   (unsigned long long)ref);
}

enum muster_status mu_object_say(const struct muster_segment *seg, uint64_t ref, enum muster_status status)
{
    if (status == MUSTER_INVALID_ARGUMENT)
        return object_foreign(ref);
    return status == MUSTER_NOT_FOUND ? object_gone(ref) : object_corrupt(seg, ref);
}

enum muster_status mu_object_at(const struct muster_segment *seg, uint32_t index, uint64_t *body,
                                struct mu_object *ret_object)
{
    uint64_t ref = MU_OBJECT_REF(seg->host, index, 0);
    struct mu_root root;
    enum mu_read rc = mu_object_read(seg, &seg->objects[index], body, &root);

    if (rc == MU_READ_EMPTY)
        return MUSTER_NOT_FOUND;
    if (rc == MU_READ_CORRUPT || !mu_object_parse(seg, &root, ret_object) || MU_OBJECT_INDEX(ret_object->ref) != index)
        return object_corrupt(seg, ref);
    return MUSTER_OK;
}

enum muster_status mu_object_peek(const struct muster_segment *seg, uint64_t ref, uint64_t *body,
                                  struct mu_object *ret_object)
{
    enum muster_status status;

    if (!mu_object_word(seg, ref))
        return object_foreign(ref);
    status = mu_object_at(seg, MU_OBJECT_INDEX(ref), body, ret_object);
    return !status && ret_object->ref != ref ? MUSTER_NOT_FOUND : status;
}

enum muster_status mu_object_look(const struct muster_segment *seg, uint64_t ref, uint64_t *body,
                                  struct mu_object *ret_object)
{
    enum muster_status status = mu_object_peek(seg, ref, body, ret_object);

    return status == MUSTER_NOT_FOUND ? object_gone(ref) : status;
}

bool mu_bundle_read(const struct muster_segment *seg, const struct mu_object *o, uint32_t i, uint64_t *words,
                    uint32_t count, uint32_t *ret_count)
{
    uint32_t limit, n;
    struct mu_block *b = mu_heap_block(seg, MU_REF_INDEX(o->data), &limit);

    if (!(o->data & MU_REF_HOLDS) || !b)
        return false;
    n = (uint32_t)mu_load_relaxed(&b->body[1]); /* relaxed, as the copy: the object's word is looked at again */
    if (MU_BLOCK_HEADER + (2ull + i + count) * 8 > limit)
        return false;
    mu_copy_out(words, &b->body[2 + i], count);
    *ret_count = n;
    return n <= limit / 8 && mu_word_same(mu_recheck(mu_object_word(seg, o->ref)), o->word);
}

/* What the object, which was just read, forwards to; false: it has changed meanwhile. */
static bool object_next(const struct muster_segment *seg, const struct mu_object *o, uint32_t part, uint64_t *ret_ref)
{
    uint32_t count;

    return mu_bundle_read(seg, o, part, ret_ref, 1, &count) && part < count;
}

enum muster_status mu_object_resolve(const struct muster_segment *seg, uint64_t ref, uint64_t *body,
                                     struct mu_object *ret_object)
{
    struct mu_object *o = ret_object;
    uint64_t first = ref, next;
    uint32_t part = 0;

    for (uint64_t left = 2ull * seg->num_objects; left; left--) {
        enum muster_status status = mu_object_peek(seg, ref, body, o);
        uint32_t which;

        if (status)
            return status;
        which = o->state == MU_OBJECT_MANY ? part : 0;
        if (o->state != MU_OBJECT_ALIAS && o->state != MU_OBJECT_MANY && o->state != MU_OBJECT_PART)
            return MUSTER_OK;
        if (!object_next(seg, o, which, &next)) {
            if (mu_word_same(mu_recheck(mu_object_word(seg, ref)), o->word))
                return object_corrupt(seg, ref);
            continue;
        }
        part = o->state == MU_OBJECT_PART ? (uint32_t)o->bytes : 0;
        ref = next;
    }
    return object_corrupt(seg, first);
}

uint8_t *mu_object_bytes(struct muster_segment *seg, const struct mu_object *object, bool writable)
{
    uint8_t *base = object->extent ? mu_arena_map(seg, writable)
                    : writable     ? seg->base
                                   : mu_segment_map(seg, &seg->views, 0, seg->size, false);

    if (!base || object->extent)
        return base ? base + (object->extent - 1) * (uint64_t)MU_UNIT : NULL;
    return base + mu_offset_of(seg, mu_heap_at(seg, MU_REF_INDEX(object->data))->body) +
           mu_object_pad(mu_object_whole(object));
}
