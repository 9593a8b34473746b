"""What PyTorch's own tests ask of a c10d store, asked through PyTorch's own client. One line a check: its sentence, or why not.

    torch_checks.py own         PyTorch's own server, in this process: what fails there is a wrong check
    torch_checks.py tcpstore    the server at MASTER_ADDR and MASTER_PORT
    torch_checks.py muster      muster.torch.Store()

The numbers are those of the list that they restate: the cases of test/distributed/test_store.py.
"""
import datetime
import inspect
import os
import re
import signal
import sys
import threading
import traceback

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../common"))
import ports
import torch
import torch.distributed as dist

MODE = sys.argv[1]
if MODE == "muster":
    import muster.torch
    assert (muster.torch._fast is not None) == (os.environ.get("MUSTER_CHECKS_FAST") == "1")
RELEASE = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
NEW = RELEASE >= (2, 0)
failed, checks = [], []
kept = []  # sockets that keep ports


class NotHere(Exception):
    """The check asks for what this store, or this PyTorch, does not have: why."""


def check(number, modes=("own", "tcpstore", "muster"), since=(1, 13), why="it asks for PyTorch's own server"):
    def add(function):
        checks.append((number, modes, since, why, function))
        return function
    return add


def seconds(number):
    return datetime.timedelta(seconds=number)


def server_address():
    if MODE == "own":
        if not hasattr(server_address, "store"):
            server_address.store = dist.TCPStore("127.0.0.1", 0, None, True, seconds(60), wait_for_workers=False)
        return "127.0.0.1", server_address.store.port
    return os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def client(timeout=60, **more):
    if MODE == "muster":
        import muster.torch
        return muster.torch.Store(timeout=seconds(timeout))
    host, port = server_address()
    return dist.TCPStore(host, port, timeout=seconds(timeout), **more)


def raises(pattern, function, *arguments):
    try:
        value = function(*arguments)
    except Exception as error:
        assert re.search(pattern, str(error), re.I), "%r does not say %r" % (str(error), pattern)
        return error
    raise AssertionError("%r, and no error that says %r" % (value, pattern))


def beside(function, *arguments):
    """The function in a thread; call the answer to wait for its value."""
    kept = []

    def run():
        try:
            kept.append((function(*arguments), None))
        except BaseException as error:
            kept.append((None, error))
    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def ended():
        thread.join(60)
        assert not thread.is_alive(), "%s still waits" % getattr(function, "__name__", function)
        if kept[0][1]:
            raise kept[0][1]
        return kept[0][0]
    return ended


@check(1)
def set_get_add_and_check(store, p):
    """set, get, add and num_keys: sums are read as text, the last of several sets counts"""
    before = store.num_keys()
    for by in (1, 2, 3):
        store.add(p + "key", by)
    for one, value in (("key0", "value0"), ("key1", "value1"), ("key1", "value2"), ("key2", "value2")):
        store.set(p + one, value)
    for by in (1, 2, 3, 4, 5, 6):
        last = store.add(p + "key3", by)
    assert (store.get(p + "key"), last, store.get(p + "key3")) == (b"6", 21, b"21")
    assert [store.get(p + "key%d" % i) for i in range(3)] == [b"value0", b"value2", b"value2"]
    assert store.num_keys() == before + 5
    assert store.add(p + "key3", -22) == -1 and store.get(p + "key3") == b"-1"
    if hasattr(store, "check"):
        assert store.check([p + "key3"]) is True and store.check([p + "Randomkey3"]) is False
        assert store.check([p + "key", p + "Randomkey3"]) is False


@check(2)
def a_key_with_a_dash(store, p):
    """a key that begins with "-" is stored, read and deleted, and the count of keys is as before"""
    before = store.num_keys()
    assert store.add("-" + p + "key3", 7) == 7 and store.get("-" + p + "key3") == b"7"
    assert store.num_keys() == before + 1
    assert store.delete_key("-" + p + "key3") is True and store.num_keys() == before


@check(3)
def compare_set_of_a_missing_key(store, p):
    """compare_set of a missing key with a wrong expectation gives the expectation back, and makes nothing"""
    before = store.num_keys()
    assert store.compare_set(p + "none", "wrong_value", "new") == b"wrong_value"
    assert store.num_keys() == before


