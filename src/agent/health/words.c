/*
 * agent/health/words.c: what the numbers of GPU errors mean.
 *
 * The driver's numbers ("Xid") are the same since many years; what NVIDIA's documentation says of those that matter to
 * a job is in the table. Most are faults of programs, or the echo of a program's end, and say nothing against the GPU.
 */
#include "agent/health/health.h"

#include <stdio.h>

static const struct {
    uint32_t first, last;
    enum mu_health_verdict verdict;
    const char *words;
} xids[] = {
    {8, 8, MU_HEALTH_PROGRAM, "stopped a program that took too long"},
    {13, 13, MU_HEALTH_PROGRAM, "stopped a program that did what it may not, such as an index out of bounds"},
    {31, 31, MU_HEALTH_PROGRAM, "stopped a program that touched memory which is not its own"},
    {32, 32, MU_HEALTH_PROGRAM, "was given a command stream that is broken"},
    {43, 43, MU_HEALTH_PROGRAM, "stopped a program after an error of its own"},
    {45, 45, MU_HEALTH_PROGRAM, "cleaned up after a program that had ended or was killed"},
    {48, 48, MU_HEALTH_HARDWARE, "lost data: an error of two bits in its memory, which cannot be corrected"},
    {61, 62, MU_HEALTH_HARDWARE, "has halted: its own controller met an error"},
    {63, 63, MU_HEALTH_NOTED, "has put bad memory out of use, as from its next reset"},
    {64, 64, MU_HEALTH_HARDWARE, "has bad memory that cannot be put out of use"},
    {68, 69, MU_HEALTH_PROGRAM, "stopped a program after an error of its own"},
    {74, 74, MU_HEALTH_HARDWARE, "has an NVLink that fails, here or at its far end"},
    {79, 79, MU_HEALTH_HARDWARE, "fell off the bus"},
    {92, 92, MU_HEALTH_NOTED, "corrects more errors of its memory than is usual"},
    {94, 94, MU_HEALTH_HARDWARE, "lost data of the programs that were at work: an error of its memory, contained"},
    {95, 95, MU_HEALTH_HARDWARE, "lost data: an error of its memory, not contained"},
    {109, 109, MU_HEALTH_PROGRAM, "stopped a program that would not make room for another"},
    {119, 120, MU_HEALTH_HARDWARE, "does not answer: its system processor has failed"},
    {121, 121, MU_HEALTH_NOTED, "has corrected errors on its link to the processor"},
    {136, 136, MU_HEALTH_HARDWARE, "cannot bring its NVLinks up"},
    {137, 137, MU_HEALTH_PROGRAM, "was asked over NVLink for memory that may not be touched"},
    {140, 140, MU_HEALTH_HARDWARE, "lost data: an error of its memory that was not corrected"},
    {143, 143, MU_HEALTH_HARDWARE, "cannot be started"},
    {144, 150, MU_HEALTH_HARDWARE, "has a fault in its NVLink fabric"},
};

enum mu_health_verdict mu_health_xid(uint64_t xid, const char **ret_words)
{
    for (size_t i = 0; i < sizeof xids / sizeof *xids; i++)
        if (xid >= xids[i].first && xid <= xids[i].last) {
            *ret_words = xids[i].words;
            return xids[i].verdict;
        }
    *ret_words = "reported an error";
    return MU_HEALTH_UNKNOWN;
}

enum mu_health_verdict mu_health_event(uint64_t type, uint64_t data, char *words, size_t size)
{
    enum mu_health_verdict verdict = MU_HEALTH_HARDWARE;
    const char *what = NULL;

    switch (type) {
    case NVML_EVENT_XID:
        verdict = mu_health_xid(data, &what);
        snprintf(words, size, "%s (Xid %llu)", what, (unsigned long long)data);
        return verdict;
    case NVML_EVENT_DOUBLE_BIT_ECC:
        what = "lost data: an error of two bits in its memory, which cannot be corrected";
        break;
    case NVML_EVENT_FATAL_POISON: what = "met data that an error had spoiled"; break;
    case NVML_EVENT_GPU_UNAVAILABLE: what = "is not available any more"; break;
    default:
        verdict = MU_HEALTH_UNKNOWN;
        snprintf(words, size, "reported an event (type 0x%llx)", (unsigned long long)type);
        return verdict;
    }
    snprintf(words, size, "%s", what);
    return verdict;
}
