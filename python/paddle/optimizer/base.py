"""Base of the optimizers of paddle.optimizer and fluid: state, learning rate, and the update of all parameters in both
modes."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

import paddle._core as core
from paddle import _ops
from paddle._basics import mode, unique_name
from paddle._basics.default_dtype import get_default_dtype
from paddle._basics.dtypes import convert_np_dtype_to_dtype_
from paddle._basics.mode import in_static_mode
from paddle._basics.names import OP_DEVICE
from paddle._dispatch.dygraph import _record as set_recording
from paddle._programs.backward import append_backward
from paddle._programs.backward_path import _get_no_grad_set_name
from paddle._programs.guards import default_main_program, default_startup_program, program_guard
from paddle._programs.name_scope import name_scope
from paddle._programs.variable import Variable
from paddle.nn.clip import ClipGradBase, append_gradient_clip_ops, error_clip_callback
from paddle.nn.initializer.base import Constant
from paddle.nn.layer_helper import LayerHelper
from paddle.optimizer.regularization import append_regularization_ops, log_precedence

from .lr_scheduler import LRScheduler

__all__: list[str] = []

Pairs = list[tuple[Any, Any]]


def needed(error: type[Exception], **arguments: Any) -> None:
    """`error` for an argument that is None."""
    for name, value in arguments.items():
        if value is None:
            raise error(f"{name} is not set.")


def below_one(**factors: Any) -> None:
    """ValueError unless each decay rate is in [0, 1); Variables are not checked."""
    for name, value in factors.items():
        if not isinstance(value, Variable) and not 0 <= value < 1:
            raise ValueError(f"Invaild value of {name}, expect {name} in [0,1).")


@contextlib.contextmanager
def no_recording():
    """Gradients of eager calls inside are not recorded."""
    former = set_recording(False)
    try:
        yield
    finally:
        set_recording(former)


def global_var(name: str, shape: list[int], value: float, dtype: Any) -> Any:
    """A persistable variable of the global block without a gradient, set to `value` by the startup program."""
    helper = LayerHelper("global_var", name=name)
    var = helper.create_global_variable(name=name, shape=shape, dtype=dtype, persistable=True, stop_gradient=True)
    helper.set_variable_initializer(var, initializer=Constant(value=value))
    return var


def _rate_factor(param: Any) -> Any:
    """The factor of a parameter's learning rate; 1 for a Tensor that is no parameter."""
    attributes = getattr(param, "optimize_attr", None)
    return 1.0 if attributes is None else attributes["learning_rate"]


