/*
 * compat/pmi1_words.c: each message of PMI-1, and its answer.
 *
 * Answers bear rc=0 everywhere: there are clients that take its absence for a failure. What is not known is answered,
 * with rc=-1, and the client goes on. A message's "msg" is one word.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compat/pmi1_private.h"

static void word_of(const char *text, char *word, size_t size)
{
    snprintf(word, size, "%s", text);
    for (char *at = word; *at; at++)
        if (*at == ' ' || *at == '=' || (unsigned char)*at < 0x20)
            *at = '_';
}

/* ---- what was put since the last barrier, for the other hosts ---- */

void mu_pmi1_note(struct mu_pmi1 *server, char kind, const char *key, size_t key_len, const char *value,
                  size_t value_len)
{
    if (!server->options.has_others)
        return;
    mu_pack_u8(&server->fresh, (uint8_t)kind);
    mu_pack_blob(&server->fresh, key, key_len);
    mu_pack_blob(&server->fresh, value, value_len);
}

static void key_show(struct mu_pmi1 *server, const char *key, size_t key_len, const char *value, size_t value_len)
{
    if (server->options.shown)
        server->options.shown(server->options.arg, key, key_len, value, value_len);
}

/*
 * Of a name the last change is kept, also when it is that it went: its number (8 bytes, the highest first), 'n' or 'u',
 * the port. A change has a number above all that its host has heard of, and of two the higher stays, whenever they
 * come: those that a host tells at once come again behind the barrier, where newer ones of other hosts are known. Of
 * changes that knew nothing of each other all hosts keep the same.
 */
enum { NAME_HEAD = 9 };

static bool take_name(struct mu_pmi1 *server, const char *service, size_t service_len, const char *change, size_t len)
{
    size_t kept_len;
    const char *kept = mu_pmi1_keys_get(&server->names, service, service_len, &kept_len);
    int order = kept ? memcmp(change, kept, len < kept_len ? len : kept_len) : 1;
    uint64_t number;

    if (len < NAME_HEAD || change[0] & 0x80) /* of 2^63 changes nobody has heard: the next number is one still */
        return false;
    if (order < 0 || (order == 0 && len <= kept_len))
        return true;
    memcpy(&number, change, sizeof number);
    number = be64toh(number);
    server->name_changes = number > server->name_changes ? number : server->name_changes;
    return mu_pmi1_keys_put(&server->names, service, service_len, change, len) >= 0;
}

/* NULL: the name is not published. */
static const char *port_of(const struct mu_pmi1 *server, const char *service)
{
    size_t len;
    const char *kept = mu_pmi1_keys_get(&server->names, service, strlen(service), &len);

    return kept && kept[NAME_HEAD - 1] == 'n' ? kept + NAME_HEAD : NULL;
}

static bool change_name(struct mu_pmi1 *server, char kind, const char *service, const char *port)
{
    char change[NAME_HEAD + MU_PMI1_VALUE_MAX];
    uint64_t number = htobe64(server->name_changes + 1);
    size_t len = strlen(port);

    memcpy(change, &number, sizeof number);
    change[NAME_HEAD - 1] = kind;
    memcpy(change + NAME_HEAD, port, len);
    return take_name(server, service, strlen(service), change, NAME_HEAD + len);
}

bool mu_pmi1_take_notes(struct mu_pmi1 *server, struct mu_unpack *u)
{
    while (u->left > 0) {
        char kind = (char)mu_unpack_u8(u);
        size_t key_len, value_len;
        const char *key = mu_unpack_blob(u, MU_PMI1_LINE_MAX, &key_len);
        const char *value = mu_unpack_blob(u, MU_PMI1_LINE_MAX, &value_len);

        if (u->failed || !key || !value)
            return false;
        if (kind == 'n' ? !take_name(server, key, key_len, value, value_len)
                        : mu_pmi1_keys_put(&server->keys, key, key_len, value, value_len) < 0)
            return false;
        if (kind == 'k')
            key_show(server, key, key_len, value, value_len);
    }
    return true;
}

