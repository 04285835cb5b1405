"""Layers of click-through-rate models of fluid.layers.nn: cos_sim, continuous_value_model, filter_by_instag, hash."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.element_types import FLOATS, takes
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.static.nn.statistics import data_norm

__all__ = [
    "continuous_value_model",
    "cos_sim",
    "data_norm",
    "filter_by_instag",
    "hash",
]


def cos_sim(X: Any, Y: Any) -> Any:  # noqa: N803
    """Cosine similarity of the rows of two Tensors (Paddle 2.0: paddle.fluid.layers.cos_sim).

    Args:
        X (Variable): [N, ...], float32.
        Y (Variable): of the shape of `X`, or with one row, which is broadcast.

    Returns:
        Variable: [N, 1].

    Raises:
        ValueError: for incompatible shapes.

    Examples:
        >>> import paddle
        >>> x, y = paddle.to_tensor([[3.0, 4.0], [1.0, 0.0]]), paddle.to_tensor([[4.0, 3.0]])
        >>> paddle.fluid.layers.cos_sim(x, y).shape
        [2, 1]
    """
    check_variable_and_dtype(X, "X", ["float32"], "cos_sim")
    check_variable_and_dtype(Y, "Y", ["float32"], "cos_sim")
    return _ops.cos_sim(X, Y)[0]


def continuous_value_model(input: Any, cvm: Any, use_cvm: bool = True) -> Any:  # noqa: A002
    """Transforms the show and click counts at the start of each row (Paddle 2.0:
    paddle.fluid.layers.continuous_value_model).

    Args:
        input (Variable): [N, 2 + width], float32 or float64: show, click, and an embedding.
        cvm (Variable): [N, 2]: show and click, used as gradient of these two columns (servers accumulate them).
        use_cvm (bool): show becomes log(show + 1), click log(click + 1) - log(show + 1); False removes both.

    Returns:
        Variable: [N, 2 + width], or [N, width].

    Examples:
        >>> import paddle
        >>> paddle.fluid.layers.continuous_value_model(paddle.ones([3, 6]), paddle.ones([3, 2]), False).shape
        [3, 4]
    """
    check_variable_and_dtype(input, "input", ["float16", *FLOATS], "cvm")
    return _ops.cvm(input, cvm, use_cvm=use_cvm)


def filter_by_instag(ins: Any, ins_tag: Any, filter_tag: Any, is_lod: bool, out_val_if_empty: int = 0) -> list[Any]:
    """The instances with one of the given tags (Paddle 2.0: paddle.fluid.layers.filter_by_instag).

    Args:
        ins (Variable): [rows, width], float32, float64, int32 or int64; with `is_lod` its sequences are the instances,
            else its rows.
        ins_tag (Variable): int64, the tags of each instance, with LoD.
        filter_tag (Variable): int64, the tags to keep.
        is_lod (bool): see above.
        out_val_if_empty (int): value of the single row of the result if no instance is kept.

    Returns:
        list: the rows of the kept instances, with LoD, and their loss weights, [instances, 1]: 1, or 0 if
        none is kept.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> ins = fluid.data("ins", [None, 32], lod_level=1)
        >>> tags, wanted = (fluid.data(n, [None, 1], "int64", lod_level=1) for n in ("tags", "wanted"))
        >>> out, weight = fluid.layers.filter_by_instag(ins, tags, wanted, True)
        >>> out.shape, weight.shape
        ((-1, 32), (-1, 1))
    """
    out, weight, _ = _ops.filter_by_instag(ins, ins_tag, filter_tag, is_lod=is_lod, out_val_if_empty=out_val_if_empty)
    return [out, weight]


def hash(input: Any, hash_size: int, num_hash: int = 1, name: str | None = None) -> Any:  # noqa: A001, A002
    """Hash buckets of rows of integers, by XXH64 of their bytes (Paddle 2.0: paddle.fluid.layers.hash).

    Args:
        input (Variable): [N, length], int32 or int64.
        hash_size (int): number of buckets.
        num_hash (int): number of hashes per row, with the seeds 0, 1, ...
        name (str, optional): a name for the output.

    Returns:
        Variable: [N, num_hash, 1] of the type and LoD of `input`.

    Raises:
        TypeError: for other types. ValueError: if `hash_size` is 0.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[1], [77]], dtype="int32")
        >>> paddle.fluid.layers.hash(x, hash_size=10000, num_hash=2).numpy()[..., 0].tolist()
        [[6897, 3218], [6312, 8441]]
    """
    check_variable_and_dtype(input, "input", takes("hash"), "hash")
    check_type(hash_size, "hash_size", int, "hash")
    check_type(num_hash, "num_hash", int, "hash")
    out = named(name, _ops.hash, input, num_hash=num_hash, mod_by=hash_size)
    out.stop_gradient = True
    return out
