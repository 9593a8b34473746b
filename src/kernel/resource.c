/*
 * kernel/resource.c: variables and queues by container and name. They outlive steps and sessions.
 */
#include "kernel/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024u

struct mu_resources {
    struct mu_resource *buckets[BUCKETS];
    uint32_t count;
};

struct mu_resources *mu_resources_new(void)
{
    return calloc(1, sizeof(struct mu_resources));
}

static struct mu_resource **resource_bucket(struct mu_resources *resources, const char *name)
{
    uint32_t h = 2166136261u;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return &resources->buckets[h % BUCKETS];
}

struct mu_resource *mu_resource_find(struct mu_resources *resources, const char *container, const char *name)
{
    struct mu_resource *resource = *resource_bucket(resources, name);

    while (resource && (strcmp(resource->name, name) != 0 || strcmp(resource->container, container) != 0))
        resource = resource->next;
    return resource;
}

struct mu_resource *mu_resource_make(struct mu_resources *resources, enum mu_resource_kind kind, const char *container,
                                     const char *name, struct mu_kernel_error *error)
{
    struct mu_resource *resource = mu_resource_find(resources, container, name), **bucket;

    if (resource && resource->kind != kind) {
        mu_kernel_fail(error, MUSTER_INVALID_ARGUMENT, "'%s' of container %s is a %s, not a %s", name, container,
                       resource->kind == MU_RESOURCE_QUEUE ? "queue" : "variable",
                       kind == MU_RESOURCE_QUEUE ? "queue" : "variable");
        return NULL;
    }
    if (resource)
        return resource;
    resource = calloc(1, sizeof *resource);
    if (resource) {
        resource->container = strdup(container);
        resource->name = strdup(name);
    }
    if (!resource || !resource->container || !resource->name) {
        if (resource) {
            free(resource->container);
            free(resource->name);
        }
        free(resource);
        mu_kernel_fail(error, MUSTER_RESOURCE_EXHAUSTED, "no memory for '%s'", name);
        return NULL;
    }
    bucket = resource_bucket(resources, name);
    resource->home = resources;
    resource->holders = 1;
    resource->kind = (uint8_t)kind;
    resource->next = *bucket;
    *bucket = resource;
    resources->count++;
    return resource;
}

struct mu_resource *mu_resource_hold(struct mu_resource *resource)
{
    resource->holders++;
    return resource;
}

void mu_resource_drop(struct mu_resource *resource)
{
    if (!resource || --resource->holders > 0)
        return;
    mu_tensor_drop(resource->value);
    mu_fifo_free(resource->queue);
    free(resource->container);
    free(resource->name);
    free(resource);
}

void mu_resource_forget(struct mu_resource *resource)
{
    struct mu_resource **at = resource_bucket(resource->home, resource->name);

    if (resource->is_gone)
        return;
    while (*at != resource)
        at = &(*at)->next;
    *at = resource->next;
    resource->home->count--;
    resource->is_gone = true;
    /* What waits for a queue that nobody can find any more would wait for ever. */
    mu_fifo_free(resource->queue);
    resource->queue = NULL;
    mu_resource_drop(resource);
}

static void resources_forget(struct mu_resources *resources, const char *container)
{
    for (uint32_t k = 0; k < BUCKETS; k++)
        for (struct mu_resource *resource = resources->buckets[k], *next; resource; resource = next) {
            next = resource->next;
            if (!container || strcmp(resource->container, container) == 0)
                mu_resource_forget(resource);
        }
}

void mu_resources_clear(struct mu_resources *resources, const char *container)
{
    resources_forget(resources, container);
}

uint32_t mu_resources_count(const struct mu_resources *resources)
{
    return resources->count;
}

void mu_resources_free(struct mu_resources *resources)
{
    if (resources)
        resources_forget(resources, NULL);
    free(resources);
}

/* ---- for kernels ------------------------------------------------------------------------------------------------- */

/* What an attribute says, which may have any bytes and any length; the rest is cut. */
static const char *attr_text(const struct mu_kernel_node *node, const char *attr, char *text, size_t size)
{
    ProtobufCBinaryData bytes = mu_attr_bytes(node, attr);

    snprintf(text, size, "%.*s", (int)(bytes.len < size ? bytes.len : size), (const char *)bytes.data);
    return text;
}

const char *mu_resource_container(const struct mu_kernel_node *node, char text[256])
{
    return *attr_text(node, "container", text, 256) ? text : node->graph->container;
}

const char *mu_resource_name(const struct mu_kernel_node *node, char text[1024])
{
    return *attr_text(node, "shared_name", text, 1024) ? text : node->def->name;
}

/* A handle: 's' or 'o', the container, NUL, the name. */
enum mu_run mu_run_handle(struct mu_kernel_call *call, bool is_own, const char *container, const char *name)
{
    struct mu_dims scalar = {0};
    struct mu_tensor *out = mu_run_output(call, 0, MU_RESOURCE, &scalar);
    char *bytes;
    int len;

    if (!out)
        return MU_RUN_FAILED;
    len = asprintf(&bytes, "%c%s%c%s%c", is_own ? 'o' : 's', container, 0, name, 0);
    if (len < 0)
        return mu_run_fail(call, MUSTER_RESOURCE_EXHAUSTED, "no memory");
    if (!mu_tensor_string_set(out, 0, bytes, (size_t)len, &call->error)) {
        free(bytes);
        return MU_RUN_FAILED;
    }
    free(bytes);
    return MU_RUN_DONE;
}

struct mu_resource *mu_run_resource(struct mu_kernel_call *call, uint32_t input, enum mu_resource_kind kind)
{
    const struct mu_kernel_home *home = &call->node->graph->home;
    const struct mu_kernel_string *handle = &call->in[input].tensor->s[0];
    const char *container = (const char *)handle->bytes + 1, *name = container + strlen(container) + 1;
    struct mu_resource *resource =
        mu_resource_find(handle->bytes[0] == 'o' ? home->own : home->shared, container, name);

    if (resource && resource->kind == kind)
        return resource;
    if (kind == MU_RESOURCE_QUEUE)
        mu_run_fail(call, MUSTER_NOT_FOUND, "Resource %s/%s/N10tensorflow14QueueInterfaceE does not exist.", container,
                    name);
    else
        mu_run_fail(
            call, MUSTER_FAILED_PRECONDITION,
            "Could not find variable %s. This could mean that the variable has been deleted. In TF1, it can also "
            "mean the variable is uninitialized. Debug info: container=%s, status error message=Resource "
            "%s/%s/N10tensorflow3VarE does not exist.",
            name, container, container, name);
    return NULL;
}
