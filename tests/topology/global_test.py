#!/usr/bin/env python3
"""The global topology of random clusters is, byte for byte, what an independent reading of the rules makes of them.

Thousands of clusters of both forms: with and without fabrics, hosts that share a boot id, networks with common
prefixes, partitions given by all, by some, by none; and ones that must be refused. Then what each refusal says, that
fields of the future stay where they are, and that protoc reads what is written. TEST_SEED=… repeats a run,
TEST_CASES=… prolongs it.
"""
# timeout: 300
import os
import random
import subprocess
import sys

from google.protobuf.message import DecodeError

import cluster
from cluster import XLA, OF_2020, Refused

FOLDER = os.environ["TMPDIR"]
CASES = int(os.environ.get("TEST_CASES", "3000"))
today, of2020, newer = cluster.load_messages(FOLDER)
globalize = cluster.Globalizer()


def expect(condition, *words):
    if not condition:
        sys.exit(" ".join(str(w) for w in words))


def bytes_of(messages):
    return [m.SerializeToString(deterministic=True) for m in messages]


def compare(form, messages, assign, wrap):
    """One cluster: as expected, or refused as expected. True: it was taken."""
    given = bytes_of(messages)
    status, got = globalize(form, given)
    try:
        wanted = wrap(assign(messages)).SerializeToString(deterministic=True)
    except Refused:
        expect(status == "INVALID_ARGUMENT", "not refused:", status, [m.hex() for m in given])
        return False
    expect(status == "OK", status, got, [m.hex() for m in given])
    expect(got == wanted, "form", form, "given", [m.hex() for m in given], "\ngot   ", got.hex(), "\nwanted", wanted.hex())
    return True


