"""Base classes of initializers: each prepends one operator that fills a parameter to a block.

In dygraph mode the operator runs at once. Operators and attributes are those of 2.0.2, so that a seed gives the same
values.
"""

from __future__ import annotations

from typing import Any

from paddle._basics import numpy as np
from paddle._basics import unique_name
from paddle._basics.checks import check_type
from paddle._basics.dtypes import VarType, convert_dtype
from paddle._basics.element_types import HALF_FLOATS
from paddle._basics.mode import in_static_mode
from paddle._programs.block import Block
from paddle._programs.guards import default_main_program
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype

__all__ = [
    "Constant",
    "Uniform",
    "Normal",
    "TruncatedNormal",
    "Xavier",
    "Bilinear",
    "MSRA",
    "ConstantInitializer",
    "UniformInitializer",
    "NormalInitializer",
    "TruncatedNormalInitializer",
    "XavierInitializer",
    "BilinearInitializer",
    "MSRAInitializer",
    "NumpyArrayInitializer",
    "set_global_initializer",
]


_global_weight_initializer_: Initializer | None = None
_global_bias_initializer_: Initializer | None = None


class Initializer:
    """Base of all initializers: `init(var, block)` adds the operator that fills `var` to `block` and returns it.

    `block` may be omitted in dygraph mode only.
    """

    def __call__(self, param: Any, block: Any = None) -> Any:
        """Fills `param`; implemented by subclasses."""
        raise NotImplementedError(f"'__call__' not implement in class {type(self).__name__}")

    def _check_block(self, block: Any) -> Any:
        if block is None:
            if in_static_mode():
                raise ValueError("Initializer: block is needed while a Program is built")
            block = default_main_program().global_block()
        assert isinstance(block, Block), f"block must be a Block, but got {type(block)}"
        return block

    def _compute_fans(self, var: Any) -> tuple[int, int]:
        """(fan_in, fan_out) of the layer with weight `var`: inputs per output and outputs per input."""
        shape = var.shape
        if not shape:
            return 1, 1
        if len(shape) == 1:
            return shape[0], shape[0]
        if len(shape) == 2:
            return shape[0], shape[1]
        # A convolution filter: [output channels, input channels, window...]
        window = int(np.prod(shape[2:]))
        return shape[1] * window, shape[0] * window

    def _fill(
        self,
        var: Any,
        block: Any,
        op: str,
        attrs: dict[str, Any],
        *,
        label: str,
        through_float: tuple[str, ...] = ("float16",),
        at_head: bool = True,
    ) -> Any:
        """Adds `op` to the block; unsupported element types use a float32 variable `label` and a cast."""
        cast = convert_dtype(var.dtype) in through_float
        if cast:
            dtype = VarType.FP32
            out = block.create_var(
                name=unique_name.generate(f"{label}.{var.name}.tmp"), shape=var.shape, dtype=dtype, persistable=False
            )
        else:
            dtype, out = var.dtype, var
        attrs = {"shape": list(var.shape), "dtype": dtype, **attrs}
        # Prepended, as in 1.8 and 2.0, so that a seed of the global generator gives the same values. (Parameters of a
        # Program are therefore drawn in reverse order, unlike those of dygraph mode.)
        put = block._prepend_op if at_head else block.append_op
        made = put(type=op, inputs={}, outputs={"Out": out}, attrs=attrs, stop_gradient=True)
        if cast:
            block.append_op(
                type="cast",
                inputs={"X": out},
                outputs={"Out": var},
                attrs={"in_dtype": dtype, "out_dtype": var.dtype},
            )
        if in_static_mode():
            var.op = made
        return made


class _Filling(Initializer):
    """Base of the initializers below: argument checks, then `_put` adds the operator."""

    # Name in messages of the element type check; None: no check.
    _for_op: str | None = None

    def __call__(self, var: Any, block: Any = None) -> Any:
        """Fills `var` and returns the operator."""
        block = self._check_block(block)
        if self._for_op is not None:
            check_variable_and_dtype(var, "Out", HALF_FLOATS, self._for_op)
        assert isinstance(var, Variable), f"var must be a Variable, but got {type(var)}"
        return self._put(var, block)

    def _put(self, var: Any, block: Any) -> Any:
        raise NotImplementedError(f"'_put' not implement in class {type(self).__name__}")


