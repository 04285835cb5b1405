"""Image layers of fluid.layers.nn: resizing, padding, cropping, grids, local normalization and channel operations."""

from __future__ import annotations

import warnings

import numpy as np

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.checks import INTS, check_type
from paddle._basics.dtypes import VarType
from paddle._basics.element_types import FLOATS, HALF_NUMERIC, NUMERIC
from paddle._basics.mode import in_static_mode
from paddle._dispatch.append import activated, named
from paddle._programs import guards
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.functional import activation, common, vision
from paddle.nn.functional.padding import pad_all
from paddle.nn.functional.resize import check_resize, size_arguments
from paddle.static.nn.norms import inplace_abn, instance_norm, prelu, spectral_norm
from paddle.tensor.crop_tensor import crop as crop_tensor

__all__ = [
    "image_resize",
    "interpolate",
    "image_resize_short",
    "resize_linear",
    "resize_bilinear",
    "resize_trilinear",
    "resize_nearest",
    "pad",
    "pad2d",
    "pad_constant_like",
    "crop",
    "crop_tensor",
    "random_crop",
    "affine_grid",
    "grid_sampler",
    "instance_norm",
    "inplace_abn",
    "spectral_norm",
    "prelu",
    "lrn",
    "maxout",
    "label_smooth",
    "space_to_depth",
    "shuffle_channel",
    "pixel_shuffle",
    "temporal_shift",
    "affine_channel",
    "add_position_encoding",
    "clip_by_norm",
]

_METHODS = ("LINEAR", "BILINEAR", "TRILINEAR", "NEAREST")


def image_resize(
    input,  # noqa: A002
    out_shape=None,
    scale=None,
    name=None,
    resample="BILINEAR",
    actual_shape=None,
    align_corners=True,
    align_mode=1,
    data_format="NCHW",
):
    """Resizes images; see :func:`paddle.nn.functional.interpolate`.

    Args:
        input (Variable): [N, C, axes...], or [N, axes..., C] (`data_format`).
        out_shape (list|tuple|Variable, optional): sizes of the axes; tensors of shape [1] are accepted.
        scale (float|Variable, optional): instead of sizes, a factor for all axes.
        resample (str): "LINEAR", "BILINEAR", "TRILINEAR" or "NEAREST".
        actual_shape (Variable, optional): the sizes at run time.
        align_corners (bool): align the centers of the corner pixels.
        align_mode (int): without align_corners: 0: pixel centers, 1: pixel corners.
        data_format (str): "NCW", "NWC"; "NCHW", "NHWC"; "NCDHW", "NDHWC".

    Raises:
        ValueError: for an invalid method, number of dimensions or data_format, or neither size nor scale.
        TypeError: for sizes, a scale or align_corners of other types.
    """
    resample = resample.upper()
    if resample not in _METHODS:
        raise ValueError(f"image_resize: resample must be one of {', '.join(_METHODS)}, got '{resample:.200}'")
    method = resample.lower()
    layout = check_resize("image_resize", input, method, align_corners, align_mode, data_format)
    if out_shape is None and scale is None:
        raise ValueError("image_resize: one of out_shape and scale must not be None")
    sizes = {"out_d": -1, "out_h": -1, "out_w": -1}
    if out_shape is not None:
        sizes |= size_arguments("image_resize", out_shape, len(input.shape) - 2)
    elif isinstance(scale, Variable):
        scale.stop_gradient = True
        sizes["Scale"] = scale
    elif isinstance(scale, (*INTS, float)):
        if scale <= 0:
            raise ValueError(f"image_resize: scale should be greater than zero, got {scale}")
        sizes["scale"] = float(scale)
    else:
        raise TypeError(f"image_resize: scale must be float, int or Variable, got {type(scale)}")
    if isinstance(actual_shape, Variable):
        warnings.warn("actual_shape is deprecated, out_shape may be a Variable", stacklevel=2)
        actual_shape.stop_gradient = True
        sizes["OutSize"] = actual_shape
    elif actual_shape is not None:
        raise TypeError("image_resize: actual_shape should either be Variable or None")
    return named(
        name,
        getattr(_ops, method + "_interp"),
        input,
        interp_method=method,
        align_corners=align_corners,
        align_mode=align_mode,
        data_layout=layout,
        **sizes,
    )


interpolate = image_resize


def _resize(method, rank):
    def resize(
        input,  # noqa: A002
        out_shape=None,
        scale=None,
        name=None,
        actual_shape=None,
        align_corners=True,
        align_mode=1,
        data_format=rank,
    ):
        return image_resize(input, out_shape, scale, name, method, actual_shape, align_corners, align_mode, data_format)

    resize.__name__ = resize.__qualname__ = "resize_" + method.lower()
    resize.__doc__ = f':func:`image_resize` with resample="{method}".'
    return resize


