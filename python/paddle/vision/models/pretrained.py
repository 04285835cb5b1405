"""Pretrained weights published by Paddle."""

from __future__ import annotations

from typing import Any

from paddle.framework.io import load
from paddle.utils.download import get_weights_path_from_url

__all__: list[str] = []

_ADDRESS = "https://paddle-hapi.bj.bcebos.com/models/"

# model name -> (file, MD5 sum)
_FILES = {
    "mobilenetv1_1.0": ("mobilenet_v1_x1.0.pdparams", "42a154c2f26f86e7457d6daded114e8c"),
    "mobilenetv2_1.0": ("mobilenet_v2_x1.0.pdparams", "0340af0a901346c8d46f4529882fb63d"),
    "resnet18": ("resnet18.pdparams", "cf548f46534aa3560945be4b95cd11c4"),
    "resnet34": ("resnet34.pdparams", "8d2275cf8706028345f78ac0e1d31969"),
    "resnet50": ("resnet50.pdparams", "ca6f485ee1ab0492d38f323885b0ad80"),
    "resnet101": ("resnet101.pdparams", "02f35f034ca3858e1e54d4036443c92d"),
    "resnet152": ("resnet152.pdparams", "7ad16a2f1e7333859ff986138630fd7a"),
    "vgg16": ("vgg16.pdparams", "89bbffc0f87d260be9b8cdc169c991c4"),
}


def trained(model: Any, name: str, pretrained: bool) -> Any:
    """The model, with the pretrained weights of that name if `pretrained`.

    Raises:
        AssertionError: if there are none. RuntimeError: if the download fails; the message gives the expected path.
    """
    if pretrained:
        assert name in _FILES, f"{name} model do not have a pretrained model now, you should set pretrained=False"
        file, md5 = _FILES[name]
        model.set_state_dict(load(get_weights_path_from_url(_ADDRESS + file, md5)))
    return model
