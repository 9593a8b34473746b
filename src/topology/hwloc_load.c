/*
 * topology/hwloc_load.c: hwloc's tree, read by a child process, so that an assertion of hwloc's costs the child.
 *
 * A file is read here, checked (xml.c says why) and handed over as a buffer: hwloc only says "invalid argument" of
 * whatever is wrong with it. The child loads a file or words first; what it has survived, the caller loads again: equal
 * input, equal outcome (so of those that variables of hwloc's show). This machine is not the same each time one looks,
 * so of it the child exports what it has loaded, and the caller's tree is made of that XML.
 *
 * hwloc may not bind the calling thread to look at processors one by one, and then its x86 back end is silent. The
 * child may do so where hwloc needs it: where /sys/devices/system/cpu is hidden, and where hwloc dies of the kernel's
 * files and is asked a second time without them.
 */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topology/apart.h"
#include "topology/hwloc_library.h"
#include "topology/xml.h"

#define XML_MAX  (64u << 20) /* bytes; that of 384 processors is 0.3 MB */
#define LIMIT_MS 60000u      /* the slowest load known takes 4 s alone */

/* ---- a file ------------------------------------------------------------------------------------------------------ */

/* All of a file, with a NUL behind it. */
static enum muster_status read_whole(const char *path, char **ret_text, size_t *ret_size)
{
    FILE *file = fopen(path, "re");
    size_t size = 0, room = 1 << 16;
    char *text = file ? malloc(room) : NULL;
    int error = file ? ENOMEM : errno;

    while (text) {
        char *larger;

        size += fread(text + size, 1, room - size - 1, file);
        if (size < room - 1 || room > XML_MAX)
            break;
        room *= 2;
        larger = realloc(text, room);
        if (!larger)
            free(text);
        text = larger;
    }
    if (text) {
        error = ferror(file) ? EIO : size > XML_MAX ? EFBIG : 0;
        text[size] = '\0';
    }
    if (file)
        fclose(file);
    if (error) {
        free(text);
        return mu_fail(error == ENOENT   ? MUSTER_NOT_FOUND
                       : error == EACCES ? MUSTER_PERMISSION_DENIED
                       : error == ENOMEM ? MUSTER_RESOURCE_EXHAUSTED
                                         : MUSTER_INVALID_ARGUMENT,
                       "cannot read %s: %s", path, strerror(error));
    }
    *ret_text = text;
    *ret_size = size;
    return MUSTER_OK;
}

/* The file is refused: what it is instead, as far as its first element tells. */
static enum muster_status no_machine(const char *path, const char *text)
{
    size_t line;
    const char *fault = mu_xml_check(text, &line);
    static const char key[] = " version=\"";
    const char *topology = strstr(text, "<topology");
    unsigned long version = 0;

    if (!topology && strstr(text, "<system"))
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "%s is a topology of NCCL's (its first element is <system>), not one of hwloc's: make that with "
                       "'lstopo --of xml' on the machine",
                       path);
    if (!topology)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%s is no topology of hwloc's: it has no <topology>", path);
    topology += strlen("<topology");
    if (strncmp(topology, key, strlen(key)) == 0)
        version = strtoul(topology + strlen(key), NULL, 10);
    if (version > 2)
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "%s is a topology of hwloc %lu's, and the hwloc here is older: export it for version 2, with "
                       "'lstopo --export-xml-flags v2'",
                       path, version);
    if (fault)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%s is no whole topology of hwloc's: %s (line %zu)", path, fault, line);
    if (strstr(topology, "<object type=\"System\""))
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "%s is of several machines (its outermost object is hwloc 1's System), and the hwloc here reads "
                       "one machine a file: export each machine by itself",
                       path);
    return mu_fail(MUSTER_INVALID_ARGUMENT, "%s is no topology that hwloc can read: it is damaged", path);
}

/* ---- in the child ------------------------------------------------------------------------------------------------ */

enum hwloc_answer {
    TOLD_PART,     /* bytes of the XML */
    TOLD_LOADED,   /* the last: it can be loaded */
    TOLD_NO_START, /* with `error` */
    TOLD_NO_LOAD,
};

struct hwloc_told {
    int32_t what, error;
    int32_t is_here; /* it is this machine's, not one that a variable shows */
    int32_t is_poor; /* neither packages nor cores are in it */
    uint32_t size;
    char bytes[2800];
};
_Static_assert(sizeof(struct hwloc_told) <= MU_APART_RECORD_MAX, "a record goes through the pipe at once");