@check(4)
def compare_set_of_a_key(store, p):
    """compare_set of a key: a wrong expectation changes nothing, the right one swaps, "" makes it"""
    store.set(p + "k", "value0")
    assert store.compare_set(p + "k", "wrong", "value1") == b"value0" and store.get(p + "k") == b"value0"
    assert store.compare_set(p + "k", "value0", "value1") == b"value1" and store.get(p + "k") == b"value1"
    assert store.compare_set(p + "made", "", "value2") == b"value2" and store.get(p + "made") == b"value2"


@check(5)
def a_wait_that_times_out(store, p):
    """wait of an absent key ends with a word of the timeout; after add it returns"""
    raises("timeout", client().wait, [p + "k"], seconds(0.25))
    store.add(p + "k", 1)
    store.wait([p + "k"], seconds(5))


@check(6, since=(2, 1), why="append came with 2.1")
def append(store, p):
    """append to a key and to a missing one joins the bytes"""
    store.set(p + "k", "po")
    store.append(p + "k", "tato")
    store.append(p + "new", "po")
    store.append(p + "new", "tato")
    assert (store.get(p + "k"), store.get(p + "new")) == (b"potato", b"potato")


@check(7, since=(2, 1), why="multi_set came with 2.1")
def multi_set(store, p):
    """multi_set sets two keys"""
    store.multi_set([p + "a", p + "b"], ["po", "tato"])
    assert (store.get(p + "a"), store.get(p + "b")) == (b"po", b"tato")


@check(8, since=(2, 1), why="multi_get came with 2.1")
def multi_get(store, p):
    """multi_get gives the values in the order of the keys"""
    store.set(p + "a", "po")
    store.set(p + "b", "tato")
    assert list(store.multi_get([p + "b", p + "a"])) == [b"tato", b"po"]
    assert store.has_extended_api()


@check(9, since=(2, 8), why="queues came with 2.8")
def queues(store, p):
    """a queue: what was pushed first comes first; it is checked, counted and waited for"""
    assert store.check([p + "q"]) is False and store.queue_len(p + "q") == 0
    store.queue_push(p + "q", "a")
    store.queue_push(p + "q", "b")
    assert store.check([p + "q"]) is True and store.queue_len(p + "q") == 2
    store.wait([p + "q"], seconds(5))
    assert (store.queue_pop(p + "q"), store.queue_pop(p + "q")) == (b"a", b"b")
    assert store.check([p + "q"]) is False and store.queue_len(p + "q") == 0


@check(10, since=(2, 8), why="queues came with 2.8")
def an_empty_queue(store, p):
    """queue_pop(block=False) of an empty queue is a QueueEmptyError, and gives what is pushed"""
    try:
        raise AssertionError(store.queue_pop(p + "q", block=False))
    except dist.QueueEmptyError:
        pass
    store.queue_push(p + "q", "a")
    assert store.queue_pop(p + "q", block=False) == b"a"


@check(11, since=(2, 8), why="queues came with 2.8")
def two_queues(store, p):
    """two threads with cloned stores answer each other through two queues"""
    def other(mine):
        for turn in range(20):
            assert mine.queue_pop(p + "there") == b"%d" % turn
            mine.queue_push(p + "back", "%d" % (turn + 1))
    ended = beside(other, store.clone())
    for turn in range(20):
        store.queue_push(p + "there", "%d" % turn)
        assert store.queue_pop(p + "back") == b"%d" % (turn + 1)
    ended()


@check(12, since=(2, 8), why="queues came with 2.8")
def a_queue_that_times_out(store, p):
    """queue_pop of a queue that nobody fills ends with a word of the timeout"""
    mine = client()
    mine.set_timeout(seconds(0.01))
    assert isinstance(raises("timeout", mine.queue_pop, p + "none"), dist.DistStoreError)


@check(13, since=(2, 8), why="clone came with 2.8")
def clone(store, p):
    """clone() is a store that sees what the first has written; list_keys names it, barrier passes"""
    store.set(p + "k", "value")
    second = store.clone()
    assert isinstance(second, dist.Store) and second.get(p + "k") == b"value"
    if hasattr(store, "list_keys"):
        assert p + "k" in second.list_keys()
    if hasattr(store, "barrier"):
        ended = beside(second.barrier, p + "barrier", 2)
        store.barrier(p + "barrier", 2, seconds(20))
        ended()


