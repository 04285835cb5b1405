"""paddle.vision.models: parameters of 2.0.2 by name and shape, and errors for missing weights."""

import numpy as np
import paddle
import pytest
from paddle.utils import download
from paddle.vision import models


def parameters(net):
    return sum(int(np.prod(p.shape)) for p in net.parameters() if not p.stop_gradient)


@pytest.mark.parametrize(
    ("make", "entries", "count", "some"),
    [
        # numbers of parameters as in the papers and Paddle
        (models.LeNet, 10, 61610, {"features.3.weight": [16, 6, 5, 5], "fc.2.bias": [10]}),
        (models.resnet18, 102, 11689512, {"layer2.0.downsample.0.weight": [128, 64, 1, 1], "fc.weight": [512, 1000]}),
        (models.resnet50, 267, 25557032, {"layer4.2.conv3.weight": [2048, 512, 1, 1], "bn1._mean": [64]}),
        (
            models.mobilenet_v1,
            137,
            4231976,
            {"conv5_6._depthwise_conv._conv.weight": [512, 1, 3, 3], "conv1._norm_layer._variance": [32]},
        ),
        (
            models.mobilenet_v2,
            262,
            3504872,
            {
                "features.1.conv.0.0.weight": [32, 1, 3, 3],
                "features.18.0.weight": [1280, 320, 1, 1],
                "classifier.1.weight": [1280, 1000],
            },
        ),
        (lambda: models.vgg11(num_classes=0), 16, 9220480, {"features.18.bias": [512]}),
        (lambda: models.vgg16(batch_norm=True, num_classes=0), 78, 14723136, {"features.41._mean": [512]}),
    ],
    ids=["lenet", "resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "vgg11", "vgg16_bn"],
)
def test_parameters(make, entries, count, some):
    net = make()
    state = net.state_dict()
    assert len(state) == entries
    assert {name: list(state[name].shape) for name in some} == some
    assert parameters(net) == count


@pytest.mark.parametrize("make", [models.resnet34, models.resnet101, models.resnet152])
def test_depths(make):
    # layers with weights on the main path
    net = make(num_classes=3)
    depth = sum(
        name.endswith("weight") and len(p.shape) in (2, 4) and "downsample" not in name
        for name, p in net.named_parameters()
    )
    assert make.__name__ == f"resnet{depth}"


@pytest.mark.parametrize("make", [models.resnet18, models.resnet50, models.mobilenet_v1, models.mobilenet_v2])
def test_forward(make):
    paddle.seed(1)
    x = paddle.to_tensor(np.random.RandomState(0).rand(2, 3, 32, 32).astype("float32"))
    scaled = {"scale": 0.25} if "mobile" in make.__name__ else {}
    net = make(num_classes=5, **scaled)
    out = net(x)
    assert out.shape == [2, 5]
    out.sum().backward()
    assert all(p.grad is not None for p in net.parameters() if not p.stop_gradient)
    assert make(num_classes=0, with_pool=False, **scaled)(x).shape[2:] == [1, 1]


def test_static_and_dygraph_agree(tmp_path):
    x = np.random.RandomState(0).rand(2, 3, 32, 32).astype("float32")
    net = models.mobilenet_v2(scale=0.25, num_classes=4)
    model = paddle.Model(net, paddle.static.InputSpec([None, 3, 32, 32], "float32", "x"))
    model.prepare()
    (expected,) = model.predict_batch([x])
    model.save(str(tmp_path / "net"), training=False)
    paddle.enable_static()
    try:
        with paddle.static.scope_guard(paddle.static.Scope()):
            executor = paddle.static.Executor()
            program, feeds, fetches = paddle.static.load_inference_model(str(tmp_path / "net"), executor)
            (found,) = executor.run(program, feed={feeds[0]: x}, fetch_list=fetches)
    finally:
        paddle.disable_static()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_pretrained(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "WEIGHTS_HOME", str(tmp_path))
    with pytest.raises(AssertionError, match="vgg11 model do not have a pretrained model now"):
        models.vgg11(pretrained=True, num_classes=0)

    def offline(url, timeout):
        raise OSError("no network")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    monkeypatch.setattr("paddle._basics.fetch.PAUSES", (0, 0))
    place = str(tmp_path / "resnet18.pdparams")
    with pytest.raises(RuntimeError, match="resnet18.pdparams could not be fetched .* belongs at " + place):
        models.resnet18(pretrained=True)
    # an existing file with the expected MD5 sum is used
    net = models.resnet18(num_classes=3)
    paddle.save(net.state_dict(), place)
    monkeypatch.setattr("paddle._basics.fetch.md5", lambda path: "cf548f46534aa3560945be4b95cd11c4")
    again = models.resnet18(pretrained=True, num_classes=3)
    np.testing.assert_array_equal(again.fc.weight.numpy(), net.fc.weight.numpy())


def test_errors():
    with pytest.raises(KeyError, match="one of"):
        models.ResNet(models.resnet.BasicBlock, 19)
    with pytest.raises(NotImplementedError, match="Dilation"):
        models.resnet.BasicBlock(4, 4, dilation=2)


def test_convolutions_of_vgg_by_configuration():
    from paddle.vision.models.vgg import cfgs, make_layers

    assert cfgs["A"] == [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"]
    assert [len(cfgs[letter]) for letter in "ABDE"] == [13, 15, 18, 21]
    kinds = [type(layer).__name__ for layer in make_layers([4, "M"], batch_norm=True)]
    assert kinds == ["Conv2D", "BatchNorm2D", "ReLU", "MaxPool2D"]
