"""`paddle.autograd.PyLayer` of Paddle 2.1 to 2.6: an operation whose gradient is a Python function."""

from __future__ import annotations

from typing import Any, NoReturn

import paddle
import paddle._core as _core
from paddle._basics.mode import in_static_mode
from paddle._dispatch.dygraph import no_grad_

__all__: list[str] = []


class PyLayerContext:
    """What the forward of one call keeps for its backward; attributes may be set freely."""

    def __init__(self) -> None:
        self._saved: tuple = ()
        self._constant: tuple = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps Tensors for `backward`.

        Args:
            tensors (Tensor|None): inputs, outputs or others.

        Examples:
            >>> import paddle
            >>> context = paddle.autograd.PyLayerContext()
            >>> context.save_for_backward(paddle.ones([1]))
            >>> len(context.saved_tensor())
            1
        """
        self._saved = tensors

    def saved_tensor(self) -> tuple:
        """The Tensors that `save_for_backward` keeps."""
        return self._saved

    def mark_not_inplace(self, *tensors: Any) -> None:
        """Without effect: an input that is returned becomes a new Tensor in any case."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """No gradients flow from these outputs.

        Args:
            tensors (Tensor): outputs of `forward`.
        """
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (the default) or None for outputs that no gradient arrived at."""
        self._materialize = bool(value)


def _refuse(layer: type, method: str) -> NoReturn:
    raise NotImplementedError(f"PyLayer: {layer.__name__} must define the static method {method}(ctx, *args)")


class PyLayer:
    """Base of operations with gradients of their own: a subclass defines the static methods `forward` and `backward`.

    Dygraph mode only. There is no second gradient.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.6/api/paddle/autograd/PyLayer_en.html

    Examples:
        >>> import paddle
        >>> class Cube(paddle.autograd.PyLayer):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         x, = ctx.saved_tensor()
        ...         return 3 * x * x * grad
        >>> x = paddle.to_tensor([2.0], stop_gradient=False)
        >>> Cube.apply(x).backward()
        >>> x.grad.tolist()
        [12.0]
    """

    @staticmethod
    def forward(ctx: PyLayerContext, *args: Any, **kwargs: Any) -> Any:
        """Computes the outputs, without gradients.

        Args:
            ctx (PyLayerContext): shared with `backward`.
            args, kwargs: the arguments of `apply`.

        Returns:
            Tensor|list|tuple: Tensors (at least one) and other values.
        """
        raise NotImplementedError("PyLayer: a subclass must define the static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: PyLayerContext, *args: Any) -> Any:
        """Computes the gradients of the inputs.

        Args:
            ctx (PyLayerContext): that of `forward`.
            args (Tensor): the gradient of each Tensor that `forward` returned.

        Returns:
            Tensor|None|list|tuple: one for each Tensor among the arguments of `forward`.
        """
        raise NotImplementedError("PyLayer: a subclass must define the static method backward(ctx, *args)")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Calls `forward` and records `backward` as the gradient.

        Raises:
            NotImplementedError: in static mode (also in functions that `paddle.jit.to_static` translates), and where
                the class has no `forward` or `backward`.
            TypeError: when `forward` returns no Tensor.
            ValueError: in backward, for another number of gradients than Tensor arguments.
        """
        if in_static_mode():
            raise NotImplementedError(
                f"PyLayer: {cls.__name__}.apply runs in dygraph mode only; in a Program, also of "
                "paddle.jit.to_static, use paddle.static.py_func"
            )
        for method in ("forward", "backward"):
            if getattr(cls, method) is getattr(PyLayer, method):
                _refuse(cls, method)
        context = PyLayerContext()
        with no_grad_():
            result = cls.forward(context, *args, **kwargs)
        inputs = [v for v in (*args, *kwargs.values()) if isinstance(v, _core.Tensor)]
        listed = list(result) if isinstance(result, (list, tuple)) else [result]
        if not any(isinstance(v, _core.Tensor) for v in listed):
            kinds = ", ".join(type(v).__name__ for v in listed)
            raise TypeError(f"PyLayer: {cls.__name__}.forward must return a Tensor, or a tuple with one, got {kinds}")
        if not _core.is_grad_enabled() or all(v.stop_gradient for v in inputs):
            return result
        constant = {id(v) for v in context._constant}
        flows = [isinstance(v, _core.Tensor) and id(v) not in constant and _has_gradient(v) for v in listed]
        # Saved outputs must not own the node that owns the context; an input that is returned is a new variable.
        given = {id(v) for v in inputs}
        outputs = [v.detach() if flow and id(v) in given else v for v, flow in zip(listed, flows, strict=True)]
        made = {id(v) for v in outputs if isinstance(v, _core.Tensor)}
        context._saved = tuple(v.detach() if id(v) in made else v for v in context._saved)
        recorded = [v for v, flow in zip(outputs, flows, strict=True) if flow]
        if recorded:
            _core.record_call(inputs, recorded, _Backward(cls, context, inputs, outputs, flows))
        return (
            type(result)(outputs) if type(result) in (list, tuple) else outputs[0] if result is listed[0] else outputs
        )


def _has_gradient(tensor: Any) -> bool:
    return paddle.is_floating_point(tensor) or paddle.is_complex(tensor)  # type: ignore[operator]


class _Backward:
    """The gradients of the inputs of one call from those of the outputs through which gradients flow."""

    def __init__(self, layer: type[PyLayer], context: PyLayerContext, inputs: list, outputs: list, flows: list) -> None:
        self.layer, self.context = layer, context
        self.inputs = [(v.shape, v.dtype, v.stop_gradient) for v in inputs]
        tensors = [(v, flow) for v, flow in zip(outputs, flows, strict=True) if isinstance(v, _core.Tensor)]
        self.outputs = [(v.shape, v.dtype, flow) for v, flow in tensors]

    def __call__(self, *given: Any) -> list:
        arrived = iter(given)
        grads = [next(arrived) if flow else None for _, _, flow in self.outputs]
        name = f"{self.layer.__name__}.backward"
        with no_grad_():
            if self.context._materialize:
                shapes = zip(grads, self.outputs, strict=True)
                grads = [paddle.zeros(shape, dtype) if g is None else g for g, (shape, dtype, _) in shapes]
            result = self.layer.backward(self.context, *grads)
            result = list(result) if isinstance(result, (list, tuple)) else [result]
            if len(result) != len(self.inputs):
                raise ValueError(
                    f"PyLayer: {name} must return a gradient for each of the {len(self.inputs)} Tensor arguments of "
                    f"forward, got {len(result)}"
                )
            return [self._checked(name, i, grad) for i, grad in enumerate(result)]

    def _checked(self, name: str, i: int, grad: Any) -> Any:
        shape, dtype, stops = self.inputs[i]
        if grad is None:
            return None if stops else paddle.zeros(shape, dtype)
        if not isinstance(grad, _core.Tensor):
            raise TypeError(f"PyLayer: gradient {i} of {name} must be a Tensor or None, got {type(grad).__name__}")
        if not stops and list(grad.shape) != list(shape):
            raise ValueError(
                f"PyLayer: gradient {i} of {name} must have the shape {shape} of the input, got {grad.shape}"
            )
        return grad if stops or grad.dtype == dtype else grad.astype(dtype)
