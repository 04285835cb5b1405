"""
Fit a curve
===========

A perceptron of two layers learns a noisy sine in dygraph mode.
"""

# %%
# The data: 200 points of a sine with noise.
import matplotlib.pyplot as plt
import numpy as np
import paddle
import paddle.nn.functional as F

paddle.disable_static()
paddle.seed(1)
rng = np.random.RandomState(0)
x = np.sort(rng.uniform(-3, 3, (200, 1))).astype("float32")
y = (np.sin(2 * x) + rng.normal(0, 0.15, x.shape)).astype("float32")

# %%
# The network and its training: a forward pass, `backward`, a step of Adam.
net = paddle.nn.Sequential(
    paddle.nn.Linear(1, 32), paddle.nn.Tanh(), paddle.nn.Linear(32, 32), paddle.nn.Tanh(), paddle.nn.Linear(32, 1)
)
optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())
inputs, targets = paddle.to_tensor(x), paddle.to_tensor(y)
losses = []
for _ in range(600):
    loss = F.mse_loss(net(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    losses.append(float(loss))

# %%
# The curve that was learnt, and the loss by step.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
left.scatter(x, y, s=8, alpha=0.5, label="data")
left.plot(x, net(inputs).numpy(), color="C3", label="network")
left.legend()
right.semilogy(losses)
right.set_xlabel("step")
right.set_ylabel("mean squared error")
figure.tight_layout()