/* The last change of a name: other hosts have it at once, and for certain behind the next barrier (theirs may not serve
 * yet). */
static void name_spread(struct mu_pmi1 *server, const char *service)
{
    struct mu_pack what = {.bytes = NULL};
    size_t len;
    const char *kept = mu_pmi1_keys_get(&server->names, service, strlen(service), &len);

    mu_pmi1_note(server, 'n', service, strlen(service), kept, len);
    if (!server->options.has_others || !server->options.tell)
        return;
    mu_pack_u8(&what, 'n');
    mu_pack_blob(&what, service, strlen(service));
    mu_pack_blob(&what, kept, len);
    if (!what.failed)
        server->options.tell(server->options.arg, what.bytes, what.len);
    mu_pack_done(&what);
}

void mu_pmi1_told(struct mu_pmi1 *server, const void *bytes, size_t len)
{
    struct mu_unpack u = mu_unpack_of(bytes, len);

    mu_pmi1_take_notes(server, &u);
}

/* ---- the messages ---- */

typedef void answer(struct mu_pmi1_client *client, const struct mu_pmi1_line *line);

static void answer_init(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    bool fits = mu_pmi1_number(line, "pmi_version", 1) == 1;

    if (fits)
        client->state = MU_PMI1_IN;
    if (fits && client->server->options.begins)
        client->server->options.begins(client->server->options.arg);
    mu_pmi1_reply(client, "cmd=response_to_init rc=%d pmi_version=1 pmi_subversion=1", fits ? 0 : -1);
    if (fits)
        mu_pmi1_look(client->server);
}

static void answer_maxes(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    (void)line;
    mu_pmi1_reply(client, "cmd=maxes rc=0 kvsname_max=%u keylen_max=%u vallen_max=%u", MU_PMI1_KVSNAME_MAX,
                  MU_PMI1_KEY_MAX, MU_PMI1_VALUE_MAX);
}

static void answer_appnum(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    const struct mu_pmi1_options *options = &client->server->options;

    (void)line;
    mu_pmi1_reply(client, "cmd=appnum rc=0 appnum=%u",
                  options->app_of ? options->app_of(options->arg, client->task) : 0);
}

static void answer_universe(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    (void)line;
    mu_pmi1_reply(client, "cmd=universe_size rc=0 size=%u", client->server->options.num_tasks);
}

static void answer_kvsname(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    (void)line;
    mu_pmi1_reply(client, "cmd=my_kvsname rc=0 kvsname=%s", client->server->options.kvsname);
}

static void answer_put(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    const char *key = mu_pmi1_field(line, "key"), *value = mu_pmi1_field(line, "value");
    struct mu_pmi1 *server = client->server;
    int rc;

    if (!key || !*key || !value)
        mu_pmi1_reply(client, "cmd=put_result rc=-1 msg=no_%s", key && *key ? "value" : "key");
    else if (strlen(key) > MU_PMI1_KEY_MAX || strlen(value) > MU_PMI1_VALUE_MAX)
        mu_pmi1_reply(client, "cmd=put_result rc=-1 msg=%s_too_long", strlen(key) > MU_PMI1_KEY_MAX ? "key" : "value");
    else if (strncmp(key, "PMI_", 4) == 0)
        mu_pmi1_reply(client, "cmd=put_result rc=-1 msg=keys_that_begin_with_PMI_are_the_launcher's");
    else if (client->puts >= MU_PMI1_PUTS_MAX)
        mu_pmi1_reply(client, "cmd=put_result rc=-1 msg=a_task_puts_at_most_%u_keys", MU_PMI1_PUTS_MAX);
    else if ((rc = mu_pmi1_keys_put(&server->keys, key, strlen(key), value, strlen(value))) < 0)
        mu_pmi1_reply(client, "cmd=put_result rc=-1 msg=out_of_memory");
    else {
        client->puts += (uint32_t)(rc || server->options.has_others); /* what goes to the others is kept until then */
        mu_pmi1_note(server, 'k', key, strlen(key), value, strlen(value));
        key_show(server, key, strlen(key), value, strlen(value));
        mu_pmi1_reply(client, "cmd=put_result rc=0");
    }
}

