/* tests/bridge/protocol_test.c: PROTOCOL.md says what the tables say: what a host is to another, which frames there
 * are, which calls. */
#include "cm.h"
#include "bridge/core/frame.h"
#include "bridge/core/modules.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *document;

static int load(void)
{
    FILE *f = fopen("src/bridge/PROTOCOL.md", "r");
    size_t n;

    assert_non_null(f);
    document = calloc(1, 1 << 20);
    assert_non_null(document);
    n = fread(document, 1, (1 << 20) - 1, f);
    fclose(f);
    return n ? 0 : -1;
}

static int unload(void)
{
    free(document);
    return 0;
}

TEST(the_version_is_the_documents)
{
    char title[80], field[80];

    snprintf(title, sizeof title, "# The bridge's protocol, version %u\n", MU_BRIDGE_VERSION);
    snprintf(field, sizeof field, "\n| 2 | 1 | version | %u. ", MU_BRIDGE_VERSION);
    assert_int_equal(strncmp(document, title, strlen(title)), 0);
    assert_non_null(strstr(document, field));
}

TEST(every_step_of_a_peer_is_in_the_document)
{
    static const char *const words[] = {"stays", "refused", "up", "taken", "down", "down, up", "lost"};

    for (int s = 0; s < MU_PEER_STATES; s++) {
        char row[200];
        int n = snprintf(row, sizeof row, "\n| %s |", mu_peer_state_names[s]);

        for (int e = 0; e < MU_PEER_EVENTS; e++)
            n += snprintf(row + n, sizeof row - (size_t)n, " %s |", words[mu_peer_steps[s][e]]);
        if (!strstr(document, row))
            fail_msg("PROTOCOL.md has no row%s", row);
    }
}

TEST(every_frame_has_a_section_and_every_section_a_frame)
{
    const char *at = document;
    size_t sections = 0;

    for (size_t i = 0; i < mu_frame_kinds_count; i++) {
        const struct mu_frame_kind *k = &mu_frame_kinds[i];
        char heading[64];

        snprintf(heading, sizeof heading, "\n## %u %s\n", k->type, k->name);
        if (!strstr(document, heading))
            fail_msg("PROTOCOL.md has no section \"%u %s\"", k->type, k->name);
        assert_true(k->type >= 16 && k->min_len <= k->max_len && k->take);
        for (size_t j = 0; j < i; j++)
            assert_true(mu_frame_kinds[j].type != k->type);
    }
    while ((at = strstr(at, "\n## "))) {
        at += 4;
        sections += isdigit((unsigned char)*at) && strtoul(at, NULL, 10) >= 16;
    }
    assert_int_equal(sections, mu_frame_kinds_count);
}

TEST(every_call_is_in_the_document)
{
    for (size_t i = 0; i < mu_op_kinds_count; i++) {
        const struct mu_op_kind *k = &mu_op_kinds[i];
        char name[64], text[80];
        size_t n = 0;

        for (const char *p = k->name; *p && n + 1 < sizeof name; p++)
            name[n++] = *p == ' ' ? '_' : (char)toupper((unsigned char)*p);
        name[n] = 0;
        snprintf(text, sizeof text, "**%u %s**", k->op, name);
        if (!strstr(document, text))
            fail_msg("PROTOCOL.md has no call %s", text);
        for (size_t j = 0; j < i; j++)
            assert_true(mu_op_kinds[j].op != k->op);
    }
}

int main(void)
{
    return test_run(load, unload);
}
