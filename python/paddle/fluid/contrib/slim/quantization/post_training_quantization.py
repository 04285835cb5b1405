"""PostTrainingQuantization: quantization of a saved model with calibration batches."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from paddle._programs.graph import Graph
from paddle._programs.guards import _get_var
from paddle.fluid.io import load_inference_model, save_inference_model
from paddle.fluid.log_helper import get_logger
from paddle.io.dataloader import DataLoader
from paddle.static import global_scope
from paddle.static.ir_graph import IrGraph

from .freezing import QuantizationFreezePass
from .inserting import load
from .op_slots import (
    _get_input_name_index,
    _get_op_input_var_names,
    _get_op_output_var_names,
    _get_output_name_index,
    _out_scale_op_list,
)
from .quantization_pass import AddQuantDequantPass, QuantizationTransformPass
from .thresholds import BINS, kl_threshold, of_weight
from .weight_quantization import WeightQuantization

__all__ = ["PostTrainingQuantization", "WeightQuantization"]

_logger = get_logger(__name__, logging.INFO, fmt="%(asctime)s-%(levelname)s: %(message)s")

_DYNAMIC = ["lstm"]
_ACTIVATIONS = ("range_abs_max", "moving_average_abs_max", "abs_max")
_SUPPORTED = sorted(
    {
        *QuantizationTransformPass._supported_quantizable_op_type,
        *AddQuantDequantPass._supported_quantizable_op_type,
        *_DYNAMIC,
    }
)


class PostTrainingQuantization:
    """Runs a saved model on calibration batches, and quantizes it by the observed magnitudes (as 2.0.2's class).

    Args:
        executor (Executor): loads, runs and saves the model.
        scope (Scope): the global one by default.
        model_dir (str), model_filename (str), params_filename (str): as for `load_inference_model`.
        batch_generator, sample_generator (callable): batches or single samples; one of the two is required.
        batch_size (int), batch_nums (int): samples per batch; number of batches, all by default.
        algo (str): how scales are computed: "KL" (least Kullback-Leibler divergence), "abs_max", or "min_max",
            which only records the bounds.
        quantizable_op_type (list of str), is_full_quantize (bool): the operators; all supported ones.
        activation_bits, weight_bits (int): bit widths.
        activation_quantize_type, weight_quantize_type (str): types of the quantization operators.
        optimize_model (bool): fuse convolutions with batch normalization first; not implemented, True raises.
        is_use_cache_file, cache_dir: ignored.

    Raises:
        NotImplementedError: if `optimize_model` is True.
    """

    def __init__(
        self,
        executor=None,
        scope=None,
        model_dir=None,
        model_filename=None,
        params_filename=None,
        batch_generator=None,
        sample_generator=None,
        batch_size=10,
        batch_nums=None,
        algo="KL",
        quantizable_op_type=["conv2d", "depthwise_conv2d", "mul"],  # noqa: B006 (Paddle's default)
        is_full_quantize=False,
        activation_bits=8,
        weight_bits=8,
        activation_quantize_type="range_abs_max",
        weight_quantize_type="channel_wise_abs_max",
        optimize_model=False,
        is_use_cache_file=False,
        cache_dir=None,
    ) -> None:
        assert executor is not None, "The executor cannot be None."
        assert model_dir is not None, "The model_dir cannot be None."
        assert sample_generator or batch_generator, "sample_generator or batch_generator must be given"
        assert batch_size > 0, "The batch_size should be greater than 0."
        for what, value, known in (
            ("algo", algo, ("KL", "abs_max", "min_max")),
            ("activation_quantize_type", activation_quantize_type, _ACTIVATIONS),
            ("weight_quantize_type", weight_quantize_type, ("abs_max", "channel_wise_abs_max")),
        ):
            assert value in known, f"{what} must be one of {', '.join(known)}, got {value!r}"
        for op in quantizable_op_type:
            assert op in _SUPPORTED, f"{op} is not supported for quantization."
        if optimize_model:
            raise NotImplementedError(
                "PostTrainingQuantization: optimize_model needs native passes that fuse conv2d with batch_norm, "
                "which are not implemented; save the model with these folded, or leave it False"
            )
        self._executor, self._place = executor, executor.place
        self._scope = global_scope() if scope is None else scope
        self._files = {"dirname": model_dir, "model_filename": model_filename, "params_filename": params_filename}
        self._sample_generator, self._batch_generator = sample_generator, batch_generator
        self._batch_size, self._batch_nums = batch_size, batch_nums
        self._algo = algo
        self._bits = {"weight_bits": weight_bits, "activation_bits": activation_bits}
        self._activation_quantize_type, self._weight_quantize_type = activation_quantize_type, weight_quantize_type
        self._is_full_quantize = is_full_quantize
        self._quantizable_op_type = _SUPPORTED if is_full_quantize else quantizable_op_type
        self._program: Any = None
        self._feed_list: Any = None
        self._fetch_list: Any = None
        self._data_loader: Any = None
        #: name of a weight -> the operator that reads it
        self._weights: dict[str, str] = {}
        self._activations: dict[str, None] = {}
        self._histograms: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        #: name of a variable -> its threshold: a number, or a list with one for each channel
        self._thresholds: dict[str, Any] = {}
        self._least: dict[str, Any] = {}
        self._most: dict[str, Any] = {}

    def quantize(self):
        """Loads the model, runs the batches, and quantizes it.

        Returns:
            Program: the quantized model.
        """
        self._load_model_data()
        self._collect_target_varnames()
        persistable = [v for v in self._program.list_vars() if v.name in self._activations]
        for var in persistable:  # keeps them in the scope after a run
            var.persistable = True
        if self._algo == "KL":
            self._for_batches(self._see_limits)
            for name in self._activations:
                limits = self._least[name], self._most[name]
                self._histograms[name] = np.histogram([], bins=BINS, range=limits)
            self._for_batches(self._see_histograms)
        else:
            self._for_batches(self._see_limits)
        for var in persistable:
            var.persistable = False
        self._find_thresholds()
        if self._algo == "min_max":
            self._save_input_limits()
        else:
            self._update_program()
        self._save_output_thresholds()
        if any(op in self._quantizable_op_type for op in _DYNAMIC):
            self._save_dynamic_thresholds()
        return self._program

    def save_quantized_model(self, save_model_path, model_filename=None, params_filename=None) -> None:
        """Saves the quantized model as `save_inference_model` does.

        Args:
            save_model_path (str): a folder.
            model_filename (str), params_filename (str): files in it.
        """
        save_inference_model(
            dirname=save_model_path,
            model_filename=model_filename,
            params_filename=params_filename,
            feeded_var_names=self._feed_list,
            target_vars=self._fetch_list,
            executor=self._executor,
            main_program=self._program,
        )
        _logger.info("The quantized model is saved in %s", save_model_path)

    # ------------------------------------------------------------------ calibration

    def _load_model_data(self) -> None:
        loaded = load_inference_model(executor=self._executor, **self._files)
        self._program, self._feed_list, self._fetch_list = loaded
        if self._program.num_blocks > 1:
            _logger.error("The post training quantization requires that the program only has one block.")
        feeds = [_get_var(str(name), self._program) for name in self._feed_list]
        loader = DataLoader.from_generator(feed_list=feeds, capacity=3 * self._batch_size, iterable=True)
        if self._sample_generator is not None:
            how = {"batch_size": self._batch_size, "drop_last": True, "places": self._place}
            loader.set_sample_generator(self._sample_generator, **how)
        else:
            loader.set_batch_generator(self._batch_generator, places=self._place)
        self._data_loader = loader

    def _collect_target_varnames(self) -> None:
        persistable = {v.name for v in self._program.list_vars() if v.persistable}
        for op in self._program.global_block().ops:
            rounded = op.type in self._quantizable_op_type
            if self._is_full_quantize and not rounded:
                _logger.warning("%s is not supported for quantization.", op.type)
            names = _get_op_input_var_names(op) if rounded else []
            if rounded or op.type in _out_scale_op_list:
                names = names + _get_op_output_var_names(op)
            for name in names:
                if name in persistable:
                    self._weights[name] = op.type
                else:
                    self._activations[name] = None

    def _for_batches(self, look: Callable[[str, np.ndarray], None]) -> None:
        count = 0
        for data in self._data_loader():
            self._executor.run(
                program=self._program, feed=data, fetch_list=self._fetch_list, return_numpy=False, scope=self._scope
            )
            for name in self._activations:
                look(name, load(self._scope, name))
            count += 1
            if self._batch_nums and count >= self._batch_nums:
                break
        assert count, "PostTrainingQuantization: the generator yielded no complete batch"
        _logger.info("all batches: %d", count)

    def _see_limits(self, name: str, value: np.ndarray) -> None:
        value = value if self._algo == "min_max" else np.abs(value)
        least, most = float(np.min(value)), float(np.max(value))
        self._least[name] = min(least, self._least.get(name, least))
        self._most[name] = max(most, self._most.get(name, most))

    def _see_histograms(self, name: str, value: np.ndarray) -> None:
        counts, edges = self._histograms[name]
        self._histograms[name] = counts + np.histogram(np.abs(value), bins=edges)[0], edges

    # ------------------------------------------------------------------ quantization

    def _find_thresholds(self) -> None:
        for name, op in self._weights.items():
            weight, kind = load(self._scope, name), self._weight_quantize_type
            if self._algo == "min_max":
                self._least[name] = of_weight(np.min, kind, op, weight)
                self._most[name] = of_weight(np.max, kind, op, weight)
            else:
                self._thresholds[name] = of_weight(np.max, kind, op, np.abs(weight))
        for name in self._activations:
            self._thresholds[name] = kl_threshold(*self._histograms[name]) if self._algo == "KL" else self._most[name]

    def _update_program(self) -> None:
        graph = IrGraph(Graph(self._program.desc), for_test=True)
        ops = self._quantizable_op_type
        weight = {"weight_quantize_type": self._weight_quantize_type}
        QuantizationTransformPass(
            scope=self._scope,
            place=self._place,
            activation_quantize_type=self._activation_quantize_type,
            quantizable_op_type=[op for op in QuantizationTransformPass._supported_quantizable_op_type if op in ops],
            **self._bits,
            **weight,
        ).apply(graph)
        AddQuantDequantPass(
            scope=self._scope,
            place=self._place,
            quantizable_op_type=[op for op in AddQuantDequantPass._supported_quantizable_op_type if op in ops],
        ).apply(graph)
        for name, value in self._thresholds.items():
            for suffix in (".scale", ".quant_dequant.scale"):
                found = self._scope.find_var(name + suffix)
                if found is not None:
                    found.get_tensor().set(np.array([value], "float32"), self._place)
        QuantizationFreezePass(scope=self._scope, place=self._place, **self._bits, **weight).apply(graph)
        self._program = graph.to_program()

    def _save_input_limits(self) -> None:
        for op in self._program.global_block().ops:
            if op.type in self._quantizable_op_type:
                for name in _get_op_input_var_names(op):
                    op._set_attr(f"{name}.min", self._least[name])
                    op._set_attr(f"{name}.max", self._most[name])

    def _save_output_thresholds(self) -> None:
        for op in self._program.global_block().ops:
            if op.type not in (*self._quantizable_op_type, *_out_scale_op_list):
                continue
            names = _get_op_output_var_names(op)
            assert len(names) == 1, f"PostTrainingQuantization: {op.type} must have one output, got {names}"
            (name,) = names
            if self._algo == "min_max":
                found = {"out_min": self._least, "out_max": self._most}
            else:
                slot, number = _get_output_name_index(op, name)  # type: ignore[misc]  # it is an output
                found = dict.fromkeys(("out_threshold", f"{slot}{number}_threshold"), self._thresholds)
            for attr, values in found.items():
                assert name in values, f"no value was observed of {name}, the output of {op.type}"
                op._set_attr(attr, values[name])
            if op.type in self._quantizable_op_type:
                # 2.0.2 writes "post_kl" for abs_max too; engines that read its files expect this value
                op._set_attr("quantization_type", "post_min_max" if self._algo == "min_max" else "post_kl")

    def _save_dynamic_thresholds(self) -> None:
        """The quantization attributes of operators with quantized weights."""
        persistable = {v.name for v in self._program.list_vars() if v.persistable}
        for op in (op for block in self._program.blocks for op in block.ops if op.type in _DYNAMIC):
            for name in _get_op_input_var_names(op):
                if name in persistable:
                    slot, number = _get_input_name_index(op, name)  # type: ignore[misc]  # it is an input
                    op._set_attr(f"{slot}{number}_threshold", float(np.max(np.abs(load(self._scope, name)))))
                    op._set_attr("quantization_type", f"post_{self._algo}".lower())
                    op._set_attr("bit_length", self._bits["weight_bits"])