static void answer_get(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    const struct mu_pmi1_options *options = &client->server->options;
    const char *key = mu_pmi1_field(line, "key"), *value = NULL;
    char word[MU_PMI1_KEY_MAX + 1];
    size_t len;

    if (key && strcmp(key, "PMI_process_mapping") == 0)
        mu_pmi1_reply(client, "cmd=get_result rc=0 value=%s", options->mapping);
    else if (key && strcmp(key, "universeSize") == 0)
        mu_pmi1_reply(client, "cmd=get_result rc=0 value=%u", options->num_tasks);
    else if (key && (value = mu_pmi1_keys_get(&client->server->keys, key, strlen(key), &len)))
        mu_pmi1_reply(client, "cmd=get_result rc=0 value=%s", value);
    else {
        word_of(key ? key : "", word, sizeof word);
        mu_pmi1_reply(client, "cmd=get_result rc=-1 msg=key_%s_not_found", word);
    }
}

/* Subversion 1 knows one barrier, that of all tasks. */
static void answer_barrier(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    const char *group = mu_pmi1_field(line, "group");

    if (group && strncmp(group, "WORLD", 5) != 0) {
        mu_pmi1_reply(client, "cmd=barrier_out rc=-1 msg=there_are_no_barriers_of_groups");
        return;
    }
    client->in_barrier = true;
    client->server->waiting++;
    mu_pmi1_look(client->server);
    if (client->in_barrier && client->server->options.waits)
        client->server->options.waits(client->server->options.arg);
}

static void answer_finalize(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    (void)line;
    client->state = MU_PMI1_OUT;
    mu_pmi1_reply(client, "cmd=finalize_ack rc=0");
}

/* There is no reply: the task that says it waits for its end. */
static void answer_abort(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    const struct mu_pmi1_options *options = &client->server->options;
    const char *message = mu_pmi1_field(line, "message");
    long code = mu_pmi1_number(line, "exitcode", mu_pmi1_number(line, "exit_code", 1));

    if (!message)
        message = mu_pmi1_field(line, "error_msg");
    if (client->state == MU_PMI1_GIVEN_UP)
        return;
    client->state = MU_PMI1_GIVEN_UP;
    options->aborted(options->arg, client->task, (int)code, message ? message : "");
}

/* ---- names ---- */

static void answer_publish(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    const char *service = mu_pmi1_field(line, "service"), *port = mu_pmi1_field(line, "port");
    struct mu_pmi1 *server = client->server;

    if (!service || !*service || !port || strlen(port) > MU_PMI1_VALUE_MAX)
        mu_pmi1_reply(client, "cmd=publish_result rc=-1 msg=no_%s", service && *service ? "port" : "service");
    else if (port_of(server, service))
        mu_pmi1_reply(client, "cmd=publish_result rc=-1 msg=it_is_published_already");
    else if (client->puts >= MU_PMI1_PUTS_MAX)
        mu_pmi1_reply(client, "cmd=publish_result rc=-1 msg=a_task_publishes_at_most_%u_names", MU_PMI1_PUTS_MAX);
    else if (!change_name(server, 'n', service, port))
        mu_pmi1_reply(client, "cmd=publish_result rc=-1 msg=out_of_memory");
    else {
        client->puts++;
        name_spread(server, service);
        mu_pmi1_reply(client, "cmd=publish_result rc=0");
    }
}

static void answer_unpublish(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    const char *service = mu_pmi1_field(line, "service");
    struct mu_pmi1 *server = client->server;

    if (service && port_of(server, service) && change_name(server, 'u', service, "")) {
        name_spread(server, service);
        mu_pmi1_reply(client, "cmd=unpublish_result rc=0");
    } else {
        mu_pmi1_reply(client, "cmd=unpublish_result rc=-1 msg=service_not_found");
    }
}

