"""A sum over all workers of MindSpore 2, which find each other by init()."""
import sys

import mindspore
import numpy
from mindspore import Tensor, ops
from mindspore.communication import get_group_size, get_rank, init

mindspore.set_device("CPU") if hasattr(mindspore, "set_device") else mindspore.set_context(device_target="CPU")
init()
total = ops.AllReduce()(Tensor(numpy.full(4, get_rank() + 1, numpy.float32)))
print("rank %d of %d: %s" % (get_rank(), get_group_size(), total.asnumpy().tolist()), flush=True)
sys.stdout.flush()
