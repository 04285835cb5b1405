"""fluid.evaluator: metrics whose states are variables of the Program; deprecated in favour of fluid.metrics."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from paddle import _ops
from paddle._basics import unique_name
from paddle._basics.dtypes import VarType
from paddle._programs.guards import program_guard
from paddle._programs.program import Program
from paddle.fluid import layers, metrics
from paddle.nn.initializer.base import Constant
from paddle.nn.layer_helper import LayerHelper

__all__ = ["ChunkEvaluator", "DetectionMAP", "EditDistance", "Evaluator"]


def _clone(block: Any, var: Any) -> Any:
    return block.create_var(
        name=var.name, shape=var.shape, dtype=var.dtype, type=var.type, lod_level=var.lod_level, persistable=True
    )


class Evaluator:
    """Base: `states` are variables that the main Program accumulates, `metrics` the values of a batch.

    Args:
        name: prefix of the names of variables.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        own = type(self).__name__
        text = f"fluid.evaluator.{own} is deprecated: fluid.metrics.{own} leaves the Program alone"
        warnings.warn(text, stacklevel=3)
        self.states: list[Any] = []
        self.metrics: list[Any] = []
        self.helper = LayerHelper(name, **kwargs)

    def reset(self, executor: Any, reset_program: Any = None) -> None:
        """Sets the states to zero, by a Program that the executor runs."""
        program = Program() if reset_program is None else reset_program
        with program_guard(program):
            for var in self.states:
                own = _clone(program.current_block(), var)
                _ops.fill_constant(shape=list(own.shape), dtype=own.dtype, value=0.0, Out=own)
        executor.run(program)

    def eval(self, executor: Any, eval_program: Any = None) -> Any:
        """The value over all batches since `reset`.

        Raises:
            NotImplementedError: in the base class.
        """
        raise NotImplementedError("Evaluator.eval is implemented by subclasses")

    def _create_state(self, suffix: str, dtype: str, shape: list[int]) -> Any:
        name = "_".join([unique_name.generate(self.helper.name), suffix])
        var = self.helper.create_global_variable(name=name, persistable=True, dtype=dtype, shape=shape)
        # Paddle relies on `reset`; here the startup Program sets zeros as well.
        self.helper.set_variable_initializer(var, Constant(0.0))
        self.states.append(var)
        return var


class ChunkEvaluator(Evaluator):
    """Precision, recall and F1 of chunks over all batches.

    Args:
        input, label: tags, as of `fluid.layers.chunk_eval`.
        chunk_scheme: IOB, IOE, IOBES or plain.
        num_chunk_types: number of chunk types.
        excluded_chunk_types: types that are ignored.

    Raises:
        ValueError: inside a sub-block.
    """

    def __init__(
        self,
        input: Any,  # noqa: A002
        label: Any,
        chunk_scheme: str,
        num_chunk_types: int,
        excluded_chunk_types: Any = None,
    ) -> None:
        super().__init__("chunk_eval")
        if self.helper.main_program.current_block().idx != 0:
            raise ValueError("You can only invoke Evaluator in root block")
        names = ("num_infer_chunks", "num_label_chunks", "num_correct_chunks")
        states = [self._create_state(name, "int64", [1]) for name in names]
        self.num_infer_chunks, self.num_label_chunks, self.num_correct_chunks = states
        *metrics, found, labelled, correct = layers.chunk_eval(
            input=input,
            label=label,
            chunk_scheme=chunk_scheme,
            num_chunk_types=num_chunk_types,
            excluded_chunk_types=excluded_chunk_types,
        )
        for state, part in zip(states, (found, labelled, correct), strict=True):
            _ops.sum([state, part], Out=state)
        self.metrics += metrics

    def eval(self, executor: Any, eval_program: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(precision, recall, F1), by a Program that the executor runs."""
        program = Program() if eval_program is None else eval_program
        block = program.current_block()
        counts = executor.run(program, fetch_list=[_clone(block, state) for state in self.states])
        found, labelled, correct = (int(count[0]) for count in counts)
        precision = correct / found if found else 0.0
        recall = correct / labelled if labelled else 0.0
        f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
        return np.array([precision], "float32"), np.array([recall], "float32"), np.array([f1], "float32")


class EditDistance(Evaluator):
    """The mean edit distance of sequences, and the fraction of sequences with an error.

    Args:
        input, label: integer sequences, as of `fluid.layers.edit_distance`.
        ignored_tokens: a list of tokens to ignore.

    Raises:
        ValueError: inside a sub-block.
    """

    def __init__(self, input: Any, label: Any, ignored_tokens: Any = None, **kwargs: Any) -> None:  # noqa: A002
        super().__init__("edit_distance", **kwargs)
        if self.helper.main_program.current_block().idx != 0:
            raise ValueError("You can only invoke Evaluator in root block")
        self.total_distance = self._create_state("total_distance", "float32", [1])
        self.seq_num = self._create_state("seq_num", "int64", [1])
        self.instance_error = self._create_state("instance_error", "int64", [1])
        distances, number = layers.edit_distance(input=input, label=label, ignored_tokens=ignored_tokens)
        zero = _ops.fill_constant(shape=[1], dtype=VarType.FP32, value=0.0)
        right = _ops.equal(distances, zero)
        right = _ops.reduce_sum(_ops.cast(right, in_dtype=right.dtype, out_dtype=VarType.INT64), reduce_all=True)
        errors = _ops.elementwise_sub(number, right)
        total = _ops.reduce_sum(distances, reduce_all=True)
        for state, part in ((self.total_distance, total), (self.seq_num, number), (self.instance_error, errors)):
            _ops.sum([state, part], Out=state)
        self.metrics += [total, errors]

    def eval(self, executor: Any, eval_program: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """(mean distance, fraction of sequences with an error), by a Program that the executor runs."""
        program = Program() if eval_program is None else eval_program
        with program_guard(program):
            block = program.current_block()
            states = (self.total_distance, self.seq_num, self.instance_error)
            distance, number, errors = (_clone(block, v) for v in states)
            number, errors = (_ops.cast(v, in_dtype=v.dtype, out_dtype=VarType.FP32) for v in (number, errors))
            means = [_ops.elementwise_div(v, number) for v in (distance, errors)]
        result = executor.run(program, fetch_list=means)
        return np.array(result[0]), np.array(result[1])


class DetectionMAP(metrics.DetectionMAP, Evaluator):
    """The mean average precision of detections: `fluid.metrics.DetectionMAP` under its older name."""

    def _begin(self) -> None:
        Evaluator.__init__(self, "map_eval")
