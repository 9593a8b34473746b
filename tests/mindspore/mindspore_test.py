#!/usr/bin/env python3
"""MindSpore's scheduler: ps core's nodes get ranks and metadata, die, come again, scale and finish.

variants: release asan
timeout: 240
"""
import os
import socket
import struct
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import nodes  # noqa: E402
from nodes import (EXIT, FINISH, HEARTBEAT, IN_DONE, NO_RANK, OUT, OUT_DONE, READY, REGISTER, SCALING_IN, SCALING_OUT,  # noqa: E402
                   SEND_DATA, SERVER, STARTING, TIMEOUT, WORKER, Node, Service, check, frame, pack, read, read_frame, wait_for)


def the_bytes_are_those_of_the_protocol():
    """What a real node says and hears, byte by byte."""
    with Service(1, 0) as s:
        host, port = s.address.rsplit(":", 1)
        door = socket.create_server(("127.0.0.1", 0))
        there = pack(f1="127.0.0.1", f2=door.getsockname()[1], f3="srvA")
        sock = socket.create_connection((host, int(port)))
        request = frame(1, bytes.fromhex("0801100120ffffffff0f"), there)
        for byte in request[:25]:  # a header that comes in pieces
            sock.sendall(bytes([byte]))
        sock.sendall(request[25:])
        answer = read(sock, 32)
        check(answer.hex() == "010000000a0000001000000000000000" + "0801100120ffffffff0f" + "0a0473727641", "%s", answer.hex())
        conn, _ = door.accept()
        metadata = read_frame(conn)
        check(metadata[0] == 1 and metadata[1].hex() == "08071001", "%s", metadata)
        check(metadata[2].hex() == (b"\x0a\x0f\x12\x09127.0.0.1\x18" + nodes.varint(door.getsockname()[1])).hex() + "1801",
              "%s", metadata[2].hex())
        sock.sendall(bytes.fromhex("01000000040000000a00000000000000080210020a0473727641"))
        proto, meta, body = read_frame(sock)
        check((proto, meta.hex()) == (1, "08021002"), "%s %s", proto, meta)
        check(body == b"\x08\x01\x12\x17\x12\x09127.0.0.1\x18" + nodes.varint(door.getsockname()[1]) + b"\x20\x01\x32\x04srvA",
              "%s", body)
        sock.sendall(bytes.fromhex("01000000040000000c00000000000000080c1003") + bytes.fromhex("08071204") + b"srvA")
        check(read_frame(conn)[1:] == (bytes.fromhex("080c1002"), bytes.fromhex("0807")), "the event")
        check(read_frame(sock) == (1, bytes.fromhex("080c1003"), b"\x08\x07\x12\x04srvA"), "its answer")
        sock.sendall(bytes.fromhex("00000000040000000800000000000000") + bytes.fromhex("08051005") + b"srvA")
        check(read_frame(sock) == (1, bytes.fromhex("08051005"), b"srvA"), "the answer to a finish")
        check(read_frame(conn)[1:] == (bytes.fromhex("08051003"), b""), "the end")
        s.stop()


def ranks_are_unique_and_the_others_are_told():
    with Service(3, 2) as s:
        members = s.cluster(3, 2)
        check(s.state() == "CLUSTER_READY", s.state())
        for role, count in ((SERVER, 3), (WORKER, 2)):
            check(sorted(n.rank for n in members if n.role == role) == list(range(count)), "ranks of role %d", role)
        ports = {n.rank: n.port for n in members if n.role == SERVER}
        for n in members:
            check(n.metadata() == [(STARTING, n.rank, 2, 3, ports)], "%s was told %s", n.name, n.metadata())
        surplus = Node(s.address, "s3")
        check(surplus.register() == NO_RANK, "a surplus server has rank %d", surplus.rank)
        twin = Node(s.address, "s0")
        check(twin.register() == NO_RANK, "a second node of one name has rank %d", twin.rank)
        state, seen, end = members[0].beat()
        check(state == READY and len(seen) == 5 and not end and all(alive for _, alive in seen.values()), "%s", seen)
        for i in range(20):  # in one order, to all, the one that asks among them
            members[i % 5].ask(nodes.EVENT, pack(f1=i, f2=members[i % 5].name))
        for n in members:
            wait_for("events of " + n.name, lambda: len(n.told(nodes.EVENT)) == 20)
            check([nodes.first(nodes.unpack(b), 1) for b in n.told(nodes.EVENT)] == list(range(20)), n.name)
        check(nodes.unpack(members[4].ask(nodes.FETCH, pack(f1="w1"))).get(1) is not None, "the servers")
        check("all nodes of its role are there" in s.said() and "a node with its id is there" in s.said(), s.said())
        s.stop()


