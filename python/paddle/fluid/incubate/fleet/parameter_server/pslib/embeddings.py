"""fleet_embedding: fluid's embedding functions become lookups in PSLib's tables."""

from __future__ import annotations

from typing import Any

import paddle.fluid as fluid
from paddle.distributed.ps.pslib.optimizer_factory import FLEET_GLOBAL_DICT
from paddle.nn.layer_helper import LayerHelper

__all__ = ["fleet_embedding"]


def _record_table(size: Any, is_sparse: bool, is_distributed: bool, param_attr: Any, dtype: Any) -> tuple[str, int]:
    """Records a table; returns its name and width."""
    name = getattr(param_attr, "name", None)
    if not name:
        raise ValueError("within fleet_embedding an embedding needs param_attr with a name, that of its table")
    if not isinstance(size, list | tuple):
        raise ValueError(f"the size of an embedding is a list or tuple, got {size!r}")
    noted, width = FLEET_GLOBAL_DICT, size[-1]
    noted["enable"] = True
    for what, value in (("emb_to_size", width), ("emb_to_accessor", noted["cur_accessor"])):
        if noted[what].setdefault(name, value) != value:
            raise ValueError(f"the table {name} has {what[7:]} {noted[what][name]} already, got {value}")
    if name not in noted["emb_to_table"]:
        noted["emb_to_table"][name] = noted["cur_sparse_id"]
        noted["cur_sparse_id"] += 1
    for what, given, wanted in (
        ("is_sparse", is_sparse, True),
        ("is_distributed", is_distributed, True),
        ("dtype", dtype, "float32"),
    ):
        if given != wanted:
            raise ValueError(f"within fleet_embedding {what} must be {wanted}, got {given!r}")
    return name, width


def _lookup(kind: str, input: Any, name: str, width: int, padding_idx: Any, dtype: str) -> Any:  # noqa: A002
    """Appends the lookup; returns a Variable, or one for each of a list of ids."""
    ids = list(input) if isinstance(input, list | tuple) else [input]
    helper = LayerHelper(name)
    outs = [helper.create_variable_for_type_inference(dtype) for _ in ids]
    # a parameter as of an embedding; the servers hold its values
    w, _ = helper.create_or_get_global_variable(name=name, shape=[width], dtype=dtype, persistable=True)
    helper.append_op(
        type=kind,
        inputs={"Ids": ids, "W": w},
        outputs={"Out": outs},
        attrs={
            "EmbeddingDim": width,
            "TableId": FLEET_GLOBAL_DICT["emb_to_table"][name],
            "AccessorClass": FLEET_GLOBAL_DICT["emb_to_accessor"][name],
            "CtrLabelName": FLEET_GLOBAL_DICT["click_name"],
            "PaddingId": 0 if padding_idx is None else padding_idx,
            "ScaleSparseGrad": FLEET_GLOBAL_DICT["scale_sparse_grad"],
            "InputNames": [v.name for v in ids],
            "is_distributed": True,
        },
    )
    return outs[0] if len(outs) == 1 else outs


def _embedding(
    input,
    size,
    is_sparse=False,
    is_distributed=False,
    padding_idx=None,
    param_attr=None,
    dtype="float32",  # noqa: A002
):
    """fluid.layers.embedding within :class:`fleet_embedding`."""
    name, width = _record_table(size, is_sparse, is_distributed, param_attr, dtype)
    return _lookup("pull_sparse", input, name, width, padding_idx, dtype)


def _embedding_v2(
    input,
    size,
    is_sparse=False,
    is_distributed=False,
    padding_idx=None,
    param_attr=None,
    dtype="float32",  # noqa: A002
):
    """fluid.embedding within :class:`fleet_embedding`."""
    name, width = _record_table(size, is_sparse, is_distributed, param_attr, dtype)
    return _lookup("pull_sparse_v2", input, name, width, padding_idx, dtype)


class fleet_embedding:  # noqa: N801
    """Within this context ``fluid.layers.embedding`` and ``fluid.embedding`` are lookups in PSLib's tables.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/1.8/api/fluid/incubate (fleet.parameter_server.pslib)

    Args:
        click_name (str): the variable of clicks; None where a layer `cvm` follows.
        scale_sparse_grad (bool): whether gradients are multiplied by the batch size.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> from paddle.fluid.incubate.fleet.parameter_server.pslib import fleet_embedding
        >>> paddle.enable_static()
        >>> label = fluid.layers.data("click", [1], "int64")
        >>> ids = fluid.layers.data("ids", [1], "int64", lod_level=1)
        >>> with fleet_embedding(label.name):
        ...     found = fluid.layers.embedding(ids, [-1, 11], True, True, param_attr=fluid.ParamAttr("table"))
        >>> found.shape, found.block.ops[-1].type
        ((-1, 11), 'pull_sparse')
    """

    def __init__(self, click_name, scale_sparse_grad=True):
        self.origin_emb, self.origin_emb_v2 = fluid.layers.embedding, fluid.embedding
        self.click_name = "" if click_name is None else click_name
        self.scale_sparse_grad = scale_sparse_grad
        self.accessor = "DownpourCtrAccessor"

    def _be(self, embedding: Any, v2: Any, **noted: Any) -> None:
        fluid.layers.embedding, fluid.embedding = embedding, v2
        FLEET_GLOBAL_DICT.update(noted)

    def __enter__(self):
        self._be(
            _embedding,
            _embedding_v2,
            cur_accessor=self.accessor,
            click_name=self.click_name,
            scale_sparse_grad=self.scale_sparse_grad,
        )

    def __exit__(self, exc_type, exc_val, exc_tb):
        self._be(self.origin_emb, self.origin_emb_v2, cur_accessor="", click_name="", scale_sparse_grad=None)
