"""
What a Program contains
=======================

A static Program before and after ``minimize``: forward operators, their gradients, the updates.
"""

# %%
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
import paddle

paddle.enable_static()
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    x = paddle.static.data("x", [None, 8])
    label = paddle.static.data("label", [None, 1], "int64")
    hidden = paddle.static.nn.fc(x, 16, activation="relu")
    scores = paddle.static.nn.fc(hidden, 3)
    loss = paddle.mean(paddle.nn.functional.softmax_with_cross_entropy(scores, label))
    forward = [op.type for op in main.global_block().ops]
    paddle.optimizer.Adam(0.01).minimize(loss)
operators = [op.type for op in main.global_block().ops]
print("forward:", " ".join(forward))

# %%
# The operators that ``minimize`` has added.
added = Counter(operators) - Counter(forward)
plt.figure(figsize=(7, 3.5))
plt.barh(list(added), list(added.values()))
plt.xlabel("operators")
plt.tight_layout()

# %%
# The Executor compiles it at its first run.
exe = paddle.static.Executor()
exe.run(startup)
rng = np.random.RandomState(0)
data = rng.rand(96, 8).astype("float32")
feed = {"x": data, "label": data[:, :3].argmax(1)[:, None].astype("int64")}
losses = [float(exe.run(main, feed=feed, fetch_list=[loss])[0]) for _ in range(150)]
plt.figure(figsize=(7, 3))
plt.plot(losses)
plt.xlabel("step")
plt.ylabel("loss")
plt.tight_layout()
paddle.disable_static()
