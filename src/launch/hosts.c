/*
 * launch/hosts.c: lists of hosts, and which tasks run where.
 *
 * Host 0 is the one where the job's launcher runs, whether it has tasks or not; tasks are numbered from there on, then
 * in the order of the list. Nothing here asks a name server: a name is this host's when it is written as its host name
 * or as one of its addresses.
 */
#include "launch/hosts.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define NAME_MAX_LEN 255

void mu_launch_hosts_done(struct mu_launch_hosts *hosts)
{
    for (uint32_t i = 0; i < hosts->count; i++)
        free(hosts->list[i].name);
    free(hosts->list);
    *hosts = (struct mu_launch_hosts){.list = NULL};
}

static int host_add(struct mu_launch_hosts *hosts, const char *name, uint32_t slots, char *ret_why, size_t size)
{
    struct mu_launch_host *more;

    for (uint32_t i = 0; i < hosts->count; i++) {
        if (strcmp(hosts->list[i].name, name) != 0)
            continue;
        hosts->list[i].slots += slots;
        if (hosts->list[i].slots <= MU_LAUNCH_SLOTS_MAX)
            return 0;
        snprintf(ret_why, size, "%s has more than %u slots", name, MU_LAUNCH_SLOTS_MAX);
        return -1;
    }
    if (hosts->count >= MU_LAUNCH_HOSTS_MAX - 1) {
        snprintf(ret_why, size, "more than %u hosts", MU_LAUNCH_HOSTS_MAX - 1);
        return -1;
    }
    more = realloc(hosts->list, (hosts->count + 1) * sizeof *more);
    if (more)
        hosts->list = more;
    if (!more || !(hosts->list[hosts->count].name = strdup(name))) {
        snprintf(ret_why, size, "out of memory");
        return -1;
    }
    hosts->list[hosts->count].slots = slots;
    hosts->list[hosts->count++].tasks = 0;
    return 0;
}

/* "fd00::2", "fe80::2%eth0": what has colons is nothing else. */
static bool is_six(const char *text)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr six;
    size_t len = strcspn(text, "%");

    if (len >= sizeof address || (text[len] && !text[len + 1]))
        return 0;
    memcpy(address, text, len);
    address[len] = 0;
    return inet_pton(AF_INET6, address, &six) == 1;
}

/*
 * What a host may be called, perhaps behind a user, to rsh too: nothing that a shell or an option parser reads as
 * something else, nor what is left of a name when a variable was empty ("user@", "..").
 */
