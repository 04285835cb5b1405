"""LeNet on handwritten digits in dygraph mode: paddle.nn, paddle.io.DataLoader, paddle.optimizer."""

import os

import digits  # before paddle: real Paddle 2.6 fails where scikit-learn is imported after it
import numpy as np

args = digits.arguments(__doc__) if __name__ == "__main__" else None
data = digits.load_data(args.data) if args else None

import paddle  # noqa: E402
import paddle.nn as nn  # noqa: E402
import paddle.nn.functional as F  # noqa: E402


class LeNet(nn.Layer):
    """Two convolutions and three linear layers, for images of 8 x 8."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2D(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2D(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(128, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, image):
        x = F.max_pool2d(F.relu(self.conv1(image)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = paddle.flatten(x, 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Digits(paddle.io.Dataset):
    """Pairs of image and label."""

    def __init__(self, images, labels):
        super().__init__()
        self.images, self.labels = images, labels

    def __getitem__(self, index):
        return self.images[index], self.labels[index]

    def __len__(self):
        return len(self.images)


def train(images, labels, epochs, out, init=None):
    """Train a new LeNet; save it, its initial values and its losses in `out`."""
    os.makedirs(out, exist_ok=True)
    paddle.seed(digits.SEED)
    np.random.seed(digits.SEED)
    model = LeNet()
    if init:
        model.set_state_dict(dict(np.load(init)))
    np.savez(os.path.join(out, "init.npz"), **{name: p.numpy() for name, p in model.named_parameters()})
    loader = paddle.io.DataLoader(Digits(images, labels), batch_size=digits.BATCH, shuffle=True)
    optimizer = paddle.optimizer.Momentum(
        learning_rate=digits.LEARNING_RATE, momentum=digits.MOMENTUM, parameters=model.parameters()
    )
    progress = digits.Progress("dygraph", epochs * len(loader))
    for _ in range(epochs):
        for image, label in loader:
            loss = F.cross_entropy(model(image), label)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            progress.step(loss.numpy())
    seconds = progress.finish(out)
    paddle.save(model.state_dict(), os.path.join(out, "lenet.pdparams"))
    return model, seconds


def load(out):
    """The model that `train` saved."""
    model = LeNet()
    model.set_state_dict(paddle.load(os.path.join(out, "lenet.pdparams")))
    return model


def test(model, images, labels):
    """Accuracy of the model."""
    model.eval()
    with paddle.no_grad():
        return digits.accuracy_of(model(paddle.to_tensor(images)).numpy(), labels)


if __name__ == "__main__":
    train_images, train_labels, test_images, test_labels = data
    model, seconds = (
        (load(args.out), None) if args.test else train(train_images, train_labels, args.epochs, args.out, args.init)
    )
    digits.report("dygraph", test(model, test_images, test_labels), seconds)
