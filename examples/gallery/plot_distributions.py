"""
Random numbers
==============

Draws of ``paddle`` and the densities of ``paddle.distribution``. A seed gives the numbers that Paddle gives on CPUs.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import paddle
from paddle.distribution import Normal, Uniform

paddle.disable_static()
paddle.seed(7)
normal, uniform = Normal(0.0, 1.0), Uniform(-2.0, 2.0)
grid = np.linspace(-4, 4, 200).astype("float32")

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3))
for axis, distribution in zip(axes, (normal, uniform), strict=True):
    draws = distribution.sample([20000]).numpy().ravel()
    axis.hist(draws, bins=60, density=True, alpha=0.5)
    density = distribution.probs(paddle.to_tensor(grid)).numpy()
    axis.plot(grid, density)
    axis.set_title(type(distribution).__name__)
figure.tight_layout()
