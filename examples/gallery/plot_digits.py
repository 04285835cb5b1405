"""
Digits in three styles
======================

LeNet on handwritten digits: dygraph, static Program and fluid.
From the same initial values the three give the same losses.
"""

# %%
# The training functions are those of ``examples/lenet_dygraph.py``, ``lenet_static.py`` and ``lenet_fluid.py``.
import os
import tempfile

import digits
import lenet_dygraph
import lenet_fluid
import lenet_static
import matplotlib.pyplot as plt
import numpy as np
import paddle

images, labels, test_images, test_labels = digits.load_data()
folder = tempfile.mkdtemp()
epochs = 4

paddle.disable_static()
model, _ = lenet_dygraph.train(images, labels, epochs, os.path.join(folder, "dygraph"))
init = os.path.join(folder, "dygraph", "init.npz")

# %%
# The same in static mode, where fluid is, too.
paddle.enable_static()
for style, train in (("static", lenet_static.train), ("fluid", lenet_fluid.train)):
    with paddle.static.scope_guard(paddle.static.Scope()):
        train(images, labels, epochs, os.path.join(folder, style), init)
paddle.disable_static()

# %%
# The losses lie on each other.
for style, dashes in (("dygraph", "-"), ("static", "--"), ("fluid", ":")):
    plt.plot(np.load(os.path.join(folder, style, "losses.npy")), dashes, label=style)
plt.xlabel("step")
plt.ylabel("loss")
plt.legend()

# %%
# What the network sees in images that it has not been trained on.
model.eval()
guesses = model(paddle.to_tensor(test_images[:16])).numpy().argmax(1)
figure, axes = plt.subplots(2, 8, figsize=(9, 2.8))
for axis, image, guess, label in zip(axes.flat, test_images, guesses, test_labels, strict=False):
    axis.imshow(image[0], cmap="gray_r")
    axis.set_title(str(guess), color="C2" if guess == label[0] else "C3")
    axis.axis("off")

# %%
# The filters of the first convolution.
filters = model.conv1.weight.numpy()
figure, axes = plt.subplots(2, 8, figsize=(9, 2.6))
for axis, one in zip(axes.flat, filters, strict=True):
    axis.imshow(one[0], cmap="coolwarm")
    axis.axis("off")
