#!/usr/bin/python3
"""Servers that play workers, for workers_test.sh: called.py FOLDER COUNT.

Where they are is then in FOLDER/addresses; what worker I is told is a line "I CODE JOB TASK TEXT" of FOLDER/told, and FOLDER/told.I
is there. They end with standard input.
"""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rpc"))
import workers  # noqa: E402

import rpc.tsl_coordination_pb2 as pb  # noqa: E402

folder, count = sys.argv[1], int(sys.argv[2])
told = os.open(folder + "/told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def heard(me):
    def note(request):
        source = request.error_payload.source_task
        os.write(told, ("%d %d %s %d %s\n" % (me, request.error_code, source.job_name.decode(), source.task_id,
                                              request.error_message.decode())).encode())
        os.close(os.open("%s/told.%d" % (folder, me), os.O_WRONLY | os.O_CREAT))
    return note


all_of_them = [workers.Worker(pb, heard=heard(me)) for me in range(count)]
with open(folder + "/addresses.new", "w") as f:
    f.write(",".join(one.address for one in all_of_them) + "\n")
os.rename(folder + "/addresses.new", folder + "/addresses")
sys.stdin.read()
for one in all_of_them:
    one.stop()
