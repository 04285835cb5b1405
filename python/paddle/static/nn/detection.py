"""Prior boxes and the head of SSD detectors."""

from __future__ import annotations

import math

from paddle import _ops
from paddle._basics.element_types import FLOATS
from paddle._basics.mode import static_only
from paddle._dispatch.append import named
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.tensor.manipulation import concat

from .conv import conv2d

__all__ = ["multi_box_head", "prior_box"]


def as_list(value):
    """`value` if it is a list or tuple, else a list with it."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def pair(name, value):
    """Two floats, width and height."""
    if not (isinstance(value, (list, tuple)) and len(value) == 2):
        raise ValueError(f"{name} should be a list or tuple with length 2, (width, height), got {value}")
    return [float(v) for v in value]


def not_trained(boxes, variances):
    """Mark boxes as not trained: stop_gradient."""
    boxes.stop_gradient = True
    variances.stop_gradient = True
    return boxes, variances


def prior_box(
    input,  # noqa: A002
    image,
    min_sizes,
    max_sizes=None,
    aspect_ratios=[1.0],  # noqa: B006 (2.0.2's signature)
    variance=[0.1, 0.1, 0.2, 0.2],  # noqa: B006
    flip=False,
    clip=False,
    steps=[0.0, 0.0],  # noqa: B006
    offset=0.5,
    name=None,
    min_max_aspect_ratios_order=False,
):
    """Prior boxes at every cell of a feature map, of several sizes and aspect ratios.

    Args:
        input (Variable): the feature map, [N, C, H, W], float32 or float64.
        image (Variable): the image, [N, C, H, W], of which the size is used.
        min_sizes, max_sizes (list of float): sides of squares in pixels; each of `max_sizes` adds a square whose side
            is the geometric mean of the two.
        aspect_ratios (list of float): further ratios in addition to 1, for each of `min_sizes`.
        variance (list of float): the four variances of every box.
        flip (bool): add the reciprocals of the ratios.
        clip (bool): clip at the edges of the image.
        steps (list of float): pixels between cells, (width, height); 0: computed from the sizes.
        offset (float): the center of a box, as a fraction of its cell.
        name (str): a name for the outputs.
        min_max_aspect_ratios_order (bool): squares precede the other ratios.

    Returns:
        (boxes, variances): both [H, W, boxes of a cell, 4], boxes as fractions of the image.

    Raises:
        ValueError: for `steps` that are no pair, or sizes that do not match.
        IndexError: for sizes and variances that are not positive.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> boxes, _ = fluid.layers.prior_box(paddle.zeros([1, 3, 2, 2]), paddle.zeros([1, 3, 8, 8]), [2.0], clip=True)
        >>> boxes.shape
        [2, 2, 1, 4]
        >>> boxes[0, 0, 0].numpy().tolist()
        [0.125, 0.125, 0.375, 0.375]
    """
    check_variable_and_dtype(input, "input", ["uint8", "int8", *FLOATS], "prior_box")
    step_w, step_h = pair("steps", steps)
    more = {}
    if max_sizes is not None and as_list(max_sizes) and as_list(max_sizes)[0] > 0:
        more["max_sizes"] = [float(v) for v in as_list(max_sizes)]
    outs = named(
        name,
        _ops.prior_box,
        input,
        image,
        min_sizes=[float(v) for v in as_list(min_sizes)],
        aspect_ratios=[float(v) for v in as_list(aspect_ratios)],
        variances=list(variance),
        flip=flip,
        clip=clip,
        step_w=step_w,
        step_h=step_h,
        offset=offset,
        min_max_aspect_ratios_order=min_max_aspect_ratios_order,
        **more,
    )
    return not_trained(*outs)


def _sizes(layers, base_size, min_ratio, max_ratio):
    """The sizes of all layers from ratios in percent, which grow linearly from the second layer on."""
    step = int(math.floor((max_ratio - min_ratio) / (layers - 2)))
    ratios = list(range(min_ratio, max_ratio + 1, step))
    least = [base_size * 0.1] + [base_size * r / 100.0 for r in ratios]
    most = [base_size * 0.2] + [base_size * (r + step) / 100.0 for r in ratios]
    return least, most


def _each(name, value, layers):
    """A list with a value for every layer."""
    if value and not (isinstance(value, (list, tuple)) and len(value) == layers):
        raise ValueError(f"{name} should be list or tuple, and the length of inputs and {name} should be the same.")
    return value


def _by_cell(layer, filters, kernel_size, pad, stride):
    """The output of a convolution as [N, cells * filters], cell by cell."""
    seen = conv2d(layer, num_filters=filters, filter_size=kernel_size, padding=pad, stride=stride)
    return _flat(_ops.transpose2(seen, axis=[0, 2, 3, 1]), 1)


def _flat(x, axis):
    return _ops.flatten2(x, axis=axis)


@static_only
def multi_box_head(
    inputs,
    image,
    base_size,
    num_classes,
    aspect_ratios,
    min_ratio=None,
    max_ratio=None,
    min_sizes=None,
    max_sizes=None,
    steps=None,
    step_w=None,
    step_h=None,
    offset=0.5,
    variance=[0.1, 0.1, 0.2, 0.2],  # noqa: B006 (2.0.2's signature)
    flip=True,
    clip=False,
    kernel_size=1,
    pad=0,
    stride=1,
    name=None,
    min_max_aspect_ratios_order=False,
):
    """The head of an SSD detector: prior boxes on several feature maps, and for each map a convolution for locations
    and one for class scores.

    Args:
        inputs (list of Variable): feature maps, [N, C, H, W], the largest first.
        image (Variable): the image, [N, C, H, W].
        base_size (int): the side of the images; `min_ratio` and `max_ratio` are percentages of it.
        num_classes (int): the number of classes, including the background.
        aspect_ratios (list): for each map the aspect ratios in addition to 1.
        min_ratio, max_ratio (int): sizes of boxes in percent, interpolated over the maps; for three or more maps.
        min_sizes, max_sizes (list): alternatively the sizes for each map, in pixels.
        steps (list of float): pixels between cells for each map, in both dimensions.
        step_w, step_h (list of float): alternatively for width and height.
        offset, variance, flip, clip, min_max_aspect_ratios_order: as of `prior_box`.
        kernel_size, pad, stride (int): of the convolutions.
        name (str): not used.

    Returns:
        (locations [N, boxes, 4], scores [N, boxes, num_classes], boxes [boxes, 4], variances [boxes, 4]). With a single
        map the results are not reshaped: [N, boxes * 4], [N, boxes * num_classes], and twice [H, W, boxes, 4].

    Raises:
        ValueError: for lists whose length is not the number of maps.

    Examples:
        >>> import paddle
        >>> paddle.enable_static()
        >>> image = paddle.static.data("image", [None, 3, 32, 32])
        >>> maps = [paddle.static.data(f"map{n}", [None, 8, n, n]) for n in (8, 4, 2)]
        >>> outs = paddle.static.nn.multi_box_head(maps, image, 32, 5, [[2.0]] * 3, min_ratio=20, max_ratio=90)
        >>> [tuple(v.shape) for v in outs]
        [(-1, -1, 4), (-1, -1, 5), (336, 4), (336, 4)]
    """
    if not isinstance(inputs, (list, tuple)):
        raise ValueError("inputs should be a list or tuple.")
    layers = len(inputs)
    if layers <= 2:
        assert min_sizes is not None and max_sizes is not None, "multi_box_head: few maps need min_sizes and max_sizes"
        assert len(min_sizes) == layers and len(max_sizes) == layers, "multi_box_head: sizes for every map"
    elif min_sizes is None and max_sizes is None:
        min_sizes, max_sizes = _sizes(layers, base_size, min_ratio, max_ratio)
    _each("aspect_ratios", aspect_ratios, layers)
    step_h, step_w = _each("step_h", step_h, layers), _each("step_w", step_w, layers)
    if steps is not None:
        step_w = step_h = _each("steps", steps, layers)
    places, scores, boxes, variances = [], [], [], []
    for i, layer in enumerate(inputs):
        step = [step_w[i] if step_w else 0.0, step_h[i] if step_w else 0.0]
        box, var = prior_box(
            layer,
            image,
            as_list(min_sizes[i]),
            as_list(max_sizes[i]),
            [] if aspect_ratios is None else as_list(aspect_ratios[i]),
            variance,
            flip,
            clip,
            step,
            offset,
            None,
            min_max_aspect_ratios_order,
        )
        boxes.append(box)
        variances.append(var)
        count = box.shape[2]
        places.append(_by_cell(layer, count * 4, kernel_size, pad, stride))
        scores.append(_by_cell(layer, count * num_classes, kernel_size, pad, stride))
    if layers == 1:
        return places[0], scores[0], *not_trained(boxes[0], variances[0])
    place, score = concat(places, axis=1), concat(scores, axis=1)
    return (
        _ops.reshape2(place, shape=[0, -1, 4]),
        _ops.reshape2(score, shape=[0, -1, num_classes]),
        *not_trained(concat([_flat(b, 3) for b in boxes]), concat([_flat(v, 3) for v in variances])),
    )
