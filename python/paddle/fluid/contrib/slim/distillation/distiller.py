"""Distillers: losses between variables of a student and of a teacher, which a graph's loss gets in addition."""

from __future__ import annotations

from typing import Any

from paddle._programs.guards import program_guard
from paddle.fluid import layers

__all__ = ["FSPDistiller", "L2Distiller", "SoftLabelDistiller"]


class _Distiller:
    """A weighted loss that `distiller_loss` adds to the output ``loss`` of a graph, in place."""

    distillation_loss_weight: float

    def distiller_loss(self, graph: Any) -> Any:
        """Adds the loss to `graph` (GraphWrapper); its outputs have the loss by itself, too. Returns `graph`."""
        with program_guard(graph.program):
            name, loss = self._loss(lambda name: graph.var(name)._var)
            loss = loss * self.distillation_loss_weight
            total = loss
            if "loss" in graph.out_nodes:
                total = loss + graph.var(graph.out_nodes["loss"])._var
            graph.out_nodes["loss"] = total.name
            graph.out_nodes[name] = loss.name
        return graph

    def _loss(self, var: Any) -> tuple[str, Any]:
        """The name of the output, and the loss without its weight."""
        raise NotImplementedError


class L2Distiller(_Distiller):
    """The mean squared difference of two variables of one shape.

    Args:
        student_feature_map, teacher_feature_map (str): names of the variables.
        distillation_loss_weight (float): factor of the loss.
    """

    def __init__(self, student_feature_map: str, teacher_feature_map: str, distillation_loss_weight: float = 1) -> None:
        self.student_feature_map = student_feature_map
        self.teacher_feature_map = teacher_feature_map
        self.distillation_loss_weight = distillation_loss_weight

    def _loss(self, var: Any) -> tuple[str, Any]:
        difference = var(self.student_feature_map) - var(self.teacher_feature_map)
        name = f"l2loss_{self.student_feature_map}_{self.teacher_feature_map}"
        return name, layers.reduce_mean(layers.square(difference))


class FSPDistiller(_Distiller):
    """The sum of mean squared differences of FSP matrices (Yim et al., A Gift from Knowledge Distillation, 2017).

    Args:
        student_pairs, teacher_pairs (list of pairs of str): names of the first and last feature map of each section,
            which have the same height and width; those of the teacher have as many channels as those of the student.
        distillation_loss_weight (float): factor of the loss.
    """

    def __init__(self, student_pairs: Any, teacher_pairs: Any, distillation_loss_weight: float = 1) -> None:
        self.student_pairs = student_pairs
        self.teacher_pairs = teacher_pairs
        self.distillation_loss_weight = distillation_loss_weight

    def _loss(self, var: Any) -> tuple[str, Any]:
        losses = []
        for student, teacher in zip(self.student_pairs, self.teacher_pairs, strict=True):
            ours, theirs = (layers.fsp_matrix(var(pair[0]), var(pair[1])) for pair in (student, teacher))
            losses.append(layers.reduce_mean(layers.square(ours - theirs)))
        return "fsp_distillation_loss", layers.sum(losses)


class SoftLabelDistiller(_Distiller):
    """The cross entropy of softmax outputs (Hinton et al., Distilling the Knowledge in a Neural Network, 2015).

    Args:
        student_feature_map, teacher_feature_map (str): names of the logits.
        student_temperature, teacher_temperature (float): divisors of the logits.
        distillation_loss_weight (float): factor of the loss.
    """

    def __init__(
        self,
        student_feature_map: str | None = None,
        teacher_feature_map: str | None = None,
        student_temperature: float = 1.0,
        teacher_temperature: float = 1.0,
        distillation_loss_weight: float = 1,
    ) -> None:
        self.student_feature_map = student_feature_map
        self.teacher_feature_map = teacher_feature_map
        self.student_temperature = student_temperature
        self.teacher_temperature = teacher_temperature
        self.distillation_loss_weight = distillation_loss_weight

    def _loss(self, var: Any) -> tuple[str, Any]:
        student = layers.softmax(var(self.student_feature_map) / self.student_temperature)
        teacher = layers.softmax(var(self.teacher_feature_map) / self.teacher_temperature)
        teacher.stop_gradient = True
        name = f"soft_label_loss_{self.student_feature_map}_{self.teacher_feature_map}"
        return name, layers.reduce_mean(layers.cross_entropy(student, teacher, soft_label=True))
