#!/usr/bin/env python3
"""Sound messages of every dialect with strange things in them, drawn from a seed: the service goes on, and ends well.

`TEST_SEED=… TEST_CASES=…` repeats or prolongs it.

variants: release asan
timeout: 240
"""
import os
import random
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import clients
except ImportError as missing:
    print("skipped: %s (scripts/deps.sh check)" % missing)
    sys.exit(77)
from clients import Refused, runtime, service, tsl, xla  # noqa: E402

TASKS, ROUND = 3, 25
seed = int(os.environ.get("TEST_SEED", "0") or "0", 0) or random.SystemRandom().getrandbits(63)
cases = int(os.environ.get("TEST_CASES", "0") or "0", 0) or 1500
r = random.Random(seed)

NUMBERS = {8: [0, 1], 3: [0, 1, 2, -1, 5, 60000, 2**63 - 1, -2**63], 5: [0, 1, 2, 3, -1, 60000, 2**31 - 1, -2**31],
           4: [0, 1, 2**64 - 1], 6: [0, 1, 7, 2**64 - 1], 14: [0, 4]}  # by the type's number
NUMBERS[3] += NUMBERS[3][:3] * 3
NUMBERS[5] += NUMBERS[5][:3] * 5
BYTES = [b"", b"k", b"k", b"b", b"b", b"a/b", b"//a/", b"/", b"\0", "ä".encode(), b"n", b"12", b"x" * 5000, b"\xff",
         b"muster/grpc/devices", b"muster", b"jax_worker", b"jax_worker", b"[Init]Wait_for_all_tasks_to_register",
         b"Shutdown::1", b"a::0", b"%s%n", b"\n", b"\x0a\x02\x08\x01", b"\x08\x01\x1a\x02\x08\x01"]


def fill(message, incarnation, depth=0):
    for f in message.DESCRIPTOR.fields:
        if f.name in ("incarnations", "service_incarnation", "session_id"):
            if r.random() < 0.95:
                target = message.incarnations if f.name == "incarnations" else message
                setattr(target, "session_id" if f.name == "session_id" else "service_incarnation", incarnation)
            continue
        if r.random() < 0.25:
            continue
        repeated = f.label == f.LABEL_REPEATED
        for _ in range(r.choice([0, 1, 2, 3, 3, 1000]) if repeated and depth == 0 else 1):
            if f.type == f.TYPE_MESSAGE:
                part = getattr(message, f.name).add() if repeated else getattr(message, f.name)
                part.SetInParent() if not repeated else None
                fill(part, incarnation, depth + 1)
                continue
            value = r.choice(BYTES) if f.type == f.TYPE_BYTES else r.choice(NUMBERS[f.type])
            getattr(message, f.name).append(value) if repeated else setattr(message, f.name, value)
    return message


def calls_of(dialect):
    return sorted(name[:-len("Request")] for name in dialect.DESCRIPTOR.message_types_by_name if name.endswith("Request"))


def ping(client, number):
    """The service keeps what it is given, as ever."""
    entry = tsl.KeyValueEntry(key=b"ping", value=b"%d" % number)
    for _ in range(100):
        client.InsertKeyValue(kv=entry, allow_overwrite=True)
        try:
            got = client.TryGetKeyValue(key=b"ping").kv
            break
        except Refused as refused:  # all tasks have shut down meanwhile: what clients wrote goes with them
            assert refused.code == "NOT_FOUND", refused.code
    else:
        raise AssertionError("a key that was set a moment ago was never there")
    assert got == entry, (got, entry)


def main():
    print("seed: TEST_SEED=%#x" % seed)
    options = [[], ["register"], ["shutdown_ms=300"], ["recoverable", "shutdown_ms=300"], ["jobs=jax_worker:2,a:1"]]
    codes, waiting = {}, 0
    for chosen in options:
        with service(TASKS, *chosen) as s:
            each = [s.client(dialect) for dialect in (xla, tsl, runtime) for _ in range(2)]
            pings, pending = s.client(tsl), []
            for number in range(cases // len(options)):
                client = r.choice(each)
                rpc = r.choice(calls_of(client.dialect))
                request = fill(getattr(client.dialect, rpc + "Request")(), s.incarnation)
                pending.append(client.begin_bytes(rpc, request.SerializeToString()))
                if number % ROUND == 0:
                    ping(pings, number)
                    r.shuffle(pending)
                    waiting += sum(not call.is_done() for call in pending)
                    for call in pending[:len(pending) // 3]:
                        call.cancel()
                if number % (4 * ROUND) == 0:  # a client goes away in the midst of it
                    each[r.randrange(len(each))].close()
                    each = [s.client(dialect) for dialect in (xla, tsl, runtime) for _ in range(2)]
            ping(pings, -1)
            s.stop()
            for call in pending:
                if not call.future.cancelled():
                    codes[code_of(call)] = codes.get(code_of(call), 0) + 1
    print("%d calls; when looked at, %d waited in all; %s" % (cases, waiting, codes))
    assert len(codes) >= 5 or cases < 1000, codes  # some were taken, and others refused, each for its reason


def code_of(call):
    try:
        call.answer()
        return "OK"
    except Refused as refused:
        return refused.code
    except clients.grpc.FutureCancelledError:
        return "CANCELLED"


main()
