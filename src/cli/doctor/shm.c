/*
 * cli/doctor/shm.c: shared memory: where it is, how much there is, whether a segment can really be made in it; and what
 * dead jobs have left there.
 */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/process.h"
#include "cli/cli.h"
#include "segment/file.h"

#define MIB (1024.0 * 1024)

/* What mends it, with the folder between these two; good until the next one. */
static const char *mend_of_folder(const char *before, const char *behind)
{
    static char text[320];

    snprintf(text, sizeof text, "%s%s%s", before, mu_segment_folder(), behind);
    return text;
}

static void say_size(struct mu_doctor_page *page, const struct statvfs *fs)
{
    double size = (double)fs->f_blocks * (double)fs->f_frsize / MIB,
           left = (double)fs->f_bavail * (double)fs->f_frsize / MIB;

    if (fs->f_blocks == 0)
        mu_doctor_say(page, MU_DOCTOR_OK, "size", NULL, "%s has no limit of its own", mu_segment_folder());
    else if (size > 63.9 && size < 64.1)
        mu_doctor_say(page, MU_DOCTOR_NOTE, "size",
                      "start the container with --shm-size=8g (docker, podman) or mount an emptyDir with medium: "
                      "Memory there (Kubernetes)",
                      "64 MiB, %.1f MiB of it free: what containers have by default; large values will not fit", left);
    else if (left < 64)
        mu_doctor_say(
            page, MU_DOCTOR_NOTE, "size",
            size < 256 ? mend_of_folder("mount it larger: mount -o remount,size=8g ", "")
                       : mend_of_folder("remove what is not needed there: see 'ls -lS ", "' and 'muster segment list'"),
            "%.1f MiB of %.1f MiB free: large values will not fit", left, size);
    else
        mu_doctor_say(page, MU_DOCTOR_OK, "size", NULL, "%.1f MiB of %.1f MiB free", left, size);
    if (fs->f_files > 0 && fs->f_favail < 16)
        mu_doctor_say(page, MU_DOCTOR_NOTE, "inodes",
                      mend_of_folder("remove files there, or mount -o remount,nr_inodes=1m ", ""), "%llu of %llu left",
                      (unsigned long long)fs->f_favail, (unsigned long long)fs->f_files);
}

static void say_mount(struct mu_doctor_page *page, const struct statvfs *fs)
{
    struct statfs kind;
    struct stat st;
    int is_tmpfs =
        statfs(mu_segment_folder(), &kind) == 0 && (kind.f_type == TMPFS_MAGIC || kind.f_type == HUGETLBFS_MAGIC);

    if (fs->f_flag & ST_RDONLY) {
        mu_doctor_say(page, MU_DOCTOR_PROBLEM, "mounted", mend_of_folder("mount -o remount,rw ", ""), "%s is read-only",
                      mu_segment_folder());
    } else if (access(mu_segment_folder(), W_OK | X_OK)) {
        mu_doctor_say(page, MU_DOCTOR_PROBLEM, "mounted", mend_of_folder("chmod 1777 ", ""),
                      "%s may not be written by user %u", mu_segment_folder(), (unsigned)geteuid());
    } else if (!is_tmpfs) {
        mu_doctor_say(page, MU_DOCTOR_NOTE, "mounted", mend_of_folder("mount -t tmpfs -o mode=1777 tmpfs ", ""),
                      "%s is no tmpfs: a segment there is written to a disk", mu_segment_folder());
    } else {
        mu_doctor_say(page, MU_DOCTOR_OK, "mounted", NULL, "%s is a tmpfs%s", mu_segment_folder(),
                      fs->f_flag & ST_NOEXEC ? " (noexec: no matter, nothing there is executed)" : "");
    }
    if (stat(mu_segment_folder(), &st) == 0 && (st.st_mode & 0002) && !(st.st_mode & S_ISVTX))
        mu_doctor_say(page, MU_DOCTOR_NOTE, "sticky bit", mend_of_folder("chmod 1777 ", ""),
                      "%s has none: other users can remove this user's segments", mu_segment_folder());
}

