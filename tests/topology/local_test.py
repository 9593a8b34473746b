#!/usr/bin/env python3
"""What a task tells of its node: the fields that XLA's CUDA backend fills, with its values, in both forms.

The bytes are read by Google's protobuf and by protoc, from the .proto files of this folder.
"""
import os
import subprocess
import sys

import cluster
from cluster import XLA, OF_2020

today, of2020, newer = cluster.load_messages(os.environ["TMPDIR"])
PROGRAM = os.path.join(os.environ["BUILD"], "tests/topology/local")
H100 = dict(name="NVIDIA H100 80GB HBM3", vendor="NVIDIA Corporation", compute_capability="9.0", core_count=132)


def expect(condition, *words):
    if not condition:
        sys.exit(" ".join(str(w) for w in words))


def local(form, machine, *options):
    run = subprocess.run([PROGRAM, str(form), machine] + list(options), stdout=subprocess.PIPE)
    return run.returncode, run.stdout


def is_written(form, machine, options, wanted):
    status, got = local(form, machine, *options)
    expect(status == 0, status, got)
    read = type(wanted).FromString(got)
    expect(read == wanted, machine, options, "\ngot", read, "\nwanted", wanted)
    expect(got == wanted.SerializeToString(), "the bytes differ from those of protobuf:", got.hex())


def every_field():
    first = today.DeviceProto(fabric_uuid="01234567-89ab-cdef-0123-456789abcdef/7", numa_node=4,
                              shared_memory_per_block_optin=232448, device_memory_bytes_limit=85899345920, **H100)
    # Its firmware does not say where it is: 0. What the fields cannot hold is the most that they can.
    second = today.DeviceProto(local_device_ordinal=1, fabric_uuid=first.fabric_uuid, numa_node=0,
                               shared_memory_per_block_optin=2 ** 31 - 1, device_memory_bytes_limit=2 ** 63 - 1, **H100)
    # A part of a GPU is on no fabric; nothing could be read of where it is: -1.
    third = today.DeviceProto(local_device_ordinal=2, numa_node=-1, shared_memory_per_block_optin=232448,
                              device_memory_bytes_limit=85899345920, **H100)
    is_written(XLA, "made", [], today.LocalTopologyProto(boot_id="6a6b-boot", devices=[first, second, third]))
    # Chosen ones, in the order of their ordinals here.
    third.local_device_ordinal, second.local_device_ordinal = 0, 1
    is_written(XLA, "made", ["id=3", "boot=b", "networks=spine1,,leaf7", "partition=0", "devices=2,1"],
               today.LocalTopologyProto(process_id=3, boot_id="b", devices=[third, second], partition_index=0,
                                        network_nodes=["spine1", "", "leaf7"]))
    is_written(XLA, "made", ["boot=", "networks=", "devices=", "partition=-1"],
               today.LocalTopologyProto(partition_index=-1))
    is_written(OF_2020, "made", ["id=3", "boot=b", "networks=a", "partition=1"],
               of2020.LocalTopologyProto(node_id=3, devices=[
                   of2020.DeviceProto(local_device_ordinal=i, name=H100["name"], vendor=H100["vendor"])
                   for i in range(3)]))


def machines():
    """A file of a machine with eight accelerators' ways, and this machine."""
    folder = os.path.join(cluster.HERE, "machines")
    status, got = local(XLA, os.path.join(folder, "switched.xml"), "boot=x")
    read = today.LocalTopologyProto.FromString(got)
    expect(status == 0 and [d.numa_node for d in read.devices] == [0, 0, 8, 8], read)
    expect([d.core_count for d in read.devices] == [0, 0, 132, 0], read)
    status, got = local(XLA, "single")  # where there is no choice it is 0, whatever the kernel calls the node
    expect(status == 0 and [d.numa_node for d in today.LocalTopologyProto.FromString(got).devices] == [0, 0, 0], got)
    status, got = local(XLA, "here")
    read = today.LocalTopologyProto.FromString(got)
    with open("/proc/sys/kernel/random/boot_id") as f:
        expect(read.boot_id == f.read().strip(), read)
    expect(status == 0 and len(read.devices) >= 1, read)


def refusals():
    for form, machine, options, sentence in [
            (XLA, "made", ["devices=1,3"], "device 3 of a local topology: the node has 3"),
            (XLA, "odd", [], "in the local topology a name is not UTF-8"),
            (OF_2020, "odd", [], "in the local topology a name is not UTF-8"),
            (XLA, "made", [b"networks=\xc0\xaf"], "in the local topology a network_nodes is not UTF-8"),
            (9, "made", [], "9 is no form of the topology messages")]:
        status, said = local(form, machine, *options)
        expect(status == 3 and said.decode().strip() == sentence, status, said, "but wanted:", sentence)


def protoc_reads_it():
    """As a person would look at them, locals and the global topology that they give."""
    globalize = cluster.Globalizer()
    for form, path, package in ((XLA, "today.proto", "xla.today"), (OF_2020, "of2020.proto", "xla.of2020")):
        def protoc(action, message, data):
            return subprocess.run(["protoc", "-I" + cluster.HERE, "--%s=%s.%s" % (action, package, message), path],
                                  input=data, stdout=subprocess.PIPE, check=True).stdout
        locals_ = [local(form, "made", "id=%d" % i, "networks=n%d" % (2 - i))[1] for i in range(3)]
        for one in locals_:
            expect(protoc("encode", "LocalTopologyProto", protoc("decode", "LocalTopologyProto", one)) == one, one)
        status, got = globalize(form, locals_)
        expect(status == "OK", status, got)
        text = protoc("decode", "GlobalTopologyProto", got)
        expect(protoc("encode", "GlobalTopologyProto", text) == got, text)
        ids = [int(line.split()[1]) for line in text.decode().splitlines() if "global_device_id" in line]
        expect(ids == list(range(1, 9)), text)  # 0 is not written
        order = [line for line in text.decode().splitlines() if "process_id" in line or "node_id" in line]
        expect(order == (["  process_id: 2", "  process_id: 1"] if form == XLA else ["  node_id: 1", "  node_id: 2"]),
               order)
    globalize.end()


every_field()
machines()
refusals()
protoc_reads_it()
