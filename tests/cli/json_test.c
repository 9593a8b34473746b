/*
 * tests/cli/json_test.c: JSON is well-formed whatever it is given: every byte, broken UTF-8, no bytes at all.
 */
#include <stdlib.h>
#include <string.h>

#include "cm.h"

#include "cli/cli.h"

/* What the value becomes under the key "k" of an object. */
static char *written(const char *bytes, size_t len, int is_value)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct mu_cli_json json;

    assert_non_null(out);
    mu_cli_json_start(&json, out);
    mu_cli_json_open(&json, NULL, '{');
    if (is_value)
        mu_cli_json_bytes(&json, "k", bytes, len);
    else
        mu_cli_json_text_n(&json, "k", bytes, len);
    mu_cli_json_close(&json, '}');
    mu_cli_json_end(&json);
    fclose(out);
    return text;
}

struct vector {
    const char *bytes;
    size_t len;
    const char *as_text, *as_value;
};
#define B(text) text, sizeof text - 1

static const struct vector vectors[] = {
    {B(""), "{\"k\":\"\"}\n", "{\"k\":\"\"}\n"},
    {B("plain"), "{\"k\":\"plain\"}\n", "{\"k\":\"plain\"}\n"},
    {B("\"\\/\n\t\r\b\x01\x7f"), "{\"k\":\"\\\"\\\\/\\n\\t\\u000d\\u0008\\u0001\\u007f\"}\n",
     "{\"k\":\"\\\"\\\\/\\n\\t\\u000d\\u0008\\u0001\\u007f\"}\n"},
    {B("\0"), "{\"k\":\"\\u0000\"}\n", "{\"k\":\"\\u0000\"}\n"},
    {B("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), "{\"k\":\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"}\n",
     "{\"k\":\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"}\n"},
    {B("\xc2\x9b\xc2\xa0"), "{\"k\":\"\\u009b\xc2\xa0\"}\n",
     "{\"k\":\"\\u009b\xc2\xa0\"}\n"}, /* a terminal obeys U+009B */
    /* Broken: a stray continuation, a cut character, too long a form, a surrogate, above the last, never a first byte.
     */
    {B("\x80"), "{\"k\":\"\\ufffd\"}\n", "{\"k_base64\":\"gA==\"}\n"},
    {B("a\xc3"), "{\"k\":\"a\\ufffd\"}\n", "{\"k_base64\":\"YcM=\"}\n"},
    {B("\xc0\xaf"), "{\"k\":\"\\ufffd\\ufffd\"}\n", "{\"k_base64\":\"wK8=\"}\n"},
    {B("\xe0\x80\xaf"), "{\"k\":\"\\ufffd\\ufffd\\ufffd\"}\n", "{\"k_base64\":\"4ICv\"}\n"},
    {B("\xed\xa0\x80"), "{\"k\":\"\\ufffd\\ufffd\\ufffd\"}\n", "{\"k_base64\":\"7aCA\"}\n"},
    {B("\xf4\x90\x80\x80"), "{\"k\":\"\\ufffd\\ufffd\\ufffd\\ufffd\"}\n", "{\"k_base64\":\"9JCAgA==\"}\n"},
    {B("\xff\xfe!"), "{\"k\":\"\\ufffd\\ufffd!\"}\n", "{\"k_base64\":\"//4h\"}\n"},
    {B("\xe2\x82"), "{\"k\":\"\\ufffd\\ufffd\"}\n", "{\"k_base64\":\"4oI=\"}\n"},
};

TEST(test_bytes)
{
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const struct vector *v = &vectors[i];
        char *text = written(v->bytes, v->len, 0), *value = written(v->bytes, v->len, 1);

        assert_string_equal(text, v->as_text);
        assert_string_equal(value, v->as_value);
        free(text);
        free(value);
    }
}

/* No two-byte string makes raw control characters or an unescaped quote. */
TEST(test_every_pair)
{
    for (unsigned pair = 0; pair < 65536; pair++) {
        char bytes[2] = {(char)(pair >> 8), (char)pair};
        char *text = written(bytes, 2, 0);
        size_t len = strlen(text);

        assert_true(mu_cli_is_utf8(text, len));
        for (const char *at = text + 6; at < text + len - 3; at++) {
            assert_true((unsigned char)*at >= 0x20 && *at != 0x7f && *at != '"' && !mu_cli_is_c1(at, 2));
            at += *at == '\\';
        }
        free(text);
    }
}

TEST(test_nesting)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct mu_cli_json json;

    mu_cli_json_start(&json, out);
    mu_cli_json_open(&json, NULL, '{');
    mu_cli_json_open(&json, "a", '[');
    mu_cli_json_signed(&json, NULL, INT64_MIN);
    mu_cli_json_unsigned(&json, NULL, UINT64_MAX);
    mu_cli_json_open(&json, NULL, '{');
    mu_cli_json_close(&json, '}');
    mu_cli_json_null(&json, NULL);
    mu_cli_json_close(&json, ']');
    mu_cli_json_bool(&json, "b", 1);
    mu_cli_json_open(&json, "c", '[');
    mu_cli_json_close(&json, ']');
    mu_cli_json_close(&json, '}');
    mu_cli_json_end(&json);
    fclose(out);
    assert_string_equal(text, "{\"a\":[-9223372036854775808,18446744073709551615,{},null],\"b\":true,\"c\":[]}\n");
    free(text);
}
