"""Embedding layers of fluid.contrib: hashed n-grams and BoxPS tables."""

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
    """A row for every n-gram of a text, gathered from a weight vector at hashed offsets.

    Args:
        input (Variable): int32 [words, 1] with a LoD, a sequence for each text.
        num_emb (int): elements of a row, a multiple of `rand_len`.
        space_len (int): number of offsets; the weight vector has `space_len` + `rand_len` elements.
        pyramid_layer (int): the longest n-gram, at least 2.
        rand_len (int): consecutive elements read at an offset.
        drop_out_percent (float): the fraction of n-grams dropped in training; in inference the factor of the rows.
        is_training (bool): whether n-grams are dropped.
        use_filter (bool): whether the two lists are used.
        white_list_len, black_list_len (int): lengths of Bloom filters of accepted and rejected n-grams; 0: none.
        seed (int): seed of the dropout.
        lr (float): learning rate of the weights, which the gradient operator updates.
        param_attr, param_attr_wl, param_attr_bl (ParamAttr): of the weights and the two filters.
        name (str): prefix of the parameters' names.
        distribute_update_vars (list): names of parameters that a parameter server updates.
        dtype (str): of the weights.

    Returns:
        Variable: [n-grams, num_emb] with a LoD; a text without n-grams has one row of zeros.

    Raises:
        ValueError: for incompatible sizes, or a name in `distribute_update_vars` that is not a parameter's.

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
    # The operator has both lists: an empty list is a parameter too (2.0.2 reports an empty white list as not found).
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
    """Rows of two tables of a BoxPS for the same ids. The Program can be built and saved; running it raises
    EnforceNotMet, which names what is missing.

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
