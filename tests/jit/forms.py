"""A table of syntax forms: functions of one Tensor `x` of shape [3], written as users write dygraph code."""

import functools

import paddle

FORMS = {}


def form(function):
    FORMS[function.__name__] = function
    return function


@form
def if_else(x):
    if x.mean() > 0:
        y = x + 1
    else:
        y = x * x
    return y


@form
def if_without_else(x):
    if x.mean() > 0:
        x = x * 3
    return x


@form
def if_elif(x):
    if x.mean() > 1:
        y = x + 1
    elif x.mean() > 0:
        y = x + 2
    else:
        y = x + 3
    return y * y


@form
def if_over_numbers(x):
    scale = 1
    if x.sum() > 0:
        scale = 2
    return x * scale


@form
def early_return(x):
    if x.mean() > 0:
        return x * 2
    x = x + 1
    if x.mean() > 0:
        return x * 3
    return x * 4


@form
def return_of_a_nest(x):
    if x.mean() > 0:
        return {"a": x, "b": [x * 2, 3]}
    return {"a": -x, "b": [x * x, 3]}


@form
def while_of_a_tensor(x):
    i = paddle.zeros([1], "int64")
    while i < 3:
        x = x * x * 0.5 + x
        i += 1
    return x


@form
def while_of_a_number(x):
    i = 0
    while i < 3:
        x = x + i
        i += 1
    return x


@form
def while_with_a_counter(x):
    n = 0
    while x.sum() < 40:
        x = x + 2.0
        n = n + 1
    return x * n


@form
def while_break(x):
    i = paddle.zeros([1], "int64")
    while i < 10:
        x = x * 1.5
        if x.mean() > 4:
            break
        i += 1
    return x


@form
def while_true(x):
    while True:
        x = x + 1
        if x.mean() > 7:
            break
    return x


@form
def while_continue(x):
    i = paddle.zeros([1], "int64")
    s = x * 0
    while i < 5:
        i += 1
        if i == 3:
            continue
        s = s + x * i
    return s


@form
def while_else(x):
    i = paddle.zeros([1], "int64")
    while i < 3:
        if x.mean() > 100:
            break
        i += 1
    else:
        x = x + 10
    return x


@form
def for_range(x):
    for i in range(4):
        x = x + i
    return x


@form
def for_range_of_a_tensor(x):
    for i in range(paddle.to_tensor([3], dtype="int64")):
        x = x * 1.5 + i
    return x


@form
def for_range_with_a_step(x):
    for i in range(paddle.to_tensor([7]), 0, -2):
        x = x + i
    return x


@form
def for_rows(x):
    s = paddle.zeros([1])
    for row in x:
        s = s + row * row
    return s


@form
def for_enumerate(x):
    s = x.sum()
    for i, row in enumerate(x, 1):
        s = s + i * row
    return s


@form
def for_zip(x):
    s = paddle.zeros([1])
    for a, b in zip(x, x * 2):  # noqa: B905 (as users write it)
        s = s + a * b
    return s


@form
def for_break(x):
    for i in range(10):  # noqa: B007
        x = x + 1
        if x.mean() > 5:
            break
    return x * i


@form
def for_return(x):
    for _ in range(10):
        x = x + 1
        if x.mean() > 5:
            return x * 100
    return x


@form
def return_out_of_nested_loops(x):
    for i in range(3):
        for j in range(3):  # noqa: B007
            x = x + 1
            if x.mean() > 4:
                return x * (i + 1)
    return x * 10


@form
def loop_in_a_branch(x):
    if x.mean() > 0:
        i = paddle.zeros([1], "int64")
        while i < 2:
            x = x * 2
            i += 1
    return x


@form
def branch_in_loops(x):
    i = paddle.zeros([1], "int64")
    while i < 3:
        j = paddle.zeros([1], "int64")
        while j < 2:
            if x.mean() > 3:
                x = x - 1
            else:
                x = x * 1.5
            j += 1
        i += 1
    return x