static void answer_lookup(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    const char *service = mu_pmi1_field(line, "service"), *port = service ? port_of(client->server, service) : NULL;

    if (port)
        mu_pmi1_reply(client, "cmd=lookup_result rc=0 port=%s", port);
    else
        mu_pmi1_reply(client, "cmd=lookup_result rc=-1 msg=service_not_found");
}

/* ---- what is refused ---- */

static void answer_singinit(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    (void)line;
    mu_pmi1_reply(client, "cmd=singinit_info rc=-1 versionok=no stdio=no kvsname=%s msg=this_task_is_no_singleton",
                  client->server->options.kvsname);
}

enum { SPAWNS_MAX = 1 << 20 };

/* Lines, of one block for each command, until the last block's end. */
static void hear_spawn(struct mu_pmi1_client *client, const struct mu_pmi1_line *line)
{
    long all = mu_pmi1_number(line, "totspawns", 0), number = mu_pmi1_number(line, "spawnssofar", 0);

    if (all > 0 && all <= SPAWNS_MAX && client->spawns_left <= SPAWNS_MAX)
        client->spawns_left += all;
    if (number > 0 && number <= SPAWNS_MAX && client->spawns_left > -SPAWNS_MAX)
        client->spawns_left -= number;
    if (strcmp(line->count ? line->fields[0].name : "", "endcmd") != 0)
        return;
    client->in_spawn = false;
    if (client->spawns_left <= 0)
        mu_pmi1_reply(client, "cmd=spawn_result rc=-1 msg=a_job_of_muster_has_as_many_tasks_as_it_began_with");
}

static void begin_spawn(struct mu_pmi1_client *client)
{
    client->in_spawn = true;
    client->spawns_left = 0;
}

/* ---- which is which ---- */

static const struct pmi1_message {
    const char *cmd;
    answer *answer;
    bool anytime; /* also before init */
} messages[] = {
    {"init", answer_init, true},
    {"get_maxes", answer_maxes, false},
    {"get_appnum", answer_appnum, false},
    {"get_universe_size", answer_universe, false},
    {"get_my_kvsname", answer_kvsname, false},
    {"put", answer_put, false},
    {"get", answer_get, false},
    {"barrier_in", answer_barrier, false},
    {"finalize", answer_finalize, false},
    {"abort", answer_abort, true},
    {"publish_name", answer_publish, false},
    {"unpublish_name", answer_unpublish, false},
    {"lookup_name", answer_lookup, false},
    {"singinit", answer_singinit, true},
};

static void answer_known(struct mu_pmi1_client *client, const struct mu_pmi1_line *line, const char *cmd)
{
    char word[64];

    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        if (strcmp(messages[i].cmd, cmd) != 0)
            continue;
        if (messages[i].anytime || client->state == MU_PMI1_IN) {
            messages[i].answer(client, line);
            return;
        }
        mu_pmi1_reply(client, "cmd=%s_result rc=-1 msg=init_comes_first", cmd);
        return;
    }
    word_of(cmd, word, sizeof word);
    mu_pmi1_reply(client, "cmd=%s rc=-1 msg=unknown_command", *word ? word : "unknown");
}

void mu_pmi1_hear(struct mu_pmi1_client *client, char *text)
{
    struct mu_pmi1_line line;
    const char *cmd, *mcmd;

    mu_pmi1_parse(text, &line);
    cmd = mu_pmi1_field(&line, "cmd");
    mcmd = mu_pmi1_field(&line, "mcmd");
    if (client->task == UINT32_MAX)
        mu_pmi1_introduce(client, &line);
    else if (client->in_spawn)
        hear_spawn(client, &line);
    else if (mcmd && strcmp(mcmd, "spawn") == 0)
        begin_spawn(client);
    else
        answer_known(client, &line, cmd ? cmd : "");
}