def a_claim_is_granted_where_nobody_has_that_rank():
    with Service(3, 0) as s:
        a, b, c = (Node(s.address, name) for name in "abc")
        a.claim, b.claim, c.claim = 2, 2, 7
        check([n.register() for n in (a, b, c)] == [2, 0, 1], "%d %d %d", a.rank, b.rank, c.rank)
        s.stop()


def a_death_is_told_at_once_and_the_node_may_come_again():
    with Service(3, 1) as s:
        members = s.cluster(3, 1)
        members[1].die()
        for n in (members[0], members[2], members[3]):
            state, seen, end = wait_for("a word of the death", lambda: n.beats and n.beats[-1])
            check(state == TIMEOUT and seen["s1"] == (1, False) and not end, "%s %s %s", state, seen, end)
        check(s.state() == "NODE_TIMEOUT", s.state())
        again = Node(s.address, "s1")
        check(again.register() == 1, "its rank is %d", again.rank)
        for n in (members[0], members[2], members[3]):
            wait_for("READY", lambda: n.beats[-1][0] == READY)
            wait_for("the metadata", lambda: n.metadata()[-1][0] == TIMEOUT and n.metadata()[-1][4][1] == again.port)
        members[3].die()  # a worker: nobody goes on without it
        check(wait_for("the end", lambda: members[0].beats[-1][0] == TIMEOUT and members[0].beats[-1])[2], "the end")
        other = Node(s.address, "w9", WORKER)
        check(other.register() == 0, "one in its place has rank %d", other.rank)
        late = Node(s.address, "w0", WORKER)
        check(late.register() == NO_RANK, "the one that was replaced has rank %d", late.rank)
        for n in members[:1] + [again, members[2], other]:
            n.finish()
        wait_for("the end of all", lambda: members[2].told(FINISH) and other.told(FINISH))
        s.stop()


def a_node_whose_connection_broke_beats_on_another():
    with Service(2, 0) as s:
        a, b = s.cluster(2)
        a.sock.shutdown(socket.SHUT_RDWR)
        wait_for("a word of the death", lambda: b.beats and b.beats[-1][0] == TIMEOUT)
        a.sock = socket.create_connection((s.address.rsplit(":", 1)[0], int(s.address.rsplit(":", 1)[1])))
        threading.Thread(target=a.hear, args=(a.sock,), daemon=True).start()
        check(a.beat()[0] == READY, "it beats, and the cluster is READY")
        wait_for("READY", lambda: b.beats[-1][0] == READY)
        s.stop()


def a_cluster_that_has_finished_makes_room_for_the_next():
    with Service(2, 1) as s:
        for _ in range(3):
            members = s.cluster(2, 1)
            for n in members:
                n.finish()
            for n in members[:2]:
                wait_for("the end", lambda: n.told(FINISH))
            for n in members:
                n.die()
            wait_for("room", lambda: s.state() == "ClUSTER_STARTING")
        s.stop()


def nodes_that_end_without_acknowledging_keep_nobody():
    with Service(2, 1, "--once") as s:
        members = s.cluster(2, 1)
        for n in members:
            n.ask_nothing = n.sock.sendall(frame(0, pack(f1=FINISH, f2=99), n.name.encode()))
            n.die()
        s.stop(status=0 if s.process.wait(nodes.PATIENCE) == 0 else 1)


