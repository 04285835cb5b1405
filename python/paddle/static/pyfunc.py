"""py_func and Print: operators that call a Python function or print a tensor."""

from __future__ import annotations

import inspect

import numpy as np

import paddle._core as core
from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.element_types import BOOL_NUMERIC
from paddle._basics.mode import static_only
from paddle._basics.place import CPUPlace
from paddle._dispatch.append import named
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.layer_helper import LayerHelper

__all__ = ["py_func", "Print"]


class PyFuncRegistry:
    """A Python function that an operator calls by number."""

    _register_funcs: list[PyFuncRegistry] = []

    def __init__(self, func) -> None:
        if func is None or not callable(func):
            raise TypeError("py_func: func must be callable")
        self._func = func
        try:
            parameters = inspect.signature(func).parameters.values()
            self._takes_nothing = not parameters
        except (TypeError, ValueError):  # some builtins have no signature
            self._takes_nothing = False
        self._id = core._append_python_callable_object_and_return_id(self)
        PyFuncRegistry._register_funcs.append(self)

    @classmethod
    def registered_func(cls, idx):
        """The function registered with the number `idx`."""
        return cls._register_funcs[idx]._func

    @classmethod
    def registered_func_num(cls) -> int:
        """The number of registered functions."""
        return len(cls._register_funcs)

    @property
    def id(self) -> int:
        return self._id

    def __call__(self, *args) -> tuple:
        results = self._func() if self._takes_nothing else self._func(*args)
        if not isinstance(results, (list, tuple)):
            results = (results,)
        return tuple(_as_tensor(r) for r in results)


def _as_tensor(value):
    if value is None or isinstance(value, core.LoDTensor):
        return value
    tensor = core.LoDTensor()
    tensor.set(np.asarray(value), CPUPlace())
    return tensor


def _variables(value, name: str) -> list:
    check_type(value, name, (list, tuple, Variable, type(None)), "py_func")
    if value is None:
        return []
    return [value] if isinstance(value, Variable) else list(value)


@static_only
def py_func(func, x, out, backward_func=None, skip_vars_in_backward_input=None):
    """An operator that calls a Python function on LoDTensors.

    Args:
        func (callable): takes the inputs as LoDTensors, returns arrays or LoDTensors for the outputs.
        x (Variable|list|tuple|None): inputs.
        out (Variable|list|tuple|None): outputs, created by the caller with their shapes and types.
        backward_func (callable, optional): takes inputs, outputs and gradients of outputs; returns gradients of inputs.
        skip_vars_in_backward_input (Variable|list, optional): inputs and outputs not passed to `backward_func`.

    Returns:
        `out`.

    Raises:
        TypeError: for other types. ValueError: for outputs without a shape, or unknown variables to skip.
    """
    inputs, outputs = _variables(x, "X"), _variables(out, "Out")
    forward = PyFuncRegistry(func).id
    backward = -1 if backward_func is None else PyFuncRegistry(backward_func).id
    for var in outputs:
        if len(var.shape) == 0:
            raise ValueError("py_func: every out must have a shape")
    skipped: list[str] = []
    if backward_func is not None and skip_vars_in_backward_input is not None:
        known = {v.name for v in (*inputs, *outputs)}
        for var in _variables(skip_vars_in_backward_input, "skip_vars_in_backward_input"):
            if var.name not in known:
                raise ValueError(f"py_func: {var.name} is neither an input nor an output of the forward function")
            skipped.append(var.name)
    LayerHelper("py_func").append_op(
        type="py_func",
        inputs={"X": inputs},
        outputs={"Out": outputs},
        attrs={
            "forward_callable_id": forward,
            "backward_callable_id": backward,
            "backward_skip_vars": list(dict.fromkeys(skipped)),
        },
    )
    return out


def Print(  # noqa: N802 (Paddle's name)
    input,  # noqa: A002
    first_n=-1,
    message=None,
    summarize=20,
    print_tensor_name=True,
    print_tensor_type=True,
    print_tensor_shape=True,
    print_tensor_layout=True,
    print_tensor_lod=True,
    print_phase="both",
):
    """Print a tensor, and its gradient, each time it is computed.

    Args:
        input (Variable): what to print.
        first_n (int): the number of prints, -1: unlimited.
        message (str, optional): prefix of the output.
        summarize (int): the number of elements, -1: all.
        print_phase (str): "forward", "backward" or "both".

    Returns:
        Variable: with the same value; it prints only when the operator runs.
    """
    check_variable_and_dtype(input, "input", BOOL_NUMERIC, "fluid.layers.Print")
    helper = LayerHelper(f"print_{input.name}")
    return named(
        helper.name,
        _ops.print,
        input,
        first_n=first_n,
        summarize=summarize,
        message=message or "",
        print_tensor_name=print_tensor_name,
        print_tensor_type=print_tensor_type,
        print_tensor_shape=print_tensor_shape,
        print_tensor_layout=print_tensor_layout,
        print_tensor_lod=print_tensor_lod,
        print_phase=print_phase.upper(),
    )
