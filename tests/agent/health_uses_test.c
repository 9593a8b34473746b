/*
 * tests/agent/health_uses_test.c: which GPU a process computes on, by its environment, and what errors are whose.
 */
#include "cm.h"

#include <stdio.h>
#include <string.h>

#include "agent/health/health.h"

static struct mu_health_gpus gpus;

static void add(const char *name, const char *uuid, int is_refused)
{
    struct mu_health_gpu *gpu = &gpus.gpus[gpus.num_gpus++];

    *gpu = (struct mu_health_gpu){.is_refused = is_refused};
    snprintf(gpu->name, sizeof gpu->name, "%s", name);
    snprintf(gpu->uuid, sizeof gpu->uuid, "%s", uuid);
}

static void add_part(uint32_t gpu, int32_t instance, const char *uuid)
{
    struct mu_health_part *part = &gpus.parts[gpus.num_parts++];

    *part = (struct mu_health_part){.gpu = gpu, .gpu_instance = instance};
    snprintf(part->uuid, sizeof part->uuid, "%s", uuid);
}

/* One letter a GPU: '-' not, 'u' used, '?' not told. '|' stands for the NUL between variables. */
static const char *who(const char *variables, int32_t instance)
{
    static const char letter[] = {[MU_HEALTH_USES_NOT] = '-', [MU_HEALTH_USES] = 'u', [MU_HEALTH_USE_NOT_TOLD] = '?'};
    static char answer[8];
    char text[256];
    size_t len = strlen(variables) + 1;

    memcpy(text, variables, len);
    for (size_t i = 0; i < len; i++)
        if (text[i] == '|')
            text[i] = 0;
    for (uint32_t i = 0; i < gpus.num_gpus; i++)
        answer[i] = letter[mu_health_uses(&gpus, text, len, i, instance)];
    answer[gpus.num_gpus] = 0;
    return answer;
}

#define V "CUDA_VISIBLE_DEVICES="

TEST(a_beginning_of_two_uuids_names_none)
{
    memset(&gpus, 0, sizeof gpus);
    add("H100", "GPU-aa11-2", 0);
    add("H100", "GPU-aa12-3", 0);
    assert_string_equal(who(V "GPU-aa1", -1), "--");
    assert_string_equal(who(V "GPU-aa1,1", -1), "--"); /* and so ends the list */
    assert_string_equal(who(V "GPU-aa12", -1), "-u");
}

TEST(lists_are_read_as_cuda_does)
{
    static const struct {
        const char *variables, *expected;
    } cases[] = {
        {"", "???"},
        {"PATH=/bin|HOME=/", "???"},
        {"XCUDA_VISIBLE_DEVICES=1", "???"},
        {V, "---"},
        {V "0", "u--"},
        {"A=1|" V "2|B=2", "--u"},
        {V "2,0", "u-u"},
        {V "0,7,1", "u--"}, /* the first that names none ends the list */
        {V "-1", "---"},
        {V "1x,0", "---"},
        {V "none", "---"},
        {V "GPU-aa11", "u--"},
        {V "GPU-bb22-3,GPU-c", "-uu"},
        {V "GPU-zz,0", "---"},
        {V "GPU-", "---"},
        {V "0,", "u--"},
        {V "0|MUSTER_GPUS=GPU-c", "--u"}, /* the launcher's word goes first */
        {V "0|" V "1", "u--"},
    };

    memset(&gpus, 0, sizeof gpus);
    add("H100", "GPU-aa11-2", 0);
    add("H100", "GPU-bb22-3", 0);
    add("H100", "GPU-cc33-4", 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(who(cases[i].variables, -1), cases[i].expected) != 0)
            fail_msg("'%s' gives %s, not %s", cases[i].variables, who(cases[i].variables, -1), cases[i].expected);
}

TEST(what_lacks_its_end_is_not_read)
{
    const char *text = V "0";

    memset(&gpus, 0, sizeof gpus);
    add("H100", "GPU-aa11-2", 0);
    assert_int_equal(mu_health_uses(&gpus, text, strlen(text), 0, -1), MU_HEALTH_USE_NOT_TOLD);
    assert_int_equal(mu_health_uses(&gpus, text, strlen(text) + 1, 0, -1), MU_HEALTH_USES);
}

TEST(numbers_are_believed_where_they_can_be_ours)
{
    memset(&gpus, 0, sizeof gpus);
    add("H100", "GPU-aa", 0);
    add("", "", 1); /* handed to another container */
    add("H100", "GPU-cc", 0);
    assert_string_equal(who(V "1", -1), "--u");
    assert_string_equal(who(V "2", -1), "---");
    add("T400", "GPU-dd", 0);
    assert_string_equal(who(V "1", -1), "????"); /* the fastest first, whichever that is */
    assert_string_equal(who(V "1|CUDA_DEVICE_ORDER=PCI_BUS_ID", -1), "--u-");
    assert_string_equal(who(V "GPU-dd", -1), "---u");
}

TEST(parts_are_told_apart)
{
    memset(&gpus, 0, sizeof gpus);
    add("H100", "GPU-aa", 0);
    add("H100", "GPU-bb", 0);
    add_part(0, 7, "MIG-1111");
    add_part(0, 8, "MIG-2222");
    assert_string_equal(who(V "MIG-2222", -1), "u-");
    assert_string_equal(who(V "MIG-2222", 8), "u-");
    assert_string_equal(who(V "MIG-2222", 7), "--");
    assert_string_equal(who(V "MIG-9999", -1), "??"); /* made since */
    assert_string_equal(who(V "MIG-GPU-bb/7/0", -1), "-u");
    assert_string_equal(who(V "MIG-GPU-bb/7/0", 8), "--");
    assert_string_equal(who(V "0", -1), "??"); /* which part that is CUDA alone knows */
    assert_string_equal(who(V "GPU-bb", -1), "-u");
}

TEST(errors_are_a_programs_or_the_hardwares)
{
    static const uint64_t programs[] = {13, 31, 43, 45},
                          hardware[] = {48, 61, 62, 64, 74, 79, 94, 95, 119, 120, 136, 145};
    char words[192];

    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        assert_int_equal(mu_health_event(NVML_EVENT_XID, programs[i], words, sizeof words), MU_HEALTH_PROGRAM);
    for (size_t i = 0; i < sizeof hardware / sizeof *hardware; i++)
        assert_int_equal(mu_health_event(NVML_EVENT_XID, hardware[i], words, sizeof words), MU_HEALTH_HARDWARE);
    assert_int_equal(mu_health_event(NVML_EVENT_XID, 63, words, sizeof words), MU_HEALTH_NOTED);
    assert_int_equal(mu_health_event(NVML_EVENT_XID, 0, words, sizeof words), MU_HEALTH_UNKNOWN);
    assert_int_equal(mu_health_event(NVML_EVENT_XID, UINT64_MAX, words, sizeof words), MU_HEALTH_UNKNOWN);
    assert_string_equal(words, "reported an error (Xid 18446744073709551615)");
    assert_int_equal(mu_health_event(NVML_EVENT_DOUBLE_BIT_ECC, 0, words, sizeof words), MU_HEALTH_HARDWARE);
    assert_int_equal(mu_health_event(4, 0, words, sizeof words), MU_HEALTH_UNKNOWN);
}
