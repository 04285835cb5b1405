"""Prior boxes, anchors, box encoding and overlaps, fluid.layers.detection."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.checks import check_type
from paddle._basics.element_types import FLOATS
from paddle._dispatch.append import named
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.static.nn.detection import as_list, multi_box_head, not_trained, pair, prior_box

__all__ = [
    "anchor_generator",
    "box_clip",
    "box_coder",
    "box_decoder_and_assign",
    "density_prior_box",
    "iou_similarity",
    "multi_box_head",
    "polygon_box_transform",
    "prior_box",
]


def density_prior_box(
    input,  # noqa: A002
    image,
    densities=None,
    fixed_sizes=None,
    fixed_ratios=None,
    variance=[0.1, 0.1, 0.2, 0.2],  # noqa: B006 (2.0.2's signature)
    clip=False,
    steps=[0.0, 0.0],  # noqa: B006
    offset=0.5,
    flatten_to_2d=False,
    name=None,
):
    """Prior boxes of given sizes and densities for every position of a feature map.

    Args:
        input (Variable): the feature map, [N, C, H, W], float32 or float64; smaller than the image.
        image (Variable): the image, [N, C, H, W].
        densities (list of int): per size: density * density boxes of each ratio.
        fixed_sizes (list of float): sides of the squares of equal area, in pixels.
        fixed_ratios (list of float): ratios of width and height.
        variance, clip, steps, offset: as of `prior_box`.
        flatten_to_2d (bool): flatten the result to [boxes, 4].
        name (str): prefix of the outputs' names.

    Returns:
        (boxes, variances): both [H, W, boxes per position, 4], or [all boxes, 4]; boxes relative to the image.

    Raises:
        TypeError: if sizes, ratios or densities are not lists.
        ValueError: if `densities` and `fixed_sizes` differ in length, or `steps` is not a pair.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> x, image = paddle.zeros([1, 3, 2, 2]), paddle.zeros([1, 3, 8, 8])
        >>> boxes, _ = fluid.layers.density_prior_box(x, image, densities=[2], fixed_sizes=[2.0], fixed_ratios=[1.0])
        >>> boxes.shape
        [2, 2, 4, 4]
    """
    where = "density_prior_box"
    check_variable_and_dtype(input, "input", FLOATS, where)
    for text, value in (("densities", densities), ("fixed_sizes", fixed_sizes), ("fixed_ratios", fixed_ratios)):
        check_type(value, text, (list, tuple), where)
    if len(densities) != len(fixed_sizes):
        raise ValueError("density_prior_box: densities and fixed_sizes should be as many")
    step_w, step_h = pair("steps", steps)
    outs = named(
        name,
        _ops.density_prior_box,
        input,
        image,
        variances=list(variance),
        clip=clip,
        step_w=step_w,
        step_h=step_h,
        offset=offset,
        densities=[int(v) for v in densities],
        fixed_sizes=[float(v) for v in fixed_sizes],
        fixed_ratios=[float(v) for v in fixed_ratios],
        flatten_to_2d=flatten_to_2d,
    )
    return not_trained(*outs)


def anchor_generator(
    input,  # noqa: A002
    anchor_sizes=None,
    aspect_ratios=None,
    variance=[0.1, 0.1, 0.2, 0.2],  # noqa: B006 (2.0.2's signature)
    stride=None,
    offset=0.5,
    name=None,
):
    """Anchors for every position of a feature map, in pixels of the image (Faster R-CNN).

    Args:
        input (Variable): the feature map, [N, C, H, W], float32 or float64.
        anchor_sizes (list of float): square roots of areas.
        aspect_ratios (list of float): ratios of height and width.
        variance (list of float): four numbers, repeated for every anchor.
        stride (list of float): pixels between positions, (width, height).
        offset (float): the center of an anchor relative to its position.
        name (str): prefix of the outputs' names.

    Returns:
        (anchors, variances): both [H, W, sizes * ratios, 4].

    Raises:
        ValueError: if `stride` is not a pair.
        IndexError: for sizes, strides and variances that are not positive.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> x = paddle.zeros([1, 3, 2, 2])
        >>> anchors, _ = fluid.layers.anchor_generator(x, anchor_sizes=[16.0], aspect_ratios=[1.0], stride=[8.0, 8.0])
        >>> anchors[0, 0].numpy().tolist()
        [[-4.0, -4.0, 11.0, 11.0]]
    """
    outs = named(
        name,
        _ops.anchor_generator,
        input,
        anchor_sizes=[float(v) for v in as_list(anchor_sizes)],
        aspect_ratios=[float(v) for v in as_list(aspect_ratios)],
        variances=list(variance),
        stride=pair("stride", stride),
        offset=offset,
    )
    return not_trained(*outs)


def iou_similarity(x, y, box_normalized=True, name=None):
    """Intersection over union of all pairs of boxes.

    Args:
        x (Variable): boxes [N, 4], (xmin, ymin, xmax, ymax), float32 or float64; with or without LoD.
        y (Variable): boxes [M, 4].
        box_normalized (bool): coordinates are relative to the image; else in pixels, the last one inclusive.
        name (str): a name for the output.

    Returns:
        Variable: [N, M], with the LoD of `x`.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> x, y = paddle.to_tensor([[0.0, 0.0, 0.5, 1.0]]), paddle.to_tensor([[0.0, 0.0, 1.0, 1.0]])
        >>> fluid.layers.iou_similarity(x, y).numpy().tolist()
        [[0.5]]
    """
    return named(name, _ops.iou_similarity, x, y, box_normalized=box_normalized)


def box_coder(
    prior_box,
    prior_box_var,
    target_box,
    code_type="encode_center_size",
    box_normalized=True,
    name=None,
    axis=0,
):
    """Encodes boxes as offsets from prior boxes, or decodes them: centers relative to the prior's size, log sizes.

    Args:
        prior_box (Variable): [M, 4], (xmin, ymin, xmax, ymax), float32 or float64.
        prior_box_var (Variable|list): [M, 4], or four numbers: divisors of the offsets.
        target_box (Variable): [N, 4] to encode; [N, M, 4] offsets to decode ([M, N, 4] if `axis` is 1).
        code_type (str): "encode_center_size" or "decode_center_size".
        box_normalized (bool): coordinates are relative to the image; else in pixels.
        name (str): a name for the output.
        axis (int): the axis of `target_box` that broadcasts: 0, its columns are those of the priors, or 1, its rows.

    Returns:
        Variable: [N, M, 4], or the shape of `target_box`.

    Raises:
        TypeError: if `prior_box_var` is neither Variable nor list.
        ValueError: for incompatible shapes, or another `code_type`.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> prior, box = paddle.to_tensor([[0.0, 0.0, 1.0, 1.0]]), paddle.to_tensor([[0.0, 0.0, 0.5, 1.0]])
        >>> fluid.layers.box_coder(prior, [1.0, 1.0, 1.0, 1.0], box)[0, 0, :2].numpy().tolist()
        [-0.25, 0.0]
    """
    check_variable_and_dtype(prior_box, "prior_box", FLOATS, "box_coder")
    check_variable_and_dtype(target_box, "target_box", FLOATS, "box_coder")
    attrs = {"code_type": code_type, "box_normalized": box_normalized, "axis": axis}
    if isinstance(prior_box_var, Variable):
        attrs["PriorBoxVar"] = prior_box_var
    elif isinstance(prior_box_var, list):
        attrs["variance"] = prior_box_var
    else:
        raise TypeError(f"box_coder: prior_box_var must be a Variable or a list, got {type(prior_box_var)}")
    return named(name, _ops.box_coder, PriorBox=prior_box, TargetBox=target_box, **attrs)


def polygon_box_transform(input, name=None):  # noqa: A002
    """Corners of polygons in pixels, from their offsets to the positions of a map with a stride of 4 pixels.

    Args:
        input (Variable): [N, 2 * corners, H, W], x and y alternating; float32 or float64.
        name (str): a name for the output.

    Returns:
        Variable: of the same shape: 4 * column - x, 4 * row - y.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> fluid.layers.polygon_box_transform(paddle.zeros([1, 2, 1, 2])).numpy().tolist()
        [[[[0.0, 4.0]], [[0.0, 0.0]]]]
    """
    check_variable_and_dtype(input, "input", FLOATS, "polygon_box_transform")
    return named(name, _ops.polygon_box_transform, input)


def box_clip(input, im_info, name=None):  # noqa: A002
    """Boxes clipped to their images.

    Args:
        input (Variable): boxes [..., 4] in pixels of the original images, with LoD; float32 or float64.
        im_info (Variable): [images, 3], (height, width, scale) of the scaled images.
        name (str): a name for the output.

    Returns:
        Variable: of the shape and LoD of `input`.

    Raises:
        ValueError: for a missing LoD, or fewer images than sequences.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> boxes = fluid.data("boxes", [None, 8, 4], lod_level=1)
        >>> fluid.layers.box_clip(boxes, fluid.data("im_info", [None, 3])).shape
        (-1, 8, 4)
    """
    check_variable_and_dtype(input, "input", FLOATS, "box_clip")
    check_variable_and_dtype(im_info, "im_info", FLOATS, "box_clip")
    return named(name, _ops.box_clip, input, im_info)


def box_decoder_and_assign(prior_box, prior_box_var, target_box, box_score, box_clip, name=None):
    """Decoded boxes of all classes, and for each prior the box of its best class, except the first class.

    Args:
        prior_box (Variable): [N, 4] in pixels, float32 or float64.
        prior_box_var (Variable): [4], factors of the offsets.
        target_box (Variable): [N, classes * 4], the offsets.
        box_score (Variable): [N, classes].
        box_clip (float): maximum of log sizes.
        name (str): prefix of the outputs' names.

    Returns:
        (all boxes [N, classes * 4], the best [N, 4]).

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> prior, one = paddle.to_tensor([[0.0, 0.0, 9.0, 9.0]]), paddle.ones([4])
        >>> deltas, scores = paddle.zeros([1, 8]), paddle.to_tensor([[0.1, 0.9]])
        >>> fluid.layers.box_decoder_and_assign(prior, one, deltas, scores, 4.135)[1].numpy().tolist()
        [[0.0, 0.0, 9.0, 9.0]]
    """
    for text, value in (("prior_box", prior_box), ("target_box", target_box), ("box_score", box_score)):
        check_variable_and_dtype(value, text, FLOATS, "box_decoder_and_assign")
    builtin = _ops.box_decoder_and_assign
    return named(name, builtin, prior_box, prior_box_var, target_box, box_score, box_clip=box_clip)
