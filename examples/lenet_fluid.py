"""LeNet on handwritten digits with the API of Paddle 1.x: fluid.layers, fluid.optimizer, fluid.Executor."""

import os

import digits
import numpy as np

args = digits.arguments(__doc__) if __name__ == "__main__" else None
data = digits.load_data(args.data) if args else None

import paddle  # noqa: E402
import paddle.fluid as fluid  # noqa: E402


def attributes(layer):
    """Names for a layer's parameters: those of the dygraph example."""
    return dict(param_attr=fluid.ParamAttr(name=layer + ".weight"), bias_attr=fluid.ParamAttr(name=layer + ".bias"))


def lenet(image):
    """Two convolutions and three linear layers."""
    x = fluid.layers.conv2d(image, 16, 3, padding=1, act="relu", **attributes("conv1"))
    x = fluid.layers.pool2d(x, 2, "max", pool_stride=2)
    x = fluid.layers.conv2d(x, 32, 3, padding=1, act="relu", **attributes("conv2"))
    x = fluid.layers.pool2d(x, 2, "max", pool_stride=2)
    x = fluid.layers.fc(x, 120, act="relu", **attributes("fc1"))
    x = fluid.layers.fc(x, 84, act="relu", **attributes("fc2"))
    return fluid.layers.fc(x, 10, **attributes("fc3"))


def train(images, labels, epochs, out, init=None):
    """Build and train the Program, from the values of the file `init` if given; save it and its losses in `out`."""
    os.makedirs(out, exist_ok=True)
    np.random.seed(digits.SEED)
    place = fluid.CPUPlace()
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = digits.SEED
    with fluid.program_guard(main, startup):
        image = fluid.data("image", [None, 1, 8, 8], "float32")
        label = fluid.data("label", [None, 1], "int64")
        scores = lenet(image)
        loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(scores, label))
        fluid.optimizer.Momentum(digits.LEARNING_RATE, digits.MOMENTUM).minimize(loss)

    executor = fluid.Executor(place)
    executor.run(startup)
    if init:
        for name, value in np.load(init).items():
            fluid.global_scope().find_var(name).get_tensor().set(value, place)

    progress = digits.Progress("fluid", epochs * -(-len(images) // digits.BATCH))
    for _ in range(epochs):
        for x, y in digits.shuffled_batches(images, labels):
            (value,) = executor.run(main, feed={"image": x, "label": y}, fetch_list=[loss])
            progress.step(value)
    seconds = progress.finish(out)
    fluid.io.save_inference_model(out, ["image"], [scores], executor, main_program=main)
    return seconds


def test(out, images, labels):
    """Accuracy of the saved Program."""
    executor = fluid.Executor(fluid.CPUPlace())
    program, feeds, fetches = fluid.io.load_inference_model(out, executor)
    (scores,) = executor.run(program, feed={feeds[0]: images}, fetch_list=fetches)
    return digits.accuracy_of(scores, labels)


if __name__ == "__main__":
    if hasattr(paddle, "enable_static"):  # 1.x is always in static mode
        paddle.enable_static()
    train_images, train_labels, test_images, test_labels = data
    seconds = None if args.test else train(train_images, train_labels, args.epochs, args.out, args.init)
    digits.report("fluid", test(args.out, test_images, test_labels), seconds)
