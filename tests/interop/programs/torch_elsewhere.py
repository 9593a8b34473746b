"""Below --tcpstore a group that meets at another port, by tcp://: the two stores serve side by side.

The port is one that rank 0 keeps, and tells by the launcher's store. A PyTorch before 2.15 takes each store to be there
already, until TORCHELASTIC_USE_AGENT_STORE says otherwise.
"""
import os
import re
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../common"))
import ports
import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
served = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), None, False)
if rank == 0:
    kept = ports.keep_port("127.0.0.1")
    served.set("elsewhere", str(ports.port_of(kept)))
port = served.get("elsewhere").decode()
assert port != os.environ["MASTER_PORT"]
before = served.num_keys()
if tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2]) < (2, 15):
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:" + port, rank=rank, world_size=world)
one = torch.ones(1)
dist.all_reduce(one)
assert int(one) == world and served.num_keys() == before
os.write(1, ("process %d of %d: all_reduce, by another port\n" % (rank, world)).encode())
dist.destroy_process_group()
