"""Weight normalization of a parameter: w = g * v / |v|, the norm over all dimensions but one."""

from __future__ import annotations

import copy

from paddle._basics import unique_name

__all__: list[str] = []


def _norm_except(helper, block, x, dim, out=None):
    """Append the 2-norm of `x` over all dimensions but `dim` (over all if None), with reduced dimensions kept."""

    def var(what):
        name = unique_name.generate_with_ignorable_key(f"{helper.name}.weight_norm_{what}")
        return block.create_var(name=name, dtype=x.dtype, persistable=False)

    squares, total = var("square"), var("sum")
    block.append_op(type="square", inputs={"X": x}, outputs={"Out": squares})
    over = [i for i in range(len(x.shape)) if i != dim]
    if over:
        attrs = {"dim": over, "keep_dim": dim is not None, "reduce_all": dim is None}
        block.append_op(type="reduce_sum", inputs={"X": squares}, outputs={"Out": total}, attrs=attrs)
    else:
        total = squares
    out = var("norm") if out is None else out
    block.append_op(type="sqrt", inputs={"X": total}, outputs={"Out": out})
    return out


def weight_normalized(helper, attr, shape, dtype):
    """The normalized weight, as an output of operators on the parameters ``<name>_g`` and ``<name>_v``."""
    dim = attr.dim
    g_attr, v_attr = copy.deepcopy(attr), copy.deepcopy(attr)
    g_attr.name, v_attr.name = attr.name + "_g", attr.name + "_v"
    g_shape = [1] * len(shape)
    if dim is None:
        g_shape = [1]
    else:
        g_shape[dim] = shape[dim]

    # the initial magnitude is the norm of the initial direction
    startup = helper.startup_program.global_block()
    g = startup.create_parameter(dtype=dtype, shape=g_shape, **g_attr._to_kwargs(with_initializer=False))
    v = startup.create_parameter(dtype=dtype, shape=shape, **v_attr._to_kwargs(with_initializer=True))
    _norm_except(helper, startup, v, dim, out=g)

    main = helper.main_program
    g = main.global_block().create_parameter(dtype=dtype, shape=g_shape, **g_attr._to_kwargs())
    v = main.global_block().create_parameter(dtype=dtype, shape=shape, **v_attr._to_kwargs())
    norm = _norm_except(helper, main.current_block(), v, dim)
    scale = helper.create_variable_for_type_inference(dtype)
    helper.main_program.current_block().append_op(
        type="elementwise_div", inputs={"X": g, "Y": norm}, outputs={"Out": scale}
    )
    weight = helper.create_variable_for_type_inference(dtype)
    helper.main_program.current_block().append_op(
        type="elementwise_mul", inputs={"X": v, "Y": scale}, outputs={"Out": weight}
    )
    return weight