/* What a child is asked, and what it has told. */
struct hwloc_asking {
    const struct mu_hwloc *hwloc;
    const struct mu_hwloc_wish *wish;
    const char *xml; /* the file's; NULL: it is no file */
    size_t xml_size;
    int is_given;      /* by a file or in words: the caller loads it again */
    int may_bind;      /* a thread of the child, to look at processors one by one */
    int without_linux; /* the kernel's files are not read */
    struct hwloc_told last;
    char *text; /* the exported XML, with a NUL behind it */
    size_t size;
    int failed; /* no memory */
};

static void keep_io(const struct mu_hwloc *hwloc, hwloc_topology_t tree)
{
    hwloc->hwloc_topology_set_io_types_filter(tree, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
}

/* Not yet of anything. `flags` are refused by no hwloc that we use; those of the wish are, by old ones. */
static int tree_start(const struct mu_hwloc *hwloc, const struct mu_hwloc_wish *wish, unsigned long flags,
                      hwloc_topology_t *ret_tree)
{
    if (mu_hwloc_start(hwloc, ret_tree))
        return -1;
    (wish->filter ? wish->filter : keep_io)(hwloc, *ret_tree);
    if (hwloc->hwloc_topology_set_flags(*ret_tree, flags | wish->lean))
        hwloc->hwloc_topology_set_flags(*ret_tree, flags);
    return 0;
}

/* 0, or -1: what is wished is no machine. */
static int tree_load(const struct mu_hwloc *hwloc, const struct mu_hwloc_wish *wish, const char *xml, size_t xml_size,
                     hwloc_topology_t tree)
{
    if (xml && hwloc->hwloc_topology_set_xmlbuffer(tree, xml, (int)xml_size + 1))
        return -1;
    if (!xml && wish->source && wish->source->synthetic &&
        hwloc->hwloc_topology_set_synthetic(tree, wish->source->synthetic))
        return -1;
    return hwloc->hwloc_topology_load(tree);
}

static bool has_objects(const struct mu_hwloc *hwloc, hwloc_topology_t tree, hwloc_obj_type_t type)
{
    return hwloc->hwloc_get_type_depth(tree, type) != HWLOC_TYPE_DEPTH_UNKNOWN;
}

static void tell_xml(const struct mu_apart_pipe *pipe, const struct mu_hwloc *hwloc, hwloc_topology_t tree,
                     struct hwloc_told *told)
{
    char *xml = NULL;
    int length = 0;

    if (hwloc->hwloc_topology_export_xmlbuffer(tree, &xml, &length, 0)) {
        told->what = TOLD_NO_LOAD;
        told->error = errno;
        return;
    }
    told->what = TOLD_PART;
    for (size_t at = 0, left = (size_t)length; left > 0; at += told->size, left -= told->size) {
        told->size = (uint32_t)(left < sizeof told->bytes ? left : sizeof told->bytes);
        memcpy(told->bytes, xml + at, told->size);
        mu_apart_tell(pipe, told);
    }
    told->what = TOLD_LOADED;
    told->size = 0;
}

static void hwloc_tell(const struct mu_apart_pipe *pipe, void *arg)
{
    const struct hwloc_asking *asked = arg;
    const struct mu_hwloc *hwloc = asked->hwloc;
    static struct hwloc_told told;
    hwloc_topology_t tree;

    told.what = TOLD_LOADED;
    if (tree_start(hwloc, asked->wish, asked->may_bind ? 0 : HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING, &tree)) {
        told.what = TOLD_NO_START;
        told.error = errno;
    } else {
        if (asked->without_linux)
            hwloc->hwloc_topology_set_components(tree, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "linux");
        if (tree_load(hwloc, asked->wish, asked->xml, asked->xml_size, tree)) {
            told.what = TOLD_NO_LOAD;
            told.error = errno;
        } else if (!asked->is_given) {
            told.is_here = hwloc->hwloc_topology_is_thissystem(tree);
            told.is_poor = !has_objects(hwloc, tree, HWLOC_OBJ_PACKAGE) && !has_objects(hwloc, tree, HWLOC_OBJ_CORE);
            tell_xml(pipe, hwloc, tree, &told);
        }
    }
    mu_apart_tell(pipe, &told);
}

/* ---- asking it --------------------------------------------------------------------------------------------------- */

static void hwloc_take(const void *record, void *arg)
{
    struct hwloc_asking *asked = arg;
    const struct hwloc_told *told = record;
    char *more;

    if (told->what != TOLD_PART) {
        asked->last = *told;
        return;
    }
    if (asked->failed || told->size > sizeof told->bytes || asked->size > XML_MAX)
        return;
    more = realloc(asked->text, asked->size + told->size + 1);
    if (!more) {
        asked->failed = 1;
        return;
    }
    memcpy(more + asked->size, told->bytes, told->size);
    asked->text = more;
    asked->size += told->size;
    more[asked->size] = '\0';
}

/* As mu_apart(). What was told before is forgotten. */
static int hwloc_ask(struct hwloc_asking *asked, char *why, size_t size)
{
    free(asked->text);
    asked->text = NULL;
    asked->size = 0;
    asked->last = (struct hwloc_told){.what = TOLD_NO_LOAD};
    return mu_apart(hwloc_tell, hwloc_take, asked, sizeof(struct hwloc_told), LIMIT_MS, why, size);
}

/* ---- a file or words --------------------------------------------------------------------------------------------- */

/* What the child has survived. 0, or -1. */
static int load_likewise(const struct hwloc_asking *asked, hwloc_topology_t *ret_tree)
{
    if (tree_start(asked->hwloc, asked->wish, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING, ret_tree))
        return -1;
    if (tree_load(asked->hwloc, asked->wish, asked->xml, asked->xml_size, *ret_tree) == 0)
        return 0;
    asked->hwloc->hwloc_topology_destroy(*ret_tree);
    return -1;
}

/* The words why the child has not survived it are in `why`. */
static enum muster_status load_again(struct hwloc_asking *asked, const struct muster_topology_source *source, int rc,
                                     const char *why, hwloc_topology_t *ret_tree)
{
    const char *name = source->hwloc_xml ? source->hwloc_xml : source->synthetic;

    if (rc == MU_APART_DIED)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%.200s is no topology that hwloc can read: %s", name, why);
    if (rc || asked->last.what == TOLD_NO_START)
        return mu_fail(MUSTER_UNAVAILABLE, "hwloc does not start: %s", rc ? why : strerror(asked->last.error));
    if (asked->last.what == TOLD_LOADED && load_likewise(asked, ret_tree) == 0)
        return MUSTER_OK;
    if (asked->xml)
        return no_machine(name, asked->xml);
    return mu_fail(MUSTER_INVALID_ARGUMENT, "'%.80s' describes no machine", name);
}

static enum muster_status load_given(struct hwloc_asking *asked, const struct muster_topology_source *source,
                                     hwloc_topology_t *ret_tree)
{
    enum muster_status status = MUSTER_OK;
    char *xml = NULL, why[160] = "";
    size_t line;

    asked->is_given = 1;
    if (source->hwloc_xml)
        status = read_whole(source->hwloc_xml, &xml, &asked->xml_size);
    asked->xml = xml;
    if (status == MUSTER_OK && xml && mu_xml_check(xml, &line))
        status = no_machine(source->hwloc_xml, xml);
    if (status == MUSTER_OK) {
        int rc = hwloc_ask(asked, why, sizeof why);

        status = load_again(asked, source, rc, why, ret_tree);
    }
    free(xml);
    return status;
}

/* ---- this machine ------------------------------------------------------------------------------------------------ */

/* -1: it is not there; else whether it has an entry. */
static int folder_has_entries(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    int found = 0;

    if (!folder)
        return -1;
    while (!found && (entry = readdir(folder)))
        found = entry->d_name[0] != '.';
    closedir(folder);
    return found;
}

/* What of the kernel's files is hidden here, of those that hwloc needs: "/sys is empty: "; "": nothing. */
static const char *hidden_folder(char text[64])
{
    static const struct {
        const char *path;
        int is_always_there; /* the kernel may have been built without memory nodes */
    } folders[] = {{"/sys", 1}, {"/sys/devices/system/cpu", 1}, {"/sys/devices/system/node", 0}, {"/proc", 1}};

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        int has_entries = folder_has_entries(folders[i].path);

        if (has_entries > 0 || (has_entries < 0 && !folders[i].is_always_there))
            continue;
        snprintf(text, 64, "%s is %s: ", folders[i].path, has_entries < 0 ? "not here" : "empty");
        return text;
    }
    return "";
}