resize_linear = _resize("LINEAR", "NCW")
resize_bilinear = _resize("BILINEAR", "NCHW")
resize_trilinear = _resize("TRILINEAR", "NCDHW")


def resize_nearest(
    input,  # noqa: A002
    out_shape=None,
    scale=None,
    name=None,
    actual_shape=None,
    align_corners=True,
    data_format="NCHW",
):
    """:func:`image_resize` with resample="NEAREST"."""
    return image_resize(input, out_shape, scale, name, "NEAREST", actual_shape, align_corners, 1, data_format)


def image_resize_short(input, out_short_len, resample="BILINEAR"):  # noqa: A002
    """Images [N, C, H, W] resized to `out_short_len` along the shorter side, keeping proportions.

    Raises:
        ValueError: for another number of dimensions.
    """
    if len(input.shape) != 4:
        raise ValueError("image_resize_short: the rank of input must be 4 (num_batches, channels, in_h, in_w)")
    sides = list(input.shape[2:4])
    short = sides.index(min(sides))
    sizes = [out_short_len, out_short_len]
    sizes[1 - short] = int(float(sides[1 - short]) * (float(out_short_len) / float(sides[short])) + 0.5)
    return image_resize(input, out_shape=sizes, resample=resample)


def pad(x, paddings, pad_value=0.0, name=None):
    """`x` padded with a constant.

    Args:
        x (Variable): numbers.
        paddings (list|tuple): two ints per dimension: elements before and after it, none negative (ValueError).
        pad_value (float): the constant.
    """
    return pad_all(x, paddings, pad_value, name)


def pad2d(
    input,  # noqa: A002
    paddings=[0, 0, 0, 0],  # noqa: B006 (2.0.2's signature)
    mode="constant",
    pad_value=0.0,
    data_format="NCHW",
    name=None,
):
    """Pads the height and width of images.

    Args:
        input (Variable): [N, C, H, W], or [N, H, W, C] for NHWC.
        paddings (list|tuple|Variable): top, bottom, left, right.
        mode (str): "constant", "reflect" (without the edge pixel), "edge".
        pad_value (float): the constant of "constant".

    Raises:
        AssertionError: for another mode.
    """
    check_variable_and_dtype(input, "input", HALF_NUMERIC, "pad2d")
    modes = ("constant", "reflect", "edge")
    assert mode in modes, f"pad2d: mode should be one of {', '.join(modes)}, got {mode!s:.200}"
    tensor = isinstance(paddings, Variable)
    slots = {"paddings": [], "Paddings": paddings} if tensor else {"paddings": list(paddings)}
    return named(name, _ops.pad2d, input, mode=mode, pad_value=float(pad_value), data_format=data_format, **slots)


def pad_constant_like(x, y, pad_value=0.0, name=None):
    """`y` padded with a constant after each dimension to the shape of `x` (ValueError if it is larger)."""
    check_type(x, "x", Variable, "pad_constant_like")
    check_variable_and_dtype(y, "y", NUMERIC, "pad_constant_like")
    return named(name, _ops.pad_constant_like, x, y, pad_value=float(pad_value))


def crop(x, shape=None, offsets=None, name=None):
    """A slice of `x` that begins at `offsets`.

    Args:
        x (Variable): float32.
        shape (list|tuple|Variable): sizes, or a Variable whose shape is used.
        offsets (list|tuple|Variable, optional): an int per dimension (default: zeros).
    """
    check_variable_and_dtype(x, "x", ["float32"], "crop")
    check_type(shape, "shape", (list, tuple, Variable), "crop")
    slots = {"Y": shape} if isinstance(shape, Variable) else {"shape": list(shape)}
    if isinstance(offsets, Variable):
        slots["Offsets"] = offsets
    else:
        slots["offsets"] = [0] * len(x.shape) if offsets is None else list(offsets)
    return named(name, _ops.crop, x, **slots)


def random_crop(x, shape, seed=None):
    """A slice of each instance of a batch at a random offset.

    Args:
        x (Variable): the batch.
        shape (list): the shape of a slice: the last dimensions of the result.
        seed (int|Variable, optional): the seed; a Variable receives the next seed.

    Raises:
        ValueError: for a seed of another type.
    """
    check_variable_and_dtype(x, "x", ["float32", "float64", "uint8", "int16", "int32"], "random_crop")
    check_type(shape, "shape", (list, Variable), "random_crop")
    if seed is None:
        seed = int(np.random.randint(-65536, 65536))
    attrs = {"shape": shape}
    if isinstance(seed, int):
        attrs["startup_seed"] = seed
        if not in_static_mode():
            seed = _ops.fill_constant(shape=[1], dtype=VarType.INT64, str_value=str(seed), value=float(seed))
            return _ops.random_crop(x, seed, **attrs)[0]
        seed = (
            guards.default_main_program()
            .current_block()
            .create_var(name=unique_name.generate("random_crop_seed"), dtype="int64", persistable=True)
        )
    elif not isinstance(seed, Variable):
        raise ValueError(f"random_crop: 'seed' must be a Variable or an int, got {type(seed)}")
    return _ops.random_crop(x, seed, **attrs, SeedOut=seed)[0]


