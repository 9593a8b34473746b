/*
 * tests/cli/format_test.c: text from a job, printed for people: nothing in it reaches the terminal as a command.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

#define B(text) text, sizeof text - 1

static char *printed(const char *bytes, size_t len)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    mu_cli_print_text(out, bytes, len);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Only what offends is escaped: the characters beside it stay readable. */
TEST(what_offends_is_escaped_and_nothing_else)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *want;
    } vectors[] = {
        {B(""), ""},
        {B("plain, \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), "plain, \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
        {B("a\nb\tc\\d"), "a\\nb\\tc\\\\d"},
        {B("\x1b[2J\x7f\0"), "\\x1b[2J\\x7f\\x00"},
        {B("\xc2\x9b"
           "2J"),
         "\\xc2\\x9b2J"}, /* U+009B is what ESC [ is */
        {B("\xc2\x80\xc2\x9f\xc2\xa0"), "\\xc2\\x80\\xc2\\x9f\xc2\xa0"},
        {B("\xc3\xa4\xff\xc3\xa4"), "\xc3\xa4\\xff\xc3\xa4"},
        {B("\x9b\xc3\xa4\xe2\x82"), "\\x9b\xc3\xa4\\xe2\\x82"}, /* cut off */
        {B("\xc2"), "\\xc2"},
    };

    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        char *text = printed(vectors[i].bytes, vectors[i].len);

        assert_string_equal(text, vectors[i].want);
        free(text);
    }
}

TEST(no_three_bytes_make_a_control_character)
{
    for (unsigned pair = 0; pair < 65536; pair++) {
        char bytes[3] = {'a', (char)(pair >> 8), (char)pair};
        char *text = printed(bytes, sizeof bytes);
        size_t len = strlen(text);

        assert_true(mu_cli_is_utf8(text, len));
        for (size_t i = 0; i < len; i++)
            assert_true((unsigned char)text[i] >= 0x20 && text[i] != 0x7f && !mu_cli_is_c1(text + i, len - i));
        free(text);
    }
}
