#!/usr/bin/env python3
"""TLS 1.3 as a client sees it that is not ours: with certificates on both sides, or the server's alone; who is refused,
and in which words."""
import os
import socket
import ssl
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import grpc
except ImportError:
    print("python3-grpcio is not installed")
    sys.exit(77)
from serving import PATIENCE, PROGRAM, check, served, wait_for

FOLDER = os.environ["TMPDIR"]
LIMITS = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]


def path(name):
    return os.path.join(FOLDER, name)


def read(name):
    with open(path(name), "rb") as f:
        return f.read()


def files(which):
    return ["cert=" + path(which + ".pem"), "key=" + path(which + ".key")]


def credentials(which=None):
    return grpc.ssl_channel_credentials(read("good.ca"), *([read(which + ".key"), read(which + ".pem")] if which else []))


def echo(server, creds, size=100):
    with grpc.secure_channel(server.address, creds, options=LIMITS) as channel:
        message = b"x" * size
        return channel.unary_unary("/mu.test.Test/Echo")(message, timeout=PATIENCE) == message


def fails(server, creds):
    try:
        echo(server, creds)
        return False
    except grpc.RpcError as error:
        return error.code() == grpc.StatusCode.UNAVAILABLE


def both_sides():
    with served("127.0.0.1:0", *files("good"), "authority=" + path("good.ca")) as server:
        for size in 0, 100, 100000, 64 << 20:
            check(echo(server, credentials("good"), size), "%d bytes came back otherwise", size)
        with grpc.secure_channel(server.address, credentials("good"), options=LIMITS) as channel:
            waiting = [channel.unary_unary("/mu.test.Test/Park").future(b"") for _ in range(500)]
            count = channel.unary_unary("/mu.test.Test/Count")
            wait_for("500 calls", lambda: count(b"").split()[0] == b"500")
            channel.unary_unary("/mu.test.Test/Release")(b"")
            check(all(call.result(PATIENCE) == b"released" for call in waiting), "one of 500 was not answered")
        check(fails(server, credentials()), "a client without a certificate is served")
        wait_for("words", lambda: "peer did not return a certificate" in server.said())
        check(fails(server, credentials("foreign")), "a client that another authority signed is served")
        wait_for("words", lambda: "certificate verify failed" in server.said())
        with grpc.insecure_channel(server.address) as channel:
            try:
                channel.unary_unary("/mu.test.Test/Echo")(b"", timeout=PATIENCE)
                check(False, "a client in the clear is served")
            except grpc.RpcError:
                pass
        wait_for("words", lambda: "it speaks in the clear, and this server has a certificate" in server.said())
        check(echo(server, credentials("good")), "nobody is served any more")


def without_uri():
    """Certificates with URIs are checks 242 to 249."""
    with served("127.0.0.1:0", *files("good"), "authority=" + path("good.ca"), "uri=spiffe://muster/") as server:
        check(fails(server, credentials("good")), "a client whose certificate has no URI is served")
        wait_for("words", lambda: "its certificate has no URI that begins as those of this server's clients do" in server.said())
        check(fails(server, credentials("foreign")), "a client that another authority signed is served")
        wait_for("words", lambda: "certificate verify failed" in server.said())


def one_side():
    with served("127.0.0.1:0", *files("good"), "handshake=500") as server:
        check(echo(server, credentials()), "the server's own certificate is not enough")
        host, port = server.address.split(":")
        context = ssl.create_default_context(cafile=path("good.ca"))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        check(not shakes(context, host, port), "TLS 1.2 is spoken")
        context = ssl.create_default_context(cafile=path("good.ca"))
        context.set_alpn_protocols(["http/1.1"])
        check(not shakes(context, host, port), "a client that does not speak h2 is taken")
        context.set_alpn_protocols(["x", "h2", "http/1.1"])
        check(shakes(context, host, port) == "h2", "h2 is not chosen")
        with socket.create_connection((host, int(port))) as one:  # who never shakes hands
            one.settimeout(PATIENCE)
            check(one.recv(10) == b"", "the server has something to say to who says nothing")
        with socket.create_connection((host, int(port))) as one:
            one.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xff" * 505)
            one.settimeout(PATIENCE)
            while one.recv(1000):
                pass
        check(echo(server, credentials()), "nobody is served any more")


def shakes(context, host, port):
    try:
        with socket.create_connection((host, int(port))) as plain:
            plain.settimeout(PATIENCE)
            with context.wrap_socket(plain, server_hostname=host) as one:
                one.recv(9)  # an alert for the client's part comes behind its handshake
                return one.selected_alpn_protocol()
    except (ssl.SSLError, ConnectionResetError):
        return None


def bad_files():
    for options, words in (
            (files("none"), "none.pem cannot be used: No such file"),
            (["cert=" + path("good.pem"), "key=" + path("good.ca")], "the private key"),
            (["cert=" + path("good.pem"), "key=" + path("elsewhere.key")], "the private key"),
            (files("good") + ["authority=" + path("good.key")], "the authority's certificate"),
            (files("good") + ["uri=spiffe://x/"], "where they have an authority"),
            (files("good") + ["authority=" + path("good.ca"), "uri=spiffe://x"], "let it end in '/'"),
            (["cert=" + path("good.pem")], "a certificate and its private key")):
        done = subprocess.run([PROGRAM, "127.0.0.1:0"] + options, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
        check(done.returncode == 1 and words in done.stdout, "%s: %s", options, done.stdout)


subprocess.run([os.path.join(os.environ["BUILD"], "tests/rpc/certificates")], check=True)
both_sides()
without_uri()
one_side()
bad_files()
