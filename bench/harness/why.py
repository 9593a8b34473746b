"""Why a line of the contract that is missed is missed, as measured, and what comes next; shown beside the line in the report."""

IDLE = ("the leader's agent wakes 12.5 times a second, the other's 12.2: 10.4 are the watcher's, which looks for the bridge, too, as I3 asks of "
        "every wait; the rest are heartbeats. The watcher's wake-up took 59 to 65 µs in two runs of 26 s (66 to 74 with a sentence at each "
        "deadline and its own process's slots watched): 16 of it are a turn of the bridge (time stamps). Next: a turn that looks at less.")

NAMED = ("a named barrier is the leader's alone to decide, as the coordination service has it: a round trip between the agents, with four processes "
         "that poll on two processors. Of the samples of a run (`perf record -e cpu-clock`) three fifths are yields between task and agent, "
         "system calls' ends and clocks, a quarter the network's code, a tenth muster's, a twentieth TLS.")
RUNS = ("the least of the rows is one that wakes sleeping clients, and it differs from run to run: 0.91 and 0.99 on one day, above 1 in the run before. "
        "In between lies the kernel's wake-up of a client, which both servers pay. Not traced.")
LIMITS = "[README.md](README.md#limits) has what was found, and what comes next."

WHY = {
    "named barrier of 2 hosts, over TCP's round trip, polling": NAMED,
    "waiting get, spinning":
        "a message of two lines, a word and one line that it names, as a bucket and its page are, takes 270 ns by itself (the rows `2 lines` to "
        "`4 lines`): more than the limit. The rows beside it say what the rest is; [README.md](README.md#limits) adds them up.",
    "a barrier of 1,024 hosts × 8 tasks, the leader's work a host, over 16 hosts'":
        "memory, not work: the leader takes 42,100 instructions a host among 16, and 46,300 among 128 (callgrind), but 18 and 86 misses of a 1 MiB cache. "
        "[README.md](README.md#limits) has the command.",
    "KV get, uniform, over 3 dependent loads": LIMITS,
    "SIGKILL → every wait returns, 2048MiB resident": LIMITS,
    "SIGKILL → every wait returns, 10MiB resident":
        "the waiters are woken within 0.3 ms of the kill (trace of 90 kills); where one runs later than 0.9 ms its processor was idle until then "
        "in 18 kills of 31 (a halted processor of the virtual machine comes back late), and had other peers or the dead process's teardown in 13. "
        "[README.md](README.md#limits) has the command.",
    "audit of 1 M objects": LIMITS,
    "group barrier, 8 tasks, p99 over p50":
        "a barrier is four switches on each of two processors (trace of the scheduler). The slow ones have eight, where somebody who came "
        "last of its processor looked on in vain for 8 µs, or another process had a processor: it kept one in 96 % of the slowest hundredth "
        "of a run beside other load. [README.md](README.md#limits) has the command.",
    "over grpcio, p50, against etcd": "the client, Python's grpcio, takes most of the time; in C the same lines hold.",
    "over grpcio, p99, against etcd": "the client, Python's grpcio, takes most of the time; in C the same lines hold.",
    "agent of the first of 2 hosts, idle: share of a processor": IDLE,
    "agent of the second of 2 hosts, idle: share of a processor": IDLE,
    "muster run -n 8 true, over posix_spawn of 8":
        "the limit has no start of its own: a C program that does only that by posix_spawn takes 1.2 to 1.3 times as long from its exec to its "
        "exit (bare), one that starts its children as muster does 1.0 (bare-clone). What a launcher has besides was added to that piece by "
        "piece: a guard 0.1, a segment 0.1, its tasks' pipes, sockets, pidfds, environment and signals 0.2, the pages of a larger program "
        "0.1, what is left 0.1. docs/DESIGN.md has them. The system calls are counted under count.",
    "TCPStore, 10,000 clients wake, and meet, against libuv": RUNS,
    "TCPStore, a call at a time, against libuv": RUNS,
    "TCPStore, 10,000 clients connect, until the last is served, against libuv":
        "the client, one process on a processor of its own, takes longer for a connection (39 µs) than either server does: "
        "it is the client that is waited for, and runs differ by a tenth either way.",
    "a barrier of 1,024 hosts × 8 tasks, another agent's work, over 16 hosts'":
        "memory, not work: in instructions a host with its 8 tasks takes 244,000 a barrier among 16 hosts, and 258,000 among 128 (callgrind). "
        "But all hosts are one thread here, and each finds its 0.8 MiB of segment gone from the caches when it is its turn. On hosts of "
        "their own there is one in each.",
    "group barrier, 2 tasks, over the one-way line":
        "a barrier is two lines that cross, each of which its writer must own again: one transfer to take it back, one to hand it on.",
}
