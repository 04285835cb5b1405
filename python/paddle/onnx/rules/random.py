"""Random numbers; dropout of inference."""

from __future__ import annotations

from ..call import Call
from ..graph import onnx_type
from ..registry import rule


@rule("dropout")
def _dropout(c: Call) -> None:
    if not c.attr("is_test"):
        c.fail("it has to be in test mode (is_test, Program.clone(for_test=True), Layer.eval())")
    if c.attr("dropout_implementation") == "upscale_in_train":
        c.set("Out", c.op("Identity", c.x()))
    else:
        c.set("Out", c.op("Mul", c.x(), c.like(1.0 - c.attr("dropout_prob"))))


def _drawn(c: Call, kind: str, shape: list[int] | str, **attrs: float) -> str:
    """Random numbers of a shape; other numbers than the Program's, with the same distribution."""
    dtype = c.element_type()
    if c.attr("seed"):
        attrs["seed"] = float(c.attr("seed"))
    if isinstance(shape, list):
        return c.op(kind, dtype=onnx_type(dtype), shape=shape, **attrs)
    return c.op(f"{kind}Like", c.full(shape, 0, dtype), dtype=onnx_type(dtype), **attrs)


@rule("uniform_random")
def _uniform(c: Call) -> None:
    shape = c.ints("shape", "ShapeTensor", "ShapeTensorList")
    c.set("Out", _drawn(c, "RandomUniform", shape, low=float(c.attr("min")), high=float(c.attr("max"))))


@rule("gaussian_random")
def _gaussian(c: Call) -> None:
    shape = c.ints("shape", "ShapeTensor", "ShapeTensorList")
    c.set("Out", _drawn(c, "RandomNormal", shape, mean=float(c.attr("mean")), scale=float(c.attr("std"))))


def _batch_shape(c: Call) -> list[int] | str:
    shape, at = [int(n) for n in c.attr("shape")], c.attr("output_dim_idx")
    size = c.size(c.attr("input_dim_idx"), "Input")
    known = c.known(size)
    if known is not None:
        return [*shape[:at], int(known[0]), *shape[at + 1 :]]
    parts = [c.const(shape[:at])] if at else []
    parts += [size] + ([c.const(shape[at + 1 :])] if shape[at + 1 :] else [])
    return c.op("Concat", *parts, axis=0) if len(parts) > 1 else size


@rule("uniform_random_batch_size_like")
def _uniform_like(c: Call) -> None:
    c.set("Out", _drawn(c, "RandomUniform", _batch_shape(c), low=float(c.attr("min")), high=float(c.attr("max"))))


@rule("gaussian_random_batch_size_like")
def _gaussian_like(c: Call) -> None:
    c.set("Out", _drawn(c, "RandomNormal", _batch_shape(c), mean=float(c.attr("mean")), scale=float(c.attr("std"))))


@rule("randint")
def _randint(c: Call) -> None:
    dtype, shape = c.element_type(), c.ints("shape", "ShapeTensor", "ShapeTensorList")
    low, high = float(c.attr("low")), float(c.attr("high"))
    attrs = {"seed": float(c.attr("seed"))} if c.attr("seed") else {}
    if isinstance(shape, list):
        drawn = c.op("RandomUniform", dtype=onnx_type("float32"), shape=shape, low=low, high=high, **attrs)
    else:
        drawn = c.op(
            "RandomUniformLike", c.full(shape, 0, "float32"), dtype=onnx_type("float32"), low=low, high=high, **attrs
        )
    c.set("Out", c.cast(c.op("Floor", drawn), dtype))


@rule("bernoulli")
def _bernoulli(c: Call) -> None:
    drawn = c.op("RandomUniformLike", c.x(), low=0.0, high=1.0)
    c.set("Out", c.cast(c.op("Less", drawn, c.x()), c.dtype()))


@rule("multinomial")
def _multinomial(c: Call) -> None:
    if not c.attr("replacement"):
        c.fail("only draws with replacement have a rule")
    rank = c.rank()
    x = c.x() if rank == 2 else c.unsqueeze(c.x(), [0])
    out = c.op("Multinomial", c.op("Log", x), dtype=onnx_type("int64"), sample_size=c.attr("num_samples"))
    c.set("Out", out if rank == 2 else c.squeeze(out, [0]))
