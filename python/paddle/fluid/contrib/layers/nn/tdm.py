"""Layers of tree-based deep models (TDM): tdm_child and tdm_sampler."""

from __future__ import annotations

from typing import Any

from paddle import _ops
from paddle._basics.checks import check_dtype
from paddle._basics.dtypes import convert_np_dtype_to_dtype_
from paddle._basics.element_types import takes
from paddle._dispatch.append import named
from paddle.nn.initializer.base import Constant
from paddle.nn.layer_helper import LayerHelper
from paddle.tensor import reshape, slice  # noqa: A004

__all__ = ["tdm_child", "tdm_sampler"]


def tdm_child(x: Any, node_nums: int, child_nums: int, param_attr: Any = None, dtype: str = "int32") -> tuple[Any, Any]:
    """The children of nodes of a tree (Paddle 2.0: paddle.fluid.contrib.layers.tdm_child).

    Args:
        x (Variable): ids of nodes, int32 or int64; 0 is no node.
        node_nums (int): number of nodes of the tree, including 0.
        child_nums (int): the maximum number of children.
        param_attr (ParamAttr, optional): of the tree, a parameter without training: for each node its item, layer,
            parent and children; 0 for none.
        dtype (str): of the tree and the results, int32 or int64 (TypeError otherwise).

    Returns:
        tuple: the children, [..., child_nums], and a mask: 1 where a child has an item, else 0.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [None, 1], "int32")
        >>> child, leaf = fluid.contrib.layers.tdm_child(x, node_nums=6, child_nums=2)
        >>> child.shape, leaf.shape
        ((-1, 1, 2), (-1, 1, 2))
    """
    helper = LayerHelper("tdm_child", **locals())
    check_dtype(dtype, "dtype", takes("tdm_child"), "fluid.contrib.layers.tdm_child")
    tree = helper.create_parameter(
        attr=helper.param_attr, shape=[node_nums, 3 + child_nums], dtype=dtype, default_initializer=Constant(0)
    )
    tree.stop_gradient = True
    dtype = convert_np_dtype_to_dtype_(dtype)
    child, leaf = named(helper.name, _ops.tdm_child, x, tree, child_nums=child_nums, dtype=dtype)
    child.stop_gradient = leaf.stop_gradient = True
    return child, leaf


def tdm_sampler(
    x: Any,
    neg_samples_num_list: list[int],
    layer_node_num_list: list[int],
    leaf_node_num: int,
    tree_travel_attr: Any = None,
    tree_layer_attr: Any = None,
    output_positive: bool = True,
    output_list: bool = True,
    seed: int = 0,
    tree_dtype: str = "int32",
    dtype: str = "int32",
) -> tuple[Any, Any, Any]:
    """The nodes on the paths to leaves of a tree, and negative samples from the same layers (Paddle 2.0:
    paddle.fluid.contrib.layers.tdm_sampler).

    Args:
        x (Variable): [N, 1], ids of leaves, int32 or int64.
        neg_samples_num_list (list of int): number of negative samples of each layer.
        layer_node_num_list (list of int): number of nodes of each layer.
        leaf_node_num (int): number of leaves.
        tree_travel_attr (ParamAttr, optional): of the parameter with the paths [leaves, layers]; 0 after a path's end.
        tree_layer_attr (ParamAttr, optional): of the parameter with the nodes of all layers [nodes, 1].
        output_positive (bool): include the node of the path, before the negative samples.
        output_list (bool): results are lists with one Variable [N, nodes, 1] per layer; else one Variable for all.
        seed (int): of the draws; 0 for the global generator.
        tree_dtype, dtype (str): of the parameters and of the results, int32 or int64 (TypeError otherwise).

    Returns:
        tuple: nodes, labels (1 for nodes of the path) and masks (0 after the end of a path).

    Raises:
        ValueError: for lists of different lengths, or more samples than other nodes.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [None, 1], "int32")
        >>> nodes, labels, masks = fluid.contrib.layers.tdm_sampler(x, [1, 3], [3, 4], leaf_node_num=2)
        >>> [v.shape for v in nodes]
        [(-1, 2, 1), (-1, 4, 1)]
    """
    helper = LayerHelper("tdm_sampler", **locals())
    for what, kind in (("tree_dtype", tree_dtype), ("dtype", dtype)):
        check_dtype(kind, what, takes("tdm_sampler"), "fluid.contrib.layers.tdm_sampler")
    counts, sizes = list(neg_samples_num_list), list(layer_node_num_list)
    if len(counts) != len(sizes):
        raise ValueError(
            f"tdm_sampler: neg_samples_num_list and layer_node_num_list must be of one length, got {counts} and {sizes}"
        )
    assert leaf_node_num is not None, "tdm_sampler: leaf_node_num must be given"
    for layer, (count, size) in enumerate(zip(counts, sizes, strict=True)):
        if count >= size:
            raise ValueError(f"tdm_sampler: cannot draw {count} samples from the {size} nodes of layer {layer}")
    offsets = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    assert leaf_node_num < offsets[-1], f"tdm_sampler: leaf_node_num must be less than the {offsets[-1]} nodes"

    def parameter(attr: Any, shape: list[int]) -> Any:
        return helper.create_parameter(attr=attr, shape=shape, dtype=tree_dtype, default_initializer=Constant(0))

    travel = parameter(tree_travel_attr, [leaf_node_num, len(sizes)])
    layers = parameter(tree_layer_attr, [offsets[-1], 1])
    labels = helper.create_variable_for_type_inference(dtype=dtype)
    results = named(
        helper.name,
        _ops.tdm_sampler,
        x,
        travel,
        layers,
        neg_samples_num_list=counts,
        output_positive=output_positive,
        layer_offset_lod=offsets,
        seed=seed,
        dtype=convert_np_dtype_to_dtype_(dtype),
        Labels=labels,
    )
    for v in results:
        v.stop_gradient = True
    if not output_list:
        return results
    parts: tuple[list[Any], ...] = ([], [], [])
    start = 0
    for count in counts:
        width = count + int(output_positive)
        for result, part in zip(results, parts, strict=True):
            of_layer = reshape(slice(result, axes=[1], starts=[start], ends=[start + width]), [-1, width, 1])
            of_layer.stop_gradient = True
            part.append(of_layer)
        start += width
    return parts[0], parts[1], parts[2]
