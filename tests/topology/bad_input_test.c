/*
 * tests/topology/bad_input_test.c: files and words that are no machine, whatever is done to them: a status, one
 * sentence that names them, and no crash.
 */
#include "cm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"
#include "describe.h"
#include "seed.h"

static char folder[256], path[512];

static int begin(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%s/topology.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/machine.xml", folder);
    return 0;
}

static int end(void)
{
    unlink(path);
    return rmdir(folder);
}

static void write_file(const char *text, size_t size)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* One of ours. malloc()ed. */
static char *read_machine(const char *name, size_t *ret_size)
{
    const char *top = getenv("TOP");
    char *text = malloc(1 << 20), from[512];
    FILE *file;

    snprintf(from, sizeof from, "%s/tests/topology/machines/%s.xml", top ? top : ".", name);
    file = fopen(from, "r");
    assert_non_null(file);
    assert_non_null(text);
    *ret_size = fread(text, 1, (1 << 20) - 1, file);
    text[*ret_size] = '\0';
    fclose(file);
    return text;
}

static void expect_failure(enum muster_status status, const struct muster_topology_source *source, const char *says)
{
    struct muster_topology *topology = NULL;

    assert_status(status, muster_topology_load(source, &topology));
    assert_null(topology);
    assert_says(says);
    assert_null(strchr(muster_last_error(), '\n'));
}

static void expect_file_failure(const char *text, const char *says)
{
    write_file(text, strlen(text));
    expect_failure(MUSTER_INVALID_ARGUMENT, &(struct muster_topology_source){.hwloc_xml = path}, says);
    assert_says(path);
}

TEST_WITH(what_is_no_topology_is_named_for_what_it_is, begin, end)
{
    expect_file_failure("", "it has no <topology>");
    expect_file_failure("teapot", "it has no <topology>");
    expect_file_failure("<?xml version=\"1.0\"?>\n<html>\n</html>\n", "it has no <topology>");
    expect_file_failure("<system version=\"1\">\n  <cpu numaid=\"0\">\n  </cpu>\n</system>\n",
                        "is a topology of NCCL's (its first element is <system>)");
    expect_file_failure("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
                        "<topology version=\"3.0\">\n</topology>\n",
                        "is a topology of hwloc 3's");
    expect_file_failure("<topology>\n<object type=\"System\" os_index=\"0\">\n</object>\n</topology>\n",
                        "is of several machines (its outermost object is hwloc 1's System)");
    expect_file_failure("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
                        "<topology version=\"2.0\">\n</topology>\n",
                        "no topology that hwloc can read");
}

TEST_WITH(what_cannot_be_read_says_why, begin, end)
{
    expect_failure(MUSTER_NOT_FOUND, &(struct muster_topology_source){.hwloc_xml = path}, "No such file");
    expect_failure(MUSTER_INVALID_ARGUMENT, &(struct muster_topology_source){.hwloc_xml = folder}, "cannot read");
    expect_failure(MUSTER_INVALID_ARGUMENT, &(struct muster_topology_source){.hwloc_xml = "/dev/zero"},
                   "File too large");
}

TEST_WITH(words_that_describe_nothing_are_repeated, begin, end)
{
    static const char *const words[] = {"", "teapot:3", "package:2 core", "pu:0", "core:2 package:2", "pu:-1"};
    char long_words[4096], says[64];

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        snprintf(says, sizeof says, "'%s' describes no machine", words[i]);
        expect_failure(MUSTER_INVALID_ARGUMENT, &(struct muster_topology_source){.synthetic = words[i]}, says);
    }
    memset(long_words, 'x', sizeof long_words - 1);
    long_words[sizeof long_words - 1] = '\0';
    expect_failure(MUSTER_INVALID_ARGUMENT, &(struct muster_topology_source){.synthetic = long_words},
                   "xxx' describes no machine");
}

TEST_WITH(two_machines_at_once_are_refused, begin, end)
{
    expect_failure(MUSTER_INVALID_ARGUMENT, &(struct muster_topology_source){.synthetic = "pu:1", .hwloc_xml = path},
                   "not from both");
    expect_failure(MUSTER_INVALID_ARGUMENT, &(struct muster_topology_source){.synthetic = "pu:1", .root = folder},
                   "not from both");
    expect_failure(MUSTER_INVALID_ARGUMENT, &(struct muster_topology_source){.hwloc_xml = path, .root = folder},
                   "not from both");
}

