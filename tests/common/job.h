/* tests/common/job.h: a job of the test's own, and the auditor that ends every test. Usable without cmocka. */
#ifndef TEST_JOB_H
#define TEST_JOB_H

#include <stdbool.h>

#include <muster/muster.h>

struct test_job {
    char name[128];
    struct muster_segment *segment;
};

/* Creates a segment that nobody else has the name of. Zeros in `config` (may be NULL) become small values. */
enum muster_status test_job_create(struct test_job *job, const struct muster_segment_config *config);

/* Audits, closes and removes. Returns how many problems the auditor found, each printed; a failing audit counts one. */
unsigned long test_job_end(struct test_job *job);

/* The same for a job that is only known by name or path, without removing it. */
unsigned long test_audit(const char *job);

/* Whether a segment of the job can be opened. */
bool test_exists(const char *job);

/* A name that no other test process uses, whatever else runs on the machine. */
void test_name(char name[128], const char *part);

/* Joins as `task_id`, or as an observer when negative; without a heartbeat thread unless flags say otherwise. */
struct muster *test_join(const char *job, int32_t task_id, uint32_t flags);
#define TEST_WITH_HEARTBEAT 0x80000000u

#endif