class OptimizerBase:
    """State and update passes; a subclass implements the update of one parameter.

    A subclass implements ``_append_optimize_op(block, (param, grad))``, which appends the operator (or runs it, in
    dygraph mode), and ``_create_accumulators(block, params)``. ``_update(param, grad, lr)`` is an optional faster path
    for dygraph mode.
    """

    type: str
    _learning_rate: Any
    regularization: Any
    _grad_clip: ClipGradBase | None

    def _init_eager(self, decay: Any, parameters_argument: str, decay_argument: str) -> None:
        """Checks arguments that dygraph mode requires; messages use the argument names of the caller's class."""
        if self._parameter_list is None:
            mode.choose_static()
        if in_static_mode():
            return
        if self._parameter_list is None:
            raise AttributeError(f"{parameters_argument} must be given to an Optimizer in dygraph mode")
        if decay is not None and any(getattr(p, "regularizer", None) is not None for p in self._parameter_list):
            log_precedence(decay, decay_argument)

    def _init_state(self, parameters: Any, grad_clip: Any, name: str | None) -> None:
        if grad_clip is not None and not isinstance(grad_clip, ClipGradBase):
            raise TypeError("grad_clip must be of a class that derives from GradientClipBase")
        if isinstance(parameters, (core.Tensor, str)):
            raise TypeError(f"`parameters` should be a list of Tensors, but received {type(parameters)}")
        self._parameter_list = list(parameters) if parameters is not None else None
        self._name = name
        self._grad_clip = grad_clip
        self._dtype: Any = None
        # Program (static mode) -> variable of the learning rate
        self._learning_rate_map: dict[Any, Any] = {}
        # accumulator name -> parameter name -> variable
        self._accumulators: dict[str, dict[str, Any]] = defaultdict(dict)
        self._accumulators_holder: dict[str, Any] = {}
        self._opti_name_list: list[str] = []
        self._param_device_map: dict[str, Any] = {}
        self.helper: LayerHelper | None = None
        # Dygraph: parameter id -> the parameter and its accumulators; the rate as a tensor, and its current value.
        self._kept: dict[int, tuple] = {}
        #: identities of the parameters of the last step over all at once, and their accumulators
        self._together: tuple[list[int], list[dict]] | None = None
        self._rate_tensor: Any = None
        self._rate_value: Any = None
        self._scaled_rates: dict[float, Any] = {}

    # -------------------------------------------------------------------------------------------- state

    @mode.dygraph_only
    def state_dict(self) -> dict[str, Any]:
        """The accumulators by name (the Tensors, not copies), and the scheduler's state as "LR_Scheduler".

        Examples:
            >>> import paddle
            >>> net = paddle.nn.Linear(2, 2)
            >>> paddle.optimizer.Adam(parameters=net.parameters()).state_dict()
            {}
        """
        state = {var.name: var for by_param in self._accumulators.values() for var in by_param.values()}
        if isinstance(self._learning_rate, LRScheduler):
            state["LR_Scheduler"] = self._learning_rate.state_dict()
        return state

    @mode.dygraph_only
    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict()` returned or a file contains; accumulators created later are restored, too.

        Raises:
            AssertionError: for an accumulator that is missing or has another shape or type.
            RuntimeError: for a value that is neither Tensor nor array.
        """
        if isinstance(self._learning_rate, LRScheduler):
            self._learning_rate.set_state_dict(state_dict["LR_Scheduler"])
        self._accumulators_holder = state_dict
        for by_param in self._accumulators.values():
            for var in by_param.values():
                assert var.name in state_dict, f"optimizer Tensor {var.name} not found"
                self._load(var, state_dict[var.name])

    set_dict = set_state_dict

    @staticmethod
    def _load(var: Any, value: Any) -> None:
        if isinstance(value, core.Tensor):
            value = value.numpy()
        if not isinstance(value, np.ndarray):
            raise RuntimeError(f"set_state_dict: an entry is of type {type(value)}")
        own = var.numpy()
        assert own.shape == value.shape, (
            f"set_state_dict: '{var.name}' has shape {own.shape} here, but {value.shape} in the state_dict"
        )
        assert own.dtype == value.dtype, (
            f"set_state_dict: '{var.name}' has dtype {own.dtype} here, but {value.dtype} in the state_dict"
        )
        var.set_value(value)

    def get_opti_var_name_list(self) -> list[str]:
        """The names of the accumulators created so far."""
        return self._opti_name_list

    def _add_accumulator(
        self,
        name: str,
        param: Any,
        dtype: Any = None,
        fill_value: float = 0.0,
        shape: Any = None,
        type: Any = None,  # noqa: A002
        device: str | None = None,
    ) -> Any:
        """A variable named ``<param>_<name>_<n>`` with optimizer state of `param`."""
        if self._name is not None:
            name = f"{self._name}_{name}"
        by_param = self._accumulators[name]
        if param.name in by_param:
            if not in_static_mode():
                return by_param[param.name]
            raise Exception(f"{param.name} has an accumulator {name} before this")
        assert isinstance(self.helper, LayerHelper)
        var_name = unique_name.generate(f"{param.name}_{name}")
        self._opti_name_list.append(var_name)
        var = self.helper.create_global_variable(
            name=var_name,
            persistable=True,
            dtype=dtype or param.dtype,
            type=param.type if type is None else type,
            shape=param.shape if shape is None else shape,
            belong_to_optimizer=True,
        )
        with mode.device_guard(self._get_device_for_param(param.name) if device is None else device):
            self.helper.set_variable_initializer(var, initializer=Constant(value=float(fill_value)))
        if self._accumulators_holder and not in_static_mode():
            assert var_name in self._accumulators_holder, f"set_state_dict: the state_dict lacks {var_name}"
            self._load(var, self._accumulators_holder[var_name])
        by_param[param.name] = var
        return var

    def _get_accumulator(self, name: str, param: Any) -> Any:
        if self._name is not None:
            name = f"{self._name}_{name}"
        if name not in self._accumulators or param.name not in self._accumulators[name]:
            raise Exception(f"{param.name} has no accumulator {name}")
        return self._accumulators[name][param.name]

    # ------------------------------------------------------------------------------------ learning rate

    def _rate(self) -> float:
        """The learning rate of this step as a number."""
        rate = self._learning_rate
        return rate if isinstance(rate, float) else float(rate())

    def _global_learning_rate(self, program: Any = None) -> Any:
        """The learning rate variable of `program` (default: the main one); in dygraph mode the tensor, if it exists."""
        if not in_static_mode():
            return self._rate_tensor
        return self._learning_rate_map.get(default_main_program() if program is None else program)

    def _dygraph_rate(self) -> Any:
        """The learning rate of this step as a tensor, which is updated only if the rate has changed."""
        rate = self._rate()
        if rate != self._rate_value or self._rate_tensor is None:
            dtype = convert_np_dtype_to_dtype_(self._rate_dtype())
            if self._rate_tensor is None:
                self._rate_tensor = _ops.fill_constant(shape=[1], dtype=dtype, value=rate)
                self._rate_tensor.stop_gradient = True
            else:
                _ops.fill_constant(shape=[1], dtype=self._rate_tensor.dtype, value=rate, Out=self._rate_tensor)
            self._rate_value = rate
            self._scaled_rates.clear()
        return self._rate_tensor

    def _rate_dtype(self) -> Any:
        return get_default_dtype() if self._dtype is None else self._dtype

    def _create_global_learning_rate(self) -> None:
        """Static mode: creates the learning rate variable, once per Program."""
        rate = self._learning_rate
        var = self._global_learning_rate()
        program = default_main_program()
        if isinstance(rate, LRScheduler):
            assert self.helper is not None
            if var is None:
                rate._var_name = unique_name.generate("learning_rate")
                var = self.helper.create_global_variable(
                    name=rate._var_name, shape=[1], persistable=True, stop_gradient=True, dtype=self._rate_dtype()
                )
                # The Executor reads the rate of each run here.
                program.lr_sheduler = rate  # type: ignore[attr-defined]
                program.lr_var = var  # type: ignore[attr-defined]
                self._learning_rate_map[program] = var
            self.helper.set_variable_initializer(var, initializer=Constant(value=float(rate())))
        elif var is None:
            if not isinstance(rate, float):
                raise TypeError("the learning rate is a Variable of another Program; this one cannot create its own")
            name = unique_name.generate("learning_rate")
            self._learning_rate_map[program] = global_var(name, [1], rate, self._rate_dtype())

    def _create_param_lr(self, param_and_grad: Any) -> Any:
        """The learning rate of one parameter: the optimizer's times the parameter's factor."""
        factor = _rate_factor(param_and_grad[0])
        if isinstance(factor, Variable):
            return factor
        if not in_static_mode():
            return self._scaled_rate(self._dygraph_rate(), factor)
        if factor == 1.0:
            return self._global_learning_rate()
        with default_main_program()._lr_schedule_guard(is_with_opt=True), name_scope("scale_with_param_lr"):
            return self._global_learning_rate() * factor

    def _scaled_rate(self, rate: Any, factor: Any) -> Any:
        if factor == 1.0:
            return rate
        if isinstance(factor, Variable):
            return factor
        scaled = self._scaled_rates.get(factor)
        if scaled is None:
            scaled = self._scaled_rates[factor] = _ops.scale(rate, scale=float(factor))
        return scaled

    # --------------------------------------------------------------------------------------- the passes

    def _append_optimize_op(self, block: Any, param_and_grad: tuple[Any, Any]) -> Any:
        raise NotImplementedError("Optimizer is a base class: use a subclass such as Adam")

    def _create_accumulators(self, block: Any, parameters: list[Any]) -> None:
        return None

    def _finish_update(self, block: Any, parameters_and_grads: Pairs) -> None:
        return None

    # The update method of a subclass in dygraph mode; None: `_append_optimize_op`.
    _update: Callable[[Any, Any, Any], None] | None = None

    def _gradients(self, parameters: Any) -> Pairs:
        """Dygraph: pairs of trainable parameters and their gradients."""
        pairs = []
        for param in parameters:
            if not param.stop_gradient:
                grad = param._grad_ivar()
                if grad is not None:
                    pairs.append((param, grad))
        return pairs

    def _dygraph_pass(self, pairs: Pairs) -> None:
        """Clips, decays and updates all parameters, without recording gradients."""
        if self._grad_clip is not None:
            pairs = self._grad_clip(pairs)
        if self.regularization is not None or any(getattr(p, "regularizer", None) is not None for p, _ in pairs):
            pairs = append_regularization_ops(pairs, self.regularization)
        rate = self._dygraph_rate()
        update = self._update
        if update is not None:
            if core.has_backend() and self._update_together(pairs, rate):
                return
            for param, grad in pairs:
                factor = _rate_factor(param)
                update(param, grad, rate if factor == 1.0 else self._scaled_rate(rate, factor))
            return
        block = default_main_program().global_block()
        self.helper = LayerHelper(type(self).__name__)
        self._create_accumulators(block, [p for p, _ in pairs])
        for pair in pairs:
            self._append_optimize_op(block, pair)
        self._finish_update(block, pairs)

    def _update_together(self, pairs: Pairs, rate: Any) -> bool:
        """Dygraph: updates all parameters by one launch on a device; False if that is not possible."""
        return False

    def _accumulators_of(self, param: Any) -> None:
        """Dygraph: creates the accumulators of one parameter."""
        self.helper = self.helper or LayerHelper(type(self).__name__)
        self._create_accumulators(default_main_program().global_block(), [param])

    def _create_optimization_pass(self, parameters_and_grads: Pairs) -> list[Any]:
        """Static: appends the operators of all parameters and returns them."""
        program = default_main_program()
        block, current = program.global_block(), program.current_block()
        if current.idx != block.idx:
            assert current.backward_block_idx != -1, "the current block is a sub-block without a backward block"
            block = program.blocks[current.backward_block_idx]
        start = len(block.ops)
        self.helper = LayerHelper(type(self).__name__)
        trained = [p for p, _ in parameters_and_grads if p.trainable]
        self._update_param_device_map(trained, block)
        self._create_accumulators(block, trained)
        self._create_global_learning_rate()
        for pair in parameters_and_grads:
            param, grad = pair
            if grad is None or not param.trainable:
                continue
            with (
                param.block.program._optimized_guard(pair),
                name_scope("optimizer"),
                mode.device_guard(self._get_device_for_param(param.name)),
            ):
                self._append_optimize_op(block, pair)
        self._finish_update(block, parameters_and_grads)
        return block._slice_ops(start, len(block.ops))

    def _update_param_device_map(self, params: list[Any], block: Any) -> None:
        """Assigns each parameter to the device of the first operator that reads it."""
        wanted = {p.name for p in params}
        for op in block.ops:
            device = op.attr(OP_DEVICE) if op.has_attr(OP_DEVICE) else ""
            for name in wanted.intersection(op.input_arg_names):
                wanted.discard(name)
                if device:
                    self._param_device_map[name] = device

    def _get_device_for_param(self, param_name: str) -> Any:
        return self._param_device_map.get(param_name)

    def _backward(
        self,
        loss: Any,
        startup_program: Any,
        parameters: Any,
        no_grad_set: Any,
        callbacks: Any,
        checkpoints: Any = None,
    ) -> Pairs:
        self._dtype = loss.dtype
        parameters = parameters or self._parameter_list
        if not in_static_mode():
            return self._gradients(parameters)
        if callbacks is None:
            callbacks = [error_clip_callback]
        else:
            assert isinstance(callbacks, list)
        assert len(loss.shape) == 1 and loss.shape[0] == 1, (
            f"minimize: loss must have one element (paddle.mean makes one), got shape {loss.shape}"
        )
        no_grad = self._get_no_grad_set(loss, no_grad_set)
        with program_guard(loss.block.program, startup_program):
            return append_backward(loss, parameters, no_grad, callbacks, checkpoints)

    def _get_no_grad_set(self, loss: Any, no_grad_set: Any = None) -> set[str]:
        names = _get_no_grad_set_name(no_grad_set)
        parameters = loss.block.program.global_block().all_parameters()
        names.update(p.name for p in parameters if p.trainable is False)
        return names

    def apply_gradients(self, params_grads: Pairs) -> list[Any]:
        """Appends clipping, decay and updates of the parameters to the main program (static mode).

        Args:
            params_grads: the result of `backward`.

        Returns:
            The appended update operators (empty in dygraph mode, where they run immediately).
        """
        params_grads = sorted(params_grads, key=lambda pair: pair[0].name)
        if not in_static_mode():
            with no_recording():
                self._dygraph_pass([pair for pair in params_grads if pair[1] is not None])
            return []
        if self._grad_clip is not None:
            params_grads = self._grad_clip(params_grads)
        else:
            params_grads = append_gradient_clip_ops(params_grads)
        params_grads = append_regularization_ops(params_grads, self.regularization)
        return self._create_optimization_pass(params_grads)

    def _apply_optimize(self, loss: Any, startup_program: Any, params_grads: Pairs) -> list[Any]:
        if not in_static_mode():
            with no_recording():
                self._dygraph_pass([pair for pair in params_grads if pair[1] is not None])
            return []
        with program_guard(loss.block.program, startup_program or default_startup_program()):
            return self.apply_gradients(params_grads)

    def _minimize(self, loss: Any, startup_program: Any, parameters: Any, no_grad_set: Any) -> tuple[list[Any], Pairs]:
        assert isinstance(loss, Variable), "The loss should be an Tensor."
        parameters = parameters or self._parameter_list
        params_grads = self._backward(loss, startup_program, parameters, no_grad_set, None)
        return self._apply_optimize(loss, startup_program, params_grads), params_grads

    def _clear(self) -> None:
        assert self._parameter_list is not None
        for param in self._parameter_list:
            if not param.stop_gradient:
                param.clear_gradient()
