"""A small ResNet on handwritten digits at 32 x 32, by paddle.Model: progress bar, checkpoints, TensorBoard logs.

    python examples/resnet_digits.py [--epochs N] [--out FOLDER] [--test]
    tensorboard --logdir resnet_model/logs

The digits are scikit-learn's (pip install scikit-learn). With two cores the eight epochs take about a minute.
"""

import argparse
import os

import digits
import numpy as np


def load_data():
    """Train and held-out data: images of float32 [N, 1, 32, 32], pixels repeated four times along both axes."""
    train, train_labels, test, test_labels = digits.load_data()
    return (
        *(
            (np.kron(images, np.ones([1, 1, 4, 4], "float32")), labels)
            for images, labels in ((train, train_labels), (test, test_labels))
        ),
    )


data = load_data() if __name__ == "__main__" else None  # scikit-learn before paddle, as in the other examples

import paddle  # noqa: E402
from paddle import nn  # noqa: E402
from paddle.static import InputSpec  # noqa: E402
from paddle.vision import transforms  # noqa: E402


class Block(nn.Layer):
    """Two convolutions with a residual connection."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2D(before, after, 3, stride=stride, padding=1, bias_attr=False),
            nn.BatchNorm2D(after),
            nn.ReLU(),
            nn.Conv2D(after, after, 3, padding=1, bias_attr=False),
            nn.BatchNorm2D(after),
        )
        self.shortcut = None
        if (before, stride) != (after, 1):
            self.shortcut = nn.Conv2D(before, after, 1, stride=stride, bias_attr=False)
        self.relu = nn.ReLU()

    def forward(self, x):
        kept = x if self.shortcut is None else self.shortcut(x)
        return self.relu(self.body(x) + kept)


class ResNet(nn.Layer):
    """Eight layers: a convolution, three blocks, a linear layer."""

    def __init__(self, width=12):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2D(1, width, 3, padding=1, bias_attr=False), nn.BatchNorm2D(width), nn.ReLU())
        self.blocks = nn.Sequential(Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2))
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.fc = nn.Linear(4 * width, 10)

    def forward(self, image):
        x = self.pool(self.blocks(self.stem(image)))
        return self.fc(paddle.flatten(x, 1))


class Digits(paddle.io.Dataset):
    """Pairs of image and label; `transform` changes the image, [32, 32, 1], before it is read."""

    def __init__(self, images, labels, transform=None):
        super().__init__()
        self.images, self.labels, self.transform = images, labels, transform

    def __getitem__(self, index):
        image = self.images[index]
        if self.transform is not None:
            image = self.transform(image.transpose(1, 2, 0))
        return image, self.labels[index]

    def __len__(self):
        return len(self.images)


# Training images are shifted by up to two pixels.
MOVED = transforms.Compose([transforms.RandomCrop(32, padding=2), transforms.Transpose()])


def make_model(steps):
    """The model; its learning rate decays to 0 in that number of steps."""
    net = ResNet()
    model = paddle.Model(net, InputSpec([None, 1, 32, 32], "float32", "image"), InputSpec([None, 1], "int64", "label"))
    rate = paddle.optimizer.lr.CosineAnnealingDecay(0.1, T_max=steps)
    momentum = paddle.optimizer.Momentum(rate, momentum=0.9, parameters=net.parameters(), weight_decay=1e-4)
    model.prepare(momentum, nn.CrossEntropyLoss(), paddle.metric.Accuracy())
    return model


def train(train_data, test_data, epochs, out, batch=32, verbose=1):
    """Train a new model, with logs and checkpoints in `out`."""
    paddle.seed(digits.SEED)
    np.random.seed(digits.SEED)
    dataset = Digits(*train_data, transform=MOVED)
    model = make_model(epochs * -(-len(dataset) // batch))
    model.fit(
        dataset,
        Digits(*test_data),
        batch_size=batch,
        epochs=epochs,
        save_dir=out,
        save_freq=epochs,
        verbose=verbose,
        callbacks=[paddle.callbacks.VisualDL(os.path.join(out, "logs"))],
    )
    return model


def test(model, test_data):
    """Accuracy on the held-out digits."""
    return model.evaluate(Digits(*test_data), batch_size=120, verbose=0)["acc"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--out", default="resnet_model", help="folder for checkpoints and logs")
    parser.add_argument("--test", action="store_true", help="no training: load the model from --out and test it")
    args = parser.parse_args()
    train_data, test_data = data
    if args.test:
        model = make_model(1)
        model.load(os.path.join(args.out, "final"), reset_optimizer=True)
    else:
        paddle.summary(ResNet(), (1, 1, 32, 32))
        model = train(train_data, test_data, args.epochs, args.out)
        print("logs for TensorBoard are in %s" % os.path.join(args.out, "logs"))
    print("%.2f %% of %d held-out digits right" % (100 * test(model, test_data), len(test_data[0])))


if __name__ == "__main__":
    main()
