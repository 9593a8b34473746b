"""Random clusters, and which numbers their devices get: an independent reading of the services' rules.

The rules are written here as a person reads them, on Python's own dictionaries and sorting; the messages are read and
written by Google's protobuf from the .proto files of this folder. Nothing is shared with the C.
"""
import os
import random
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
XLA, OF_2020 = 0, 1
STATUS = {0: "OK", 3: "INVALID_ARGUMENT", 8: "RESOURCE_EXHAUSTED"}
NO_FABRIC = "00000000-0000-0000-0000-000000000000/0"


def load_messages(folder):
    """The modules today, of2020 and newer, made by protoc."""
    names = ["today", "of2020", "newer"]
    subprocess.run(["protoc", "-I" + HERE, "--python_out=" + folder] + [n + ".proto" for n in names], check=True)
    sys.path.insert(0, folder)
    return [__import__(n + "_pb2") for n in names]


def seed():
    value = int(os.environ.get("TEST_SEED", "0"), 0) or random.SystemRandom().randrange(2 ** 48)
    print("seed: TEST_SEED=0x%x" % value, flush=True)
    return value


class Globalizer:
    """The program of global_main.c."""

    def __init__(self):
        self.process = subprocess.Popen([os.path.join(os.environ["BUILD"], "tests/topology/global")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, form, locals_):
        request = struct.pack("<II", form, len(locals_))
        request += b"".join(struct.pack("<I", len(one)) + one for one in locals_)
        self.process.stdin.write(request)
        self.process.stdin.flush()
        head = self.process.stdout.read(8)
        if len(head) < 8:
            sys.exit("the program ended with %s on: %s" % (self.process.wait(), request.hex()))
        status, size = struct.unpack("<II", head)
        return STATUS.get(status, str(status)), self.process.stdout.read(size)

    def end(self):
        self.process.stdin.close()
        if self.process.wait():
            sys.exit("the program ended with %d" % self.process.returncode)


class Refused(Exception):
    pass


def check_ids(ids):
    if any(not 0 <= i < len(ids) for i in ids) or len(set(ids)) != len(ids):
        raise Refused


def assign_2020(nodes):
    """Ids 0, 1, ... in node order, then device order."""
    check_ids([n.node_id for n in nodes])
    nodes = sorted(nodes, key=lambda n: n.node_id)
    for number, device in enumerate(d for n in nodes for d in n.devices):
        device.global_device_id = number
    return nodes


def assign_today(processes):
    check_ids([p.process_id for p in processes])
    if len(processes) == 1:
        for device in processes[0].devices:
            device.global_device_id = device.local_device_ordinal
        return processes
    processes = sorted(processes, key=lambda p: p.process_id)
    given = [p.HasField("partition_index") for p in processes]
    if any(given):
        if not all(given):
            raise Refused
        for p in processes:
            for d in p.devices:
                d.partition_index = p.partition_index
    else:
        # Python sorts stably, and compares lists as the rule wants it: a prefix comes first.
        processes.sort(key=lambda p: [n.encode() for n in p.network_nodes])
        by_fabric = all(d.fabric_uuid not in ("", NO_FABRIC) for p in processes for d in p.devices)
        seen = []
        for p in processes:
            for d in p.devices:
                key = d.fabric_uuid if by_fabric else p.boot_id
                if key not in seen:
                    seen.append(key)
                d.partition_index = seen.index(key)
    number = 0
    for partition in sorted({d.partition_index for p in processes for d in p.devices}):
        for p in processes:
            for d in p.devices:
                if d.partition_index == partition:
                    d.global_device_id = number
                    number += 1
    return processes


def text(r):
    return r.choice(["", "a", "NVIDIA H100 80GB HBM3", "x" * r.randrange(300), "G\u00fcte \u4e2d\U0001f600", "nul\0nul"])


def number(r, bits):
    return r.choice([0, 0, 1, -1, r.randrange(100), 2 ** (bits - 1) - 1, -2 ** (bits - 1)])


def decorate(r, device):
    """Every other field of today's DeviceProto, filled at random."""
    device.name, device.vendor, device.compute_capability = text(r), text(r), r.choice(["9.0", "gfx942", ""])
    device.device_kind, device.to_string, device.debug_string = text(r), text(r), text(r)
    device.core_count, device.numa_node = number(r, 32), number(r, 32)
    device.shared_memory_per_block_optin = number(r, 32)
    device.device_memory_bytes_limit = number(r, 64)
    for key in sorted("k%d" % i for i in range(r.randrange(4))):
        value = device.attributes[key]
        kind = r.randrange(6)
        if kind == 0:
            value.string_value = text(r)
        elif kind == 1:
            value.bool_value = r.random() < 0.5
        elif kind == 2:
            value.int_value = number(r, 64)
        elif kind == 3:
            value.int_values.values.extend(number(r, 64) for _ in range(r.randrange(5)))
        elif kind == 4:
            value.float_value = r.choice([0.0, -0.0, 1.5, float("inf")])


def random_today(r, today):
    """Some processes; now and then ones that must be refused."""
    count = r.choice([1, 2, 2, 3, 4, 5, 8, r.randrange(1, 40)])
    ids = list(range(count))
    r.shuffle(ids)
    if r.random() < 0.05:
        ids[r.randrange(count)] = r.choice([-1, count, 0, r.randrange(count), 2 ** 31 - 1, -2 ** 31])
    hosts = ["boot-%d" % i for i in range(r.randrange(1, count + 1))] + r.choice([[], [""]])
    fabrics = ["0b0e-%d/%d" % (i, r.randrange(2)) for i in range(r.randrange(1, 4))]
    with_fabric = r.choice([0, 0.97, 1, 1])  # of the devices
    net = r.choice([[], ["a", "b"], ["spine1", "spine10", "spine2", "\u00e9", "z"]])
    partitions = r.choice([None, None, None, "all", "all", "some"])
    processes = []
    for i in ids:
        p = today.LocalTopologyProto(process_id=i, boot_id=r.choice(hosts))
        p.network_nodes.extend(r.choice(net) for _ in range(r.randrange(4) if net else 0))
        if partitions == "all" or (partitions == "some" and r.random() < 0.8):
            p.partition_index = r.choice([0, 1, 2, 7, -3, 2 ** 31 - 1, r.randrange(-5, 5)])
        for ordinal in range(r.choice([0, 1, 1, 2, 4, 8])):
            d = p.devices.add(local_device_ordinal=r.choice([ordinal, ordinal, r.randrange(100)]))
            d.fabric_uuid = r.choice(fabrics) if r.random() < with_fabric else r.choice(["", NO_FABRIC])
            if r.random() < 0.1:
                d.global_device_id, d.partition_index = number(r, 32), number(r, 32)
            if r.random() < 0.3:
                decorate(r, d)
        processes.append(p)
    return processes


def random_2020(r, of2020):
    count = r.choice([1, 2, 3, 8, r.randrange(1, 40)])
    ids = list(range(count))
    r.shuffle(ids)
    if r.random() < 0.05:
        ids[r.randrange(count)] = r.choice([-1, count, 0, r.randrange(count)])
    nodes = []
    for i in ids:
        n = of2020.LocalTopologyProto(node_id=i)
        for ordinal in range(r.choice([0, 1, 2, 8])):
            n.devices.add(local_device_ordinal=r.choice([ordinal, 5]), name=text(r), vendor=text(r),
                          global_device_id=number(r, 32))
        nodes.append(n)
    return nodes