class _Random(_Filling):
    """An initializer with a seed: 0 selects the Program's seed, or the global generator if that is 0 too."""

    def __init__(self, seed: int) -> None:
        assert seed is not None
        super().__init__()
        self._seed = seed

    def _seed_for(self, block: Any) -> int:
        # Stored, as in 2.0.2: a second parameter gets the same seed as the first one.
        if self._seed == 0:
            self._seed = block.program.random_seed
        return self._seed

    def _uniform(self, var: Any, block: Any, low: float, high: float, label: str, **more: Any) -> Any:
        attrs = {"min": low, "max": high, "seed": self._seed_for(block), **more}
        return self._fill(var, block, "uniform_random", attrs, label=label)

    def _normal(self, var: Any, block: Any, std: float, label: str, mean: float = 0.0, **more: Any) -> Any:
        attrs = {"mean": mean, "std": std, "seed": self._seed_for(block), **more}
        return self._fill(var, block, "gaussian_random", attrs, label=label)


class ConstantInitializer(_Filling):
    """Every element is `value`; parameters of any element type."""

    def __init__(self, value: float = 0.0, force_cpu: bool = False) -> None:
        assert value is not None
        super().__init__()
        self._value = value
        self._force_cpu = force_cpu

    def _put(self, var: Any, block: Any) -> Any:
        attrs = {"value": float(self._value), "force_cpu": self._force_cpu}
        return self._fill(var, block, "fill_constant", attrs, label="constant_init")


class UniformInitializer(_Random):
    """Uniform in [low, high); if `diag_num` > 0, that many diagonal elements, `diag_step` apart, are `diag_val`."""

    _for_op = "uniform_random"

    def __init__(
        self,
        low: float = -1.0,
        high: float = 1.0,
        seed: int = 0,
        diag_num: int = 0,
        diag_step: int = 0,
        diag_val: float = 1.0,
    ) -> None:
        assert low is not None
        assert high is not None
        assert high >= low
        assert diag_num is not None
        assert diag_step is not None
        assert diag_val is not None
        if diag_num > 0 or diag_step > 0:
            assert diag_num > 0 and diag_step > 0
        super().__init__(seed)
        self._low = low
        self._high = high
        self._diag_num = diag_num
        self._diag_step = diag_step
        self._diag_val = diag_val

    def _put(self, var: Any, block: Any) -> Any:
        diagonal = {"diag_num": self._diag_num, "diag_step": self._diag_step, "diag_val": self._diag_val}
        return self._uniform(var, block, self._low, self._high, "uniform_random", **diagonal)