static bool is_name(const char *name)
{
    const char *at = strrchr(name, '@'), *host = at ? at + 1 : name;

    if (name[0] == '-' || at == name ||
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-@:%+") != strlen(name))
        return 0;
    if (strchr(host, ':'))
        return is_six(host);
    return (isalnum((unsigned char)host[0]) || host[0] == '_') && !strstr(host, "..");
}

static int take_slots(const char *text, uint32_t *ret_slots)
{
    char *end;
    unsigned long slots = isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 0;

    if (slots == 0 || slots > MU_LAUNCH_SLOTS_MAX || *end)
        return -1;
    *ret_slots = (uint32_t)slots;
    return 0;
}

/* ---- compressed names -------------------------------------------------------------------------------------------- */

/* The end of the item that `at` begins: a comma outside of brackets, or the text's end. NULL: brackets do not match. */
static const char *item_end(const char *at)
{
    int depth = 0;

    for (; *at && (*at != ',' || depth); at++) {
        depth += (*at == '[') - (*at == ']');
        if (depth < 0 || depth > 1)
            return NULL;
    }
    return depth ? NULL : at;
}

/*
 * Of "01-12,20]": the n-th number as it is to be written; *n becomes what is left of it when there are fewer. 1: found;
 * 0: fewer; -1: that is no such list.
 */
static int range_number(const char *at, const char *end, uint32_t *n, char *ret_text, size_t size)
{
    for (;;) {
        size_t width = strspn(at, "0123456789");
        char *behind;
        unsigned long first = strtoul(at, &behind, 10), last = first;

        if (width == 0 || width > 9)
            return -1;
        if (*behind == '-') {
            const char *high = behind + 1;

            if (strspn(high, "0123456789") == 0 || strspn(high, "0123456789") > 9)
                return -1;
            last = strtoul(high, &behind, 10);
        }
        if (last < first || (behind != end && *behind != ','))
            return -1;
        if (*n <= last - first) {
            snprintf(ret_text, size, "%0*lu", (int)width, first + *n);
            return 1;
        }
        *n -= (uint32_t)(last - first) + 1;
        if (behind == end)
            return 0;
        at = behind + 1;
    }
}

/* The n-th name of one item, "rack[1-2]-n[01-03]x", the last brackets first. As range_number(). */
static int name_of(const char *at, size_t len, uint32_t *n, char *ret_name, size_t size)
{
    const char *open = memchr(at, '[', len), *close = open ? memchr(open, ']', len - (size_t)(open - at)) : NULL;
    char number[16], rest[NAME_MAX_LEN + 1];
    const char *behind = close ? close + 1 : NULL;
    size_t behind_len = close ? len - (size_t)(behind - at) : 0;

    if (!open) {
        if (len == 0 || len >= size)
            return -1;
        if ((*n)-- > 0)
            return 0;
        memcpy(ret_name, at, len);
        ret_name[len] = 0;
        return 1;
    }
    for (uint32_t outer = 0;; outer++) { /* for each number all that the rest stands for */
        uint32_t which = outer;
        int rc = range_number(open + 1, close, &which, number, sizeof number);

        if (rc < 1)
            return rc;
        rest[0] = 0;
        rc = 1;
        if (behind_len > 0)
            rc = name_of(behind, behind_len, n, rest, sizeof rest);
        else if ((*n)-- > 0)
            rc = 0;
        if (rc < 0)
            return rc;
        if (rc > 0)
            return snprintf(ret_name, size, "%.*s%s%s", (int)(open - at), at, number, rest) < (int)size ? 1 : -1;
    }
}

int mu_launch_slurm_host(const char *list, uint32_t n, char *ret_name, size_t size)
{
    for (const char *at = list, *end; *at; at = *end ? end + 1 : end) {
        int rc;

        end = item_end(at);
        if (!end || (rc = name_of(at, (size_t)(end - at), &n, ret_name, size)) < 0)
            return -1;
        if (rc > 0)
            return 0;
    }
    return -1;
}

uint32_t mu_launch_slurm_count(const char *list, uint32_t n)
{
    for (const char *at = list; isdigit((unsigned char)*at);) {
        char *end;
        unsigned long count = strtoul(at, &end, 10), times = 1;

        if (end[0] == '(' && end[1] == 'x' && isdigit((unsigned char)end[2])) {
            times = strtoul(end + 2, &end, 10);
            if (*end++ != ')')
                return 0;
        }
        if (count == 0 || count > UINT32_MAX || (*end && *end != ','))
            return 0;
        if (n < times)
            return (uint32_t)count;
        n -= (uint32_t)times;
        at = *end ? end + 1 : end;
    }
    return 0;
}

/* ---- lists and files --------------------------------------------------------------------------------------------- */

/* One word of a list: "a", "a:8", "n[1-4]:8", "[fd00::2]:8". */
static int add_word(struct mu_launch_hosts *hosts, const char *word, size_t len, uint32_t slots, char *ret_why,
                    size_t size)
{
    char text[NAME_MAX_LEN + 1], name[NAME_MAX_LEN + 1], *colon;

    if (len == 0 || len >= sizeof text) {
        snprintf(ret_why, size, len ? "a name of more than %d bytes" : "a name is missing", NAME_MAX_LEN);
        return -1;
    }
    memcpy(text, word, len);
    text[len] = 0;
    colon = strrchr(text, ':');
    if (colon && (text[0] == '[' ? colon[-1] == ']' : strchr(text, ':') == colon)) {
        if (take_slots(colon + 1, &slots)) {
            snprintf(ret_why, size, "'%s' has no number of slots from 1 to %u behind its ':'", text,
                     MU_LAUNCH_SLOTS_MAX);
            return -1;
        }
        *colon = 0;
    }
    if (text[0] == '[' && strchr(text, ':')) { /* an address of IPv6 */
        size_t inner = strlen(text) - 1;

        if (text[inner] == ']') {
            text[inner] = 0;
            memmove(text, text + 1, inner);
        }
    }
    for (uint32_t n = 0; n < MU_LAUNCH_HOSTS_MAX; n++) {
        uint32_t which = n;
        int rc = name_of(text, strlen(text), &which, name, sizeof name);

        if (rc < 0 || (rc > 0 && !is_name(name))) {
            snprintf(ret_why, size, "'%s' is no name of a host", text);
            return -1;
        }
        if (rc == 0)
            return 0;
        if (host_add(hosts, name, slots, ret_why, size))
            return -1;
    }
    return 0;
}

int mu_launch_hosts_parse(struct mu_launch_hosts *hosts, const char *text, char *ret_why, size_t size)
{
    const char *at = text;

    for (;;) {
        const char *end = item_end(at);

        if (!end) {
            snprintf(ret_why, size, "the brackets of '%.100s' do not match", at);
            return -1;
        }
        if (add_word(hosts, at, (size_t)(end - at), 1, ret_why, size))
            return -1;
        if (!*end)
            return 0;
        at = end + 1;
    }
}

/* One line: a host, then what is said of it. */
static int take_line(struct mu_launch_hosts *hosts, char *line, char *ret_why, size_t size)
{
    uint32_t slots = 1;
    char *save, *name, *word;

    line[strcspn(line, "#\n")] = 0;
    name = strtok_r(line, " \t\r", &save);
    if (!name)
        return 0;
    while ((word = strtok_r(NULL, " \t\r", &save))) {
        if (strncmp(word, "max_slots=", 10) == 0 || strncmp(word, "max-slots=", 10) == 0)
            continue; /* more than `slots` is never given out */
        if (strncmp(word, "slots=", 6) != 0 || take_slots(word + 6, &slots)) {
            snprintf(ret_why, size, "'%.60s' is not slots=N, with N from 1 to %u", word, MU_LAUNCH_SLOTS_MAX);
            return -1;
        }
    }
    return add_word(hosts, name, strlen(name), slots, ret_why, size);
}

int mu_launch_hosts_read(struct mu_launch_hosts *hosts, const char *path, char *ret_why, size_t size)
{
    FILE *file = fopen(path, "re");
    char *line = NULL, why[200];
    size_t room = 0;
    int rc = 0, number = 0;

    if (!file) {
        snprintf(ret_why, size, "%s: %s", path, strerror(errno));
        return -1;
    }
    errno = 0;
    while (rc == 0 && getline(&line, &room, file) >= 0) {
        number++;
        rc = take_line(hosts, line, why, sizeof why);
    }
    if (rc)
        snprintf(ret_why, size, "%s:%d: %s", path, number, why);
    else if (ferror(file))
        snprintf(ret_why, size, "%s: %s", path, strerror(errno));
    else if (hosts->count == 0)
        snprintf(ret_why, size, "%s names no host", path);
    rc = rc || ferror(file) || hosts->count == 0 ? -1 : 0;
    free(line);
    fclose(file);
    return rc;
}

/* ---- where tasks run --------------------------------------------------------------------------------------------- */

/* A number, which is of this host if one of its addresses is; the kernel is asked for these once, and only for a
 * number.
 */
static bool has_address(struct ifaddrs **all, const char *text)
{
    struct in_addr four;
    struct in6_addr six;
    int is_four = inet_pton(AF_INET, text, &four) == 1, is_six = inet_pton(AF_INET6, text, &six) == 1;

    if ((!is_four && !is_six) || (!*all && getifaddrs(all)))
        return 0;
    for (const struct ifaddrs *one = *all; one; one = one->ifa_next) {
        if (!one->ifa_addr)
            continue;
        if (is_four && one->ifa_addr->sa_family == AF_INET &&
            memcmp(&((const struct sockaddr_in *)(const void *)one->ifa_addr)->sin_addr, &four, sizeof four) == 0)
            return 1;
        if (is_six && one->ifa_addr->sa_family == AF_INET6 &&
            memcmp(&((const struct sockaddr_in6 *)(const void *)one->ifa_addr)->sin6_addr, &six, sizeof six) == 0)
            return 1;
    }
    return 0;
}

static bool is_here(const char *name, struct ifaddrs **all)
{
    char own[NAME_MAX_LEN + 1] = "";
    size_t own_len, len;

    gethostname(own, sizeof own - 1);
    own_len = strcspn(own, ".");
    len = strcspn(name, ".");
    if (strcasecmp(name, "localhost") == 0 || strcasecmp(name, own) == 0)
        return 1;
    /* One of the two is without its domain. */
    if (own_len == len && strncasecmp(name, own, len) == 0 && (!name[len] || !own[own_len]) && own_len > 0)
        return 1;
    return has_address(all, name);
}

/* All that are this one become one, in the first place. */
static int gather_here(struct mu_launch_hosts *hosts, const char *here, char *ret_why, size_t size)
{
    struct mu_launch_host first = {.name = NULL}, *more;
    struct ifaddrs *all = NULL;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < hosts->count; i++) {
        struct mu_launch_host *it = &hosts->list[i];

        if (is_here(it->name, &all)) {
            first.slots += it->slots;
            free(it->name);
        } else {
            hosts->list[kept++] = *it;
        }
    }
    freeifaddrs(all);
    hosts->count = kept;
    more = realloc(hosts->list, (hosts->count + 1) * sizeof *more);
    if (more)
        hosts->list = more;
    first.name = strdup(here);
    if (!more || !first.name) {
        free(first.name);
        snprintf(ret_why, size, "out of memory");
        return -1;
    }
    memmove(hosts->list + 1, hosts->list, hosts->count * sizeof *hosts->list);
    hosts->list[0] = first;
    hosts->count++;
    return 0;
}

int mu_launch_hosts_place(struct mu_launch_hosts *hosts, const char *here, uint32_t num_tasks, char *ret_why,
                          size_t size)
{
    uint64_t slots = 0, left;
    uint32_t kept = 1;

    if (gather_here(hosts, here, ret_why, size))
        return -1;
    for (uint32_t i = 0; i < hosts->count; i++)
        slots += hosts->list[i].slots;
    if (num_tasks > slots) {
        snprintf(ret_why, size, "%u tasks need as many slots, and the hosts have %llu (say NAME:SLOTS)", num_tasks,
                 (unsigned long long)slots);
        return -1;
    }
    left = num_tasks ? num_tasks : slots;
    for (uint32_t i = 0; i < hosts->count; i++) {
        struct mu_launch_host *it = &hosts->list[i];

        it->tasks = it->slots < left ? it->slots : (uint32_t)left;
        left -= it->tasks;
        if (i == 0)
            continue;
        if (it->tasks)
            hosts->list[kept++] = *it;
        else
            free(it->name);
    }
    hosts->count = kept;
    return 0;
}
