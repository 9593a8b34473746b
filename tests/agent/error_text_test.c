/*
 * tests/agent/error_text_test.c: the exception in what a task leaves as JSON: one line of UTF-8, bounded, whatever the
 * file holds.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/private.h"
#include "base/utf8.h"

static const struct {
    const char *json, *text;
} vectors[] = {
    {"", NULL},
    {"{", NULL},
    {"[]", NULL},
    {"{\"message\"", NULL},
    {"{\"message\":", NULL},
    {"{\"message\": null}", NULL},
    {"{\"message\": 7}", NULL},
    {"{\"message\": \"\"}", NULL},
    {"{\"message\": {\"extraInfo\": {}}}", NULL},
    {"{\"message\": {\"message\": {\"message\": {", NULL},
    {"{\"message\": \"\xff\xfe\"}", NULL},
    {"{\"message\": \"plain\"}", "plain"},
    {" {\n \"message\" :\t\"plain\" }", "plain"},
    {"{\"message\": {\"message\": \"ValueError: x\", \"extraInfo\": {\"timestamp\": \"1\"}}}", "ValueError: x"},
    {"{\"message\": {\"extraInfo\": {\"timestamp\": \"1\"}, \"message\": \"behind\"}}", "behind"},
    {"{\"message\": \"cut sho", "cut sho"},
    {"{\"message\": \"cut \\", "cut"},
    {"{\"message\": \"cut \\u12", "cut  12"},
    {"{\"message\": \"a\\nb\\tc\\\\d\\/e\\\"f\"}", "a b c\\d/e\"f"},
    {"{\"message\": \"a\nb\x7f"
     "c\"}",
     "a b c"},
    {"{\"message\": \"\\u0000\\u001b[1m\"}", "  [1m"},
    {"{\"message\": \"\\u00e4 \\u201c \\ud83d\\ude00\"}", "\xc3\xa4 \xe2\x80\x9c \xf0\x9f\x98\x80"},
    {"{\"message\": \"\\ud83d \\ude00 \\ud83d\\u0041\"}", "\xef\xbf\xbd \xef\xbf\xbd \xef\xbf\xbd"
                                                          "A"},
};

TEST(the_message_is_found)
{
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        char *text = mu_agent_error_text(vectors[i].json);

        if (!vectors[i].text != !text || (text && strcmp(text, vectors[i].text) != 0))
            fail_msg("%s: '%s', not '%s'", vectors[i].json, text ? text : "nothing",
                     vectors[i].text ? vectors[i].text : "nothing");
        free(text);
    }
}

TEST(a_long_one_ends_between_words)
{
    static char json[70000];
    char *text;
    size_t len = (size_t)snprintf(json, sizeof json, "{\"message\": \"");

    while (len < sizeof json - 16)
        len += (size_t)snprintf(json + len, sizeof json - len, "w\xc3\xb6rter ");
    text = mu_agent_error_text(json);
    assert_non_null(text);
    assert_true(strlen(text) > 300 && strlen(text) < 410);
    assert_string_equal(text + strlen(text) - 11, "w\xc3\xb6rter ...");
    free(text);
    len = (size_t)snprintf(json, sizeof json, "{\"message\": \"");
    while (len < sizeof json - 16) /* no word ends, and characters of several bytes */
        len += (size_t)snprintf(json + len, sizeof json - len, "\\ud83d\\ude00");
    text = mu_agent_error_text(json);
    assert_non_null(text);
    assert_true(strlen(text) > 300 && strlen(text) < 410 && mu_is_utf8(text, strlen(text)));
    free(text);
}
