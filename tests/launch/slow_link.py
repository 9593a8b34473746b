"""slow_link.py PORT: passes connections on to 127.0.0.1:PORT, a kilobyte in ten milliseconds towards those that come.

Prints the port that it listens at. The one that started it ends it."""
import socket
import sys
import threading
import time


def carry(source, target, pause):
    try:
        while data := source.recv(1024):
            target.sendall(data)
            time.sleep(pause)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


door = socket.create_server(("127.0.0.1", 0))
print(door.getsockname()[1], flush=True)
while True:
    one, _ = door.accept()
    other = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    for source, target, pause in ((one, other, 0), (other, one, 0.01)):
        threading.Thread(target=carry, args=(source, target, pause), daemon=True).start()
