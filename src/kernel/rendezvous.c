/*
 * kernel/rendezvous.c: tensors on their way within the steps of one number: put under a key, taken once.
 */
#include "kernel/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

struct entry {
    struct entry *next;
    struct mu_tensor *tensor;
    char key[];
};

struct mu_rendezvous {
    uint32_t holders;
    struct entry *entries;
    struct mu_kernel_wait *waits;
};

struct mu_rendezvous *mu_rendezvous_new(void)
{
    struct mu_rendezvous *rendezvous = calloc(1, sizeof *rendezvous);

    if (rendezvous)
        rendezvous->holders = 1;
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
    while (rendezvous->entries) {
        struct entry *entry = rendezvous->entries;

        rendezvous->entries = entry->next;
        mu_tensor_drop(entry->tensor);
        free(entry);
    }
    free(rendezvous);
}

static struct entry **entry_find(const struct mu_rendezvous *rendezvous, const char *key)
{
    struct entry **at = (struct entry **)&rendezvous->entries;

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
    struct entry *entry;

    for (struct mu_kernel_wait *wait = rendezvous->waits; wait; wait = wait->next)
        if (strcmp(wait->key, key) == 0) {
            MU_LIST_DROP(rendezvous->waits, wait);
            wait_give(wait, tensor);
            return true;
        }
    if (*entry_find(rendezvous, key))
        return mu_kernel_fail(error, MUSTER_ABORTED, "a tensor was sent twice within one step: %.500s", key);
    entry = malloc(sizeof *entry + size);
    if (!entry)
        return mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory");
    memcpy(entry->key, key, size);
    entry->tensor = mu_tensor_hold(tensor);
    entry->next = rendezvous->entries;
    rendezvous->entries = entry;
    return true;
}

bool mu_rendezvous_has(const struct mu_rendezvous *rendezvous, const char *key)
{
    return *entry_find(rendezvous, key);
}

struct mu_tensor *mu_rendezvous_take(struct mu_rendezvous *rendezvous, const char *key)
{
    struct entry **at = entry_find(rendezvous, key), *entry = *at;
    struct mu_tensor *tensor;

    if (!entry)
        return NULL;
    tensor = entry->tensor;
    *at = entry->next;
    free(entry);
    return tensor;
}

static void rendezvous_let_go(struct mu_kernel_wait *wait)
{
    struct mu_rendezvous *rendezvous = wait->owner;

    MU_LIST_DROP(rendezvous->waits, wait);
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
        if (tensor)
            wait_give(wait, tensor);
        else
            MU_LIST_PUSH(rendezvous->waits, wait);
    }
    mu_tensor_drop(tensor);
    return wait ? MU_RUN_WAITS : MU_RUN_FAILED;
}