@check(14)
def prefixes(store, p):
    """a PrefixStore on it: the same operations, under names that the store itself sees"""
    inner = dist.PrefixStore(p + "a", dist.PrefixStore("b/", store))
    inner.set("k", "value")
    assert inner.get("k") == b"value" and inner.add("n", 2) == 2
    assert inner.compare_set("k", "value", "other") == b"other"
    assert store.get("b//" + p + "a/k") == b"other"
    assert inner.num_keys() == store.num_keys() and inner.delete_key("n") is True
    inner.wait(["k"], seconds(5))
    if NEW:
        inner.append("k", "s")
        inner.multi_set(["x"], ["y"])
        assert [bytes(one) for one in inner.multi_get(["k", "x"])] == [b"others", b"y"] and inner.check(["x"])


@check(15, modes=(), why="it is about FileStore's file")
def file_store():
    """FileStore: the file outlives a process group, and goes with the last of its stores"""


@check(16, since=(2, 0), why="underlying_store came with 2.0")
def underlying(store, p):
    """PrefixStore.underlying_store gives the store back, nested ones too"""
    assert type(dist.PrefixStore("a", store).underlying_store) is type(store)
    nested = dist.PrefixStore("a", dist.PrefixStore("b", store))
    assert type(nested._underlying_non_prefix_store) is type(store)


@check(17, modes=("own", "tcpstore"), why="muster.torch listens on no port")
def a_second_server(store, p):
    """a second server on the port is refused by name"""
    host, port = server_address()
    kept = {key: os.environ.pop(key) for key in ("TORCHELASTIC_USE_AGENT_STORE",) if key in os.environ}
    try:
        error = raises("address already in use|failed to listen", dist.TCPStore, host, port, 1, True, seconds(5))
    finally:
        os.environ.update(kept)
    assert str(port) in str(error) or not NEW, error


@check(18, modes=("own", "tcpstore"), since=(2, 6), why="repr came later; muster.torch has another")
def representation(store, p):
    """the client names its socket, address and server"""
    assert re.search(r"TCPStore\(client=TCPClient\(SocketImpl\(fd=\d+, addr=.*, remote=.*\)\), server=<nullptr>\)", repr(store)), repr(store)


@check(19)
def group_and_rpc(store, p):
    """a process group and RPC meet by the same store in one process"""
    import torch.distributed.rpc as rpc
    dist.init_process_group("gloo", store=dist.PrefixStore(p, client()), rank=0, world_size=1, timeout=seconds(60))
    one = torch.ones(1)
    dist.all_reduce(one)
    if MODE != "muster":
        host, port = server_address()
        options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://%s:%d" % (host, port))
        if MODE == "own":
            options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://%s:%d" % (host, free_port()))
        rpc.init_rpc("worker0", rank=0, world_size=1, rpc_backend_options=options)
        assert rpc.rpc_sync("worker0", max, args=(1, 2)) == 2
        rpc.shutdown()
    dist.destroy_process_group()


def free_port():
    kept.append(ports.keep_port())
    return ports.port_of(kept[-1])


@check(20, modes=(), why="the server is not PyTorch's, which a listening socket could be given to")
def master_listen_fd():
    """a server takes a socket that listens already"""


@check(21)
def counting(store, p):
    """num_keys and delete_key: a deleted key is not counted, not got, and can be set anew"""
    before = store.num_keys()
    store.set(p + "key", "a")
    store.add(p + "n", 1)
    store.set(p + "key2", "b")
    store.set(p + "key3", "c")
    assert store.num_keys() == before + 4
    assert store.delete_key(p + "key") is True and store.delete_key(p + "key") is False
    assert store.num_keys() == before + 3
    mine = client()
    mine.set_timeout(seconds(0.3))
    raises("timeout", mine.get, p + "key")
    store.set(p + "key", "again")
    assert store.get(p + "key") == b"again" and store.num_keys() == before + 4


@check(22)
def five_clients(store, p):
    """five clients with a world's size and one without: each reads, sets its own key, compares and sets it"""
    def one(i):
        mine = client(world_size=5, wait_for_workers=False) if MODE != "muster" and i < 5 else client()
        assert mine.get(p + "key") == b"value"
        mine.set(p + "own%d" % i, "mine%d" % i)
        assert mine.compare_set(p + "own%d" % i, "mine%d" % i, "new%d" % i) == b"new%d" % i
    store.set(p + "key", "value")
    for ended in [beside(one, i) for i in range(6)]:
        ended()
    assert [store.get(p + "own%d" % i) for i in range(6)] == [b"new%d" % i for i in range(6)]


