"""fluid.dygraph_utils: bias and activation after a Layer's operator in dygraph mode."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.mode import dygraph_only

__all__: list[str] = []


@dygraph_only
def _append_activation_in_dygraph(
    input: Any,  # noqa: A002
    act: str | None = None,
    use_cudnn: bool | None = None,
    use_mkldnn: bool | None = None,
) -> Any:
    """The activation operator `act` of `input`; `input` itself for None."""
    return input if act is None else getattr(_ops, act)(input)


@dygraph_only
def _append_bias_in_dygraph(input: Any, bias: Any = None, axis: int = 1, use_mkldnn: bool = False) -> Any:  # noqa: A002
    """`input` plus `bias` along `axis`; `input` itself for None."""
    return input if bias is None else _ops.elementwise_add(input, bias, axis=axis)
