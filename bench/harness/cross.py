"""The rows across hosts: hosts are made of the tests' field (tests/bridge/field.py) when the first contender needs them.

Namespaces with veth pairs into a bridge where they are allowed, addresses of the loopback interface elsewhere; the fact
"hosts" says which it was. Every contender of a group uses the same ones, so one network carries all.
"""
import os
import shutil
import sys

from harness import rows

TOP = os.path.dirname(rows.HERE)
MOST = 8
# UCX looks for devices in /sys, which shows those of the network namespace that it was mounted in.
OWN_SYS = ["unshare", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh"]


class Hosts:
    """The field of a run, made at first use."""

    def __init__(self):
        self.made = None

    def field(self):
        if not self.made:
            sys.path.insert(0, os.path.join(TOP, "tests", "bridge"))
            from field import Field, NotHere
            try:
                self.made = Field(MOST, "veth")
            except (NotHere, OSError):
                self.made = Field(MOST, "loopback")
        return self.made

    def words(self):
        return self.field().words

    def is_apart(self):
        return self.field().kind != "loopback"

    def first(self, count):
        """NET ADDRESS for each, as the programs want it (bench/net.h)."""
        found = []
        for host in self.field().hosts[:count]:
            found += ["/proc/%d/fd/%d" % (os.getpid(), host.net) if self.is_apart() else "-", host.address]
        return found

    def addresses(self, count):
        return [host.address for host in self.field().hosts[:count]]

    def from_first(self, command):
        return self.field().hosts[0].prefix() + command

    def close(self):
        if self.made:
            self.made.close()
            self.made = None


def tcp(tools, effort, hosts, metric, who, mode, size=64):
    path = tools.program("tcp")
    return rows.Contender(who, lambda: [path, metric, who, mode, str(effort.slice), *hosts.first(2), str(size)],
                          missing="" if path else "%s/tcp is not built" % tools.folder)


def relay(tools, effort, hosts, metric):
    """What a task pays that leaves the network to another process of its host."""
    path = tools.program("relay")
    return rows.Contender("tcp-relay-poll", lambda: [path, metric, "tcp-relay-poll", str(effort.slice), *hosts.first(2)],
                          missing="" if path else "%s/relay is not built" % tools.folder)


def muster(tools, effort, hosts, size, what, mode):
    path = tools.program("cross")
    return rows.Contender("muster-named" if what == "named" else "muster", lambda: [path, what, mode, *loop_words(effort), *hosts.first(size)],
                          missing="" if path else "%s/cross is not built" % tools.folder)


def openmpi(tools, effort, hosts, size, metric):
    def command():
        where = ["--mca", "mpi_yield_when_idle", "1" if size > processors() else "0"]
        if not hosts.is_apart():
            where += ["--oversubscribe"]
        else:
            where += ["--mca", "plm_rsh_agent", hosts.field().rsh(), "--host", ",".join(hosts.addresses(size)), "--mca",
                     "oob_tcp_if_include", "mu0", "--mca", "btl_tcp_if_include", "mu0"]
        return hosts.from_first([launcher, *where, "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
                                 "-n", str(size), program, "openmpi-tcp", *loop_words(effort), metric])

    program, launcher, missing = mpi(tools, "openmpi")
    return rows.Contender("openmpi-tcp", command, environment=rows.openmpi_environment(), missing=missing)


def mpich(tools, effort, hosts, size, metric):
    def command():
        where = []
        if hosts.is_apart():
            where = ["-launcher", "rsh", "-launcher-exec", hosts.field().rsh(), "-hosts", ",".join(hosts.addresses(size)),
                     "-iface", "mu0"]
        return hosts.from_first([launcher, *where, "-bind-to", "none", "-n", str(size), *(OWN_SYS if hosts.is_apart() else []),
                                 program, "mpich-tcp", *loop_words(effort), metric])

    program, launcher, missing = mpi(tools, "mpich")
    # Debian's is built on UCX, or once was on libfabric: each is told to use TCP, and not the memory of one machine.
    environment = {"UCX_TLS": "tcp,self", "FI_PROVIDER": "tcp", "MPIR_CVAR_NOLOCAL": "1"}
    return rows.Contender("mpich-tcp", command, environment=environment, missing=missing)


def mpi(tools, flavour):
    name = "mpi_barrier." + flavour
    program = tools.peer(name, "mpi_barrier.c", "mpicc." + flavour)
    launcher = shutil.which("mpirun." + flavour)
    return program, launcher, "" if program and launcher else tools.why.get(name, "mpirun.%s is not installed" % flavour)


def processors():
    return len(os.sched_getaffinity(0))


def loop_words(effort):
    return [str(effort.slice), str(effort.least), str(effort.most)]


def barrier_group(tools, effort, hosts, size):
    """MPI polls, so what it is compared with is the latency mode."""
    asleep, awake = "cross.n%d" % size, "cross.n%d.latency" % size
    contenders = [tcp(tools, effort, hosts, asleep, "tcp", "block"),
                  muster(tools, effort, hosts, size, "group", "block"),
                  muster(tools, effort, hosts, size, "named", "block"),
                  tcp(tools, effort, hosts, awake, "tcp-poll", "poll"),
                  *([relay(tools, effort, hosts, awake)] if size == 2 else []),
                  muster(tools, effort, hosts, size, "group", "poll"),
                  muster(tools, effort, hosts, size, "named", "poll"),
                  openmpi(tools, effort, hosts, size, awake)]
    if size <= processors():  # it polls and never yields: with two ranks on a processor a minute may not be enough
        contenders.append(mpich(tools, effort, hosts, size, awake))
    return rows.Group("cross%d" % size, contenders)


def kv_group(tools, effort, hosts):
    etcd = tools.peer("etcd", "etcd.c", tools.compiler)
    no_etcd = tools.why.get("etcd", "") or ("" if shutil.which("etcd") else "etcd is not installed")
    python, store = rows.torch_python(), os.path.join(rows.HERE, "peers", "tcpstore.py")
    return rows.Group("crosskv", [
        tcp(tools, effort, hosts, "cross.kv.get", "tcp", "block"),
        tcp(tools, effort, hosts, "cross.kv.set", "tcp", "block"),
        muster(tools, effort, hosts, 2, "keys", "block"),
        tcp(tools, effort, hosts, "cross.kv.get.latency", "tcp-poll", "poll"),
        tcp(tools, effort, hosts, "cross.kv.set.latency", "tcp-poll", "poll"),
        muster(tools, effort, hosts, 2, "keys", "poll"),
        *(tcp(tools, effort, hosts, "cross.kv.%s.%s" % (what, name), "tcp", "block", size)
          for name, size in (("64k", 64 << 10), ("1m", 1 << 20)) for what in ("get", "set")),
        muster(tools, effort, hosts, 2, "values", "block"),
        rows.Contender("tcpstore", lambda: [python, store, str(effort.slice), "1", *hosts.first(2)],
                       missing="" if python else "no Python here has torch.distributed (Debian: python3-torch)"),
        rows.Contender("etcd", lambda: [etcd, str(effort.slice), *hosts.first(2)], missing=no_etcd),
    ])


def object_group(tools, effort, hosts):
    return rows.Group("crossobject", [
        *(tcp(tools, effort, hosts, "cross.object.%s" % name, "tcp", "block", size)
          for name, size in (("20", 20), ("1m", 1 << 20), ("64m", 64 << 20))),
        muster(tools, effort, hosts, 2, "objects", "block")])


def growth_group(tools, effort):
    """Hosts simulated on one thread (tests/bridgesim): counts, memory and processor time, which know no other load."""
    path = os.path.join(os.path.dirname(tools.folder), "tests", "bridgesim", "scale")
    missing = "" if os.access(path, os.X_OK) else "%s is not built" % path
    return rows.Group("growth", [
        rows.Contender("muster", [path, str(size), "8", "5" if effort.quick else "100", "exchange"], timeout=900, missing=missing,
                       repeats=1)
        for size in ((2, 4, 16) if effort.quick else (2, 8, 16, 64, 128, 256, 1024))])


def run_group(tools, effort, hosts):
    """A job of one task on each of two hosts, from nothing to its end, the launcher's own start on the first included."""
    def contender(who, program, command, environment=None):
        missing = "" if program else "%s is not installed" % who
        return rows.Contender(who, lambda: hosts.from_first([spawn, "run.hosts.2", who, str(effort.runs), "1", program,
                                                              *command(hosts.addresses(2)), "true"]),
                              environment=environment or {}, missing=missing if spawn else "%s/spawn is not built" % tools.folder)

    def for_mpich(addresses):
        if not hosts.is_apart():
            return ["-bind-to", "none", "-n", "2"]
        return ["-launcher", "rsh", "-launcher-exec", hosts.field().rsh(), "-hosts", ",".join(addresses), "-iface", "mu0", "-n",
                "2"]

    def for_openmpi(addresses):
        if not hosts.is_apart():
            return ["--bind-to", "none", "--oversubscribe", "-n", "2"]
        return ["--bind-to", "none", "--mca", "plm_rsh_agent", hosts.field().rsh(), "--host", ",".join(addresses), "--mca",
                "oob_tcp_if_include", "mu0", "-n", "2"]

    def for_muster(addresses):
        return ["run", "--hosts", ",".join(address + ":1" for address in addresses), "--rsh", hosts.field().rsh(), "--"]

    spawn = tools.program("spawn")
    own = tools.muster if tools.muster and os.access(tools.muster, os.X_OK) else None
    return rows.Group("runhosts", [
        contender("muster", own, for_muster),
        contender("mpich", shutil.which("mpiexec.hydra"), for_mpich),
        contender("openmpi", shutil.which("mpirun.openmpi"), for_openmpi, rows.openmpi_environment())])


def groups(tools, effort, hosts):
    return [*(rows.later("cross%d" % size, barrier_group, tools, effort, hosts, size) for size in (2, 4, MOST)),
            rows.later("crosskv", kv_group, tools, effort, hosts), rows.later("crossobject", object_group, tools, effort, hosts), run_group(tools, effort, hosts), growth_group(tools, effort)]
