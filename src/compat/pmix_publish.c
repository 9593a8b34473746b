/*
 * compat/pmix_publish.c: what tasks publish for each other, in the job's store.
 *
 * On the wire and in the store a value is as libpmix packs it, behind the number of the task that published it; its key
 * is "pmix/published/KEY". Host 0's server reads and writes the store for all; it also keeps the calls that wait until
 * a key is there (PMIX_WAIT). Ranges and persistences are not told apart: what is published is there for the whole job,
 * until it is unpublished or the job ends, as the standard allows.
 */
#include <stdlib.h>
#include <string.h>

#include <muster/kv.h>

#include "compat/pmix_private.h"

#define FOLDER   "pmix/published"
#define KEYS_MAX 4096

/* Host 0: a call that waits until keys are there. */
struct mu_pmix_search {
    struct mu_pmix_search *next;
    uint32_t host, id;
    struct mu_pack what; /* the keys */
};

/* ---- on libpmix's thread: its arguments become a message ----------------------------------------------------------
 */

/* What directs and is not data; all other keys are the program's. */
static bool is_directive(const char *key)
{
    return strncmp(key, "pmix.", 5) == 0;
}

/* u32 count, then each: text key, blob value */
mu_pmix_status mu_pmix_pack_published(struct mu_pmix_call *call, const struct mu_pmix_info *info, size_t count)
{
    const struct mu_pmix_library *library = &mu_pmix_serving->library;
    uint32_t num = 0;

    mu_pack_u32(&call->what, 0);
    for (size_t i = 0; i < count; i++) {
        struct mu_pmix_buffer buffer = {.base = NULL};
        struct mu_pmix_value value = info[i].value;
        mu_pmix_status status;

        if (is_directive(info[i].key))
            continue;
        status = library->PMIx_Data_pack(NULL, &buffer, &value, 1, MU_PMIX_VALUE);
        mu_pack_text(&call->what, info[i].key);
        mu_pack_blob(&call->what, buffer.base, buffer.used);
        free(buffer.base);
        if (status != MU_PMIX_SUCCESS)
            return status;
        num++;
    }
    if (!call->what.failed)
        mu_pack_put_u32(&call->what, 0, num);
    return num > 0 ? MU_PMIX_SUCCESS : MU_PMIX_ERR_BAD_PARAM;
}