/*
 * A second time, with a thread of the child bound to one processor after the other. `why` says what it died of the
 * first time; "": it told too little. As hwloc_ask().
 */
static int ask_processors(struct hwloc_asking *asked, const char *first_why, char *why, size_t size,
                          char note[MU_HWLOC_NOTE_SIZE])
{
    struct hwloc_asking again = {
        .hwloc = asked->hwloc, .wish = asked->wish, .may_bind = 1, .without_linux = *first_why != 0};
    int rc = hwloc_ask(&again, why, size);
    char hidden[64];

    if (rc || again.last.what != TOLD_LOADED || (again.last.is_poor && !*first_why)) {
        free(again.text);
        return rc ? rc : -1;
    }
    free(asked->text);
    *asked = again;
    if (*first_why)
        snprintf(
            note, MU_HWLOC_NOTE_SIZE,
            "%shwloc ends a process that asks it here (%s); asked without the kernel's files, it knows no memory node",
            hidden_folder(hidden), first_why);
    else
        snprintf(note, MU_HWLOC_NOTE_SIZE, "%spackages, caches and cores are what the processors tell of themselves",
                 hidden_folder(hidden));
    return 0;
}

static enum muster_status make_tree(const struct hwloc_asking *asked, hwloc_topology_t *ret_tree)
{
    unsigned long flags =
        HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING | (asked->last.is_here ? HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM : 0);