@form
def swapped_names(x):
    a, b = x, x * 2
    i = paddle.zeros([1], "int64")
    while i < 3:
        a, b = b, a + b
        i += 1
    return a - b * 3


@form
def names_of_one_tensor(x):
    y = x
    i = paddle.zeros([1], "int64")
    while i < 3:
        x = x * 2
        i += 1
    z = y
    if x.mean() > 0:
        w = z
    else:
        w = -z
    return x * y + w


@form
def name_first_bound_in_a_loop(x):
    i = paddle.zeros([1], "int64")
    while i < 3:
        y = x * i
        i += 1
    return y


@form
def logical(x):
    if (x.mean() > 0 and x.sum() < 100) or not x.max() > 1:
        return x * 2
    return -x


@form
def logical_of_numbers(x):
    flag = True
    if flag and x.mean() > 0:
        return x * 2
    if x.mean() > -1 or flag:
        return x * 3
    return x


@form
def chained_comparison(x):
    if 0 < x.mean() < 5:
        return x + 1
    return x - 1


@form
def conditional_expression(x):
    return x * 2 if x.mean() > 0 else x * x


@form
def lambdas(x):
    double = lambda v: v * 2 if v.mean() > 0 else v * 3  # noqa: E731
    return double(x) + (lambda v: -v)(x)


@form
def list_in_a_loop(x):
    out = []
    for i in range(paddle.to_tensor([3])):
        out.append(x * i)
    return paddle.concat(out)


@form
def pop_of_the_only_item(x):
    out = []
    for i in range(paddle.to_tensor([1])):
        out.append(x + i)
    return out.pop() * (len(out) + 1)


@form
def pop_of_every_item(x):
    out = [x]
    for i in range(paddle.to_tensor([3])):
        out.append(x * i)
    total = out.pop(1)
    while len(out) > 0:
        total = total * 0.5 + out.pop()
    return total


@form
def list_of_numbers(x):
    out = []
    for i in range(3):
        out.append(x * i)
    return out[0] + out[-1] + len(out)


@form
def list_changed_in_a_branch(x):
    parts = [x, x * 2]
    if x.mean() > 0:
        parts[0] = x * 5
    return parts[0] + parts[1]


@form
def dict_changed_in_a_branch(x):
    parts = {"a": x}
    if x.mean() > 0:
        parts["a"] = x * 5
    return parts["a"]


@form
def comprehension(x):
    return sum([row * row for row in x])


@form
def tensors_as_numbers(x):
    n = int(x.sum() * 0 + 3)
    if bool(x.sum() > 0):
        x = x * n
    return x * float(n)


@form
def shapes(x):
    rows = x.shape[0]
    y = paddle.reshape(x, [1, x.shape[0]])
    return y.sum() * rows * len(x)


@form
def made_tensors(x):
    return x * paddle.to_tensor([1.0, 2.0, 3.0]) + paddle.to_tensor(2.0)


@form
def asserts(x):
    assert x.shape[0] == 3, "three"
    assert x.sum() < 1000
    return x * 2


@form
def inner_function(x):
    def scaled(v, by=2):
        if v.mean() > 0:
            return v * by
        return v - by

    return scaled(x) + scaled(-x, by=3)


@form
def closure_that_changes(x):
    total = x * 0

    def add(v):
        nonlocal total
        if v.mean() > 0:
            total = total + v
        else:
            total = total - v

    add(x)
    add(x * 2)
    return total


