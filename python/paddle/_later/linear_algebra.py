"""`paddle.linalg` of Paddle 2.1 to 2.6, as far as products and inverses reach."""

from __future__ import annotations

from typing import Any

import paddle

from .named_errors import name_errors

__all__: list[str] = []


def multi_dot(x, name=None):
    """The product of several matrices, in the cheapest order; the first and last may be vectors.

    Raises:
        ValueError: for fewer than two operands.

    Examples:
        >>> import paddle
        >>> paddle.linalg.multi_dot([paddle.ones([2, 3]), paddle.ones([3, 4]), paddle.ones([4, 5])]).shape
        [2, 5]
    """
    if len(x) < 2:
        raise ValueError(f"multi_dot: at least two operands are needed, got {len(x)}")
    matrices = list(x)
    first, last = len(matrices[0].shape) == 1, len(matrices[-1].shape) == 1
    if first:
        matrices[0] = paddle.unsqueeze(matrices[0], 0)
    if last:
        matrices[-1] = paddle.unsqueeze(matrices[-1], 1)
    sizes = [m.shape[0] for m in matrices] + [matrices[-1].shape[1]]
    n = len(matrices)
    cost: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(n)}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j] = min(
                (cost[i, k][0] + cost[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def product(i: int, j: int) -> Any:
        return matrices[i] if i == j else paddle.matmul(product(i, cost[i, j][1]), product(cost[i, j][1] + 1, j))

    out = product(0, n - 1)
    out = paddle.squeeze(out, 0) if first else out
    return paddle.squeeze(out, -1) if last and len(out.shape) > 1 else out


def matrix_power(x, n, name=None):
    """The n-th power of square matrices; of the inverse for a negative `n`.

    Examples:
        >>> import paddle
        >>> paddle.linalg.matrix_power(paddle.to_tensor([[2.0, 0.0], [0.0, 1.0]]), 3).numpy().tolist()
        [[8.0, 0.0], [0.0, 1.0]]
    """
    if n < 0:
        x, n = paddle.inverse(x), -n
    result = None
    while n:
        if n & 1:
            result = x if result is None else paddle.matmul(result, x)
        n >>= 1
        x = paddle.matmul(x, x) if n else x
    return paddle.zeros_like(x) + paddle.eye(x.shape[-1], dtype=x.dtype) if result is None else result


def cov(x, rowvar=True, ddof=True, fweights=None, aweights=None, name=None):
    """The covariance matrix of variables in rows (or columns, without `rowvar`).

    Args:
        x (Tensor): variables and their observations; of one dimension: one variable.
        rowvar (bool): rows are variables, else columns.
        ddof (bool): divide by the number of observations less one, else by their number.
        fweights (Tensor, optional): how often each observation is repeated, integers from 0.
        aweights (Tensor, optional): the weight of each observation, from 0.
        name (str, optional): unused.

    Raises:
        ValueError: for weights of another shape, below 0 or with sum 0, and repetitions that are no integers.

    Examples:
        >>> import paddle
        >>> x = paddle.to_tensor([[1.0, 2.0, 3.0], [1.0, 3.0, 5.0]])
        >>> paddle.linalg.cov(x).numpy().tolist()
        [[1.0, 2.0], [2.0, 4.0]]
        >>> paddle.linalg.cov(x, fweights=paddle.to_tensor([2, 1, 0])).numpy().astype("float64").round(4).tolist()
        [[0.3333, 0.6667], [0.6667, 1.3333]]
    """
    x = paddle.unsqueeze(x, 0) if len(x.shape) == 1 else x
    x = x if rowvar or x.shape[0] == 1 else paddle.t(x)
    if fweights is None and aweights is None:
        centred = x - paddle.mean(x, axis=1, keepdim=True)
        return paddle.matmul(centred, centred, transpose_y=True) / float(x.shape[1] - (1 if ddof else 0))
    for what, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            _check_weights(what, given, x.shape[1])
    weights = paddle.ones([x.shape[1]], x.dtype)
    for given in (fweights, aweights):
        weights = weights if given is None else weights * paddle.cast(given, x.dtype)
    total = paddle.sum(weights)
    if float(total) == 0:
        raise ValueError("cov: the sum of the weights is 0")
    factor = total
    if ddof:
        lost = 1.0 if aweights is None else paddle.sum(weights * paddle.cast(aweights, x.dtype)) / total
        factor = paddle.clip(total - lost, min=0.0)
    centred = x - paddle.sum(x * weights, axis=1, keepdim=True) / total
    return paddle.matmul(centred, centred * weights, transpose_y=True) / factor


def _check_weights(what, weights, count) -> None:
    """ValueError unless these are `count` weights from 0; repetitions (`fweights`) are integers."""
    if list(weights.shape) != [count]:
        raise ValueError(f"cov: {what} must have shape [{count}], one for each observation, got {list(weights.shape)}")
    values = weights.numpy()
    if (values < 0).any():
        raise ValueError(f"cov: {what} must not be negative, got {values.min()}")
    if what == "fweights" and (values != values.round()).any():
        raise ValueError("cov: fweights must be integers")


def corrcoef(x, rowvar=True, name=None):
    """The matrix of correlation coefficients.

    Examples:
        >>> import paddle
        >>> paddle.linalg.corrcoef(paddle.to_tensor([[1.0, 2.0], [2.0, 1.0]])).numpy().round(4).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    c = cov(x, rowvar)
    deviation = paddle.sqrt(paddle.diagonal(c))
    return paddle.clip(c / paddle.outer(deviation, deviation), -1.0, 1.0)


name_errors(globals())
