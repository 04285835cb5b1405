"""Layers of fluid.contrib whose rows come from hashes of numbers, or from a BoxPS."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle.nn.layer_helper import LayerHelper

__all__ = ["_pull_box_extended_sparse", "search_pyramid_hash"]


def search_pyramid_hash(
    input: Any,  # noqa: A002
    num_emb: int,
    space_len: int,
    pyramid_layer: int,
    rand_len: int,
    drop_out_percent: float,
    is_training: bool,
    use_filter: bool,
    white_list_len: int,
    black_list_len: int,
    seed: int,
    lr: float,
    param_attr: Any = None,
    param_attr_wl: Any = None,
    param_attr_bl: Any = None,
    name: str | None = None,
    distribute_update_vars: list[str] | None = None,
    dtype: str = "float32",
) -> Any:
    """A row for every run of neighbours in a text, cut from one vector of weights at places that hashes say.

    Args:
        input (Variable): int32 [words, 1] with a LoD, a sequence for each text.
        num_emb (int): elements of a row, a multiple of `rand_len`.
        space_len (int): places in the vector of weights, which has `space_len` + `rand_len` elements.
        pyramid_layer (int): the longest run, at least 2.
        rand_len (int): elements that lie together.
        drop_out_percent (float): the share of runs that training leaves out; otherwise what rows are multiplied by.
        is_training (bool): whether runs are left out.
        use_filter (bool): whether the two lists count.
        white_list_len, black_list_len (int): lengths of Bloom filters of the runs that are taken, or not; 0: none.
        seed (int): begins the draws of what is left out.
        lr (float): the learning rate of the weights, which take their steps in the operator's gradient.
        param_attr, param_attr_wl, param_attr_bl (ParamAttr): of the weights and the two filters.
        name (str): a name for the parameters.
        distribute_update_vars (list): names of parameters that a parameter server updates.
        dtype (str): of the weights.

    Returns:
        Variable: [runs, num_emb] with a LoD; a text without runs has one row of zeros.

    Raises:
        ValueError: for sizes that do not fit, or a name in `distribute_update_vars` that is none of the parameters'.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> words = fluid.data("words", [None, 1], "int32", lod_level=1)
        >>> fluid.contrib.search_pyramid_hash(words, 16, 100, 3, 8, 0.0, True, False, 0, 0, 1, 0.1).shape
        (-1, 16)
    """
    helper = LayerHelper("search_pyramid_hash", param_attr=param_attr, name=name)

    def fixed(attr: Any, length: int) -> Any:
        made = helper.create_parameter(attr=attr, shape=[length, 1], dtype=dtype)
        made.stop_gradient = True
        return made

    w = fixed(param_attr, space_len + rand_len)
    # The operator has both lists: without length they are parameters, too (of a white one 2.0.2 says it is not found).
    white, black = fixed(param_attr_wl, white_list_len), fixed(param_attr_bl, black_list_len)
    names = [attr.name for attr in (param_attr, param_attr_wl, param_attr_bl) if attr]
    for given in distribute_update_vars or []:
        if given not in names:
            raise ValueError(f"search_pyramid_hash has no parameter {given!r}: distribute_update_vars takes of {names}")
    out, _, _ = _ops.pyramid_hash(
        input,
        w,
        white,
        black,
        num_emb=num_emb,
        space_len=space_len,
        pyramid_layer=pyramid_layer,
        rand_len=rand_len,
        drop_out_percent=drop_out_percent,
        is_training=is_training,
        use_filter=use_filter,
        white_list_len=white_list_len,
        black_list_len=black_list_len,
        seed=seed,
        lr=lr,
        distribute_update_vars=",".join(distribute_update_vars or []),
    )
    return out


def _pull_box_extended_sparse(
    input: Any,  # noqa: A002
    size: int,
    extend_size: int = 64,
    dtype: str = "float32",
) -> Any:
    """Rows of two tables of a BoxPS by the same ids. The Program can be built and kept; running it raises an
    EnforceNotMet that says what is missing.

    Args:
        input (Variable|list): int64 [..., 1] ids.
        size, extend_size (int): the widths of the two tables' rows.
        dtype (str): "float32".

    Returns:
        tuple: two Variables, or two lists of them.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
        >>> [v.shape for v in fluid.contrib.layers._pull_box_extended_sparse(ids, size=8, extend_size=128)]
        [(-1, 8), (-1, 128)]
    """
    helper = LayerHelper("pull_box_extended_sparse", input=input)
    ids = helper.multiple_input()
    outs, more = ([helper.create_variable_for_type_inference(dtype) for _ in ids] for _ in range(2))
    helper.append_op(
        type="pull_box_extended_sparse",
        inputs={"Ids": ids},
        outputs={"Out": outs, "OutExtend": more},
        attrs={"emb_size": size, "emb_extended_size": extend_size},
    )
    return (outs[0], more[0]) if len(outs) == 1 else (outs, more)
