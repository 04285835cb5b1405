"""WeightQuantization: a saved model with weights of 8 or 16 bits."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from paddle._basics.place import CPUPlace
from paddle.fluid.io import load_inference_model, save_inference_model
from paddle.static import Executor, global_scope

from .inserting import load, store

__all__ = ["WeightQuantization"]


class WeightQuantization:
    """Quantizes the weights of a saved model, which reduces its size; an inference engine dequantizes them.

    Args:
        model_dir (str), model_filename (str), params_filename (str): as for `load_inference_model`.
    """

    _supported_quantizable_op_type = ["conv2d", "depthwise_conv2d", "mul"]
    _supported_weight_quantize_type = ["channel_wise_abs_max", "abs_max"]

    def __init__(self, model_dir, model_filename=None, params_filename=None) -> None:
        self._files = {"dirname": model_dir, "model_filename": model_filename, "params_filename": params_filename}

    def quantize_weight_to_int(
        self,
        save_model_dir,
        save_model_filename=None,
        save_params_filename=None,
        quantizable_op_type=["conv2d", "mul"],  # noqa: B006 (Paddle's default)
        weight_bits=8,
        weight_quantize_type="channel_wise_abs_max",
        generate_test_model=False,
        threshold_rate=0.0,
    ) -> None:
        """Writes the quantized model to `save_model_dir`/quantized_model.

        Args:
            save_model_dir (str), save_model_filename (str), save_params_filename (str): the files.
            quantizable_op_type (list of str): the operators, of conv2d, depthwise_conv2d and mul.
            weight_bits (int): 8 or 16.
            weight_quantize_type (str): "abs_max" (one scale), "channel_wise_abs_max".
            generate_test_model (bool): also write a model with dequantized weights, which runs here, to test_model.
            threshold_rate (float): with one scale, the fraction of weights that may be clipped.
        """
        for op in quantizable_op_type:
            assert op in self._supported_quantizable_op_type, f"{op} is not supported for weight quantization."
        assert weight_bits in (8, 16), f"weight_bits should be 8 or 16, got {weight_bits}"
        assert weight_quantize_type in self._supported_weight_quantize_type, (
            f"weight_quantize_type must be one of {self._supported_weight_quantize_type}, got {weight_quantize_type!r}"
        )
        files = {"model_filename": save_model_filename, "params_filename": save_params_filename}
        how = quantizable_op_type, weight_bits, weight_quantize_type, threshold_rate
        self._write(os.path.join(save_model_dir, "quantized_model"), files, False, *how)
        if generate_test_model:
            self._write(os.path.join(save_model_dir, "test_model"), files, True, *how)

    def _write(self, folder: str, files: dict, runs: bool, ops: Any, bits: int, kind: str, rate: float) -> None:
        place, scope = CPUPlace(), global_scope()
        exe = Executor(place)
        program, feeds, fetches = load_inference_model(executor=exe, **self._files)
        persistable = {v.name for v in program.list_vars() if v.persistable}
        for op in [op for block in program.blocks for op in block.ops if op.type in ops]:
            for name in op.input_arg_names:
                if name in persistable:
                    weight = load(scope, name)
                    rounded, scale = _round(weight, op.type, bits, kind, rate)
                    back = (rounded * scale).astype("float32")
                    store(scope, place, name, back if runs else rounded)
                    op._set_attr("quantization_type", f"post_weight_{kind}")
                    op._set_attr("quantize_weight_bits", bits)
                    op._set_attr(f"{name}_quant_scale", [float(s) for s in scale.ravel()])
        save_inference_model(
            dirname=folder, feeded_var_names=feeds, target_vars=fetches, executor=exe, main_program=program, **files
        )


def _round(weight: np.ndarray, op: str, bits: int, kind: str, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Integers, and their scale: a number, or one for each channel."""
    if kind == "abs_max":
        most: Any = np.max(np.abs(weight)) if abs(rate) < 1e-10 else _clip_threshold(np.abs(weight), rate)
        weight = np.clip(weight, -most, most)
    else:
        channel = weight.ndim - 1 if op == "mul" else 0
        most = np.max(np.abs(weight), axis=tuple(i for i in range(weight.ndim) if i != channel), keepdims=True)
    scale = np.asarray(most / ((1 << (bits - 1)) - 1), weight.dtype)
    # avoids a division by zero for channels of zeros
    levels = np.around(np.divide(weight, scale, out=np.zeros_like(weight), where=scale != 0))
    return levels.astype(np.int8 if bits == 8 else np.int16), scale


def _clip_threshold(magnitudes: np.ndarray, rate: float, bins: int = 5000) -> float:
    """The end of the bin that bounds all magnitudes but the given fraction."""
    counts, edges = np.histogram(magnitudes, bins=bins, range=(0, np.max(magnitudes)))
    reached = np.cumsum(counts / counts.sum()) >= 1.0 - rate
    return float((np.argmax(reached) + 1 if reached.any() else 0) * (edges[1] - edges[0]))
