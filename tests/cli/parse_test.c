/*
 * tests/cli/parse_test.c: durations, sizes, numbers, lists and job names: what is read, and what is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "cm.h"

#include "cli/cli.h"

#define COUNT(array) (sizeof array / sizeof array[0])

struct number {
    const char *text;
    uint64_t value;
};

TEST(test_durations)
{
    static const char *const refused[] = {"",    "5",   "s",   "-1s",      "+1s", "1e3s",   "0x10s",
                                          "1 s", " 1s", "1s ", "inf",      "nan", "1.2.3s", ".5s",
                                          "1S",  "1M",  "00",  "1000000d", "1ss"};
    static const struct number read[] = {{"0", 0},
                                         {"0s", 0},
                                         {"500ms", 500000000},
                                         {"30s", 30000000000},
                                         {"5m", 300000000000},
                                         {"2h", 7200000000000},
                                         {"1d", 86400000000000},
                                         {"7ns", 7},
                                         {"1.5us", 1500},
                                         {"1.5s", 1500000000},
                                         {"0.1s", 100000000}};
    uint64_t ns;

    for (size_t i = 0; i < COUNT(refused); i++) {
        ns = 42;
        if (mu_cli_parse_duration(refused[i], &ns) == 0)
            fail_msg("'%s' was read as %llu ns", refused[i], (unsigned long long)ns);
        assert_int_equal(ns, 42);
    }
    for (size_t i = 0; i < COUNT(read); i++) {
        assert_int_equal(mu_cli_parse_duration(read[i].text, &ns), 0);
        assert_int_equal(ns, read[i].value);
    }
}

TEST(test_sizes)
{
    static const char *const refused[] = {"", "M", "-1", "1T", "1e9", "0x10", "1 M", "1MM", "9999999999G", "1.1.1"};
    static const struct number read[] = {{"0", 0},           {"4096", 4096},          {"1K", 1024},
                                         {"64M", 64u << 20}, {"1.5MiB", 1536u << 10}, {"8GiB", 8ull << 30}};
    uint64_t bytes;

    for (size_t i = 0; i < COUNT(refused); i++)
        if (mu_cli_parse_size(refused[i], &bytes) == 0)
            fail_msg("'%s' was read as %llu bytes", refused[i], (unsigned long long)bytes);
    for (size_t i = 0; i < COUNT(read); i++) {
        assert_int_equal(mu_cli_parse_size(read[i].text, &bytes), 0);
        assert_int_equal(bytes, read[i].value);
    }
}

TEST(test_numbers)
{
    uint64_t value;
    int64_t with_sign;

    assert_int_equal(mu_cli_parse_unsigned("18446744073709551615", UINT64_MAX, &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(mu_cli_parse_unsigned("18446744073709551616", UINT64_MAX, &value), -1);
    assert_int_equal(mu_cli_parse_unsigned("11", 10, &value), -1);
    assert_int_equal(mu_cli_parse_unsigned("-1", UINT64_MAX, &value), -1);
    assert_int_equal(mu_cli_parse_unsigned("", 10, &value), -1);
    assert_int_equal(mu_cli_parse_unsigned("1x", 10, &value), -1);
    assert_int_equal(mu_cli_parse_signed("-9223372036854775808", &with_sign), 0);
    assert_true(with_sign == INT64_MIN);
    assert_int_equal(mu_cli_parse_signed("9223372036854775808", &with_sign), -1);
    assert_int_equal(mu_cli_parse_signed("-", &with_sign), -1);
    assert_int_equal(mu_cli_parse_signed("1 ", &with_sign), -1);
}

TEST(test_lists)
{
    static const char *const refused[] = {
        "", ",", "1,", ",1", "a", "1-", "-1", "3-1", "8192", "1,,2", "1 ,2", "0-8191,0", "99999999999999999999"};
    static const int32_t expected[] = {0, 2, 3, 4, 5, 1};
    int32_t *ids;
    size_t count;

    for (size_t i = 0; i < COUNT(refused); i++)
        if (mu_cli_parse_list(refused[i], &ids, &count) == 0)
            fail_msg("'%s' was read as %zu tasks", refused[i], count);
    assert_int_equal(mu_cli_parse_list("0,2-5,1", &ids, &count), 0);
    assert_int_equal(count, COUNT(expected));
    assert_memory_equal(ids, expected, sizeof expected);
    free(ids);
    assert_int_equal(mu_cli_parse_list("0-8191", &ids, &count), 0);
    assert_int_equal(count, 8192);
    assert_int_equal(ids[8191], 8191);
    free(ids);
}

TEST(test_job_names)
{
    char name[202];

    memset(name, 'x', sizeof name);
    name[201] = 0;
    assert_false(mu_cli_valid_job(name));
    name[200] = 0;
    assert_true(mu_cli_valid_job(name));
    for (unsigned c = 1; c < 256; c++) {
        char one[3] = {'a', (char)c, 0};
        int wanted = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
                     c == '_' || c == '-';

        assert_int_equal(mu_cli_valid_job(one), wanted);
    }
    assert_false(mu_cli_valid_job(""));
    assert_false(mu_cli_valid_job(".hidden"));
}
