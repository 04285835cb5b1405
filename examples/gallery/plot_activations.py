"""
Activations and their gradients
===============================

Six activations with the gradients that backward computes.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import paddle
import paddle.nn.functional as F

paddle.disable_static()
grid = np.linspace(-4, 4, 401).astype("float32")
functions = [F.relu, F.gelu, F.elu, F.hardswish, F.softplus, F.mish if hasattr(F, "mish") else F.swish]

# %%
# ``paddle.grad`` of the sum is the derivative at each point.
figure, axes = plt.subplots(2, 3, figsize=(9, 4.8), sharex=True)
for axis, function in zip(axes.flat, functions, strict=True):
    x = paddle.to_tensor(grid, stop_gradient=False)
    y = function(x)
    (slope,) = paddle.grad(y.sum(), x)
    axis.plot(grid, y.numpy(), label="value")
    axis.plot(grid, slope.numpy(), "--", label="gradient")
    axis.set_title(function.__name__)
axes[0, 0].legend()
figure.tight_layout()