@check(23, modes=("own",), since=(2, 0), why="how many workers have come is counted by PyTorch's own server; here nobody waits for them")
def too_few_workers(store, p):
    """a server whose workers do not come says how many came"""
    raises("timed out|timeout", dist.TCPStore, "127.0.0.1", 0, 2, True, seconds(1))


@check(24, modes=("own", "tcpstore"), since=(2, 0), why="1.13 does not look; muster.torch takes the world's size of the job")
def no_world(store, p):
    """a world of 0 is refused"""
    host, port = server_address()
    raises("world size", dist.TCPStore, host, port, 0, False, seconds(2))


@check(25, modes=("own", "tcpstore"), since=(2, 4), why="_splitSet came with 2.4; muster.torch sends no messages")
def a_message_in_two_parts(store, p):
    """a set whose value comes a second after its key"""
    if not hasattr(store, "_split_set"):
        raise NotHere("this client has no _split_set()")
    store._split_set(p + "k", b"value")
    assert store.get(p + "k") == b"value"


@check(26, modes=("muster",), why="it asks for a store that is written in Python")
def through_cpp(store, p):
    """a store that is written in Python is one for C++ too, by all its methods"""
    outer = dist.PrefixStore("", store)
    outer.set(p + "k", "v")
    assert outer.get(p + "k") == b"v"
    raises("timeout", outer.wait, [p + "none"], seconds(0.1))
    assert outer.delete_key(p + "k") is True


@check(27)
def rendezvous(store, p):
    """rendezvous(): an unknown scheme and missing parts are named; the nominal case gives a store"""
    raises("No rendezvous handler", lambda: next(dist.rendezvous("no-such-scheme://foo")))
    if MODE == "muster":
        kept, rank, size = next(dist.rendezvous("muster://"))
        assert (rank, size) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    else:
        host, port = server_address()
        raises("port number missing", lambda: next(dist.rendezvous("tcp://127.0.0.1?rank=0&world_size=1")))
        raises("rank parameter missing", lambda: next(dist.rendezvous("tcp://127.0.0.1:23456?world_size=1")))
        kept, rank, size = next(dist.rendezvous("tcp://%s:%d?rank=%d&world_size=1" % (host, port, MODE == "own")))
    kept.set(p + "k", "v")
    assert kept.get(p + "k") == b"v"


@check(28)
def a_timeout_set_later(store, p):
    """a timeout that is set later holds, and says so in PyTorch's words"""
    mine = client()
    mine.set_timeout(seconds(0.1))
    error = raises("timeout", mine.get, p + "none")
    if MODE == "muster" or NEW:
        assert re.search(r"wait timeout after 100ms, keys: /%snone" % p, str(error)), error
        assert not NEW or isinstance(error, dist.DistStoreError)


@check(29)
def after_a_timeout(store, p):
    """after a timeout the same client sets and gets that key, and counts right"""
    mine = client()
    mine.set_timeout(seconds(0.1))
    raises("timeout", mine.get, p + "k")
    if MODE == "own" and not NEW:
        raise NotHere("PyTorch 1.13's own server answers the wait later, and the client takes that for another answer")
    mine.set(p + "k", "value")
    assert mine.get(p + "k") == b"value"
    assert (mine.add(p + "n", 2), mine.add(p + "n", 1)) == (2, 3)


@check(30, modes=("own", "tcpstore"), since=(2, 3), why="use_libuv came with 2.3; muster.torch has no such choice")
def libuv_or_not(store, p):
    """a client that asks for libuv and one that does not are served alike"""
    host, port = server_address()
    for wanted in (True, False):
        mine = dist.TCPStore(host, port, timeout=seconds(20), use_libuv=wanted)
        mine.set(p + "k%d" % wanted, "v")
        assert store.get(p + "k%d" % wanted) == b"v"


@check(31)
def another_thread(store, p):
    """a thread waits, another sets"""
    for wrap in (lambda one: one, lambda one: dist.PrefixStore("a", one)):
        key, outer = p + str(wrap is None), wrap(store)
        ended = beside(wrap(client()).get, key)
        outer.set(key, "value")
        assert ended() == b"value"
        store.delete_key(key)


