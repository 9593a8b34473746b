"""Two dense layers of MindSpore 1, trained by parameter servers; servers run the same lines."""
import os

import mindspore.nn as nn
import numpy
from mindspore import Tensor, context
from mindspore.common.initializer import TruncatedNormal
from mindspore.nn import TrainOneStepCell, WithLossCell

context.set_context(mode=context.GRAPH_MODE, device_target="CPU")
context.set_ps_context(enable_ps=True)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = nn.Dense(16, 32, weight_init=TruncatedNormal(0.02))
        self.second = nn.Dense(32, 10, weight_init=TruncatedNormal(0.02))
        self.relu = nn.ReLU()

    def construct(self, x):
        return self.second(self.relu(self.first(x)))


net = Net()
net.set_param_ps()
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
step = TrainOneStepCell(WithLossCell(net, loss), nn.Momentum(net.trainable_params(), 0.1, 0.9))
step.set_train()
numpy.random.seed(0)
x, y = numpy.random.randn(32, 16).astype(numpy.float32), numpy.random.randint(0, 10, 32).astype(numpy.int32)
losses = []
for _ in range(5):
    loss = step(Tensor(x), Tensor(y))
    losses += ["%.5f" % float(loss.asnumpy())] if os.environ["MS_ROLE"] == "MS_WORKER" else []
if losses:
    print("losses " + " ".join(losses), flush=True)