/* A job's segment is made, as large as by default, and removed. */
static void try_segment(struct mu_doctor_page *page, int memfd)
{
    struct muster_segment_config config = {.num_tasks = 8, .memfd = memfd};
    struct muster_segment_info info;
    struct muster_segment *segment;
    char job[64];
    uint64_t number, start = muster_now_ns();
    enum muster_status status;

    mu_random(&number, sizeof number);
    snprintf(job, sizeof job, "doctor-%d-%016" PRIx64, (int)getpid(), number); /* nobody else's, whatever pids he has */
    status = muster_segment_create(job, &config, &segment);
    if (status == MUSTER_OK) {
        status = muster_segment_info(segment, &info);
        mu_doctor_say(page, MU_DOCTOR_OK, memfd ? "memfd segment" : "segment", NULL,
                      "made within %.2f ms: %.0f MiB of address space, %.1f MiB of it in memory",
                      (double)(muster_now_ns() - start) / 1e6, (double)info.size_bytes / MIB,
                      (double)info.committed_bytes / MIB);
        muster_segment_close(segment); /* first: a removal maps it, and there may be no room for two */
        if (!memfd && muster_segment_remove(job))
            mu_doctor_say(page, MU_DOCTOR_PROBLEM, "segment", "muster segment rm, with a higher 'ulimit -v'",
                          "this one is left over: %.240s", muster_last_error());
    } else if (status == MUSTER_RESOURCE_EXHAUSTED && !memfd && !strstr(muster_last_error(), "cannot map") &&
               !strstr(muster_last_error(), "ulimit -f")) {
        mu_doctor_say(
            page, MU_DOCTOR_NOTE, "segment",
            mend_of_folder("make it larger: --shm-size=8g for a container, else mount -o remount,size=8g ", ""),
            "does not fit there: 'muster run' takes a memfd instead, and processes cannot meet by name alone");
    } else {
        mu_doctor_say(page, MU_DOCTOR_PROBLEM, memfd ? "memfd segment" : "segment",
                      "mend what is said above, or raise 'ulimit -v' and 'ulimit -f'", "%s", muster_last_error());
    }
}

void mu_doctor_shm(struct mu_doctor_page *page)
{
    struct statvfs fs;

    if (statvfs(mu_segment_folder(), &fs)) {
        int error = errno;
        char make[320];

        snprintf(make, sizeof make, "mkdir -p %s && mount -t tmpfs -o mode=1777 tmpfs ", mu_segment_folder());
        mu_doctor_say(page, MU_DOCTOR_PROBLEM, "mounted", mend_of_folder(make, ""), "%s: %s", mu_segment_folder(),
                      strerror(error));
        return;
    }
    say_mount(page, &fs);
    say_size(page, &fs);
    try_segment(page, 0);
    try_segment(page, 1);
}

/* ---- what is left of dead jobs ----------------------------------------------------------------------------------- */

struct shm_seen {
    struct mu_doctor_page *page;
    unsigned live, stale;
    uint64_t stale_bytes;
    char stale_jobs[160];
};

static int segment_count(void *arg, const struct muster_segment_row *row)
{
    struct shm_seen *seen = arg;
    char mend[320];

    if (row->problem && strncmp(row->problem, "left over", 9) != 0) {
        if (strstr(row->problem, "cannot map")) /* for want of address space: it may be a living job's */
            snprintf(mend, sizeof mend, "ulimit -v unlimited");
        else
            snprintf(mend, sizeof mend, "unless a muster of another version uses it: muster segment rm %s", row->job);
        if (seen->page->count < 8)
            mu_doctor_say(seen->page, MU_DOCTOR_NOTE, "segment", mend, "job %s: %s", row->job, row->problem);
    } else if (row->slots_live > 0) {
        seen->live++;
    } else {
        size_t len = strlen(seen->stale_jobs);

        seen->stale++;
        seen->stale_bytes += row->committed_bytes;
        if (len + strlen(row->job) + 2 < sizeof seen->stale_jobs)
            snprintf(seen->stale_jobs + len, sizeof seen->stale_jobs - len, " %s", row->job);
    }
    return 0;
}

void mu_doctor_segments(struct mu_doctor_page *page)
{
    struct shm_seen seen = {.page = page};
    char mend[320], bytes[32];

    if (muster_segment_list(segment_count, &seen) != MUSTER_OK) {
        mu_doctor_say(page, MU_DOCTOR_NOTE, "jobs", NULL, "cannot be listed: %s", muster_last_error());
        return;
    }
    mu_doctor_say(page, MU_DOCTOR_OK, "jobs", NULL, "%u of this user live here", seen.live);
    if (seen.stale > 0) {
        snprintf(mend, sizeof mend, "muster segment rm%s", seen.stale_jobs);
        mu_doctor_say(page, MU_DOCTOR_NOTE, "left over", mend, "%u segment%s of dead jobs hold%s %s", seen.stale,
                      seen.stale == 1 ? "" : "s", seen.stale == 1 ? "s" : "", mu_cli_bytes(seen.stale_bytes, bytes));
    }
}