@check(32)
def a_signal(store, p):
    """a signal to a thread that waits does not break its wait"""
    came, before = [], signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
    mine, begun, idents = client(), threading.Event(), []

    def wait():
        idents.append(threading.get_ident())
        begun.set()
        return mine.get(p + "k")
    try:
        ended = beside(wait)
        begun.wait(20)
        for _ in range(20):
            signal.pthread_kill(idents[0], signal.SIGUSR1)
            threading.Event().wait(0.01)  # sleep: it is to be waiting while they come
        store.set(p + "k", "value")
        assert ended() == b"value" and came
    finally:
        signal.signal(signal.SIGUSR1, before)


@check(33, modes=(), why="what the client sends first is its own affair; servers are asked with its bytes in tests/compat")
def handshake():
    """the client begins with VALIDATE, its number, and a PING with its pid"""


@check(34, modes=("tcpstore",), since=(2, 7), why="it asks for an agent's store, and a client since 2.7")
def who_would_listen(store, p):
    """one that would be the server at the agent's port becomes its client instead"""
    host, port = server_address()
    assert os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    mine = dist.TCPStore(host, port, 1, True, seconds(20), wait_for_workers=False)
    store.set(p + "k", "value")
    assert mine.get(p + "k") == b"value"


@check(35, modes=("tcpstore",), since=(2, 14), why="it asks for an agent's store, and a client since 2.14")
def only_its_own_address(store, p):
    """the agent's store counts at its own address alone: at another port rank 0 is the server itself"""
    port = free_port()
    mine, rank, size = next(dist.rendezvous("tcp://%s:%d?rank=0&world_size=1" % (server_address()[0], port)))
    assert (rank, size, mine.port) == (0, 1, port)
    before = store.num_keys()
    mine.set(p + "k", "value")
    assert store.num_keys() == before


@check(36)
def keys_of_any_bytes(store, p):
    """keys with a NUL, with slashes in a row and with ".." are keys of their own, and a delete takes one alone"""
    names = [p + "a", p + "a\0b", p + "a/b", p + "a//b", p + "a/../b", p + "/"]
    before = store.num_keys()
    for number, name in enumerate(names):
        store.set(name, str(number))
    assert [store.get(name) for name in names] == [str(number).encode() for number in range(len(names))]
    assert store.num_keys() == before + len(names)
    assert store.delete_key(names[0]) is True and store.check(names[1:]) and not store.check(names[:1])
    assert all(store.delete_key(name) for name in names[1:]) and store.num_keys() == before


def long_key(store, p, size):
    name, before = (p + "k" * size)[:size], store.num_keys()
    assert store.add(name, 3) == 3 and store.add(name, 4) == 7 and store.get(name) == b"7"
    assert store.compare_set(name, "7", "eight") == b"eight" and store.check([name])
    assert store.num_keys() == before + 1 and store.delete_key(name) is True and store.num_keys() == before


@check(37, modes=("own", "tcpstore"), why="it goes by way of the library, whose keys are shorter")
def keys_longer_than_the_stores_own(store, p):
    """a key of 4,097 bytes is counted up, compared, counted and deleted"""
    long_key(store, p, 4097)


@check(38, modes=("own", "tcpstore"), why="it goes by way of the library, whose keys are shorter")
def longest_keys(store, p):
    """a key of 1 MiB is, too; PyTorch's server in front of libuv refuses one of 8,192 bytes"""
    if MODE == "own" and getattr(store, "libuvBackend", RELEASE >= (2, 4)):
        long_key(store, p, 8191)
        raises("reset|closed|pipe|Connection", long_key, store, p, 8192)
    else:
        long_key(store, p, 1 << 20)


def ask(number, modes, since, why, function):
    sentence = inspect.getdoc(function)
    if MODE not in modes or RELEASE < since:
        return "skip", sentence + ": " + why
    try:
        function(client(), "check%d/" % number)
    except NotHere as reason:
        return "skip", "%s: %s" % (sentence, reason)
    except Exception:
        failed.append(number)
        return "FAIL", sentence + "\n" + traceback.format_exc()
    return "ok", sentence


for one in checks:
    os.write(1, ("%-4s %2d %s\n" % ((lambda told: (told[0], one[0], told[1]))(ask(*one)))).encode())
print("%d checks of PyTorch %s failed" % (len(failed), torch.__version__))
sys.stdout.flush()
os._exit(1 if failed else 0)  # threads that still wait must not keep it
