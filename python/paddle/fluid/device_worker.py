"""paddle.fluid.device_worker."""

from paddle.static.datasets.device_worker import (  # noqa: F401 (the factory is outside __all__, as upstream)
    DeviceWorker,
    DeviceWorkerFactory,
    DownpourSGD,
    DownpourSGDOPT,
    Hogwild,
    Section,
)

__all__ = ["DeviceWorker", "Hogwild", "DownpourSGD", "Section", "DownpourSGDOPT"]
