"""What the rows are called, in the order of the tables."""

# Operations that are counted instead of timed (bench/hot.c) -> what people read.
OPERATIONS = {
    "get": "KV get, one key",
    "get-any": "KV get, 10,000 keys",
    "set": "KV overwrite, one key",
    "set-any": "KV overwrite, 10,000 keys",
    "insert": "KV insert of a new key",
    "increment": "KV increment, one key",
    "parked": "waiting get, asleep, and the set that wakes it",
    "group": "group barrier of 2, the last to come",
    "named": "named barrier of 2, the last to come",
    "named-alone": "named barrier of 1",
    "heartbeat": "heartbeat",
}

# metric -> what it is, in the order of the table. A metric that is not here is shown under its own name.
TITLES = {
    "line": "cache line from one processor to another, one way",
    "line.avg16": "the same, mean of 16",
    "barrier.n2": "group barrier, 2 tasks",
    "barrier.n2.avg16": "group barrier, 2 tasks, mean of 16",
    "barrier.n2.beside_line": "group barrier, 2 tasks, in turn with the line",
    "barrier.n2.over_line": "the same, barrier over one-way line",
    "barrier.n4": "group barrier, 4 tasks",
    "barrier.n8": "group barrier, 8 tasks",
    "named.1": "named barrier, 1 participant, each arrival",
    "named.2": "named barrier, 2 participants, each arrival",
    "kv.get.hot": "KV get, one key",
    "kv.get.uniform": "KV get, uniform",
    "kv.get.chained": "KV get, uniform, each key taken from the value before",
    "kv.set.hot": "KV overwrite, one key",
    "kv.set.uniform": "KV overwrite, uniform",
    "kv.increment": "KV increment, one key",
    "kv.insert": "KV insert of a new key",
    "wait.spin": "set → reader of a waiting get runs, spinning",
    "wait.parked": "set → reader of a waiting get runs, asleep",
    "death.10MiB": "SIGKILL → peers' waits return, 10 MiB resident",
    "death.2048MiB": "SIGKILL → peers' waits return, 2 GiB resident",
    "stream.n2": "stream barrier, 2 processes: a round enqueued and synchronized with",
    "stream.n2.avg64": "stream barrier, 2 processes: rounds 64 at a time",
    "stream.death": "SIGKILL → the survivor's stream is empty and its process knows who died",
    "trace.event": "an event of a trace",
    "trace.off": "group barrier of one task, without a trace",
    "trace.barrier": "group barrier of one task, with a trace: two events",
    "run.hosts.2": "start 2 tasks on 2 hosts and wait for both",
    "cross.n2": "barrier of 2 hosts",
    "cross.n4": "barrier of 4 hosts",
    "cross.n8": "barrier of 8 hosts",
    "cross.n2.latency": "barrier of 2 hosts, polling",
    "cross.n4.latency": "barrier of 4 hosts, polling",
    "cross.n8.latency": "barrier of 8 hosts, polling",
    "cross.kv.get": "KV get from another host, of a key not seen before",
    "cross.kv.set": "KV overwrite on another host, acknowledged",
    "cross.kv.copy": "KV get of another host's key, again",
    "cross.kv.get.latency": "KV get from another host, polling",
    "cross.kv.set.latency": "KV overwrite on another host, polling",
    "cross.kv.copy.latency": "KV get of another host's key, again, polling",
    "grpc.register": "over gRPC: 256 tasks connect and register at once, until the last has its answer",
    "grpc.set": "over gRPC: KV overwrite of 64 bytes",
    "grpc.get": "over gRPC: KV get of 64 bytes",
    "grpc.wake": "over gRPC: set → a get that waits on another connection is answered",
    "grpc.barrier.2": "over gRPC: barrier of 2 tasks of one client process",
    "grpc.barrier.8": "over gRPC: barrier of 8",
    "grpc.barrier.64": "over gRPC: barrier of 64",
    "grpc.load.set": "over gRPC: KV overwrites, 64 on the way over 8 connections: each call",
    "grpc.load.set.rate": "… calls a second",
    "grpc.load.get": "over gRPC: KV gets, 64 on the way over 8 connections: each call",
    "grpc.load.get.rate": "… calls a second",
    "grpc.load.barrier": "over gRPC: 8 barriers of 8 tasks at once, a connection each: each call",
    "grpc.load.barrier.rate": "… calls a second",
    "grpc.death": "over gRPC: SIGKILL of a task → task 0's poll for errors is answered, heartbeat timeout 10 s",
    "grpcio.set": "grpcio: KV overwrite of 64 bytes",
    "grpcio.get": "grpcio: KV get of 64 bytes",
    "grpcio.load.set.rate": "grpcio: KV overwrites, 32 on the way: calls a second",
    "grpcio.load.get.rate": "grpcio: KV gets, 32 on the way: calls a second",
    "grpcio.wake": "grpcio: set → a get that waits on another channel is answered",
    "grpcio.barrier.2": "grpcio: barrier of 2 tasks of one client process",
    "grpcio.barrier.8": "grpcio: barrier of 8",
    "store.add": "TCPStore: ADD",
    "store.get": "TCPStore: a get, WAIT and GET, of 64 bytes",
    "store.compare_set": "TCPStore: COMPARE_SET of 64 bytes",
    "store.set": "TCPStore: SETs of 64 bytes, each a send of its own, without an answer",
    "store.wake": "TCPStore: SET → the WAIT of another connection is answered",
    "store.pipe.16": "TCPStore: ADDs, 16 on the way",
    "store.pipe.128": "TCPStore: ADDs, 128 on the way",
    "store.pipe.1024": "TCPStore: ADDs, 1,024 on the way",
    "store.stream": "TCPStore: SETs of 64 bytes in a stream",
    **{metric % clients: title.format(clients) for clients in (1, 100, 1000, 10000) for metric, title in (
        ("store.connect.%d", "TCPStore: {:,} connect, until the last has its answer"),
        ("store.idle.%d", "TCPStore: ADD while {:,} clients are idle"),
        ("store.fanout.%d", "TCPStore: SET → the WAITs of {:,} clients are answered"),
        ("store.barrier.%d", "TCPStore: barrier of {:,} clients: ADD, SET, WAIT"))},
    "torch.get": "PyTorch's store from Python: get of 64 bytes",
    "torch.add": "PyTorch's store from Python: add",
    "torch.compare_set": "PyTorch's store from Python: compare_set of 64 bytes",
    "torch.wait": "PyTorch's store from Python: wait, of a key that is there",
    "torch.check": "PyTorch's store from Python: check",
    "torch.multi_get": "PyTorch's store from Python: multi_get of 16 keys",
    "torch.set": "PyTorch's store from Python: set of 64 bytes (TCPStore only sends)",
    "torch.set.stream": "PyTorch's store from Python: the same, one upon the other",
    "torch.wake": "PyTorch's store from Python: set → another process's get returns",
    "torch.wake.asleep": "PyTorch's store from Python: the same, of a get that has slept for 2 ms",
    "store.init.8": "init_process_group of 8 ranks, gloo",
    "store.init.8.debian": "init_process_group of 8 ranks, gloo, of Debian's PyTorch",
    **{"mpi.%s.%d%s" % (flavour, size, what): title.format(size, name) for flavour, name in (("mpich", "MPICH"), ("openmpi", "Open MPI"))
       for size in (2, 4, 8) for what, title in (("", "start {} ranks of {}, until the last is behind MPI_Init"),
                                                 (".whole", "start {} ranks of {} and wait for all"))},
    "heartbeat": "heartbeat",
    "attach": "join a job that exists",
    "attach.thread": "join, with the heartbeat thread",
    "attach.leave": "leave",
    "audit": "audit of the segment",
    "topology.8": "8 tasks at once ask for hwloc's tree",
    "topology.128": "128 tasks at once ask for hwloc's tree",
    "exchange.8": "8 tasks exchange the topologies of 8 devices each",
    "exchange.128": "128 tasks exchange the topologies of 8 devices each",
    "run.2": "start 2 times true, wait for all",
    "run.8": "start 8 times true, wait for all",
    "run.64": "start 64 times true, wait for all",
    "memory.empty": "committed bytes of an empty segment",
    "memory.task": "bytes of one more task",
    "memory.agent.1": "resident bytes of the launcher of 1 task",
    "memory.agent.64": "resident bytes of the launcher of 64 tasks",
    "memory.agent.512": "resident bytes of the launcher of 512 tasks",
    "memory.agent.1.pss": "the same, what it shares with others divided by them: 1 task",
    "memory.agent.64.pss": "… 64 tasks",
    "memory.agent.512.pss": "… 512 tasks",
    **{"late.%d.%s" % (size, what): title.format(size) for size in (8, 64) for what, title in (
        ("each", "barrier of {}, one late, the others asleep: its arrival → each of them returns"),
        ("last", "barrier of {}, one late: its arrival → the last of the others returns"),
        ("call", "barrier of {}, one late: its own call, which wakes the others"))},
    "agent.idle.run": "launcher of 8 tasks that sleep: share of a processor",
    "agent.idle.joined": "launcher of 8 tasks that have joined and sleep: share of a processor",
    "agent.idle.leader": "agent of the first of 2 hosts of 4 tasks that sleep: share of a processor",
    "agent.idle.follower": "agent of the second of 2 hosts of 4 tasks that sleep: share of a processor",
    "agent.idle.serving": "launcher of 8 tasks, serving gRPC and TCPStore to nobody: share of a processor",
    "agent.idle.task": "a task that has joined and sleeps, its heartbeats: share of a processor",
    "agent.busy.run": "launcher, while 8 tasks do nothing but barriers: share of a processor",
    "agent.busy.leader": "agent of the first of 2 hosts, while 4 tasks do nothing but named barriers: share of a processor",
    "agent.busy.follower": "agent of the second of them: share of a processor",
    "agent.busy.rss.leader": "the first agent's resident bytes meanwhile",
    "agent.busy.rss.follower": "the second agent's resident bytes meanwhile",
    **{"count.%s.%s" % (name, what): title.format(words) for name, words in OPERATIONS.items() for what, title in (
        ("instructions", "{}: instructions"), ("calls", "{}: system calls"))},
    "count.run.8.calls": "start 8 times true, wait for all: system calls of all processes",
}

SIDES = ("service", "client")  # of a row over gRPC: the processor time that each spends on a call


def title(metric):
    base, _, side = metric.rpartition(".")
    return "… the %s's processor time for each call" % side if base in TITLES and side in SIDES else TITLES.get(metric, metric)


def place(metric):
    """In the table: behind what it belongs to."""
    base, _, side = metric.rpartition(".")
    order = list(TITLES)
    if base in TITLES and side in SIDES:
        return order.index(base) + 0.5
    return order.index(metric) if metric in TITLES else len(order)


# What stands for hardware or kernel alone, not for another implementation.
LIMITS = {"one-way", "loads", "line", "futex", "getppid", "posix_spawn", "bare", "bare-guard", "tcp", "tcp-poll", "tcp-relay-poll"}
