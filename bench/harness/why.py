"""Why a line of the contract that is missed is missed, as measured, and what comes next; shown beside the line in the report."""

IDLE = ("three of its threads look again every 100 ms, as I3 asks of every wait: some 30 `futex_waitv` a second that time out, each "
        "with what is then looked at. The next idea: one thread that looks again for all three.")

WHY = {
    "agent of the first of 2 hosts, idle: share of a processor": IDLE,
    "agent of the second of 2 hosts, idle: share of a processor": IDLE,
    "muster run -n 8 true, over posix_spawn of 8":
        "no launcher reaches the limit, which has no start of its own: a C program that only spawns eight `true` and reaps them "
        "takes about 1.2 times as long. The rest is the segment, the pidfds and the guard: the system calls are counted under count.",
    "group barrier, 2 tasks, over the one-way line":
        "a barrier is two lines that cross, each of which its writer must own again: one transfer to take it back, one to hand it on.",
}
