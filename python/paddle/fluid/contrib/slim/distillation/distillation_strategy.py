"""DistillationStrategy: trains the student's graph merged with the teacher's from one epoch to another."""

from __future__ import annotations

from typing import Any

from ..strategy import Strategy

__all__ = ["DistillationStrategy"]

_BACKUP = "distillation_backup_optimize_graph"


class DistillationStrategy(Strategy):
    """Trains by the losses of `distillers` from `start_epoch` to before `end_epoch`; afterwards by the own loss again.

    Args:
        distillers (list): what adds losses, such as L2Distiller.
        start_epoch, end_epoch (int): the first epoch, and the one after the last.

    The Compressor needs `teacher_programs` and `distiller_optimizer`.

    Source: fluid.contrib.slim.distillation of Paddle 1.8.
    """

    def __init__(self, distillers: Any = None, start_epoch: int = 0, end_epoch: int = 0) -> None:
        super().__init__(start_epoch, end_epoch)
        self.distillers = distillers or []

    def restore_from_checkpoint(self, context: Any) -> None:
        if max(self.start_epoch, 0) < context.epoch_id < self.end_epoch:
            self._merge(context)

    def on_epoch_begin(self, context: Any) -> None:
        if context.epoch_id == self.start_epoch:
            self._merge(context)

    def _merge(self, context: Any) -> None:
        if not context.teacher_graphs or context.distiller_optimizer is None:
            raise ValueError("DistillationStrategy: the Compressor needs teacher_programs and distiller_optimizer")
        teacher = context.teacher_graphs[0]
        for var in teacher.program.list_vars():
            var.stop_gradient = True
        graph = context.train_graph.clone()
        graph.merge(teacher)
        if "loss" in graph.out_nodes:
            graph.out_nodes["student_loss"] = graph.out_nodes["loss"]
        for distiller in self.distillers:
            graph = distiller.distiller_loss(graph)
        context.distiller_optimizer._name = "distillation_optimizer"
        graph.minimize(context.distiller_optimizer, context.place, context.scope)
        context.put(_BACKUP, context.optimize_graph)
        context.optimize_graph = graph

    def on_epoch_end(self, context: Any) -> None:
        if context.epoch_id == self.end_epoch - 1:
            context.optimize_graph = context.get(_BACKUP)
