"""`paddle.optimizer.LBFGS` of Paddle 2.5: a quasi-Newton method with a line search.

Source: Nocedal and Wright, "Numerical Optimization", algorithms 7.4, 7.5 (L-BFGS) and 3.5, 3.6 (line search).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import paddle
from paddle._basics.mode import in_static_mode
from paddle.optimizer import Optimizer

from .gradients import enable_grad

__all__: list[str] = []

#: Constants of the strong Wolfe conditions: sufficient decrease and curvature; most evaluations of one search.
_DECREASE, _CURVATURE, _MOST = 1e-4, 0.9, 25


class _Point(NamedTuple):
    """The function along the direction, at a step: its value, gradient and slope."""

    step: float
    loss: float
    grad: Any
    slope: float


def _dot(x: Any, y: Any) -> float:
    return float(paddle.sum(x * y))


def _largest(x: Any) -> float:
    return float(paddle.max(paddle.abs(x)))


def _cubic(a: _Point, b: _Point, low: float, high: float) -> float:
    """The minimum between `low` and `high` of the cubic with the values and slopes of two points."""
    a, b = (a, b) if a.step <= b.step else (b, a)
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    below = b.slope - a.slope + 2 * d2
    if below == 0:
        return (low + high) / 2
    return min(max(b.step - (b.step - a.step) * ((b.slope + d2 - d1) / below), low), high)


def _search(at: Callable[[float], _Point], start: _Point, step: float, length: float, tolerance: float) -> Any:
    """A step that satisfies the strong Wolfe conditions, or the best found.

    Args:
        at: evaluates the function at a step.
        start: the point with step 0.
        step: the first step.
        length: the largest element of the direction.
        tolerance: the search ends where the bracket moves no parameter further than this.

    Returns:
        tuple: the point, and the number of evaluations.
    """

    def too_high(point: _Point) -> bool:
        return point.loss > start.loss + _DECREASE * point.step * start.slope

    def flat(point: _Point) -> bool:
        return abs(point.slope) <= -_CURVATURE * start.slope

    before, point, tried = start, at(step), 0
    ends = [start, point]
    while tried < _MOST:
        ends = [before, point]
        if too_high(point) or (tried > 1 and point.loss >= before.loss):
            break
        if flat(point):
            return point, tried + 1
        if point.slope >= 0:
            break
        step = _cubic(before, point, point.step + 0.01 * (point.step - before.step), point.step * 10)
        before, point, tried = point, at(step), tried + 1
    else:
        ends = [start, point]

    near_an_end = False
    best = 0 if ends[0].loss <= ends[1].loss else 1
    while tried < _MOST:
        low, high = sorted(end.step for end in ends)
        if (high - low) * length < tolerance:
            break
        step, margin = _cubic(ends[0], ends[1], low, high), 0.1 * (high - low)
        if min(high - step, step - low) < margin:
            if near_an_end or step >= high or step <= low:
                step = high - margin if abs(step - high) < abs(step - low) else low + margin
                near_an_end = False
            else:
                near_an_end = True
        else:
            near_an_end = False
        point, tried = at(step), tried + 1
        if too_high(point) or point.loss >= ends[best].loss:
            ends[1 - best] = point
            best = 0 if ends[0].loss <= ends[1].loss else 1
            continue
        if flat(point):
            return point, tried + 1
        if point.slope * (ends[1 - best].step - ends[best].step) >= 0:
            ends[1 - best] = ends[best]
        ends[best] = point
    return ends[best], tried + 1


class LBFGS(Optimizer):
    """L-BFGS: steps along an approximation of the Newton direction, which the last gradients give.

    `step` takes a function that clears the gradients, computes the loss, calls `backward` and returns the loss; it is
    called several times. The data must be the same in each call.

    Args:
        learning_rate (float): the length of a step, or the first one of a line search.
        max_iter (int): iterations of a call of `step`.
        max_eval (int, optional): calls of the function in a call of `step`; 1.25 `max_iter` by default.
        tolerance_grad (float): `step` ends where no element of the gradient is larger.
        tolerance_change (float): `step` ends where the loss, or every parameter, changes by less.
        history_size (int): the number of gradients that the direction is made of.
        line_search_fn (str, optional): "strong_wolfe", or None for steps of a fixed length.
        parameters (list of Tensor): the parameters, of one data type.
        weight_decay, grad_clip: must be None: a penalty belongs to the loss.
        name (str, optional): ignored.

    Raises:
        NotImplementedError: for weight_decay and grad_clip. ValueError: for another line search.

    Examples:
        >>> import paddle
        >>> x = paddle.create_parameter([2], "float64", default_initializer=paddle.nn.initializer.Constant(3.0))
        >>> opt = paddle.optimizer.LBFGS(line_search_fn="strong_wolfe", parameters=[x])
        >>> def loss():
        ...     opt.clear_grad()
        ...     value = ((x - 1.0) ** 4).sum()
        ...     value.backward()
        ...     return value
        >>> opt.step(loss).item(), loss().item() < 1e-6
        (32.0, True)
    """

    def __init__(
        self,
        learning_rate: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        if weight_decay is not None or grad_clip is not None:
            raise NotImplementedError(
                "LBFGS: weight_decay and grad_clip are not supported, since the line search compares losses; "
                "add the penalty to the loss"
            )
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(f"LBFGS: line_search_fn must be 'strong_wolfe' or None, got {line_search_fn!r}")
        super().__init__(float(learning_rate), parameters, None, None, name)
        self.max_iter, self.max_eval = max_iter, max_iter * 5 // 4 if max_eval is None else max_eval
        self.tolerance_grad, self.tolerance_change = tolerance_grad, tolerance_change
        self.history_size, self.line_search_fn = history_size, line_search_fn
        self._trained: list[Any] = list(self._parameter_list or ())
        #: Among others: func_evals and n_iter, the numbers of evaluations and iterations.
        self.state: dict[str, Any] = {"func_evals": 0, "n_iter": 0}

    def state_dict(self) -> dict[str, Any]:
        """The last gradients and directions: ``{"state": ...}``."""
        return {"state": dict(self.state)}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.state = dict(state_dict["state"])

    def _gradient(self) -> Any:
        """The gradients of all parameters as a vector; zeros where there are none."""
        found = [(p, p._grad_ivar()) for p in self._trained]
        return paddle.concat([paddle.reshape(paddle.zeros_like(p) if g is None else g, [-1]) for p, g in found])

    def _move(self, origins: list[Any], step: float, direction: Any) -> None:
        """Sets the parameters to `origins` plus `step` times the direction."""
        start = 0
        for p, origin in zip(self._trained, origins, strict=True):
            size = math.prod(p.shape)
            change = paddle.reshape(direction[start : start + size], p.shape)
            paddle.assign(origin + change * step, p)
            start += size

    def _direction(self, grad: Any) -> Any:
        """The approximation of minus the inverse Hessian times the gradient (algorithm 7.4)."""
        state = self.state
        if state["n_iter"] == 1:
            state.update(old_sk=[], old_yk=[], ro=[], H_diag=1.0)
            return -grad
        steps, changes, factors = state["old_sk"], state["old_yk"], state["ro"]
        change, moved = grad - state["prev_flat_grad"], state["d"] * state["alpha"]
        curvature = _dot(change, moved)
        if curvature > 1e-10:
            if len(steps) == self.history_size:
                for kept in (steps, changes, factors):
                    kept.pop(0)
            steps.append(moved)
            changes.append(change)
            factors.append(1.0 / curvature)
            state["H_diag"] = curvature / _dot(change, change)
        q, weights = -grad, [0.0] * len(steps)
        for i in reversed(range(len(steps))):
            weights[i] = _dot(steps[i], q) * factors[i]
            q = q - changes[i] * weights[i]
        q = q * state["H_diag"]
        for i, weight in enumerate(weights):
            q = q + steps[i] * (weight - _dot(changes[i], q) * factors[i])
        return q

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Up to `max_iter` iterations.

        Args:
            closure: clears the gradients, computes the loss, calls its `backward` and returns it.

        Returns:
            Tensor: the loss before the first iteration.
        """
        assert not in_static_mode(), "step() works in dynamic graph mode only"
        with paddle.no_grad():
            return self._iterate(enable_grad()(closure))

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        state, rate = self.state, self.get_lr()
        first = closure()
        loss, grad, evaluations = float(first), self._gradient(), 1
        state["func_evals"] += 1
        if _largest(grad) <= self.tolerance_grad:
            return first
        for i in range(1, self.max_iter + 1):
            state["n_iter"] += 1
            state["d"] = direction = self._direction(grad)
            state.update(prev_flat_grad=grad, prev_loss=loss)
            is_first = state["n_iter"] == 1
            step = min(1.0, 1.0 / float(paddle.sum(paddle.abs(grad)))) * rate if is_first else rate
            state["alpha"] = step
            slope, origins = _dot(grad, direction), [p.clone() for p in self._trained]
            if slope > -self.tolerance_change:
                break
            more, before = 0, loss
            if self.line_search_fn is not None:

                def at(step: float, direction: Any = direction, origins: Any = origins) -> _Point:
                    self._move(origins, step, direction)
                    value = float(closure())
                    grad = self._gradient()
                    return _Point(step, value, grad, _dot(grad, direction))

                start = _Point(0.0, loss, grad, slope)
                point, more = _search(at, start, step, _largest(direction), self.tolerance_change)
                step, loss, grad = point.step, point.loss, point.grad
                state["alpha"] = step
                self._move(origins, step, direction)
            else:
                self._move(origins, step, direction)
                if i < self.max_iter:
                    loss, grad, more = float(closure()), self._gradient(), 1
            evaluations += more
            state["func_evals"] += more
            if (
                _largest(grad) <= self.tolerance_grad
                or _largest(direction) * abs(step) <= self.tolerance_change
                or abs(loss - before) < self.tolerance_change
                or evaluations >= self.max_eval
            ):
                break
        return first

    def minimize(self, loss: Any, *args: Any, **kwargs: Any) -> Any:
        """Not available: NotImplementedError, use `step`."""
        raise NotImplementedError("LBFGS.minimize: the loss is computed several times; call step(closure)")
