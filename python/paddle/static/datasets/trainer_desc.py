"""Trainers of a Program from a data set, as messages for the engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .messages import trainer_desc

__all__ = [
    "TrainerDesc",
    "MultiTrainer",
    "DistMultiTrainer",
    "PipelineTrainer",
    "HeterXpuTrainer",
    "HeterBoxTrainer",
    "PSGPUTrainer",
]


def _sets(field: str) -> Callable[[Any, Any], None]:
    def setter(self: Any, value: Any) -> None:
        setattr(self.proto_desc, field, value)

    setter.__doc__ = f"Sets the field {field}."
    return setter


def _adds(field: str) -> Callable[[Any, Any], None]:
    def adder(self: Any, values: Any) -> None:
        getattr(self.proto_desc, field).extend(values)

    adder.__doc__ = f"Adds to the field {field}."
    return adder


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class TrainerDesc:
    """A trainer's message, `proto_desc`, and setters for its fields.

    Examples:
        >>> from paddle.fluid.trainer_desc import MultiTrainer
        >>> trainer = MultiTrainer()
        >>> trainer._set_thread(4)
        >>> trainer.proto_desc.thread_num
        4
    """

    def __init__(self) -> None:
        self.proto_desc = trainer_desc(thread_num=os.cpu_count() or 1)
        self._fleet_desc: Any = None
        self._device_worker: Any = None
        self._program: Any = None
        self._infer = False

    _set_debug = _sets("debug")
    _set_thread = _sets("thread_num")
    _set_use_cvm = _sets("use_cvm")
    _set_no_cvm = _sets("no_cvm")
    _set_scale_datanorm = _sets("scale_datanorm")
    _set_dump_slot = _sets("dump_slot")
    _set_mpi_rank = _sets("mpi_rank")
    _set_mpi_size = _sets("mpi_size")
    _set_dump_fields = _adds("dump_fields")
    _set_dump_fields_path = _sets("dump_fields_path")
    _set_dump_file_num = _sets("dump_file_num")
    _set_user_define_dump_filename = _sets("user_define_dump_filename")
    _set_dump_converter = _sets("dump_converter")
    _set_enable_random_dump = _sets("enable_random_dump")
    _set_dump_interval = _sets("dump_interval")
    _set_random_with_lineid = _sets("random_with_lineid")
    _set_dump_param = _adds("dump_param")
    _set_worker_places = _adds("worker_places")
    _set_use_ps_gpu = _sets("use_ps_gpu")
    _set_thread_barrier = _sets("thread_barrier")
    _set_check_nan_var_names = _adds("check_nan_var_names")
    _set_loss_names = _adds("loss_names")

    def _set_device_worker(self, device_worker: Any) -> None:
        self._device_worker = device_worker

    def _set_infer(self, infer: bool) -> None:
        self._infer = infer

    def _set_fleet_desc(self, fleet_desc: Any) -> None:
        self._fleet_desc = fleet_desc

    def _set_program(self, program: Any) -> None:
        self._program = program

    def _set_heter_info(self, info: Any) -> None:
        if info is not None:
            self.proto_desc.xpu_start_idx, self.proto_desc.xpu_end_idx = info[0], info[1]
            self.proto_desc.xpu_send_list.extend(info[2])
            self.proto_desc.xpu_recv_list.extend(info[3])

    def _set_fetch_var_and_info(self, fetch_vars: Any, fetch_info: Any, print_period: int) -> None:
        config = self.proto_desc.fetch_config
        config.fetch_var_names.extend([v if isinstance(v, str) else v.name for v in fetch_vars])
        config.fetch_var_str_format.extend(list(fetch_info)[: len(fetch_vars)])
        config.print_period = print_period

    def _set_adjust_ins_weight(self, config_dict: dict[str, Any]) -> None:
        config = self.proto_desc.adjust_ins_weight_config
        for name in config.schema:
            setattr(config, name, config_dict.get(name, config.schema[name].default))

    def _set_copy_table_config(self, config_dict: dict[str, Any]) -> None:
        config = self.proto_desc.copy_table_config
        config.need_copy = config_dict.get("need_copy", False)
        config.batch_num = config_dict.get("batch_num", 100)
        for what in ("sparse_tables", "dense_tables", "var_list"):
            src, dest = (_listed(config_dict.get(f"{side}_{what}", [])) for side in ("src", "dest"))
            if len(src) != len(dest):
                raise ValueError(f"copy_table: len(src_{what}) is {len(src)}, len(dest_{what}) is {len(dest)}")
            getattr(config, f"src_{what}").extend(src)
            getattr(config, f"dest_{what}").extend(dest)
        for key, values in config_dict.get("dependency_map", {}).items():
            values = _listed(values)
            if len(values) != 1:
                raise ValueError(f"copy_table: table {key} depends on one table, got {values}")
            depends = config.table_denpendency_map.add()
            depends.key = key
            depends.values.extend(values)
        config.dense_pull_after_copy = config_dict.get("dense_pull_after_copy", True)
        config.enable_dependency = config_dict.get("enable_dependency", False)
        config.sparse_copy_by_feasign = config_dict.get("sparse_copy_by_feasign", True)

    def _gen_trainer_desc(self) -> None:
        """Sets the class of a trainer and its device worker's fields in the message; the base has neither."""
        if type(self) is TrainerDesc:
            return
        self.proto_desc.class_name = type(self).__name__
        if self._program is None:
            raise RuntimeError(f"{type(self).__name__}: _set_program comes before _gen_trainer_desc")
        self._device_worker._set_infer(self._infer)
        self._device_worker._set_program(self._program)
        self._device_worker._gen_worker_desc(self.proto_desc)

    def _desc(self) -> bytes:
        return self.proto_desc.SerializeToString()

    def __str__(self) -> str:
        return str(self.proto_desc)


class MultiTrainer(TrainerDesc):
    """Threads of one process."""


class DistMultiTrainer(TrainerDesc):
    """Threads of a process that has parameter servers."""


class HeterXpuTrainer(TrainerDesc):
    """Threads for heterogeneous devices (description only)."""


class HeterBoxTrainer(TrainerDesc):
    """Threads for BoxPS (description only)."""


class PSGPUTrainer(TrainerDesc):
    """Threads over tables on GPUs (description only)."""


class PipelineTrainer(TrainerDesc):
    """Sections of a Program on one device each (description only)."""