    if (asked->failed || !asked->text)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for hwloc's tree");
    if (tree_start(asked->hwloc, asked->wish, flags, ret_tree))
        return mu_fail(MUSTER_UNAVAILABLE, "hwloc does not start: %s", strerror(errno));
    if (tree_load(asked->hwloc, asked->wish, asked->text, asked->size, *ret_tree) == 0)
        return MUSTER_OK;
    asked->hwloc->hwloc_topology_destroy(*ret_tree);
    return mu_fail(MUSTER_UNAVAILABLE, "hwloc cannot read what it has told of this machine");
}

static enum muster_status load_here(struct hwloc_asking *asked, hwloc_topology_t *ret_tree,
                                    char note[MU_HWLOC_NOTE_SIZE])
{
    const char *foreign = mu_hwloc_foreign();
    char why[160] = "", why_again[160], hidden[64];
    int rc;

    asked->may_bind = foreign != NULL; /* files of cpuid are the x86 back end's */
    asked->is_given = foreign && (strcmp(foreign, "HWLOC_SYNTHETIC") == 0 || strcmp(foreign, "HWLOC_XMLFILE") == 0);
    rc = hwloc_ask(asked, why, sizeof why);
    if (rc == MU_APART_DIED && !foreign && ask_processors(asked, why, why_again, sizeof why_again, note) == 0)
        rc = 0;
    else if (rc == 0 && asked->last.is_here && asked->last.is_poor)
        ask_processors(asked, "", why_again, sizeof why_again, note);
    if (rc == 0 && asked->last.what == TOLD_LOADED && !asked->is_given)
        return make_tree(asked, ret_tree);
    if (rc == 0 && asked->last.what == TOLD_LOADED && load_likewise(asked, ret_tree) == 0)
        return MUSTER_OK;
    if (rc == 0)
        snprintf(why, sizeof why, "%s", strerror(asked->last.error));
    if (foreign)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "hwloc cannot read the machine that %s=%.200s shows: %s", foreign,
                       getenv(foreign), why);
    return mu_fail(MUSTER_UNAVAILABLE, "hwloc cannot read this machine: %s%s", hidden_folder(hidden), why);
}

enum muster_status mu_hwloc_load(const struct mu_hwloc *hwloc, const struct mu_hwloc_wish *wish,
                                 hwloc_topology_t *ret_tree, char ret_note[MU_HWLOC_NOTE_SIZE])
{
    struct hwloc_asking asked = {.hwloc = hwloc, .wish = wish};
    enum muster_status status;

    ret_note[0] = '\0';
    if (wish->source && (wish->source->hwloc_xml || wish->source->synthetic))
        status = load_given(&asked, wish->source, ret_tree);
    else
        status = load_here(&asked, ret_tree, ret_note);
    free(asked.text);
    return status;
}