def random_clusters():
    r = random.Random(cluster.seed())
    taken = 0
    for _ in range(CASES):
        taken += compare(XLA, cluster.random_today(r, today), cluster.assign_today,
                         lambda p: today.GlobalTopologyProto(processes=p))
    for _ in range(CASES // 3):
        taken += compare(OF_2020, cluster.random_2020(r, of2020), cluster.assign_2020,
                         lambda n: of2020.GlobalTopologyProto(nodes=n))
    total = CASES + CASES // 3
    print("%d clusters: %d numbered alike, %d refused alike" % (total, taken, total - taken))
    expect(CASES < 1000 or 0 < taken < total, "one of the two never happened")


def hostile_bytes():
    """What muster takes of damaged bytes, protobuf can read when it is written again, and reads alike."""
    r = random.Random(cluster.seed())
    taken = 0
    for _ in range(2 * CASES):
        processes = [p for p in cluster.random_today(r, today)][:r.randrange(1, 4)]
        raw = []
        for i, p in enumerate(processes):
            p.process_id = i
            del p.devices[3:]
            data = bytearray(p.SerializeToString(deterministic=True))
            for _ in range(r.choice([0, 1, 1, 3]) if data else 0):
                at = r.randrange(len(data))
                data[at:at + r.choice([0, 1, 1, 5])] = r.choice(
                    [b"", b"\0", b"\x80", b"\xff", bytes([r.randrange(256)]), data[at:at + 9], b"\x80\0"])
                data = data or bytearray(1)
            raw.append(bytes(data))
        status, got = globalize(XLA, raw)
        if status != "OK":
            expect(status == "INVALID_ARGUMENT", status, got)
            continue
        taken += 1
        try:
            read = today.GlobalTopologyProto.FromString(got)
        except DecodeError:
            sys.exit("protobuf cannot read %s, made of %s" % (got.hex(), [one.hex() for one in raw]))
        try:
            given = [today.LocalTopologyProto.FromString(one) for one in raw]
        except DecodeError:  # a string that is no text, and then the same field again: only the last one is looked at
            continue
        wanted = today.GlobalTopologyProto(processes=cluster.assign_today(given))
        expect(read.SerializeToString(deterministic=True) == wanted.SerializeToString(deterministic=True),
               [one.hex() for one in raw], got.hex())
    print("%d damaged clusters, %d of them taken" % (2 * CASES, taken))


def by_hand():
    """What the rules say of one cluster, written down without any program."""
    def process(i, boot, fabric, net, devices=2):
        p = today.LocalTopologyProto(process_id=i, boot_id=boot, network_nodes=net)
        for k in range(devices):
            p.devices.add(local_device_ordinal=k, fabric_uuid=fabric)
        return p

    def numbers(processes):
        status, got = globalize(XLA, bytes_of(processes))
        expect(status == "OK", status, got)
        return [(p.process_id, [(d.partition_index, d.global_device_id) for d in p.devices])
                for p in today.GlobalTopologyProto.FromString(got).processes]

    # Two hosts, interleaved: partitions as hosts first appear, ids partition by partition.
    got = numbers([process(0, "x", "", []), process(1, "y", "", []), process(2, "x", "", [])])
    expect(got == [(0, [(0, 0), (0, 1)]), (1, [(1, 4), (1, 5)]), (2, [(0, 2), (0, 3)])], got)
    # The same with networks: process 1 comes first, then 2 (a prefix of 0's).
    got = numbers([process(0, "x", "", ["b", "c"]), process(1, "y", "", ["a", "z"]), process(2, "x", "", ["b"])])
    expect(got == [(1, [(0, 0), (0, 1)]), (2, [(1, 2), (1, 3)]), (0, [(1, 4), (1, 5)])], got)
    # One fabric over both hosts, by all; and not by all.
    got = numbers([process(0, "x", "f/1", []), process(1, "y", "f/1", [])])
    expect(got == [(0, [(0, 0), (0, 1)]), (1, [(0, 2), (0, 3)])], got)
    got = numbers([process(0, "x", "f/1", []), process(1, "y", cluster.NO_FABRIC, [])])
    expect(got == [(0, [(0, 0), (0, 1)]), (1, [(1, 2), (1, 3)])], got)
    # Given partitions: no sorting, gaps stay, ids by ascending partition.
    a, b = process(0, "x", "", ["z"], 1), process(1, "x", "", ["a"], 1)
    a.partition_index, b.partition_index = 9, 4
    expect(numbers([b, a]) == [(0, [(9, 1)]), (1, [(4, 0)])], numbers([b, a]))
    # Alone: the numbers of the process itself.
    a = process(0, "x", "", [], 1)
    a.devices[0].local_device_ordinal, a.partition_index = 5, 3
    expect(numbers([a]) == [(0, [(0, 5)])], numbers([a]))


def refusals():
    ok = [today.LocalTopologyProto(process_id=i).SerializeToString() for i in range(3)]
    cases = [
        (XLA, [ok[0], ok[1], ok[1]], "process id 1 is given twice, by local topologies 1 and 2, and 2 is missing"),
        (XLA, [ok[0], ok[2]], "local topology 1: its process id is 2; ids are 0 to 1"),
        (XLA, [today.LocalTopologyProto(process_id=-5).SerializeToString()], "its process id is -5; ids are 0 to 0"),
        (OF_2020, [ok[0], ok[0]], "node id 0 is given twice, by local topologies 0 and 1, and 1 is missing"),
        (XLA, [ok[0], b"\x0a"], "local topology 1 (1 bytes) is no LocalTopologyProto of the form of today's XLA"),
        (XLA, [b"\xff" * 12], "local topology 0 (12 bytes) is no LocalTopologyProto"),
        (XLA, [b"\x0b\x0c"], "local topology 0 (2 bytes) is no LocalTopologyProto"),  # a group
        (XLA, [ok[0], b"\x08\x01\x12\x02\xc3\x28"], "local topology 1: a boot_id is not UTF-8"),
        (XLA, [b"\x1a\x04\x12\x02\xed\xa0"], "local topology 0: a name is not UTF-8"),
        (XLA, [b"\x1a\x06\x5a\x04\x0a\x02\xff\xff"], "local topology 0: a key is not UTF-8"),
        (XLA, [b"\x2a\x01\x80"], "local topology 0: a network_nodes is not UTF-8"),
        (XLA, [b"\x1a\x03\x80\x00\x05"], "local topology 0: a field has a number that is none"),
        (XLA, [b"\xf8\xff\xff\xff\x7f\x05"], "local topology 0: a field has a number that is none"),
        (XLA, [of2020.LocalTopologyProto(devices=[of2020.DeviceProto(name="A100")]).SerializeToString()],
         "it seems to be of the form of 2020"),
        (XLA, [ok[0], today.LocalTopologyProto(process_id=1, partition_index=0).SerializeToString()],
         "local topology 1 (process 1) has a partition index, 0 (process 0) has none: all give one or none does"),
        (XLA, [], "0 local topologies make no global one"),
        (7, [ok[0]], "7 is no form of the topology messages"),
    ]
    for form, locals_, sentence in cases:
        status, said = globalize(form, locals_)
        expect(status == "INVALID_ARGUMENT" and sentence in said.decode(), status, said, "but wanted:", sentence)
    # Two bytes a device: fewer than 7 MiB that would become gigabytes.
    status, said = globalize(XLA, [b"\x1a\x00" * 3000000])
    expect(status == "RESOURCE_EXHAUSTED" and b"local topology 0 (6000000 bytes): read, the topologies take more than "
           b"256 MiB" in said, status, said)
    print("%d refusals name what is wrong" % (len(cases) + 1))


def fields_of_the_future():
    """Kept everywhere, though not where they stood: a message's unknown fields come behind its known ones."""
    locals_ = []
    for i in range(3):
        p = newer.LocalTopologyProto(process_id=i, boot_id="b", future_numbers=[1, 2, 3 + i])
        p.future_message.text = "of process %d" % i
        for k in range(2):
            d = p.devices.add(local_device_ordinal=k, future_text="t%d" % k, future_number=2 ** 63)
            d.future_message.numbers.extend([-1, i, k])
            d.attributes["a"].double_value = 0.25
            d.attributes["b"].string_value = "known"
        locals_.append(p)
    status, got = globalize(XLA, bytes_of(locals_))
    expect(status == "OK", status, got)
    for i, d in enumerate(d for p in locals_ for d in p.devices):
        d.global_device_id = i
    wanted = newer.GlobalTopologyProto(processes=locals_)
    expect(newer.GlobalTopologyProto.FromString(got) == wanted, newer.GlobalTopologyProto.FromString(got), wanted)


def protoc(action, form, data):
    message, path = [("xla.today.GlobalTopologyProto", "today.proto"),
                     ("xla.of2020.GlobalTopologyProto", "of2020.proto")][form]
    return subprocess.run(["protoc", "-I" + cluster.HERE, "--%s=%s" % (action, message), path], input=data,
                          stdout=subprocess.PIPE, check=True).stdout


def protoc_reads_it():
    r = random.Random(7)
    for _ in range(20):
        for form, make, module in ((XLA, cluster.random_today, today), (OF_2020, cluster.random_2020, of2020)):
            status, got = globalize(form, bytes_of(make(r, module)))
            if status == "OK":
                read = protoc("decode", form, got)
                expect(b"\n    1: " not in read, "fields that are not known:", read)
                # maps come out of protoc in no order; what it writes again is the same message
                wrap = module.GlobalTopologyProto.FromString
                expect(wrap(protoc("encode", form, read)) == wrap(got), read)


random_clusters()
hostile_bytes()
by_hand()
refusals()
fields_of_the_future()
protoc_reads_it()
globalize.end()
