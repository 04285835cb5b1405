"""The lists of passes that a predictor applies to a model, as users edit them (PaddlePassBuilder, CpuPassStrategy)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from .passes import BFLOAT16_PASSES, CPU_PASSES, MKLDNN_PASSES, known

__all__ = ["CpuPassStrategy", "GpuPassStrategy", "PaddlePassBuilder", "PassStrategy"]


class PaddlePassBuilder:
    """A list of passes over a model, in the order in which they are applied.

    Args:
        passes (list of str): their names.
    """

    def __init__(self, passes: Iterable[str] = ()) -> None:
        self._passes = list(passes)
        self._analysis = ["ir_graph_build_pass", "ir_graph_clean_pass", "ir_analysis_pass", "ir_graph_to_program_pass"]

    def set_passes(self, passes: list[str]) -> None:
        """Replaces the list.

        Args:
            passes (list of str): names.
        """
        self._passes = []
        for name in passes:
            self.append_pass(name)

    def append_pass(self, pass_type: str) -> None:
        """Appends a pass; ValueError for an unknown name.

        Args:
            pass_type (str): its name.
        """
        self.insert_pass(len(self._passes), pass_type)

    def insert_pass(self, idx: int, pass_type: str) -> None:
        """Inserts a pass.

        Args:
            idx (int): its position.
            pass_type (str): its name.

        Raises:
            ValueError: for an unknown name. IndexError: for a position outside of the list.
        """
        if not known(pass_type):
            raise ValueError(f"pass builder: there is no pass {pass_type!r}")
        if not 0 <= idx <= len(self._passes):
            raise IndexError(f"insert_pass: idx must be in [0, {len(self._passes)}], got {idx}")
        self._passes.insert(idx, pass_type)

    def delete_pass(self, pass_type: str) -> None:
        """Removes all passes of that name; names that are not in the list are ignored, as in Paddle.

        Args:
            pass_type (str): the name.
        """
        if not isinstance(pass_type, str):
            raise TypeError(f"delete_pass: the name of a pass must be a str, got {type(pass_type)}")
        self._passes = [name for name in self._passes if name != pass_type]

    def append_analysis_pass(self, pass_type: str) -> None:
        """Appends to the list of analysis passes, which name the steps of a model's preparation.

        Args:
            pass_type (str): its name.
        """
        self._analysis.append(pass_type)

    def turn_on_debug(self) -> None:
        """Puts graph_viz_pass after every pass: the model after each one is written to a file <n>_ir_<pass>.dot."""
        self._passes = [name for each in self._passes if each != "graph_viz_pass" for name in (each, "graph_viz_pass")]

    def debug_string(self) -> str:
        """The list, a line each."""
        return "Passes to apply:\n" + "".join(f"  - {name}\n" for name in self._passes)

    def all_passes(self) -> list[str]:
        """The names of the passes."""
        return list(self._passes)

    def analysis_passes(self) -> list[str]:
        """The names of the analysis passes."""
        return list(self._analysis)

    def _copy(self):
        copy = type(self).__new__(type(self))
        copy.__dict__ = {k: list(v) if isinstance(v, list) else v for k, v in self.__dict__.items()}
        return copy


class PassStrategy(PaddlePassBuilder):
    """A PaddlePassBuilder that Config edits."""

    _use_gpu = False

    def enable_cudnn(self) -> None:
        """No effect: cuDNN belongs to GPUs."""

    def enable_mkldnn(self) -> None:
        """No effect here."""

    def enable_mkldnn_quantizer(self) -> None:
        """Not implemented: raises NotImplementedError."""
        raise NotImplementedError(
            "enable_quantizer: quantisation after training by oneDNN is not implemented; "
            "paddle.fluid.contrib.slim quantises models"
        )

    def enable_mkldnn_bfloat16(self) -> None:
        """No effect here."""

    def use_gpu(self) -> bool:
        """Whether the passes are for a GPU."""
        return self._use_gpu


class CpuPassStrategy(PassStrategy):
    """The passes for CPUs.

    Args:
        other (CpuPassStrategy, optional): copied where it is given.
    """

    def __init__(self, other: CpuPassStrategy | None = None) -> None:
        super().__init__(CPU_PASSES)
        self._mkldnn = self._bfloat16 = False
        if other is not None:
            self.__dict__.update(other._copy().__dict__)

    def enable_mkldnn(self) -> None:
        """Adds the names of oneDNN's passes that are not in the list; the kernels do not change."""
        if not self._mkldnn:
            self._passes += [name for name in MKLDNN_PASSES if name not in self._passes]
        self._mkldnn = True

    def enable_mkldnn_bfloat16(self) -> None:
        """Adds the passes that let products and convolutions compute in bfloat16."""
        if not self._bfloat16:
            self._passes += BFLOAT16_PASSES
        self._bfloat16 = True


class GpuPassStrategy(PassStrategy):
    """The passes for GPUs: an empty list, as predictors run on CPUs.

    Args:
        other (GpuPassStrategy, optional): copied where it is given.
    """

    _use_gpu = True

    def __init__(self, other: GpuPassStrategy | None = None) -> None:
        super().__init__(())
        if other is not None:
            self.__dict__.update(other._copy().__dict__)

    def enable_mkldnn(self) -> None:
        """Warns: oneDNN is for CPUs."""
        warnings.warn("GpuPassStrategy: oneDNN's passes are for CPUs", stacklevel=2)

    def enable_mkldnn_bfloat16(self) -> None:
        """Warns: oneDNN is for CPUs."""
        warnings.warn("GpuPassStrategy: oneDNN's passes are for CPUs", stacklevel=2)
