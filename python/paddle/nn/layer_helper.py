"""LayerHelper: creates parameters and appends operators for the layer functions of fluid."""

from __future__ import annotations

import copy

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.dtypes import dtype_is_floating
from paddle._basics.mode import in_static_mode
from paddle._programs.variable import Parameter
from paddle.nn.initializer.base import Constant, Xavier
from paddle.nn.layer_helper_base import LayerHelperBase
from paddle.nn.param_attr import ParamAttr

__all__ = ["LayerHelper"]


class LayerHelper(LayerHelperBase):
    """Helps a layer function to build its operators; `kwargs` are the arguments of that function.

    Args:
        layer_type (str): prefix of the layer's name if `name` is None.
        **kwargs: `name`, `input`, `param_attr`, `bias_attr`, `act` and `use_cudnn` are used.

    Examples:
        >>> import paddle
        >>> from paddle.fluid.layer_helper import LayerHelper
        >>> LayerHelper("fc", name="my_fc").name
        'my_fc'
    """

    def __init__(self, layer_type, **kwargs) -> None:
        self.kwargs = kwargs
        if kwargs.get("name") is None:
            kwargs["name"] = unique_name.generate(layer_type)
        super().__init__(kwargs["name"], layer_type=layer_type)

    def append_op(self, *args, **kwargs):
        """Append an operator to the current block."""
        return self.main_program.current_block().append_op(*args, **kwargs)

    def multiple_input(self, input_param_name="input") -> list:
        """The inputs as a list."""
        inputs = self.kwargs.get(input_param_name, [])
        if not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        return [self.to_variable(x) for x in inputs]

    def input(self, input_param_name="input"):
        """The only input; ValueError when there are several."""
        inputs = self.multiple_input(input_param_name)
        if len(inputs) != 1:
            raise ValueError(f"a layer {self.layer_type} has one input")
        return inputs[0]

    @property
    def param_attr(self):
        return ParamAttr._to_attr(self.kwargs.get("param_attr"))

    @property
    def bias_attr(self):
        return ParamAttr._to_attr(self.kwargs.get("bias_attr"))

    def multiple_param_attr(self, length: int) -> list:
        """One ParamAttr for each of `length` inputs; a single one is copied."""
        attrs = self.param_attr
        if not isinstance(attrs, list):
            attrs = [attrs]
        if len(attrs) != 1 and len(attrs) != length:
            raise ValueError("parameter number mismatch")
        if len(attrs) == 1 and length != 1:
            attrs = [copy.deepcopy(attrs[0]) for _ in range(length)]
        return attrs

    def iter_inputs_and_params(self, input_param_name="input"):
        """Pairs of input and ParamAttr."""
        inputs = self.multiple_input(input_param_name)
        yield from zip(inputs, self.multiple_param_attr(len(inputs)), strict=False)

    def input_dtype(self, input_param_name="input"):
        """The element type of the inputs; ValueError if they differ."""
        dtype = None
        for x in self.multiple_input(input_param_name):
            if dtype is None:
                dtype = x.dtype
            elif dtype != x.dtype:
                raise ValueError(f"the inputs differ in dtype: {dtype} and {x.dtype}")
        return dtype

    def get_parameter(self, name):
        """The parameter `name` of the main program; ValueError if there is none."""
        param = self.main_program.global_block().var(name)
        if not isinstance(param, Parameter):
            raise ValueError(f"the Program has no parameter '{name}'")
        return param

    def append_bias_op(self, input_var, dim_start=1, dim_end=None):
        """`input_var` plus a bias of shape ``input_var.shape[dim_start:dim_end]``, unless bias_attr is False."""
        bias_attr = self.bias_attr
        if not bias_attr:
            return input_var
        size = list(input_var.shape[dim_start:dim_end])
        bias = self.create_parameter(attr=bias_attr, shape=size, dtype=input_var.dtype, is_bias=True)
        return self._one("elementwise_add", {"X": [input_var], "Y": [bias]}, {"axis": dim_start})

    def append_activation(self, input_var):
        """The activation named by the argument `act` applied to `input_var`; `input_var` if there is none."""
        act = self.kwargs.get("act")
        if act is None:
            return input_var
        if not isinstance(act, str):
            raise TypeError(f"{act} should be a str")
        attrs = {"use_cudnn": True} if self.kwargs.get("use_cudnn") else {}
        return self._one(act, {"X": [input_var]}, attrs)

    def _one(self, op_type, inputs, attrs):
        """The output ``Out`` of a new operator."""
        if not in_static_mode():
            arguments = [v[0] for v in inputs.values()]
            return getattr(_ops, op_type)(*arguments, **attrs)
        out = self.create_variable_for_type_inference(dtype=inputs["X"][0].dtype)
        self.append_op(type=op_type, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
        return out

    def _get_default_initializer(self, dtype):
        return Xavier() if dtype is None or dtype_is_floating(dtype) else Constant()

    def is_instance(self, param_name, cls) -> None:
        """TypeError unless the argument `param_name` is of the type `cls`."""
        if not isinstance(self.kwargs.get(param_name), cls):
            raise TypeError(f"{self.layer_type}: {param_name} must be a {cls.__name__}")
