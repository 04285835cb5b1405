"""Element types as attributes of `paddle`: the VarTypes, which equal their names and numpy's types."""

from __future__ import annotations

from paddle._basics.dtypes import VarType

__all__: list[str] = []

dtype = VarType
bool = VarType.BOOL  # noqa: A001 (Paddle's name)
bfloat16, float16, float32, float64 = VarType.BF16, VarType.FP16, VarType.FP32, VarType.FP64
int8, int16, int32, int64, uint8 = VarType.INT8, VarType.INT16, VarType.INT32, VarType.INT64, VarType.UINT8
complex64, complex128 = VarType.COMPLEX64, VarType.COMPLEX128


class AbsentType:
    """An element type of later versions that no tensor has here: packages use it as a key of their tables.

    Functions that take types raise TypeError for it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"paddle.{self.name}"


float8_e4m3fn, float8_e5m2 = AbsentType("float8_e4m3fn"), AbsentType("float8_e5m2")
