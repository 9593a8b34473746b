/*
 * kernel/rendezvous.c: tensors on their way within the steps of one number: put under a key, taken once.
 */
#include "kernel/private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/list.h"
#include "base/siphash.h"

#define FEW 8u /* places without an allocation; a power of 2 */

struct entry {
    struct entry *next;
    struct mu_tensor *tensor;
    char key[];
};

struct key_place {
    struct entry *entries;
    struct mu_kernel_wait *waits;
};

struct mu_rendezvous {
    uint32_t holders, count, size; /* of entries and waits; of places */
    struct key_place *places, few[FEW];
};

/* Keys have names that clients choose: their places are by a hash that no client can foresee. */
static struct key_place *place_of(const struct mu_rendezvous *rendezvous, const char *key)
{
    static uint64_t secret[2];
    uint64_t tag[2];

    if (!secret[0] && getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret)
        secret[0] = 1;
    mu_siphash(secret, key, strlen(key), tag);
    return &rendezvous->places[tag[0] & (rendezvous->size - 1)];
}

/* Without memory for it, what is found is found more slowly. */
static void places_grow(struct mu_rendezvous *rendezvous)
{
    struct mu_rendezvous next = {.size = rendezvous->size * 4};

    if (rendezvous->count < rendezvous->size || !(next.places = calloc(next.size, sizeof *next.places)))
        return;
    for (uint32_t k = 0; k < rendezvous->size; k++) {
        struct key_place *old = &rendezvous->places[k];

        while (old->entries) {
            struct entry *entry = old->entries;
            struct key_place *place = place_of(&next, entry->key);

            old->entries = entry->next;
            entry->next = place->entries;
            place->entries = entry;
        }
        while (old->waits) {
            struct mu_kernel_wait *wait = old->waits;
            struct key_place *place = place_of(&next, wait->key);

            MU_LIST_DROP(old->waits, wait);
            MU_LIST_PUSH(place->waits, wait);
        }
    }
    if (rendezvous->places != rendezvous->few)
        free(rendezvous->places);
    rendezvous->places = next.places;
    rendezvous->size = next.size;
}

struct mu_rendezvous *mu_rendezvous_new(void)
{
    struct mu_rendezvous *rendezvous = calloc(1, sizeof *rendezvous);

    if (rendezvous) {
        rendezvous->holders = 1;
        rendezvous->places = rendezvous->few;
        rendezvous->size = FEW;
    }
    return rendezvous;
}

struct mu_rendezvous *mu_rendezvous_hold(struct mu_rendezvous *rendezvous)
{
    rendezvous->holders++;
    return rendezvous;
}

void mu_rendezvous_drop(struct mu_rendezvous *rendezvous)
{
    if (!rendezvous || --rendezvous->holders > 0)
        return;
    for (uint32_t k = 0; k < rendezvous->size; k++)
        while (rendezvous->places[k].entries) {
            struct entry *entry = rendezvous->places[k].entries;

            rendezvous->places[k].entries = entry->next;
            mu_tensor_drop(entry->tensor);
            free(entry);
        }
    if (rendezvous->places != rendezvous->few)
        free(rendezvous->places);
    free(rendezvous);
}

static struct entry **entry_find(struct key_place *place, const char *key)
{
    struct entry **at = &place->entries;

    while (*at && strcmp((*at)->key, key) != 0)
        at = &(*at)->next;
    return at;
}

/* TensorFlow's words where what came is not what the graph says. */
static void wait_give(struct mu_kernel_wait *wait, struct mu_tensor *tensor)
{
    struct mu_kernel_error error = {.status = MUSTER_OK};
    const struct mu_kernel_node *node = wait->node;

    if (tensor->dtype != node->out_types[0])
        mu_kernel_fail(&error, MUSTER_INTERNAL,
                       "Output 0 of type %s does not match declared output type %s for node {{node %s}}",
                       mu_dtype_name(tensor->dtype), mu_dtype_name(node->out_types[0]), node->def->name);
    else
        wait->tensors[0] = mu_tensor_hold(tensor);
    mu_kernel_wait_end(wait, true, error.status, error.text);
}

bool mu_rendezvous_put(struct mu_rendezvous *rendezvous, const char *key, struct mu_tensor *tensor,
                       struct mu_kernel_error *error)
{
    size_t size = strlen(key) + 1;
    struct key_place *place = place_of(rendezvous, key);
    struct entry *entry;

    for (struct mu_kernel_wait *wait = place->waits; wait; wait = wait->next)
        if (strcmp(wait->key, key) == 0) {
            MU_LIST_DROP(place->waits, wait);
            rendezvous->count--;
            wait_give(wait, tensor);
            return true;
        }
    if (*entry_find(place, key))
        return mu_kernel_fail(error, MUSTER_ABORTED, "a tensor was sent twice within one step: %.500s", key);
    entry = malloc(sizeof *entry + size);
    if (!entry)
        return mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory");
    memcpy(entry->key, key, size);
    entry->tensor = mu_tensor_hold(tensor);
    entry->next = place->entries;
    place->entries = entry;
    rendezvous->count++;
    places_grow(rendezvous);
    return true;
}

bool mu_rendezvous_has(const struct mu_rendezvous *rendezvous, const char *key)
{
    return *entry_find(place_of(rendezvous, key), key);
}

struct mu_tensor *mu_rendezvous_take(struct mu_rendezvous *rendezvous, const char *key)
{
    struct entry **at = entry_find(place_of(rendezvous, key), key), *entry = *at;
    struct mu_tensor *tensor;

    if (!entry)
        return NULL;
    tensor = entry->tensor;
    *at = entry->next;
    free(entry);
    rendezvous->count--;
    return tensor;
}

static void rendezvous_let_go(struct mu_kernel_wait *wait)
{
    struct mu_rendezvous *rendezvous = wait->owner;

    MU_LIST_DROP(place_of(rendezvous, wait->key)->waits, wait);
    rendezvous->count--;
}

enum mu_run mu_run_send(struct mu_kernel_call *call)
{
    return mu_rendezvous_put(call->rendezvous, call->node->key, call->in[0].tensor, &call->error) ? MU_RUN_DONE
                                                                                                  : MU_RUN_FAILED;
}

enum mu_run mu_run_recv(struct mu_kernel_call *call)
{
    struct mu_rendezvous *rendezvous = call->rendezvous;
    struct mu_tensor *tensor = mu_rendezvous_take(rendezvous, call->node->key);
    struct mu_kernel_wait *wait = mu_kernel_wait_new(call, rendezvous, rendezvous_let_go, 1);

    if (wait) {
        wait->key = call->node->key;
        if (tensor) {
            wait_give(wait, tensor);
        } else {
            struct key_place *place = place_of(rendezvous, wait->key);

            MU_LIST_PUSH(place->waits, wait);
            rendezvous->count++;
            places_grow(rendezvous);
        }
    }
    mu_tensor_drop(tensor);
    return wait ? MU_RUN_WAITS : MU_RUN_FAILED;
}
