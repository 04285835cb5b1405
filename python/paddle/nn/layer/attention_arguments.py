"""Arguments of the transformer layers, converted: parameter attributes and attention masks."""

from __future__ import annotations

import copy
from typing import Any

from paddle import _ops
from paddle._basics.dtypes import VarType, convert_dtype, convert_np_dtype_to_dtype_
from paddle.nn.param_attr import ParamAttr

__all__: list[str] = []


def _convert_param_attr_to_list(param_attr: Any, n: int) -> list[Any]:
    """One ParamAttr (or False) for each of `n` parameters; names get a suffix.

    Args:
        param_attr (ParamAttr|bool|list|tuple): one for all, or one for each.
        n (int): number of parameters.
    """
    if isinstance(param_attr, (list, tuple)):
        assert len(param_attr) == n, f"a list or tuple of param_attr must have {n} entries"
        return [ParamAttr._to_attr(None if attr is True else attr) for attr in param_attr]
    one = ParamAttr._to_attr(None if param_attr is True else param_attr)
    if one is False:
        return [False] * n
    made = []
    for i in range(n):
        own = copy.deepcopy(one)
        if own.name:
            own.name = f"{own.name}_{i}"
        made.append(own)
    return made


def _convert_attention_mask(attn_mask: Any, dtype: Any) -> Any:
    """The term that an attention mask adds to the scores: of bool or integers, 0 where it is true and -1e9 elsewhere.

    A mask of floats is that term itself. (2.1 defines this function; packages written for 2.0 import it.)

    Args:
        attn_mask (Tensor|None): the mask.
        dtype: the element type of the scores.
    """
    if attn_mask is None:
        return None
    wanted = dtype if isinstance(dtype, VarType) else convert_np_dtype_to_dtype_(dtype)
    if attn_mask.dtype == wanted:
        return attn_mask
    kind = convert_dtype(attn_mask.dtype)
    term = _ops.cast(attn_mask, in_dtype=attn_mask.dtype, out_dtype=wanted)
    return (term - 1.0) * 1e9 if kind == "bool" or "int" in kind else term