def servers_scale_out_and_in_and_keep_their_order():
    with Service(2, 0) as s:
        members = s.cluster(2)
        for total in (4, 8):  # twice in a row: what the first one left does not end the second
            check(s.http("/scaleout", {"worker_num": 0, "server_num": total // 2}) ==
                  (200, {"message": "Cluster begin to scale out."}), "scale out")
            wait_for("the word to scale", lambda: all(n.told(OUT) for n in members))
            check(s.state() == "CLUSTER_SCALE_OUT", s.state())
            check(s.http("/scaleout", {"worker_num": 0, "server_num": 1})[0] == 400, "a scaling within a scaling")
            more = [Node(s.address, "n%d" % i) for i in range(total // 2, total)]
            for n in more:
                n.register()
            members += more
            wait_for("READY", lambda: s.state() == "CLUSTER_READY")
            for n in members:
                wait_for("the end of the scaling", lambda: n.told(OUT_DONE))
                check(n.metadata()[-1][0] == SCALING_OUT and n.metadata()[-1][3] == total, "%s", n.metadata()[-1])
                n.pushes.clear()
            check(sorted(n.rank for n in members) == list(range(total)), "ranks")
        listed = s.http("/nodes")[1]["node_ids"]
        leave = [n["node_id"] for n in listed if n["rank_id"] in ("1", "5")]
        before = {n["node_id"]: int(n["rank_id"]) for n in listed}
        check(s.http("/scalein", {"node_ids": leave})[0] == 200, "scale in")
        wait_for("READY", lambda: s.state() == "CLUSTER_READY")
        for n in members:
            wait_for("the outcome", lambda: n.metadata() and n.metadata()[-1][0] == SCALING_IN)
        stay = sorted((before[n.name], n.rank) for n in members if n.name not in leave)
        check([rank for _, rank in stay] == list(range(6)), "before and after: %s", stay)
        for n in members:
            wait_for("the outcome", lambda: n.metadata()[-1][0] == SCALING_IN and n.metadata()[-1][3] == 6)
            if n.name in leave:
                n.die()
            else:
                wait_for("the end of the scaling", lambda: n.told(IN_DONE))
        check(s.state() == "CLUSTER_READY", "a node that has left is missed")
        for n in members:
            if n.name not in leave:
                n.finish()
        wait_for("the end", lambda: all(n.told(FINISH) for n in members if n.name not in leave))
        s.stop()


def a_node_that_never_comes_takes_the_scaling_back():
    with Service(2, 0, "--mindspore-scale-timeout", "1s") as s:
        members = s.cluster(2)
        s.http("/scaleout", {"worker_num": 0, "server_num": 2})
        one = Node(s.address, "n2")
        one.register()
        wait_for("READY", lambda: s.state() == "CLUSTER_READY")
        check("the cluster stays as it was, with 2 servers" in s.said() and "1 of 4 servers" in s.said(), s.said())
        check(len(s.http("/nodes")[1]["node_ids"]) == 2, "its members")
        wait_for("the end of the scaling", lambda: all(n.told(OUT_DONE) for n in members))
        check(all(n.metadata()[-1][3] == 2 for n in members), "the number of servers")  # it was told before the end
        for n in members:
            n.finish()
        wait_for("the end", lambda: all(n.told(FINISH) for n in members))
        s.stop()


def nodes_that_do_not_scale_are_none_the_worse():
    with Service(1, 1, "--mindspore-scale-timeout", "1s") as s:
        members = s.cluster(1, 1, scales=False)
        s.http("/scaleout", {"worker_num": 0, "server_num": 1})
        wait_for("READY", lambda: s.state() == "CLUSTER_READY")
        check("train with parameter servers do not scale" in s.said(), s.said())
        check(wait_for("a beat", lambda: members[0].beats and members[0].beats[-1])[0] == READY, "its state")
        s.stop()


def a_death_takes_the_scaling_back():
    with Service(3, 0) as s:
        members = s.cluster(3, scales=False)
        s.http("/scaleout", {"worker_num": 0, "server_num": 1})
        wait_for("the word to scale", lambda: all(n.told(OUT) for n in members))
        members[2].die()
        wait_for("NODE_TIMEOUT", lambda: s.state() == "NODE_TIMEOUT")
        check(Node(s.address, "s2").register() == 2, "it comes again")
        wait_for("READY", lambda: s.state() == "CLUSTER_READY")
        s.stop()


def paths_say_what_is_wrong_and_change_nothing():
    with Service(2, 1) as s:
        check(s.http("/scaleout", {"worker_num": 0, "server_num": 1}) == (400, {"error_message": "The cluster is not ready."}), "early")
        members = s.cluster(2, 1)
        for path, body, words in (
                ("/scaleout", {"worker_num": 0}, "The json is not contain the key:server_num"),
                ("/scaleout", {"server_num": 1}, "The json is not contain the key:worker_num"),
                ("/scaleout", {"worker_num": 0, "server_num": -1}, "The value should not be less than 0."),
                ("/scaleout", {"worker_num": 1, "server_num": 0}, "The Worker does not currently support scale out."),
                ("/scaleout", {"worker_num": 0, "server_num": "x"}, "Illegal JSON format"),
                ("/scaleout", {"worker_num": 0, "server_num": 1.5}, "Illegal JSON format"),
                ("/scaleout", {"worker_num": 0, "server_num": 10**30}, "larger than 4096"),
                ("/scaleout", '{"worker_num":0,', "Illegal JSON format"),
                ("/scaleout", "[]", "Illegal JSON format"),
                ("/scaleout", "", "The post message size is invalid."),
                ("/scalein", {"node_ids": []}, "The node ids should not be empty."),
                ("/scalein", {"node_ids": ["nobody"]}, "The node id:nobody is illegal."),
                ("/scalein", {"node_ids": [7]}, "Illegal JSON format"),
                ("/scalein", {"node_ids": "s1"}, "Illegal JSON format"),
                ("/scalein", {}, "The json is not contain the key:node_ids"),
                ("/scalein", {"node_ids": ["s1", "s0"]}, "is rank 0 of server, should not be scale in."),
                ("/scalein", {"node_ids": ["s1", "w0"]}, "is the role of worker, should not be scale in."),
                ("/scalein", {"node_ids": ["s1", "s1"]}, "is there twice."),
                ("/newInstance", {}, "no federated learning")):
            status, answer = s.http(path, body)
            check(status == 400 and words in answer["error_message"], "%s %s: %d %s", path, body, status, answer)
        check(s.http("/nothing")[0] == 404, "an unknown path")
        check(s.state() == "CLUSTER_READY" and not any(n.told(OUT) for n in members), "something has changed")
        for n in members:  # a refused scaling keeps nobody from finishing
            n.finish()
        wait_for("the end", lambda: all(n.told(FINISH) for n in members))
        s.stop()


def nothing_that_comes_ends_the_service():
    with Service(2, 0) as s:
        members = s.cluster(2)
        host, port = s.address.rsplit(":", 1)
        bad = [struct.pack("<IIQ", 7, 4, 4) + b"\x08\x01\x10\x01", struct.pack("<IIQ", 1, 9, 4) + b"\x08\x01\x10\x01",
               struct.pack("<IIQ", 1, 4, 0xffffffff) + b"\x08\x01\x10\x01", struct.pack("<IIQ", 1, 4, 1 << 63),
               struct.pack("<IIQ", 2, 0xffffffff, 0xffffffff), frame(1, b"\xff\xff\xff", b""),
               frame(1, pack(f1=REGISTER, f2=1), b"\xff\xff\xff"), frame(1, pack(f1=HEARTBEAT, f2=1), pack(f1="nobody")),
               b"\x00\x00\x00\x01", b"\xff" * 64, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"RPC0" + b"\xff" * 16,
               b"RPC0" + struct.pack(">IIII", 1, 0, 0, 0) + b"x", b"RPC0" + struct.pack(">IIII", 1, 0, 0, 0) + b"5",
               b"GET / HTTP/9.9\r\n\r\n", b"POST /scaleout HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]
        for data in bad:
            sock = socket.create_connection((host, int(port)))
            sock.settimeout(nodes.PATIENCE)
            sock.sendall(data)
            try:
                while sock.recv(4096):
                    pass
            except ConnectionError:
                pass
            sock.close()
            check(members[0].beat()[0] == READY, "after %s", data)
        for command in (0, SEND_DATA, 6, 13, 25, 99):  # a scheduler has no answer: an empty one, and nothing else
            check(members[0].ask(command, b"x") == b"", "an answer to %d", command)
        half = socket.create_connection((host, int(port)))  # a frame that never gets whole keeps only itself
        half.sendall(struct.pack("<IIQ", 1, 4, 1 << 20) + b"\x08\x01")
        check(members[1].beat()[0] == READY, "beside half a frame")
        nobody = Node(s.address, "x" * 300)
        check(nobody.register() == NO_RANK, "a name of 300 bytes")
        s.stop()


def a_node_that_cannot_be_reached_is_lost_and_named():
    with Service(2, 0) as s:
        deaf, other = Node(s.address, "deaf", listens=False), Node(s.address, "other")
        deaf.register()
        other.register()
        wait_for("a word of it", lambda: "(deaf) cannot be told anything at 127.0.0.1:1: connection refused" in s.said())
        check(wait_for("a beat", lambda: other.beats and other.beats[-1])[0] == TIMEOUT, "the other's state")
        s.stop()


def a_cluster_that_nobody_is_left_of_makes_room():
    with Service(1, 1) as s:  # one finishes, the other dies
        a, b = s.cluster(1, 1)
        a.finish()
        a.die()
        b.die()
        wait_for("room", lambda: s.state() == "ClUSTER_STARTING")
        s.cluster(1, 1)
        s.stop()
    with Service(1, 0) as s:  # all die, of a cluster that had grown
        a = s.cluster(1)[0]
        s.http("/scaleout", {"worker_num": 0, "server_num": 1})
        b = Node(s.address, "b")
        b.register()
        wait_for("READY", lambda: s.state() == "CLUSTER_READY")
        a.die()
        b.die()
        wait_for("NODE_TIMEOUT", lambda: s.state() == "NODE_TIMEOUT")
        wait_for("nobody", lambda: not any(n["alive"] == "true" for n in s.http("/nodes")[1]["node_ids"]))
        check(s.cluster(1)[0].metadata()[0][:4] == (STARTING, 0, 0, 1), "the next one")
        s.stop()


def one_that_finished_and_went_is_not_missed():
    with Service(2, 1) as s:
        a, b, w = s.cluster(2, 1)
        a.finish()
        a.die()
        b.die()
        wait_for("a word of the death", lambda: w.beats and w.beats[-1][0] == TIMEOUT)
        again = Node(s.address, "s1")
        again.register()
        wait_for("its metadata", again.metadata)
        check(s.state() == "CLUSTER_READY", s.state())
        s.stop()


def a_node_that_comes_again_within_a_scaling_is_told_of_at_its_end():
    with Service(2, 0) as s:
        a, b = s.cluster(2)
        a.obeys = False  # it says itself that it is done
        s.http("/scaleout", {"worker_num": 0, "server_num": 1})
        wait_for("the word to scale", lambda: a.told(OUT))
        a.register()
        c = Node(s.address, "c")
        c.register()
        wait_for("the outcome", lambda: a.metadata()[-1][0] == SCALING_OUT and c.metadata())
        b.die()
        wait_for("a word of the death", lambda: a.beats and not a.beats[-1][1]["s1"][1])
        again = Node(s.address, "s1")
        check(again.register() == 1, "its rank is %d", again.rank)
        a.ask(OUT_DONE, pack(f1="s0"))
        for n in (a, again, c):
            wait_for("its new address", lambda: n.metadata() and n.metadata()[-1][4].get(1) == again.port)
        wait_for("READY", lambda: s.state() == "CLUSTER_READY")
        s.stop()


def the_place_of_one_that_leaves_is_nobodys():
    with Service(3, 0, "--mindspore-scale-timeout", "1s") as s:
        a, b, c = s.cluster(3)
        c.obeys = False
        s.http("/scalein", {"node_ids": ["s1"]})
        b.die()
        wait_for("a word of it", lambda: any(n["alive"] == "false" for n in s.http("/nodes")[1]["node_ids"]))
        check(Node(s.address, "new").register() == NO_RANK, "a newcomer within a scale-in")
        wait_for("the way back", lambda: s.state() == "NODE_TIMEOUT")  # c did not come, and s1 is no more
        check(len(s.http("/nodes")[1]["node_ids"]) == 3, "its members")
        check(Node(s.address, "s1").register() == 1, "it comes again")
        wait_for("READY", lambda: s.state() == "CLUSTER_READY")
        s.stop()


def a_scale_in_that_goes_back_keeps_those_that_were_to_leave():
    with Service(3, 0, "--mindspore-scale-timeout", "1s") as s:
        a, b, c = s.cluster(3)
        b.scales = False
        s.http("/scalein", {"node_ids": ["s2"]})
        wait_for("READY", lambda: s.state() == "CLUSTER_READY")
        check(sorted(a.metadata()[-1][4]) == [0, 1, 2] and len(c.metadata()) == 1, "%s %s", a.metadata(), c.metadata())
        check(s.http("/scalein", {"node_ids": ["s2"]})[0] == 200, "it is asked to leave again")
        s.stop()


def finishes_within_a_scaling_count():
    with Service(1, 1, "--mindspore-scale-timeout", "1s") as s:
        members = s.cluster(1, 1)
        s.http("/scaleout", {"worker_num": 0, "server_num": 1})
        for n in members:
            n.finish()
        for n in members:  # the one that does not come takes it back, and all that there are have finished
            wait_for("the end", lambda: n.told(FINISH))
        s.stop()
    with Service(3, 0) as s:
        a, b, c = s.cluster(3)
        c.finish()  # and leaves: it counts no more
        s.http("/scalein", {"node_ids": ["s2"]})
        wait_for("READY", lambda: s.state() == "CLUSTER_READY")
        a.finish()
        check(s.state() == "CLUSTER_READY" and not b.told(FINISH), "the end came one too early")
        b.finish()
        wait_for("the end", lambda: b.told(FINISH))
        s.stop()


def a_node_at_no_address_is_refused_or_lost():
    with Service(2, 0) as s:
        Node(s.address, "a").register()
        b = Node(s.address, "b")
        for ip, lost in (("not-an-address", False), ("255.255.255.255", True)):
            answer = nodes.unpack(b.ask(REGISTER, pack(f1=ip, f2=5, f3="b"), rank=NO_RANK))
            check(lost or nodes.first(answer, 2) == NO_RANK, "%s is taken", ip)
            if not lost:
                b = Node(s.address, "b")
        wait_for("a word of it", lambda: "(b) cannot be told anything" in s.said())
        wait_for("NODE_TIMEOUT", lambda: s.state() == "NODE_TIMEOUT")
        s.stop()


def rpc0_waits_for_the_next_connection_of_its_only_node():
    with Service(0, 1, "--mindspore-dialect", "new") as s:
        a = nodes.Client(s.address, "a")
        check(a.register() == (1, 0, 1), "its registration")
        a.sock.close()
        b = nodes.Client(s.address, "a")
        check(b.beat() == (1, 1, 1, 0) and b.own_rank() == b"0", "its beat on the next connection")
        s.stop()


def rpc0_gives_ranks_keys_and_names():
    for found in (11, 10):
        with Service(0, 3) as s:
            clients = [nodes.Client(s.address, "id%d" % i, host="h%d" % i, found=found) for i in range(3)]
            check([c.register() for c in clients[:2]] == [(1, 0, 3), (1, 1, 3)], "registrations")
            check(clients[0].beat() == (1, 0, 3, 0), "before all are there")
            check(clients[2].register() == (1, 2, 3) and clients[2].register() == (1, 2, 3), "the last one, twice")
            check(clients[0].beat() == (1, 1, 3, 0), "when all are there")
            check([c.own_rank() for c in clients] == [b"0", b"1", b"2"], "dialect %d: ranks", found)
            check(clients[0].read("a") is None, "a key that is not there")
            clients[1].write("a", b"x\0y")
            clients[1].write("a", b"x\0yz")
            check(clients[1].beat()[0] == 1 and clients[0].read("a") == b"x\0yz", "a key")
            check(clients[0].read("a", name=8) == b"x\0yz" and clients[0].read("a") is None, "a key that is deleted")
            check(clients[2].ask(9, b"MS_WORKER") == (found, b'{"hostnames":["h0","h1","h2"]}'), "names of hosts")
            surplus = nodes.Client(s.address, "id3")
            check(surplus.register()[0] == 0, "a surplus worker")
            clients[1].sock.close()
            wait_for("a word of the death", lambda: clients[0].beat()[3] == 1)
            check("MS_WORKER 1 (id1 on h1) has closed its connection" in s.said(), s.said())
            again = nodes.Client(s.address, "id1", found=found)
            check(again.register() == (1, 1, 3) and clients[0].beat()[3] == 0, "it comes again")
            for c in (clients[0], clients[2], again):
                check(c.ask(1, pack(f1=c.name)) == (3, b"3"), "the end")
                c.sock.close()
            s.stop()


def rpc0_takes_a_number_for_a_rank():
    with Service(0, 3, "--mindspore-dialect", "new", "--once") as s:
        clients = [nodes.Client(s.address, name) for name in ("2", "0", "1")]
        check([c.register()[1] for c in clients] == [2, 0, 1], "ranks")
        for c in clients:
            c.ask(1, pack(f1=c.name))
            c.sock.close()
        check(s.process.wait(nodes.PATIENCE) == 0, "the service ends with its cluster: %s", s.said())


def a_service_reads_how_many_there_are():
    import subprocess
    with subprocess.Popen([nodes.MUSTER, "serve", "--mindspore"], stdout=subprocess.PIPE, text=True,
                          env=dict(os.environ, MS_SERVER_NUM="1", MS_WORKER_NUM="1")) as service:
        address = service.stdout.readline().strip()
        a, b = Node(address, "a"), Node(address, "b", WORKER)
        a.register()
        b.register()
        wait_for("the metadata", lambda: a.metadata() and b.metadata())
        check(a.metadata()[0][2:4] == (1, 1), "%s", a.metadata())
        service.terminate()


def a_job_tells_its_tasks_where_and_what_they_are():
    import subprocess
    script = 'echo $MUSTER_TASK_ID $MS_ROLE $MS_NODE_ID $MS_SERVER_NUM $MS_WORKER_NUM $MS_SCHED_HOST ${MS_SCHED_PORT:+port}'
    got = subprocess.run([nodes.MUSTER, "run", "-n", "3", "--mindspore", "--servers", "1", "sh", "-c", script],
                         stdout=subprocess.PIPE, env=dict(os.environ, MS_ROLE="MS_SCHED", MS_NODE_ID="old"), text=True)
    check(sorted(got.stdout.split("\n")[:3]) == ["0 MS_PSERVER 0 1 2 127.0.0.1 port", "1 MS_WORKER 1 1 2 127.0.0.1 port",
                                                "2 MS_WORKER 2 1 2 127.0.0.1 port"], got.stdout)
    for words, needed in ((["--servers", "4"], "more than the 3 tasks"), (["--env", "MS_ROLE=x"], "exclude each other")):
        got = subprocess.run([nodes.MUSTER, "run", "-n", "3", "--mindspore"] + words + ["true"], stderr=subprocess.PIPE, text=True)
        check(got.returncode == 2 and needed in got.stderr, "%s: %d %s", words, got.returncode, got.stderr)


TESTS = [the_bytes_are_those_of_the_protocol, ranks_are_unique_and_the_others_are_told,
         a_claim_is_granted_where_nobody_has_that_rank, a_death_is_told_at_once_and_the_node_may_come_again,
         a_node_whose_connection_broke_beats_on_another, a_cluster_that_has_finished_makes_room_for_the_next,
         nodes_that_end_without_acknowledging_keep_nobody, servers_scale_out_and_in_and_keep_their_order,
         a_node_that_never_comes_takes_the_scaling_back, nodes_that_do_not_scale_are_none_the_worse,
         a_death_takes_the_scaling_back, paths_say_what_is_wrong_and_change_nothing, nothing_that_comes_ends_the_service,
         a_node_that_cannot_be_reached_is_lost_and_named, a_cluster_that_nobody_is_left_of_makes_room, one_that_finished_and_went_is_not_missed, a_node_that_comes_again_within_a_scaling_is_told_of_at_its_end, the_place_of_one_that_leaves_is_nobodys, a_scale_in_that_goes_back_keeps_those_that_were_to_leave, finishes_within_a_scaling_count, a_node_at_no_address_is_refused_or_lost, rpc0_waits_for_the_next_connection_of_its_only_node, rpc0_gives_ranks_keys_and_names, rpc0_takes_a_number_for_a_rank,
         a_service_reads_how_many_there_are, a_job_tells_its_tasks_where_and_what_they_are]
assert EXIT == 2
for test in TESTS:
    print(test.__name__, flush=True)
    test()
os._exit(0)  # threads of nodes are still there
