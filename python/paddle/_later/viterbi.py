"""`paddle.text.viterbi_decode` and `ViterbiDecoder` of Paddle 2.3, computed by numpy on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle._basics.dtypes import convert_dtype
from paddle.nn import Layer

from .host import Host, call

__all__: list[str] = []


def _decode(potentials: np.ndarray, transitions: np.ndarray, lengths: np.ndarray, tags: bool) -> list:
    batch, steps, kinds = potentials.shape
    if lengths.size and not (0 <= lengths.min() and lengths.max() <= steps):
        raise ValueError(f"viterbi_decode: lengths must be from 0 to {steps}, got {lengths.tolist()}")
    used = int(lengths.max()) if lengths.size else 0
    scores = potentials[:, 0] + (transitions[-1] if tags else 0)
    stop = transitions[-2] if tags else np.zeros(kinds, potentials.dtype)
    # came[t - 1][b, j]: the best tag at t - 1 of the paths of b that have tag j at t.
    came = []
    for t in range(1, used):
        paths = scores[:, :, None] + transitions
        came.append(paths.argmax(1))
        going = (t < lengths)[:, None]
        scores = np.where(going, paths.max(1) + potentials[:, t], scores)
    scores = scores + stop
    tag, rows = scores.argmax(1), np.arange(batch)
    found = np.zeros((batch, used), "int64")
    for t in range(used - 1, -1, -1):
        going = t < lengths
        found[:, t] = np.where(going, tag, 0)
        if t:
            tag = np.where(going, came[t - 1][rows, tag], tag)
    return [scores.max(1), found]


_DECODE = Host("viterbi_decode", _decode)


def viterbi_decode(potentials, transition_params, lengths, include_bos_eos_tag=True, name=None):
    """The tags of the highest score for each sequence, by the Viterbi algorithm.

    The score of tags is the sum of their potentials and of the transitions between neighbours. No gradient flows.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.6/api/paddle/text/viterbi_decode_en.html

    Args:
        potentials (Tensor): [batch, steps, tags], float32 or float64.
        transition_params (Tensor): [tags, tags], from the row's tag to the column's.
        lengths (Tensor): [batch], int64, from 0 to `steps`.
        include_bos_eos_tag (bool): the last row are transitions from the start, the one before to the end.
        name (str, optional): ignored.

    Returns:
        tuple of Tensor: scores [batch]; tags [batch, max(lengths)], int64, 0 after the end of a sequence.

    Raises:
        TypeError: for other data types. ValueError: for other shapes or lengths.

    Examples:
        >>> import paddle
        >>> potentials = paddle.to_tensor([[[1.0, 3.0], [3.0, 0.0], [0.0, 0.5]]])
        >>> score, path = paddle.text.viterbi_decode(potentials, paddle.eye(2), paddle.to_tensor([3]), False)
        >>> score.tolist(), path.tolist()
        ([7.0], [[1, 0, 0]])
    """
    kinds = {
        n: convert_dtype(x.dtype) for n, x in (("potentials", potentials), ("transition_params", transition_params))
    }
    for argument, dtype in kinds.items():
        if dtype not in ("float32", "float64"):
            raise TypeError(f"viterbi_decode: {argument} must be float32 or float64, got {dtype}")
    if kinds["potentials"] != kinds["transition_params"]:
        raise TypeError("viterbi_decode: potentials and transition_params must have one data type, got " + str(kinds))
    if convert_dtype(lengths.dtype) != "int64":
        raise TypeError(f"viterbi_decode: lengths must be int64, got {convert_dtype(lengths.dtype)}")
    shape, tags = list(potentials.shape), list(transition_params.shape)
    if len(shape) != 3 or tags != [shape[2], shape[2]] or len(lengths.shape) != 1:
        raise ValueError(
            "viterbi_decode: potentials must be [batch, steps, tags], transition_params [tags, tags], lengths [batch]; "
            f"got {shape}, {tags} and {list(lengths.shape)}"
        )
    if lengths.shape[0] != shape[0] and -1 not in (lengths.shape[0], shape[0]):
        raise ValueError(f"viterbi_decode: potentials has {shape[0]} sequences, lengths {lengths.shape[0]}")
    if include_bos_eos_tag and shape[2] < 2:
        raise ValueError("viterbi_decode: include_bos_eos_tag needs at least two tags")
    outputs = [([shape[0]], kinds["potentials"]), ([shape[0], -1], "int64")]
    inputs = [potentials, transition_params, lengths]
    return tuple(call(_DECODE, inputs, outputs, tags=bool(include_bos_eos_tag)))


class ViterbiDecoder(Layer):
    """`viterbi_decode` with given transitions.

    Args:
        transitions (Tensor): [tags, tags].
        include_bos_eos_tag (bool): the last two tags are start and end, see `viterbi_decode`.
        name (str, optional): ignored.

    Examples:
        >>> import paddle
        >>> decoder = paddle.text.ViterbiDecoder(paddle.eye(2), include_bos_eos_tag=False)
        >>> score, path = decoder(paddle.to_tensor([[[1.0, 3.0], [3.0, 0.0]]]), paddle.to_tensor([2]))
        >>> path.tolist()
        [[1, 0]]
    """

    def __init__(self, transitions: Any, include_bos_eos_tag: bool = True, name: str | None = None) -> None:
        super().__init__()
        self.transitions, self.include_bos_eos_tag, self.name = transitions, include_bos_eos_tag, name

    def forward(self, potentials, lengths):
        return viterbi_decode(potentials, self.transitions, lengths, self.include_bos_eos_tag, self.name)
