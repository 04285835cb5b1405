"""`paddle.amp.decorate` of Paddle 2.1."""

from __future__ import annotations

from typing import Any

from paddle._basics.mode import _current_expected_place, in_static_mode

__all__: list[str] = []

_SAVED = ("float16", "bfloat16", "float32", "float64")


def decorate(
    models: Any,
    optimizers: Any = None,
    level: str = "O1",
    dtype: str = "float16",
    master_weight: bool | None = None,
    save_dtype: str | None = None,
    master_grad: bool = False,
    excluded_layers: Any = None,
) -> Any:
    """Models and optimizers for mixed precision of a level.

    Level "O1" needs no change: `auto_cast` casts the inputs of operators. Level "O2", parameters of low precision,
    changes nothing on the CPU either, as in Paddle, and is not there on a GPU.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.6/api/paddle/amp/decorate_en.html

    Args:
        models (Layer|list): the models.
        optimizers (Optimizer|list, optional): their optimizers.
        level (str): "O1" or "O2".
        dtype (str): "float16" or "bfloat16".
        master_weight, save_dtype, master_grad, excluded_layers: for level "O2".

    Returns:
        The models; with `optimizers`, a tuple of both.

    Raises:
        ValueError: for another level or type, and for level "O2" in static mode.
        NotImplementedError: for level "O2" on a GPU.

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Linear(2, 2)
        >>> opt = paddle.optimizer.SGD(0.1, parameters=net.parameters())
        >>> paddle.amp.decorate(net, opt, level="O1") == (net, opt)
        True
    """
    if level not in ("O1", "O2"):
        raise ValueError(f"amp.decorate: level must be 'O1' or 'O2', got {level!r}")
    if dtype not in ("float16", "bfloat16"):
        raise ValueError(f"amp.decorate: dtype must be 'float16' or 'bfloat16', got {dtype!r}")
    if save_dtype is not None and save_dtype not in _SAVED:
        raise ValueError(f"amp.decorate: save_dtype must be one of {', '.join(_SAVED)}, got {save_dtype!r}")
    if level == "O2":
        if in_static_mode():
            raise ValueError("amp.decorate requires dygraph mode: call paddle.disable_static() first")
        if _current_expected_place().is_gpu_place():
            raise NotImplementedError(
                "amp.decorate: level O2, parameters of low precision, is not there; pass 'O1' to it and to auto_cast"
            )
    return models if optimizers is None else (models, optimizers)
