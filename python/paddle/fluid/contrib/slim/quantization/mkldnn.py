"""Passes for oneDNN's int8 kernels, which are not implemented: their constructors raise."""

from __future__ import annotations

from typing import NoReturn

from paddle._basics.missing import OperatorMissing

__all__ = ["Quant2Int8MkldnnPass", "QuantInt8MkldnnPass"]


class QuantInt8MkldnnPass:
    """Not implemented: requires oneDNN's int8 operators.

    Raises:
        OperatorMissing: always.
    """

    def __init__(self, _scope=None, _place=None) -> None:
        _refuse(type(self).__name__)


class Quant2Int8MkldnnPass:
    """Not implemented: requires oneDNN's int8 operators.

    Raises:
        OperatorMissing: always.
    """

    def __init__(
        self, _ops_to_quantize, _op_ids_to_skip=None, _scope=None, _place=None, _core=None, _debug=False
    ) -> None:
        _refuse(type(self).__name__)


def _refuse(name: str) -> NoReturn:
    raise OperatorMissing(
        f"{name} needs oneDNN's int8 kernels and native passes, which are not implemented; a Program "
        "rewritten by QuantizationFreezePass runs without them"
    )
