/*
 * agent/serve/notes.c: what a job's agents serve, as keys of the job, for `muster status`: where, and what is going on
 * there.
 *
 * They are looked at once a second, and written where they have changed. Of several hosts the leader's agent notes for
 * all what they serve: another's may not sleep until a key is set.
 */
#include <string.h>

#include <muster/kv.h>

#include "agent/private.h"
#include "coord/coord.h"

#define NOTE_MS 1000

/* A copy of a note of the leader's, or of our own, for `muster status` on this host, which asks nobody. */
struct note_look {
    struct mu_coord_request request;
    bool open;
};

struct notes_state {
    uv_timer_t timer;
    int has_timer;
    struct note_look looks[MU_COMPONENT_COUNT][2];
    char notes[MU_COMPONENT_COUNT][MU_AGENT_NOTE]; /* what stands in their keys */
};

static struct notes_state *notes_state(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_NOTES);
}

/* Components are numbered by their place in the table, which is the same in all agents of a job. */
static bool is_served(const struct mu_agent *agent, unsigned what)
{
    return what < MU_COMPONENT_COUNT && agent->components[what]->key != NULL;
}

static void name_key(const struct mu_agent *agent, unsigned what, uint32_t host, char *key, size_t size)
{
    if (host)
        snprintf(key, size, "%s/%u", agent->components[what]->hosts_key, host);
    else
        snprintf(key, size, "%s", agent->components[what]->key);
}

/* A full segment: then status shows what it knew. */
static void set_note(struct mu_agent *agent, unsigned what, uint32_t host, const char *text)
{
    char key[64];

    name_key(agent, what, host, key, sizeof key);
    muster_kv_set(agent->muster, key, MUSTER_NTS, text, strlen(text), NULL);
}

static void notes_hear(struct mu_agent *agent, uint32_t host, struct mu_unpack *u)
{
    unsigned what = mu_unpack_u8(u);
    char text[MU_AGENT_NOTE] = "";

    mu_unpack_text(u, text, sizeof text);
    if (mu_agent_leads(agent) && agent->muster && !u->failed && is_served(agent, what))
        set_note(agent, what, host, text);
}

static void tell_note(struct mu_agent *agent, unsigned what)
{
    struct mu_pack note = {.bytes = NULL};

    mu_pack_u8(&note, (uint8_t)what);
    mu_pack_text(&note, notes_state(agent)->notes[what]);
    mu_agent_tell(agent, 0, MU_TALK_SERVES, &note);
    mu_pack_done(&note);
}

static void missing_note(struct mu_agent *agent, unsigned what)
{
    char text[MU_AGENT_NOTE] = "";

    agent->components[what]->describe(agent, text, sizeof text);
    if (strcmp(text, notes_state(agent)->notes[what]) == 0)
        return;
    snprintf(notes_state(agent)->notes[what], sizeof notes_state(agent)->notes[what], "%s", text);
    if (mu_agent_follows(agent))
        tell_note(agent, what);
    else
        set_note(agent, what, 0, text);
}

static void on_note_looked(struct mu_coord_request *request)
{
    ((struct note_look *)request)->open = false;
}

static void look_at_notes(struct mu_agent *agent, unsigned what)
{
    char key[64];

    for (unsigned own = 0; own < 2; own++) {
        struct note_look *look = &notes_state(agent)->looks[what][own];

        if (look->open)
            continue;
        name_key(agent, what, own ? agent->options->hosts->node : 0, key, sizeof key);
        *look = (struct note_look){.request = {.answered = on_note_looked}, .open = true};
        mu_coord_try_get(mu_agent_coord(agent), &look->request, key, strlen(key));
    }
}

static void note_all(struct mu_agent *agent)
{
    for (unsigned what = 0; what < MU_COMPONENT_COUNT; what++)
        if (is_served(agent, what))
            missing_note(agent, what);
}

static void note_again(uv_timer_t *timer)
{
    struct mu_agent *agent = timer->loop->data;

    note_all(agent);
    for (unsigned what = 0; what < MU_COMPONENT_COUNT && mu_agent_follows(agent) && mu_agent_coord(agent); what++)
        if (is_served(agent, what))
            look_at_notes(agent, what);
}

static int notes_begin(struct mu_agent *agent)
{
    if (!mu_agent_has_coord(agent) && !agent->options->ray && !agent->options->tf && !agent->options->checkpoint)
        return 0;
    memset(notes_state(agent)->notes, 0, sizeof notes_state(agent)->notes);
    note_all(agent);
    if (!notes_state(agent)->has_timer) /* once: the next attempt may begin before the loop has closed a handle */
        uv_timer_init(&agent->loop, &notes_state(agent)->timer);
    notes_state(agent)->has_timer = 1;
    uv_timer_start(&notes_state(agent)->timer, note_again, NOTE_MS, NOTE_MS);
    return 0;
}

static void notes_stop(struct mu_agent *agent)
{
    if (notes_state(agent)->has_timer)
        uv_timer_stop(&notes_state(agent)->timer);
}

const struct mu_component mu_notes_component = {.name = "notes",
                                                .state_size = sizeof(struct notes_state),
                                                .begin = notes_begin,
                                                .stop = notes_stop,
                                                .talk = MU_TALK_SERVES,
                                                .hear = notes_hear};
