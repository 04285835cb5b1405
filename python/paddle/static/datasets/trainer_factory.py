"""TrainerFactory: creates the trainer and the device worker of a Program's `_fleet_opt`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import device_worker as _workers
from . import trainer_desc as _trainers
from .fetch_handler import FetchHandler, FetchHandlerMonitor

__all__ = ["TrainerFactory", "FetchHandler", "FetchHandlerMonitor"]

#: options that are passed to the trainer's setter of that name; empty lists are not
_OPTIONS = (
    "dump_slot",
    "mpi_rank",
    "mpi_size",
    "dump_fields",
    "dump_fields_path",
    "dump_file_num",
    "dump_converter",
    "dump_param",
    "worker_places",
    "use_ps_gpu",
    "enable_random_dump",
    "dump_interval",
    "random_with_lineid",
)
#: options that are read only with a fleet_desc
_FLEET_OPTIONS = {
    "use_cvm": "use_cvm",
    "no_cvm": "no_cvm",
    "scale_datanorm": "scale_datanorm",
    "adjust_ins_weight": "adjust_ins_weight",
    "copy_table": "copy_table_config",
    "check_nan_var_names": "check_nan_var_names",
    "loss_names": "loss_names",
}


def _made(module: Any, name: str, what: str) -> Any:
    if name not in module.__all__:
        raise ValueError(f"there is no {what} {name!r}; there are {', '.join(module.__all__)}")
    return getattr(module, name)()


class TrainerFactory:
    """Creates trainers."""

    def _create_trainer(self, opt_info: Mapping[str, Any] | None = None) -> Any:
        """The trainer of `opt_info`; without one a MultiTrainer with Hogwild."""
        opt = opt_info or {"trainer": "MultiTrainer", "device_worker": "Hogwild"}
        trainer = _made(_trainers, opt["trainer"], "trainer")
        worker = _made(_workers, opt["device_worker"], "device worker")
        for name in _OPTIONS:
            value = opt.get(name)
            if value is not None and not (isinstance(value, list | tuple | str) and len(value) == 0):
                getattr(trainer, f"_set_{name}")(value)
        if "fleet_desc" in opt:
            worker._set_fleet_desc(opt["fleet_desc"])
            trainer._set_fleet_desc(opt["fleet_desc"])
            for name, setter in _FLEET_OPTIONS.items():
                if opt.get(name) is not None:
                    getattr(trainer, f"_set_{setter}")(opt[name])
        trainer._set_device_worker(worker)
        return trainer