/* u32 how many are waited for, u32 count, then each: text key */
mu_pmix_status mu_pmix_pack_keys(struct mu_pmix_call *call, char **keys, const struct mu_pmix_info *info, size_t count)
{
    uint32_t num = 0;
    int awaited = -1;

    while (keys && keys[num] && num <= KEYS_MAX)
        num++;
    for (size_t i = 0; i < count; i++)
        if (strcmp(info[i].key, MU_PMIX_WAIT) == 0)
            awaited =
                info[i].value.type == MU_PMIX_BOOL ? (info[i].value.data.flag ? 0 : -1) : info[i].value.data.integer;
    if (num > KEYS_MAX || (num == 0 && call->kind == MU_PMIX_CALL_LOOKUP))
        return MU_PMIX_ERR_BAD_PARAM;
    mu_pack_u32(&call->what, awaited < 0 ? 0 : awaited == 0 || (uint32_t)awaited > num ? num : (uint32_t)awaited);
    mu_pack_u32(&call->what, num);
    for (uint32_t i = 0; i < num; i++)
        mu_pack_text(&call->what, keys[i]);
    return MU_PMIX_SUCCESS;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

void mu_pmix_ask_store(struct mu_pmix *pmix, struct mu_pmix_call *call)
{
    struct mu_pack p = {.bytes = NULL}, what = call->what;

    call->what = (struct mu_pack){.bytes = NULL};
    mu_pmix_await(pmix, call);
    mu_pack_u8(&p, call->kind == MU_PMIX_CALL_PUBLISH  ? MU_PMIX_SAYS_PUBLISH
                   : call->kind == MU_PMIX_CALL_LOOKUP ? MU_PMIX_SAYS_LOOKUP
                                                       : MU_PMIX_SAYS_UNPUBLISH);
    mu_pack_u32(&p, call->id);
    mu_pack_u32(&p, call->task);
    mu_pack_raw(&p, what.bytes, what.len);
    mu_pack_done(&what);
    mu_pmix_say(pmix, 0, &p);
}

/* What was found: u32 count, then each: u32 task, text key, blob value. */
static mu_pmix_status unpack_found(struct mu_pmix *pmix, const void *bytes, size_t len,
                                   struct mu_pmix_pdata **ret_found, uint32_t *ret_count)
{
    struct mu_unpack u = mu_unpack_of(bytes, len);
    uint32_t count = mu_unpack_u32(&u);
    struct mu_pmix_pdata *found = count <= KEYS_MAX ? calloc(count + 1, sizeof *found) : NULL;
    mu_pmix_status status = found ? MU_PMIX_SUCCESS : MU_PMIX_ERR_NOMEM;

    *ret_count = 0;
    for (uint32_t i = 0; status == MU_PMIX_SUCCESS && i < count; i++) {
        struct mu_pmix_buffer buffer = {.base = NULL};
        int32_t one = 1;
        size_t size;
        const void *packed;

        found[i].proc = mu_pmix_proc_of(pmix, mu_unpack_u32(&u));
        mu_unpack_text(&u, found[i].key, sizeof found[i].key);
        packed = mu_unpack_blob(&u, MU_PMIX_BLOB_MAX, &size);
        buffer.base = u.failed ? NULL : malloc(size + 1);
        if (!buffer.base) {
            status = MU_PMIX_ERR_NOMEM;
            break;
        }
        memcpy(buffer.base, packed, size);
        buffer.pack_at = buffer.base + size;
        buffer.unpack_at = buffer.base;
        buffer.allocated = buffer.used = size;
        status = pmix->library.PMIx_Data_unpack(NULL, &buffer, &found[i].value, &one, MU_PMIX_VALUE);
        free(buffer.base);
        *ret_count += status == MU_PMIX_SUCCESS;
    }
    *ret_found = found;
    return status;
}

void mu_pmix_found(struct mu_pmix *pmix, struct mu_pmix_call *call, mu_pmix_status status, const void *bytes,
                   size_t len)
{
    struct mu_pmix_pdata *found = NULL;
    uint32_t count = 0;

    if (call->kind != MU_PMIX_CALL_LOOKUP) {
        mu_pmix_answer_op(call, status);
        return;
    }
    if (bytes && len > 0) {
        mu_pmix_status unpacked = unpack_found(pmix, bytes, len, &found, &count);

        status = unpacked == MU_PMIX_SUCCESS ? status : unpacked;
    }
    call->done.lookup(status, found, count, call->data);
    for (uint32_t i = 0; i < count; i++)
        pmix->library.PMIx_Value_destruct(&found[i].value);
    free(found);
    mu_pmix_free_call(call);
}

/* ---- host 0: the store ------------------------------------------------------------------------------------------- */

/* '/' would make folders of it. */
static void key_of(const char *name, char *key, size_t size)
{
    size_t len = (size_t)snprintf(key, size, FOLDER "/");

    for (; *name && len + 4 < size; name++)
        if (*name == '/' || *name == '%' || (unsigned char)*name < ' ')
            len += (size_t)snprintf(key + len, size - len, "%%%02X", (unsigned char)*name);
        else
            key[len++] = *name;
    key[len] = 0;
}

static mu_pmix_status status_of(enum muster_status status)
{
    switch (status) {
    case MUSTER_OK: return MU_PMIX_SUCCESS;
    case MUSTER_ALREADY_EXISTS: return MU_PMIX_ERR_DUPLICATE_KEY;
    case MUSTER_NOT_FOUND: return MU_PMIX_ERR_NOT_FOUND;
    case MUSTER_INVALID_ARGUMENT: return MU_PMIX_ERR_BAD_PARAM;
    default: return MU_PMIX_ERR_NOMEM;
    }
}

static mu_pmix_status name_insert(struct mu_pmix *pmix, uint32_t task, const char *name, const void *bytes, size_t len)
{
    char key[MU_PMIX_KEY_MAX * 3 + sizeof FOLDER + 8];
    struct mu_pack value = {.bytes = NULL};
    mu_pmix_status status = MU_PMIX_ERR_NOMEM;

    key_of(name, key, sizeof key);
    mu_pack_u32(&value, task);
    mu_pack_raw(&value, bytes, len);
    if (!value.failed)
        status = status_of(muster_kv_insert(pmix->m, key, strlen(key), value.bytes, value.len));
    mu_pack_done(&value);
    return status;
}

static mu_pmix_status hear_publish(struct mu_pmix *pmix, uint32_t task, struct mu_unpack *u)
{
    uint32_t count = mu_unpack_u32(u);
    mu_pmix_status status = MU_PMIX_SUCCESS;

    for (uint32_t i = 0; status == MU_PMIX_SUCCESS && i < count; i++) {
        char name[MU_PMIX_KEY_MAX + 1];
        size_t len;
        const void *bytes;

        mu_unpack_text(u, name, sizeof name);
        bytes = mu_unpack_blob(u, MU_PMIX_BLOB_MAX, &len);
        status = u->failed ? MU_PMIX_ERR_BAD_PARAM : name_insert(pmix, task, name, bytes, len);
    }
    return status;
}

/* Keys of a task that names none: their publisher is not known, so none goes. */
static mu_pmix_status hear_unpublish(struct mu_pmix *pmix, struct mu_unpack *u)
{
    uint32_t count;

    mu_unpack_u32(u);
    count = mu_unpack_u32(u);
    for (uint32_t i = 0; i < count && !u->failed; i++) {
        char name[MU_PMIX_KEY_MAX + 1], key[MU_PMIX_KEY_MAX * 3 + sizeof FOLDER + 8];

        mu_unpack_text(u, name, sizeof name);
        key_of(name, key, sizeof key);
        if (!u->failed)
            muster_kv_delete(pmix->m, key, strlen(key), NULL);
    }
    return count > 0 ? MU_PMIX_SUCCESS : MU_PMIX_ERR_NOT_SUPPORTED;
}

/* What is there of the keys; *ret_enough: as many as are waited for. */
static uint32_t names_collect(struct mu_pmix *pmix, struct mu_unpack u, struct mu_pack *found, bool *ret_enough,
                              uint32_t *ret_count)
{
    uint32_t awaited = mu_unpack_u32(&u), there = 0;

    *ret_count = mu_unpack_u32(&u);
    mu_pack_u32(found, 0);
    for (uint32_t i = 0; i < *ret_count && !u.failed; i++) {
        char name[MU_PMIX_KEY_MAX + 1], key[MU_PMIX_KEY_MAX * 3 + sizeof FOLDER + 8];
        void *value;
        size_t len;

        mu_unpack_text(&u, name, sizeof name);
        key_of(name, key, sizeof key);
        if (u.failed || muster_kv_get_alloc(pmix->m, key, strlen(key), 1, &value, &len, NULL) != MUSTER_OK)
            continue;
        if (len >= 4) {
            mu_pack_raw(found, value, 4);
            mu_pack_text(found, name);
            mu_pack_blob(found, (char *)value + 4, len - 4);
            there++;
        }
        free(value);
    }
    if (!found->failed)
        mu_pack_put_u32(found, 0, there);
    *ret_enough = there >= awaited;
    return there;
}

static void say_found(struct mu_pmix *pmix, uint32_t host, uint32_t id, mu_pmix_status status,
                      const struct mu_pack *found)
{
    struct mu_pack p = {.bytes = NULL};

    mu_pack_u8(&p, MU_PMIX_SAYS_FOUND);
    mu_pack_u32(&p, id);
    mu_pack_u32(&p, (uint32_t)status);
    mu_pack_blob(&p, found ? found->bytes : NULL, found ? found->len : 0);
    mu_pmix_say(pmix, host, &p);
}

/* True: it has its answer. */
static bool names_search(struct mu_pmix *pmix, uint32_t host, uint32_t id, const void *what, size_t len)
{
    struct mu_pack found = {.bytes = NULL};
    bool enough;
    uint32_t count, there = names_collect(pmix, mu_unpack_of(what, len), &found, &enough, &count);

    if (enough)
        say_found(pmix, host, id,
                  found.failed     ? MU_PMIX_ERR_NOMEM
                  : there == count ? MU_PMIX_SUCCESS
                  : there > 0      ? MU_PMIX_ERR_PARTIAL_SUCCESS
                                   : MU_PMIX_ERR_NOT_FOUND,
                  found.failed ? NULL : &found);
    mu_pack_done(&found);
    return enough;
}

static void free_search(struct mu_pmix_search *it)
{
    mu_pack_done(&it->what);
    free(it);
}

/* Something has been published. */
static void search_again(struct mu_pmix *pmix)
{
    struct mu_pmix_search *all = pmix->searches;

    pmix->searches = NULL;
    while (all) {
        struct mu_pmix_search *it = all;

        all = it->next;
        if (names_search(pmix, it->host, it->id, it->what.bytes, it->what.len)) {
            free_search(it);
        } else {
            it->next = pmix->searches;
            pmix->searches = it;
        }
    }
}

static void hear_lookup(struct mu_pmix *pmix, uint32_t host, uint32_t id, const struct mu_unpack *u)
{
    struct mu_pmix_search *it;

    if (names_search(pmix, host, id, u->at, u->left))
        return;
    it = calloc(1, sizeof *it);
    if (!it) {
        say_found(pmix, host, id, MU_PMIX_ERR_NOMEM, NULL);
        return;
    }
    it->host = host;
    it->id = id;
    mu_pack_raw(&it->what, u->at, u->left);
    it->next = pmix->searches;
    pmix->searches = it;
}

void mu_pmix_asked_store(struct mu_pmix *pmix, uint32_t host, enum mu_pmix_word word, struct mu_unpack *u)
{
    uint32_t id = mu_unpack_u32(u), task = mu_unpack_u32(u);

    if (u->failed || pmix->host != 0)
        return;
    if (word == MU_PMIX_SAYS_LOOKUP) {
        hear_lookup(pmix, host, id, u);
    } else if (word == MU_PMIX_SAYS_UNPUBLISH) {
        say_found(pmix, host, id, hear_unpublish(pmix, u), NULL);
    } else {
        mu_pmix_status status = hear_publish(pmix, task, u);

        pmix->stats.published += status == MU_PMIX_SUCCESS;
        say_found(pmix, host, id, status, NULL);
        search_again(pmix);
    }
}

void mu_pmix_forget_searches(struct mu_pmix *pmix)
{
    while (pmix->searches) {
        struct mu_pmix_search *it = pmix->searches;

        pmix->searches = it->next;
        free_search(it);
    }
}
