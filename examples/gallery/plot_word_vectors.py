"""
Word vectors of a small language
================================

Skip-gram with sparse gradients: words that occur next to each other get similar vectors.
"""

# %%
# A language of 24 words on a ring: a sentence walks along it.
import matplotlib.pyplot as plt
import numpy as np
import paddle
import paddle.nn.functional as F

paddle.disable_static()
paddle.seed(3)
rng = np.random.RandomState(0)
words, width = 24, 2
starts = rng.randint(0, words, 4000)
pairs = np.stack([starts, (starts + rng.choice([-2, -1, 1, 2], 4000)) % words], 1)

# %%
# A vector for each word, and a linear layer that predicts the neighbour.
table = paddle.nn.Embedding(words, width, sparse=True)
scores = paddle.nn.Linear(width, words)
optimizer = paddle.optimizer.Adam(0.05, parameters=table.parameters() + scores.parameters(), lazy_mode=True)
for _ in range(12):
    for batch in np.split(pairs[rng.permutation(len(pairs))], 20):
        center, neighbour = paddle.to_tensor(batch[:, 0]), paddle.to_tensor(batch[:, 1:])
        loss = F.cross_entropy(scores(table(center)), neighbour)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()

# %%
# The ring appears in the plane.
vectors = table.weight.numpy()
plt.figure(figsize=(5, 5))
closed = np.append(np.arange(words), 0)
plt.plot(*vectors[closed].T, "-", alpha=0.3)
plt.scatter(*vectors.T, c=np.arange(words), cmap="hsv")
for word, place in enumerate(vectors):
    plt.annotate(str(word), place)
plt.axis("equal")
