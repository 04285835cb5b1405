"""
Curves, a confusion matrix, drawings
====================================

What a training leaves behind, as pictures: the values that ``Model.fit`` returns, and the network as a graph.
"""

# %%
# A small network learns to read handwritten digits.
import digits
import numpy as np
import paddle

images, labels, test_images, test_labels = digits.load_data()


class Digits(paddle.io.Dataset):
    def __init__(self, images, labels):
        super().__init__()
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index].reshape(-1), self.labels[index]


paddle.seed(1)
np.random.seed(1)
size = int(np.prod(images.shape[1:]))
network = paddle.nn.Sequential(paddle.nn.Linear(size, 64), paddle.nn.ReLU(), paddle.nn.Linear(64, 10))
network

# %%
# ``fit`` returns the losses and metrics of all epochs; a notebook shows them as a table.
model = paddle.Model(network)
optimizer = paddle.optimizer.Adam(parameters=network.parameters())
model.prepare(optimizer, paddle.nn.CrossEntropyLoss(), paddle.metric.Accuracy())
test = Digits(test_images, test_labels)
history = model.fit(Digits(images, labels), test, batch_size=64, epochs=5, verbose=0)
history

# %%
# The curves of training and evaluation, and how often each digit was taken for each other one.
figure = history.plot()
figure

# %%
(scores,) = model.predict(test, batch_size=64, stack_outputs=True)
counts, figure = paddle.utils.confusion_matrix(test_labels, scores)
figure

# %%
# The graph of the operators that a batch runs through, as SVG.
svg = paddle.utils.draw(network, input_spec=[paddle.static.InputSpec([None, size], "float32", "image")])
print(svg.count("<rect"), "boxes; accuracy", round(float(np.trace(counts) / counts.sum()), 2))