def _twice(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return call


@_twice
def _decorated(x):
    if x.mean() > 0:
        return x
    return -x


@form
def decorated_function(x):
    return _decorated(x)


def _power(x, n, by=1.0):
    if n == 0:
        return x * 0 + by
    return _power(x, n - 1, by) * x


@form
def recursion(x):
    return _power(x, 3)


@form
def partial_function(x):
    return functools.partial(_power, n=2, by=2.0)(x)


@form
def try_around_python(x):
    try:
        y = x * {}["missing"]
    except KeyError:
        y = x * 4
    return y


@form
def with_statement(x):
    with paddle.no_grad():
        y = x * 2
    if y.mean() > 0:
        return x * 3
    return x


@form
def multiple_targets(x):
    a = b = x
    (c, d), e = (a + 1, b + 2), x
    if x.mean() > 0:
        c, d = d, c
    return c * 2 - d + e


@form
def walrus(x):
    if (y := x.mean()) > 0:
        return x * y
    return x - y


@form
def no_gradient_of_a_factor(x):
    with paddle.no_grad():
        y = x * 3
        if y.mean() > 0:
            y = y * 2
    return y * x


@form
def no_gradient_in_a_branch(x):
    y = x * 2
    with paddle.no_grad():
        if x.mean() > 0:
            y = y * 3
    return y * x


@form
def no_gradient_of_a_loop(x):
    y = x * 2
    with paddle.no_grad():
        i = paddle.zeros([1], "int64")
        while i < x.max():
            y = y * x
            i += 1
    return y * x


@form
def no_gradient_in_a_loop(x):
    total = x * 0
    for _ in range(paddle.to_tensor([3])):
        with paddle.no_grad():
            m = total.max() + x.max()
            if m > 0:
                m = m * 2
        total = total + x * m * 0.1
    return total


@paddle.no_grad()
def _constant(x):
    if x.mean() > 0:
        return x * 2
    return x


@form
def no_gradient_of_a_function(x):
    return _constant(x) * x


@form
def number_of_a_branch_with_tensors(x):
    n = 2
    if x.sum() > 0:
        n = 3
    k = paddle.to_tensor([7, 8, 9])
    return n * x, n + x, n - x, n / (x.abs() + 1), x / n, n / k, k / n, x * (n > x), x * (x < n), -n * x


@form
def number_of_a_loop_with_tensors(x):
    n = 0
    while n < x.abs().sum():
        n = n + 1
    return n * x, n / 2 * x, n // 2 * x


@form
def numbers_of_a_loop(x):
    a, b = 1, 2
    i = paddle.zeros([1], "int64")
    while i < 5:
        a, b = b, a + b
        i += 1
    return a / b * x, a % b * x


@form
def float_of_a_branch_with_integers(x):
    k = 0.5
    if x.mean() > 0:
        k = 0.7
    rows = paddle.to_tensor([3, 4, 5])
    return rows * k * x, k * rows * x, k * x.astype("float64")


@form
def integer_or_float_of_a_branch(x):
    k = 1 if x.mean() > 0 else 2.5
    return k * x


@form
def counter_of_a_range(x):
    s = 0
    for i in range(paddle.to_tensor([3])):
        s = s + i * x
    return s


@form
def length_of_a_list(x):
    out = []
    for i in range(paddle.to_tensor([3])):
        out.append(x * i)
    return len(out) * x, len(out) / 2 * x


@form
def integer_of_a_tensor(x):
    n = int(x.abs().sum())
    return n * x, n / 4 * x


@form
def number_that_becomes_a_tensor(x):
    best = 0
    for i in range(paddle.to_tensor([3])):
        if x[i] > best:
            best = x[i]
    return best * x


@form
def assigned_columns(x):
    y = paddle.stack([x, x * 2, x * 3])
    y[:, 1] = x * 5
    y[..., 0] = x
    y[1:, -1] = x[:2] * 4
    y[0, 1] = x[2]
    return y * y


@form
def clones(x):
    i = paddle.zeros([1], "int64")
    while i < 3:
        y = x.clone()
        x = x * 0.5 + y
        i += 1
    return x


@form
def detached(x):
    y = (x * 3).detach()
    if y.mean() > 0 and y.ndim == 1:
        y = y + x.dim()
    return y * x
