"""coalesce_tensor: tensors in one block of memory. The outputs have memory of their own, as their elements are separate
from the block's after the next write on the CPU, too."""

from __future__ import annotations

import math
from collections.abc import Callable

from .. import strided
from ..call import Call, Declined, Rows, Shape, same_dtype

#: alignment of a tensor in the block, in bytes
_ALIGN = 4096


def _coalesce(call: Call) -> dict:
    parts, a = call.ins["Input"], call.attrs
    # The variables' names, and the previous elements of Output, are those of the engine.
    if a["check_name"] or (a["persist_output"] and not a["copy_data"] and not a["set_constant"]):
        raise Declined
    if not parts or any(p is None or isinstance(p, (Rows, Shape)) for p in parts):
        raise Declined
    same_dtype(*parts)
    dtype = parts[0].dtype
    unit = _ALIGN // dtype.itemsize if a["use_align"] else 1
    sizes = [-(-p.size // unit) * unit for p in parts]
    value = a["constant"] if a["set_constant"] and not a["copy_data"] else 0
    if value and call._rule["FusedOutput"][1] == "bfloat16":
        raise Declined  # uint16 holds bits
    fused, made, at = strided.full(call, (sum(sizes),), dtype, value), [], 0
    for p, size in zip(parts, sizes, strict=True):
        if a["copy_data"]:
            strided.move(call, p, fused, (p.size,), (1,), (1,), to=at)
        made.append(strided.gathered(call, fused, (math.prod(p.shape),), (1,), at).reshape(p.shape))
        at += size
    return {"Output": made, "FusedOutput": fused}


LAUNCHERS: dict[str, Callable[[Call], dict]] = {"coalesce_tensor": _coalesce}
