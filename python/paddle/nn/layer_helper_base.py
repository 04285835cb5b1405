"""LayerHelperBase: creation of parameters and variables in both modes."""

from __future__ import annotations

import copy

import paddle._core as core
from paddle._basics import mode, unique_name
from paddle._basics import numpy as np
from paddle._basics.default_dtype import get_default_dtype, set_default_dtype
from paddle._basics.dtypes import VarType, dtype_is_floating
from paddle._basics.mode import in_static_mode
from paddle._programs import guards
from paddle._programs.variable import Variable, isinstance_of
from paddle.nn.initializer import base as initializer
from paddle.nn.param_attr import ParamAttr, WeightNormParamAttr
from paddle.nn.weight_norm import weight_normalized

__all__ = ["LayerHelperBase"]


class LayerHelperBase:
    """Base of layer helpers: the layer's name, its Programs, and the creation of parameters and variables.

    Args:
        name (str): prefix of the names of created variables.
        layer_type (str): the operator or layer.
    """

    def __init__(self, name, layer_type) -> None:
        self._layer_type = layer_type
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def layer_type(self) -> str:
        return self._layer_type

    @property
    def main_program(self):
        return guards.default_main_program()

    @property
    def startup_program(self):
        return guards.default_startup_program()

    @classmethod
    def set_default_dtype(cls, dtype) -> None:
        set_default_dtype(dtype)

    @classmethod
    def get_default_dtype(cls) -> str:
        return get_default_dtype()

    def to_variable(self, value, name=None):
        """A tensor from an array (dygraph only); a Variable or tensor is returned as it is."""
        if isinstance(value, np.ndarray):
            assert not in_static_mode(), "to_variable requires dygraph mode"
            return core.Tensor(value=value, name=name or "", place=mode._current_expected_place())
        if isinstance(value, core.Tensor) or isinstance_of(value, Variable):
            return value
        raise TypeError(f"to_variable: value must be an ndarray or a Variable, got {type(value)}")

    def create_parameter(
        self,
        attr,
        shape,
        dtype=None,
        is_bias=False,
        default_initializer=None,
        stop_gradient=False,
        type=VarType.LOD_TENSOR,  # noqa: A002
    ):
        """A parameter; in static mode its initializer is appended to the startup program.

        Args:
            attr (ParamAttr|str|bool|None|...): an argument of ``ParamAttr._to_attr``; False: no parameter.
            shape (sequence of int): the shape.
            dtype: the element type; None: the default type.
            is_bias (bool): selects name and default initializer (zeros; Xavier otherwise).

        Returns:
            The parameter, or None when `attr` is False.

        Raises:
            TypeError: for an integer type without an initializer.
            ValueError: in dygraph mode, if the name is taken.
        """
        attr = ParamAttr._to_attr(copy.deepcopy(attr))
        if not attr:
            return None
        dtype = dtype or self.get_default_dtype()
        default_initializer = _global_initializer(is_bias) or default_initializer
        if attr.name is None:
            attr.name = unique_name.generate(f"{self.name}.{'b' if is_bias else 'w'}")
        if default_initializer is None and attr.initializer is None:
            if not dtype_is_floating(dtype):
                raise TypeError(
                    "create_parameter: the default initializer needs a float dtype; pass default_initializer for others"
                )
            if is_bias:
                attr._set_default_bias_initializer()
            else:
                attr._set_default_param_initializer()
        else:
            attr._set_default_initializer(default_initializer)

        if isinstance(attr, WeightNormParamAttr):
            param = weight_normalized(self, attr, shape, dtype)
            WeightNormParamAttr.params_with_weight_norm.append(param)
            return param
        main = self.main_program.global_block()
        if not in_static_mode():
            if unique_name.dygraph_parameter_name_checker(attr.name):
                raise ValueError(
                    f"parameter name '{attr.name}' is taken: it must be unique outside a Program; check the ParamAttr "
                    "given to create_parameter or to the layer"
                )
            return main.create_parameter(
                dtype=dtype, shape=shape, type=type, stop_gradient=stop_gradient, **attr._to_kwargs(True)
            )
        self.startup_program.global_block().create_parameter(
            dtype=dtype, shape=shape, type=type, **attr._to_kwargs(with_initializer=True)
        )
        return main.create_parameter(dtype=dtype, shape=shape, type=type, **attr._to_kwargs())

    def create_variable_for_type_inference(self, dtype, stop_gradient=False):
        """A variable for an operator's output; shape and type are inferred when the operator is appended."""
        return self.main_program.current_block().create_var(
            name=unique_name.generate_with_ignorable_key(f"{self.name}.tmp"),
            dtype=dtype or self.get_default_dtype(),
            type=VarType.LOD_TENSOR,
            persistable=False,
            stop_gradient=stop_gradient,
        )

    def create_variable(self, *args, **kwargs):
        """A variable of the current block."""
        return self.main_program.current_block().create_var(*args, **kwargs)

    def create_global_variable(self, persistable=False, *args, **kwargs):
        """A variable of the global block."""
        return self.main_program.global_block().create_var(*args, persistable=persistable, **kwargs)

    def create_or_get_global_variable(self, name, *args, **kwargs):
        """(the global variable `name`, whether it was created by this call)."""
        block = self.main_program.global_block()
        if block.has_var(name):
            return block.var(name), False
        return self.create_global_variable(*args, name=name, **kwargs), True

    def set_variable_initializer(self, var, initializer) -> None:
        """Initialize `var`: in the startup program, or immediately in dygraph mode."""
        assert isinstance(var, Variable)
        if not in_static_mode():
            initializer(var, self.main_program.global_block())
            return
        self.startup_program.global_block().create_var(
            name=var.name, type=var.type, dtype=var.dtype, shape=var.shape, persistable=True, initializer=initializer
        )


def _global_initializer(is_bias: bool):
    """The initializer set by `set_global_initializer`, or None."""
    ask = initializer._global_bias_initializer if is_bias else initializer._global_weight_initializer
    return ask()
