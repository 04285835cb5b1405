"""Compose and BaseTransform."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Any

from paddle._basics.old_arguments import takes_old_name

__all__ = ["BaseTransform", "Compose"]


class Compose:
    """Applies several transforms in order.

    Args:
        transforms (list): callables.

    Examples:
        >>> import numpy as np
        >>> import paddle
        >>> T = paddle.vision.transforms
        >>> both = T.Compose([T.CenterCrop(2), T.ToTensor()])
        >>> both(np.zeros([4, 4, 3], "uint8")).shape
        [3, 2, 2]
    """

    def __init__(self, transforms: Any) -> None:
        self.transforms = transforms

    def __call__(self, data: Any) -> Any:
        for transform in self.transforms:
            try:
                data = transform(data)
            except Exception as error:
                stack = traceback.format_exc()
                sys.stderr.write(f"fail to perform transform [{transform}] with error: {error} and stack:\n{stack}\n")
                raise
        return data

    def __repr__(self) -> str:
        return "\n    ".join([f"{type(self).__name__}(", *map(str, self.transforms)]) + "\n)"


class BaseTransform:
    """Base of transforms: a subclass implements ``_apply_image``, and ``_apply_<key>`` for other keys.

    Called with a tuple, it transforms the fields named by `keys`, in order, and passes on the remaining fields.
    `_get_params` is called first with all inputs; its result is stored in `self.params` for the call.

    Args:
        keys (list|tuple, optional): "image", "boxes", "mask", or keys of a subclass; ("image",) when None.

    Raises:
        ValueError: for keys that are not a sequence. NotImplementedError: for a key without a method.

    Examples:
        >>> import paddle
        >>> class Double(paddle.vision.transforms.BaseTransform):
        ...     def _apply_image(self, image):
        ...         return image * 2
        >>> Double()(3), Double()((3, "label"))
        (6, (6, 'label'))
    """

    def __init__(self, keys: Any = None) -> None:
        if keys is None:
            keys = ("image",)
        elif not isinstance(keys, Sequence):
            raise ValueError(f"keys should be a sequence, but got keys={keys!r:.200}")
        for key in keys:
            if self._get_apply(key) is None:
                raise NotImplementedError(f"{key} is unsupported data structure")
        self.keys = keys
        self.params: Any = None

    def _get_params(self, inputs: Any) -> Any:
        return None

    @takes_old_name("inputs", "img")
    def __call__(self, inputs: Any) -> Any:
        fields = inputs if isinstance(inputs, tuple) else (inputs,)
        self.params = self._get_params(fields)
        outputs = list(fields)
        for i, key in enumerate(self.keys[: len(fields)]):
            apply = self._get_apply(key)
            if apply is not None:
                outputs[i] = apply(fields[i])
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _get_apply(self, key: str) -> Any:
        return getattr(self, f"_apply_{key}", None)

    def _apply_image(self, image: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no _apply_image")

    def _apply_boxes(self, boxes: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no _apply_boxes")

    def _apply_mask(self, mask: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no _apply_mask")