def affine_grid(theta, out_shape, name=None):
    """:func:`paddle.nn.functional.affine_grid` with align_corners."""
    return vision.affine_grid(theta, out_shape, True, name)


def grid_sampler(x, grid, name=None):
    """:func:`paddle.nn.functional.grid_sample`: bilinear, zeros outside, align_corners."""
    return vision.grid_sample(x, grid, name=name)


def lrn(input, n=5, k=1.0, alpha=0.0001, beta=0.75, name=None, data_format="NCHW"):  # noqa: A002
    """Local response normalization: input / (k + alpha * sum of squares over `n` adjacent channels) ** beta.

    Args:
        input (Variable): float32 images of 4 dimensions.
        n (int): odd.
        data_format (str): "NCHW" or "NHWC".

    Raises:
        ValueError: for another number of dimensions or format, or an even `n`.
    """
    check_variable_and_dtype(input, "input", ["float32"], "lrn")
    if len(input.shape) != 4:
        raise ValueError(f"lrn: input must have 4 dimensions, got {len(input.shape)}")
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError(f"lrn: data_format must be NCHW or NHWC, got {data_format!s:.200}")
    out, mid = named(name, _ops.lrn, input, n=n, k=k, alpha=alpha, beta=beta, data_format=data_format)
    mid.stop_gradient = True
    return out


def maxout(x, groups, name=None, axis=1):
    """:func:`paddle.nn.functional.maxout`."""
    return activation.maxout(x, groups, axis, name)


def label_smooth(label, prior_dist=None, epsilon=0.1, dtype="float32", name=None):
    """:func:`paddle.nn.functional.label_smooth`; `dtype` is ignored."""
    return common.label_smooth(label, prior_dist, epsilon, name)


def space_to_depth(x, blocksize, name=None):
    """Moves blocks of pixels to channels: [N, C, H, W] to [N, C * b * b, H / b, W / b].

    Args:
        x (Variable): numbers; C a multiple of b * b, H and W of b (ValueError).
        blocksize (int): greater than 1 (ValueError).
    """
    if not isinstance(blocksize, INTS):
        raise ValueError("blocksize must be a python Int")
    check_variable_and_dtype(x, "x", HALF_NUMERIC, "space_to_depth")
    return named(name, _ops.space_to_depth, x, blocksize=blocksize)


def shuffle_channel(x, group, name=None):
    """Shuffles the channels of [N, C, H, W]: transposes [group, C / group].

    Args:
        group (int): number of groups; divides the channels (ValueError). TypeError for another type.
    """
    if not isinstance(group, INTS):
        raise TypeError("group must be int type")
    return named(name, _ops.shuffle_channel, x, group=group)


def pixel_shuffle(x, upscale_factor):
    """:func:`paddle.nn.functional.pixel_shuffle` of [N, C, H, W]."""
    return vision.pixel_shuffle(x, upscale_factor)


def temporal_shift(x, seg_num, shift_ratio=0.25, name=None):
    """:func:`paddle.nn.functional.temporal_shift`."""
    return vision.temporal_shift(x, seg_num, shift_ratio, name)


def affine_channel(x, scale=None, bias=None, data_layout="NCHW", name=None, act=None):
    """act(x * scale + bias) with a scale and bias per channel.

    Args:
        x (Variable): float32 or float64.
        scale, bias (Variable): one element per channel.
        data_layout (str): "NCHW": channels are the second dimension; else the last.
        act (str, optional): name of an activation operator.
    """
    check_variable_and_dtype(x, "x", FLOATS, "affine_channel")
    check_type(scale, "scale", (Variable, type(None)), "affine_channel")
    check_type(bias, "bias", (Variable, type(None)), "affine_channel")
    out = named(name, _ops.affine_channel, x, scale, bias, data_layout=data_layout)
    return activated(out, act, name, "affine_channel")


def add_position_encoding(input, alpha, beta, name=None):  # noqa: A002
    """alpha * input + beta * sinusoidal position encoding.

    Args:
        input (Variable): float32 or float64, [N, words, size], or [words, size] with LoD; size even (ValueError).
    """
    check_variable_and_dtype(input, "input", FLOATS, "add_position_encoding")
    return named(name, _ops.add_position_encoding, input, alpha=alpha, beta=beta)


def clip_by_norm(x, max_norm, name=None):
    """`x` scaled to the L2 norm `max_norm` if its norm is larger.

    Args:
        x (Variable): float32.
        max_norm (float): positive (ValueError).
    """
    check_variable_and_dtype(x, "X", ["float32"], "clip_by_norm")
    check_type(max_norm, "max_norm", float, "clip_by_norm")
    return named(name, _ops.clip_by_norm, x, max_norm=max_norm)