/* What is loaded is looked at, all of it. */
static void load_and_read(void)
{
    struct muster_topology *topology;
    enum muster_status status = muster_topology_load(&(struct muster_topology_source){.hwloc_xml = path}, &topology);

    if (status == MUSTER_OK) {
        free(test_describe(topology));
        muster_topology_free(topology);
        return;
    }
    assert_int_equal(status, MUSTER_INVALID_ARGUMENT);
    assert_says(path);
}

TEST_WITH(a_file_may_end_anywhere, begin, end)
{
    static const char *const names[] = {"row", "makers", "switched", "power9"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t size;
        char *text = read_machine(names[i], &size);

        for (size_t cut = i; cut < size; cut += 5 + i * 8) {
            write_file(text, cut);
            load_and_read();
        }
        free(text);
    }
}

/*
 * The same each time: what hwloc makes of damage is hwloc's, and is not to fail this test by chance. In a child, for
 * hwloc leaks what it has read of a file that it then refuses.
 */
static int reads_damaged_files(void *arg)
{
    static const char *const names[] = {"row", "makers", "switched", "power9"};
    struct test_random random = {.state = 1};

    (void)arg;
    for (size_t i = 0; i < 300; i++) {
        size_t size;
        char *text = read_machine(names[i % 4], &size);

        for (uint64_t n = 1 + test_below(&random, 3); n > 0; n--) {
            size_t at = (size_t)test_below(&random, size - 40), from = (size_t)test_below(&random, size - 40);

            if (test_below(&random, 3) == 0)
                memmove(text + at, text + from, (size_t)test_below(&random, 40));
            else
                text[at] = "0123456789abcdef\"<>/x- ,:"[test_below(&random, 25)];
        }
        write_file(text, size);
        load_and_read();
        free(text);
    }
    return 0;
}

TEST_WITH(a_file_may_be_damaged_anywhere, begin, end)
{
    assert_int_equal(test_in_child(reads_damaged_files, NULL), 0);
}

TEST_WITH(deep_nesting_and_sets_that_are_none_are_refused, begin, end)
{
    static char text[64 << 10];
    size_t length;

    length = (size_t)snprintf(text, sizeof text, "<topology version=\"2.0\">\n");
    for (int i = 0; i < 2000; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "<object type=\"Group\">\n");
    expect_file_failure(text, "its elements are nested too deep (line 257)");
    expect_file_failure("<topology version=\"2.0\">\n<object type=\"Machine\" cpuset=\"0x1\" nodeset=\"0x1\">\n"
                        "</object>\n</topology>\n",
                        "lacks a set or has a wrong set or index (line 2)");
    expect_file_failure("<topology version=\"2.0\">\n<object type=\"Machine\" cpuset=\",0x1\" nodeset=\"0x1\" "
                        "complete_cpuset=\"0x1\" complete_nodeset=\"0x1\">\n</object>\n</topology>\n",
                        "(line 2)");
    expect_file_failure("<topology version=\"2.0\">\n<object type=\"PU\" os_index=\"4294967295\"/>\n</topology>\n",
                        "(line 2)");
    /* a bridge may have such a number; what hwloc may take for a processor may not */
    expect_file_failure("<topology version=\"2.0\">\n<object type=\"Bridge\" os_index=\"53477376\"/>\n</topology>\n",
                        "no topology that hwloc can read");
    expect_file_failure("<topology version=\"2.0\">\n<object type=\"NUMANode\" os_index=\"53477376\"/>\n</topology>\n",
                        "or index (line 2)");
    expect_file_failure("<topology version=\"2.0\">\n<object os_index=\"53477376\"/>\n</topology>\n", "(line 2)");
    expect_file_failure("<topology version=\"2.0\">\n<object type=\"Bridge\" os_index=\"53477376\" type=\"PU\"/>\n"
                        "</topology>\n",
                        "(line 2)");
    expect_file_failure("<topology version=\"2.0\">\n<object type=\"Machine\">\n</topology>\n</object>\n", "(line 3)");
    expect_file_failure("<topology version=\"2.0\">\n</topology>\n<topology>\n", "something follows its last element");
    expect_file_failure("<topology version=\"2.0", "(line 1)");
}
