#!/usr/bin/env python3
"""Checks 242 to 254: over TLS, where the service asks for its clients' authority, and for a URI in their certificates."""
from agent import *


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def authority(folder, name):
    openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
            "/CN=" + name, "-keyout", name + ".key", "-out", name + ".pem")


def certificate(folder, name, by, names=None):
    openssl(folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=" + name, "-keyout",
            name + ".key", "-out", name + ".csr")
    words = []
    if names:
        with open(os.path.join(folder, name + ".ext"), "w") as extensions:
            extensions.write("subjectAltName=" + names + "\n")
        words = ["-extfile", name + ".ext"]
    openssl(folder, "x509", "-req", "-in", name + ".csr", "-CA", by + ".pem", "-CAkey", by + ".key", "-CAcreateserial", "-days",
            "2", "-out", name + ".pem", *words)


@functools.lru_cache(maxsize=None)
def folder():
    path = tempfile.mkdtemp()
    for name in ("ours", "theirs"):
        authority(path, name)
    certificate(path, "server", "ours", "DNS:localhost,IP:127.0.0.1,URI:spiffe://muster/server")
    certificate(path, "good", "ours", "URI:spiffe://muster/job/one")
    certificate(path, "intruder", "ours", "URI:spiffe://elsewhere/one")
    certificate(path, "plain", "ours")
    certificate(path, "named", "ours", "DNS:spiffe.muster,email:spiffe@muster,IP:127.0.0.1")
    certificate(path, "many", "ours", "URI:spiffe://elsewhere/one,DNS:elsewhere,URI:spiffe://muster/job/two")
    certificate(path, "longer", "ours", "URI:spiffe://muster/jobs/one,URI:x-spiffe://muster/job/one")
    certificate(path, "stranger", "theirs", "URI:spiffe://muster/job/one")
    return path


def read(name):
    with open(os.path.join(folder(), name), "rb") as file:
        return file.read()


PREFIX = {"prefix": "spiffe://muster/job/"}


@contextlib.contextmanager
def secured(dialect, **options):
    with served(dialect, 1, certificate=folder() + "/server.pem", key=folder() + "/server.key",
                authority=folder() + "/ours.pem", **options) as service:
        yield service


def client(service, name, trusts="ours"):
    given = (read(name + ".key"), read(name + ".pem")) if name else (None, None)
    return Task(service.wire(credentials=grpc.ssl_channel_credentials(read(trusts + ".pem"), *given)), 0)


def comes_in(dialect, name, **options):
    with secured(dialect, **options) as service:
        one = client(service, name)
        joined(one)
        expect(one.heartbeat(), "OK")


def is_refused(dialect, name, trusts="ours", **options):
    """Its calls wait for a connection that never comes; the service goes on."""
    with secured(dialect, **options) as service:
        expect(client(service, name, trusts).register(timeout=3), "UNAVAILABLE")
        joined(client(service, "good"))


@check(242, "AB", reference="")
def _(dialect):
    comes_in(dialect, "good")
    comes_in(dialect, "good", **PREFIX)


@check(244, "AB", reference="")
def _(dialect):
    is_refused(dialect, "intruder", **PREFIX)
    is_refused(dialect, "longer", **PREFIX)


@check(245, "AB", reference="")
def _(dialect):
    is_refused(dialect, "stranger")
    is_refused(dialect, None)
    is_refused(dialect, "stranger", **PREFIX)
    is_refused(dialect, None, **PREFIX)


@check(246, "AB", reference="")
def _(dialect):
    comes_in(dialect, "many", **PREFIX)


@check(247, "AB", reference="")
def _(dialect):
    is_refused(dialect, "plain", **PREFIX)
    is_refused(dialect, "named", **PREFIX)


@check(249, "AB", reference="")
def _(dialect):
    for prefix in "spiffe://muster/job", "":
        try:
            with secured(dialect, prefix=prefix):
                fail("a service that asks for URIs which begin with '%s' was started", prefix)
        except Failed as failed:
            that(re.search("end in '/'", str(failed)), "%s", failed)


@check(250, "AB", reference="")
def _(dialect):
    with secured(dialect) as service:
        service.address = "localhost:" + service.address.rpartition(":")[2]
        joined(client(service, "good"))


@check(251, "AB", reference="")
def _(dialect):
    comes_in(dialect, "intruder")


@check(252, "AB", reference="")
def _(dialect):
    comes_in(dialect, "plain")


@check(253, "AB", reference="")
def _(dialect):
    is_refused(dialect, "stranger")


@check(254, "AB", reference="")
def _(dialect):
    is_refused(dialect, "good", trusts="theirs")


if __name__ == "__main__":
    folder()
    main()