class _Gaussian(_Random):
    """A normal distribution with mean `loc` and standard deviation `scale`."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        assert loc is not None
        assert scale is not None
        super().__init__(seed)
        self._mean = loc
        self._std_dev = scale


class NormalInitializer(_Gaussian):
    """Normal with mean `loc` and standard deviation `scale`."""

    _for_op = "guassian_random"

    def _put(self, var: Any, block: Any) -> Any:
        return self._normal(var, block, self._std_dev, "gaussian_random", mean=self._mean, use_mkldnn=False)


class TruncatedNormalInitializer(_Gaussian):
    """Normal with mean `loc` and standard deviation `scale`, redrawn beyond two standard deviations."""

    def _put(self, var: Any, block: Any) -> Any:
        attrs = {"mean": self._mean, "std": self._std_dev, "seed": self._seed_for(block)}
        return self._fill(var, block, "truncated_gaussian_random", attrs, label="truncated_gaussian_random")


class _Fans(_Random):
    """Uniform within sqrt(6 / n), or normal with deviation sqrt(2 / n), for a fan `n`."""

    def __init__(self, uniform: bool, seed: int) -> None:
        assert uniform is not None
        super().__init__(seed)
        self._uniform_values = uniform

    def _spread(self, var: Any, block: Any, n: float, label: str) -> Any:
        if self._uniform_values:
            limit = float(np.sqrt(6.0 / n))
            return self._uniform(var, block, -limit, limit, label)
        return self._normal(var, block, float(np.sqrt(2.0 / n)), label)


class XavierInitializer(_Fans):
    """Glorot initialization: uniform within sqrt(6 / (fan_in + fan_out)), or normal with standard deviation
    sqrt(2 / (fan_in + fan_out)).

    The fans are computed from the variable's shape unless given.
    """

    _for_op = "xavier_init"

    def __init__(
        self, uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0
    ) -> None:
        super().__init__(uniform, seed)
        self._fan_in = fan_in
        self._fan_out = fan_out

    def _put(self, var: Any, block: Any) -> Any:
        f_in, f_out = self._compute_fans(var)
        fan_in = f_in if self._fan_in is None else self._fan_in
        fan_out = f_out if self._fan_out is None else self._fan_out
        return self._spread(var, block, float(fan_in + fan_out), "xavier_init")


class MSRAInitializer(_Fans):
    """Kaiming initialization: uniform within sqrt(6 / fan_in), or normal with standard deviation sqrt(2 / fan_in).

    The fan is computed from the variable's shape unless given.
    """

    def __init__(self, uniform: bool = True, fan_in: float | None = None, seed: int = 0) -> None:
        super().__init__(uniform, seed)
        self._fan_in = fan_in

    def _put(self, var: Any, block: Any) -> Any:
        fan_in = self._compute_fans(var)[0] if self._fan_in is None else self._fan_in
        return self._spread(var, block, float(fan_in), "masra_init")


class BilinearInitializer(Initializer):
    """Weights of a transposed convolution that interpolates bilinearly: a filter of shape [C, K, S, S]."""

    def __call__(self, var: Any, block: Any = None) -> Any:
        """Fills `var`, float32 (or float16, float64), and returns the operator.

        Raises ValueError for another shape or more than 2**20 elements, TypeError for another element type.
        """
        if not isinstance(var, Variable):
            raise ValueError("Bilinear: var must be a Variable of a Program")
        block = self._check_block(block)
        shape = list(var.shape)
        if len(shape) != 4:
            raise ValueError("Bilinear: the shape must have 4 dimensions")
        if shape[2] != shape[3]:
            raise ValueError("Bilinear: the last two sizes of the shape must be equal")
        if convert_dtype(var.dtype) not in HALF_FLOATS:
            raise TypeError(f"Unsupported dtype {var.dtype}")
        if int(np.prod(shape)) > 1024 * 1024:
            raise ValueError("Bilinear: more than 1024 * 1024 elements cannot be an attribute of an operator")
        values = _bilinear(shape).tolist()
        return self._fill(
            var,
            block,
            "assign_value",
            {"fp32_values": values},
            label="bilinear_init",
            through_float=("float16", "float64"),
            at_head=False,
        )


def _bilinear(shape: list[int]) -> np.ndarray:
    size = shape[3]
    factor = np.ceil(size / 2.0)
    center = (2 * factor - 1 - factor % 2) / (2.0 * factor)
    index = np.arange(int(np.prod(shape)))
    x = index % size
    # A fraction, as in 2.0.2: models trained with it start from these weights.
    y = (index / size) % size
    return ((1 - abs(x / factor - center)) * (1 - abs(y / factor - center))).astype("float32")


class NumpyArrayInitializer(_Filling):
    """The elements of a given ndarray, for a float32, float16 or int32 parameter (ValueError for another)."""

    def __init__(self, value: np.ndarray) -> None:
        assert isinstance(value, np.ndarray)
        super().__init__()
        self._value = value

    def _put(self, var: Any, block: Any) -> Any:
        dtype = convert_dtype(var.dtype)
        if dtype in ("float16", "float32"):
            values = {"fp32_values": self._value.astype("float32").ravel().tolist()}
        elif dtype == "int32":
            values = {"int32_values": self._value.astype("int32").ravel().tolist()}
        else:
            raise ValueError(f"Unsupported dtype {self._value.dtype}")
        if self._value.size > 1024 * 1024 * 1024:
            raise ValueError(
                "Initializer: an array of more than 1024 * 1024 * 1024 elements cannot be an attribute; save it and "
                "read it with load"
            )
        attrs = {"shape": list(self._value.shape), **values}
        return self._fill(var, block, "assign_value", attrs, label="numpy_array_init")


def set_global_initializer(weight_init: Initializer | None, bias_init: Initializer | None = None) -> None:
    """Sets the default initializers of parameters created from now on; None resets them.

    Examples:
        >>> import paddle
        >>> paddle.nn.initializer.set_global_initializer(paddle.nn.initializer.Constant(2.0))
        >>> paddle.nn.Linear(1, 1).weight.numpy().tolist()
        [[2.0]]
        >>> paddle.nn.initializer.set_global_initializer(None)
    """
    global _global_weight_initializer_, _global_bias_initializer_
    check_type(weight_init, "weight_init", (Initializer, type(None)), "set_global_initializer")
    check_type(bias_init, "bias_init", (Initializer, type(None)), "set_global_initializer")
    _global_weight_initializer_ = weight_init
    _global_bias_initializer_ = bias_init


def _global_weight_initializer() -> Initializer | None:
    return _global_weight_initializer_


def _global_bias_initializer() -> Initializer | None:
    return _global_bias_initializer_


Constant = ConstantInitializer
Uniform = UniformInitializer
Normal = NormalInitializer
TruncatedNormal = TruncatedNormalInitializer
Xavier = XavierInitializer
MSRA = MSRAInitializer
Bilinear = BilinearInitializer
