"""QuantizationStrategy: quantization-aware training in a Compressor."""

from __future__ import annotations

from typing import Any

from paddle._programs.graph import Graph
from paddle._programs.program import Program
from paddle.fluid import io
from paddle.static import CompiledProgram, Executor, scope_guard
from paddle.static.ir_graph import IrGraph

from ..strategy import Strategy
from .freezing import ConvertToInt8Pass, QuantizationFreezePass, TransformForMobilePass
from .quantization_pass import QuantizationTransformPass

__all__ = ["QuantizationStrategy"]

_TEST_GRAPH = "quantization_test_ir_graph_backup"


class QuantizationStrategy(Strategy):
    """Quantizes the graphs in `start_epoch`; freezes and saves the graph for evaluation at the end of `end_epoch`.

    Args:
        start_epoch, end_epoch (int): the epochs.
        float_model_save_path, int8_model_save_path, mobile_model_save_path (str): folders of the saved models, in the
            files ``model`` and ``weights``; None: not saved.
        activation_bits, weight_bits, activation_quantize_type, weight_quantize_type: as for QuantizationTransformPass.
        save_in_nodes, save_out_nodes (list of str): inputs and outputs of the saved models; None: those of the
            Compressor's evaluation.

    Source: fluid.contrib.slim.quantization.QuantizationStrategy of Paddle 1.8.
    """

    def __init__(
        self,
        start_epoch: int = 0,
        end_epoch: int = 0,
        float_model_save_path: str | None = None,
        mobile_model_save_path: str | None = None,
        int8_model_save_path: str | None = None,
        activation_bits: int = 8,
        weight_bits: int = 8,
        activation_quantize_type: str = "abs_max",
        weight_quantize_type: str = "abs_max",
        save_in_nodes: Any = None,
        save_out_nodes: Any = None,
    ) -> None:
        super().__init__(start_epoch, end_epoch)
        self.float_model_save_path = float_model_save_path
        self.mobile_model_save_path = mobile_model_save_path
        self.int8_model_save_path = int8_model_save_path
        self.activation_bits = activation_bits
        self.weight_bits = weight_bits
        self.activation_quantize_type = activation_quantize_type
        self.weight_quantize_type = weight_quantize_type
        self.save_in_nodes = save_in_nodes
        self.save_out_nodes = save_out_nodes

    def restore_from_checkpoint(self, context: Any) -> None:
        if context.epoch_id > max(self.start_epoch, 0):
            self._quantize(context)

    def on_epoch_begin(self, context: Any) -> None:
        if context.epoch_id == self.start_epoch:
            self._quantize(context)

    def _quantize(self, context: Any) -> None:
        insert = QuantizationTransformPass(
            scope=context.scope,
            place=context.place,
            weight_bits=self.weight_bits,
            activation_bits=self.activation_bits,
            activation_quantize_type=self.activation_quantize_type,
            weight_quantize_type=self.weight_quantize_type,
        )
        graph = context.optimize_graph
        train = IrGraph(Graph(graph.program.clone().desc), for_test=False)
        test = IrGraph(Graph(context.eval_graph.program.clone().desc), for_test=True)
        insert.apply(train)
        insert.apply(test)
        # Checkpoints contain the scales, too.
        known, others = {v.name for v in graph.program.list_vars() if v.persistable}, Program()
        for node in train.all_persistable_nodes():
            if node.name() not in known:
                desc = node.var()
                graph.persistables[node.name()] = others.global_block().create_var(
                    name=node.name(),
                    shape=desc.shape(),
                    dtype=desc.dtype(),
                    type=desc.type(),
                    lod_level=desc.lod_level(),
                    persistable=True,
                )
        graph.compiled_graph = CompiledProgram(train.graph).with_data_parallel(loss_name=graph.out_nodes["loss"])
        context.eval_graph.program = test.to_program()
        context.put(_TEST_GRAPH, test)

    def on_epoch_end(self, context: Any) -> None:
        if context.epoch_id != self.end_epoch:
            return
        test, at = context.get(_TEST_GRAPH), {"scope": context.scope, "place": context.place}
        QuantizationFreezePass(
            weight_bits=self.weight_bits,
            activation_bits=self.activation_bits,
            weight_quantize_type=self.weight_quantize_type,
            **at,
        ).apply(test)
        context.eval_graph.program = test.to_program()
        if self.float_model_save_path:
            self._save(context, test, self.float_model_save_path)
        if self.int8_model_save_path or self.mobile_model_save_path:
            ConvertToInt8Pass(**at).apply(test)
        if self.int8_model_save_path:
            self._save(context, test, self.int8_model_save_path)
        if self.mobile_model_save_path:
            TransformForMobilePass().apply(test)
            self._save(context, test, self.mobile_model_save_path)

    def _save(self, context: Any, graph: IrGraph, path: str) -> None:
        graphs = context.eval_graph
        outputs = self.save_out_nodes if self.save_out_nodes is not None else list(graphs.out_nodes.values())
        inputs = self.save_in_nodes if self.save_in_nodes is not None else list(graphs.in_nodes.values())
        program = graph.to_program()
        with scope_guard(context.scope):
            io.save_inference_model(
                path,
                list(inputs),
                [program.global_block().var(name) for name in outputs],
                Executor(context.place),
                main_program=program,
                model_filename="model",
                params_filename="weights",
            )
