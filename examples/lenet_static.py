"""LeNet on handwritten digits as a static Program: paddle.static and an Executor."""

import os

import digits  # before paddle: real Paddle 2.6 fails where scikit-learn is imported after it
import numpy as np

args = digits.arguments(__doc__) if __name__ == "__main__" else None
data = digits.load_data(args.data) if args else None

import paddle  # noqa: E402
import paddle.nn.functional as F  # noqa: E402
from paddle import static  # noqa: E402


def named(layer):
    """Names for a layer's parameters: those of the dygraph example."""
    return dict(weight_attr=paddle.ParamAttr(name=layer + ".weight"), bias_attr=paddle.ParamAttr(name=layer + ".bias"))


def conv(x, channels, layer):
    attrs = named(layer)
    return static.nn.conv2d(
        x, channels, 3, padding=1, act="relu", param_attr=attrs["weight_attr"], bias_attr=attrs["bias_attr"]
    )


def lenet(image):
    """Two convolutions and three linear layers, as functions that append operators."""
    x = F.max_pool2d(conv(image, 16, "conv1"), 2)
    x = F.max_pool2d(conv(x, 32, "conv2"), 2)
    x = static.nn.fc(x, 120, activation="relu", **named("fc1"))
    x = static.nn.fc(x, 84, activation="relu", **named("fc2"))
    return static.nn.fc(x, 10, **named("fc3"))


def train(images, labels, epochs, out, init=None):
    """Build and train the Program; save it, its initial values and its losses in `out`."""
    os.makedirs(out, exist_ok=True)
    paddle.seed(digits.SEED)
    np.random.seed(digits.SEED)
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        image = static.data("image", [None, 1, 8, 8], "float32")
        label = static.data("label", [None, 1], "int64")
        scores = lenet(image)
        loss = F.cross_entropy(scores, label)
        paddle.optimizer.Momentum(learning_rate=digits.LEARNING_RATE, momentum=digits.MOMENTUM).minimize(loss)

    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup)
    if init:
        static.set_program_state(main, dict(np.load(init)))
    values = {p.name: np.array(static.global_scope().find_var(p.name).get_tensor()) for p in main.all_parameters()}
    np.savez(os.path.join(out, "init.npz"), **values)

    progress = digits.Progress("static", epochs * -(-len(images) // digits.BATCH))
    for _ in range(epochs):
        for x, y in digits.shuffled_batches(images, labels):
            (value,) = executor.run(main, feed={"image": x, "label": y}, fetch_list=[loss])
            progress.step(value)
    seconds = progress.finish(out)
    static.save_inference_model(os.path.join(out, "lenet"), [image], [scores], executor, program=main)
    return seconds


def test(out, images, labels):
    """Accuracy of the saved Program."""
    executor = static.Executor(paddle.CPUPlace())
    program, feeds, fetches = static.load_inference_model(os.path.join(out, "lenet"), executor)
    (scores,) = executor.run(program, feed={feeds[0]: images}, fetch_list=fetches)
    return digits.accuracy_of(scores, labels)


if __name__ == "__main__":
    paddle.enable_static()
    train_images, train_labels, test_images, test_labels = data
    seconds = None if args.test else train(train_images, train_labels, args.epochs, args.out, args.init)
    digits.report("static", test(args.out, test_images, test_labels), seconds)
