"""paddle.fluid.trainer_desc."""

from paddle.static.datasets.trainer_desc import (  # noqa: F401 (two are outside __all__, as upstream)
    DistMultiTrainer,
    HeterBoxTrainer,
    HeterXpuTrainer,
    MultiTrainer,
    PipelineTrainer,
    PSGPUTrainer,
    TrainerDesc,
)

__all__ = ["TrainerDesc", "MultiTrainer", "DistMultiTrainer", "PipelineTrainer", "HeterXpuTrainer"]
