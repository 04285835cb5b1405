"""DistributedAdam: builds the description of PSLib's servers and trainers from losses."""

from __future__ import annotations

import copy
from typing import Any

from paddle._basics.names import GRAD_VAR_SUFFIX
from paddle._programs.backward import append_backward

from . import ps_pb2 as pslib
from .node import DownpourServer, DownpourWorker

__all__ = ["DistributedAdam", "FLEET_GLOBAL_DICT"]

#: the tables recorded by :class:`fleet_embedding`: their ids, accessors and widths
FLEET_GLOBAL_DICT: dict[str, Any] = {
    "enable": False,
    "emb_to_table": {},
    "emb_to_accessor": {},
    "emb_to_size": {},
    "cur_sparse_id": 0,
    "cur_accessor": "",
    "click_name": "",
    "scale_sparse_grad": None,
}

_LOOKUPS = ("lookup_table", "pull_sparse", "pull_sparse_v2", "pull_box_sparse")
_LOOKUP_GRADS = ("lookup_table_grad", "push_sparse", "push_sparse_v2")
_SKIPPED = ["lookup_table", "lookup_table_grad"]
_SUMS = (".batch_size", ".batch_square_sum", ".batch_sum")
_WITH_SLOTS = ("DownpourCtrAccessor", "DownpourCtrDoubleAccessor", "DownpourUnitAccessor")
_FILES = {
    "uri": "hdfs://your_hdfs_uri",
    "user": "your_hdfs_user",
    "passwd": "your_hdfs_passwd",
    "hadoop_bin": "$HADOOP_HOME/bin/hadoop",
}
#: the trainers' settings that are copied from the strategy, with their defaults
_TRAINER_SETTINGS: dict[str, Any] = {
    "trainer": "DistMultiTrainer",
    "device_worker": "DownpourSGD",
    "use_cvm": False,
    "no_cvm": False,
    "worker_class": "DownpourWorker",
    "stat_var_names": [],
    "local_tables": [],
    "async_tables": [],
    "scale_datanorm": -1,
    "check_nan_var_names": [],
    "dump_fields": [],
    "dump_file_num": 16,
    "user_define_dump_filename": "",
    "dump_fields_path": "",
    "dump_param": [],
    "worker_places": [],
    "use_ps_gpu": False,
    "adjust_ins_weight": {},
    "copy_table": {},
    "loss_names": [],
}


class _Lookups:
    """A Program's sparse tables, in the order of its lookups, with the ids and outputs of each."""

    def __init__(self, program: Any) -> None:
        self.program, self.worker = program, DownpourWorker(1)
        #: pairs of parameter and gradient, for each loss
        self.pairs: list[list[Any]] = []
        block = program.global_block()
        every = [op for op in block.ops if op.type in _LOOKUPS]
        self.tables = list(dict.fromkeys(op.input("W")[0] for op in every if op.attr("is_distributed") is True))

        def of(kinds: tuple[str, ...], slot: str, side: str) -> dict[str, list[Any]]:
            found: dict[str, list[Any]] = {table: [] for table in self.tables}
            for op in block.ops:
                if op.type in kinds and op.input("W")[0] in found:
                    found[op.input("W")[0]] += [block.vars[name] for name in getattr(op, side)(slot)]
            return found

        self.ids, self.found = of(_LOOKUPS, "Ids", "input"), of(_LOOKUPS, "Out", "output")
        self.grads = of(_LOOKUP_GRADS, "Out" + GRAD_VAR_SUFFIX, "input")


def _is_sum(name: str) -> bool:
    """Whether a parameter, or its gradient, is a sum of `data_norm`."""
    return name.removesuffix(GRAD_VAR_SUFFIX).endswith(_SUMS)


class DistributedOptimizerImplBase:
    """The base of such optimizers.

    Args:
        optimizer (Optimizer): that of a single process; its learning rate and regularization are stored.
    """

    def __init__(self, optimizer):
        self._optimizer = optimizer
        self._learning_rate = optimizer._learning_rate
        self._regularization = optimizer.regularization

    def minimize(self, losses, startup_program=None, parameter_list=None, no_grad_set=None):
        """Raises NotImplementedError: a subclass overrides it."""
        raise NotImplementedError(f"{type(self).__name__}.minimize: a subclass must override this")


class DistributedAdam(DistributedOptimizerImplBase):
    """Appends backward, and describes tables, trainers and Programs: servers run the updates."""

    def __init__(self, optimizer):
        super().__init__(optimizer)
        self._window = 1
        self.type = "downpour"
        self.data_norm_name = [*_SUMS, *(name + GRAD_VAR_SUFFIX for name in _SUMS)]
        self.supported_embedding_types = list(_LOOKUPS)
        self.supported_embedding_grad_types = list(_LOOKUP_GRADS)

    def minimize(self, losses, startup_program=None, parameter_list=None, no_grad_set=None):
        """As :meth:`_minimize`, without a strategy."""
        return self._minimize(losses, startup_program, parameter_list, no_grad_set)

    def _minimize(self, losses, startup_program=None, parameter_list=None, no_grad_set=None, strategy=None):
        """Appends backward of each loss and describes the job, also as the Programs' `_fleet_opt`.

        Args:
            losses (list of Variable): of one Program or several.
            strategy (dict, optional): settings of each table by its name, of ``dense_table`` and ``datanorm_table``,
                and of
                trainers; a file with a description, ``fleet_desc_file``.

        Returns:
            tuple: None, pairs of parameter and gradient of each loss's Program, the description (dict).

        Raises:
            ValueError: for unknown settings, or a file of other Programs.
            NotImplementedError: for tasks in branches, and ``use_ps_gpu``.
        """
        strategy = {} if strategy is None else strategy
        if strategy.get("use_ps_gpu"):
            raise NotImplementedError("pslib: use_ps_gpu needs servers that are not public")
        programs: dict[str, _Lookups] = {}
        for loss in losses:
            pairs = append_backward(loss, parameter_list, no_grad_set)
            if any(op.type == "conditional_block" for op in loss.block.program.block(0).ops):
                raise NotImplementedError("pslib: tasks in branches (conditional_block) are not there yet")
            one = programs.setdefault(str(id(loss.block.program)), _Lookups(loss.block.program))
            one.pairs.append(sorted(pairs, key=lambda pair: pair[0].name))
        server, desc = DownpourServer(), pslib.PSParameter()
        if strategy.get("fleet_desc_file") is not None:
            self._read(strategy["fleet_desc_file"], desc, server, list(programs.values()))
        numbers = {name: i for i, name in enumerate(dict.fromkeys(t for p in programs.values() for t in p.tables))}
        slot = self._check_embeddings(numbers, strategy, server, losses) if FLEET_GLOBAL_DICT["enable"] else None
        for name, number in numbers.items():
            server.add_sparse_table(number, strategy.get(name))
        for one in programs.values():
            for name in one.tables:
                one.worker.add_sparse_table(numbers[name], one.ids[name], one.found[name], one.grads[name])
        configs = self._describe_dense(programs, numbers, server, strategy, slot)
        desc.server_param.CopyFrom(server.get_desc())
        if not desc.trainer_param:
            for one in programs.values():
                desc.trainer_param.add().CopyFrom(one.worker.get_desc())
        for field, default in _FILES.items():
            given = strategy.get(f"fs_{field}")
            if given is not None or not desc.fs_client_param.get(field):
                setattr(desc.fs_client_param, field, default if given is None else given)
        opt_info = self._opt_info(desc, server, strategy)
        opt_info["program_id_to_worker"] = {name: one.worker for name, one in programs.items()}
        opt_info["program_configs"] = configs
        for loss in losses:
            loss.block.program._fleet_opt = opt_info
        return None, [programs[str(id(loss.block.program))].pairs for loss in losses], opt_info

    def _read(self, path: str, desc: Any, server: DownpourServer, programs: list[_Lookups]) -> None:
        """Reads tables and trainers from a file in protobuf's text format."""
        with open(path, encoding="utf-8") as f:
            desc.merge_text(f.read())
        server.get_desc().CopyFrom(desc.server_param)
        given = list(desc.trainer_param)
        if len(given) not in (1, len(programs)):
            raise ValueError(f"{path} describes {len(given)} trainers, there are {len(programs)} Programs")
        for one, trainer in zip(programs, given * len(programs) if len(given) == 1 else given, strict=True):
            one.worker.get_desc().CopyFrom(trainer)

    def _check_embeddings(self, numbers: dict[str, int], strategy: Any, server: DownpourServer, losses: Any) -> Any:
        """Completes the settings from lookups within :class:`fleet_embedding`; returns a variable of ids."""
        strategy["device_worker"] = "Hogwild"
        noted = FLEET_GLOBAL_DICT
        if noted["emb_to_table"] != numbers:
            raise ValueError(f"the Programs look up in {numbers}, fleet_embedding has recorded {noted['emb_to_table']}")
        tables = server.get_desc().downpour_server_param.downpour_table_param
        ops = [op for loss in losses for op in loss.block.program.global_block().ops if op.type in _LOOKUPS]
        for name, number in numbers.items():
            settings = strategy.setdefault(name, {})
            accessor = settings.get("sparse_accessor_class")
            accessor = next((t.accessor.accessor_class for t in tables if t.table_id == number), accessor)
            for op in ops:
                if accessor is not None and op.input("W")[0] == name and op.has_attr("AccessorClass"):
                    op._set_attr("AccessorClass", accessor)
            accessor = noted["emb_to_accessor"][name] if accessor is None else accessor
            more = {"DownpourSparseValueAccessor": 0, "DownpourCtrDoubleAccessor": None}.get(accessor, 3)
            if more is not None:
                width = noted["emb_to_size"][name] - more
                if settings.get("sparse_embedx_dim", width) != width:
                    raise ValueError(
                        f"sparse_embedx_dim of {name} is {settings['sparse_embedx_dim']}, of its embedding {width}"
                    )
                settings["sparse_embedx_dim"] = width
        return losses[0].block.program.global_block().var(ops[0].input("Ids")[0]) if ops else None

    def _describe_dense(
        self, programs: dict[str, _Lookups], numbers: dict[str, int], server: DownpourServer, strategy: Any, slot: Any
    ) -> dict[str, Any]:
        """Describes the dense tables: for each loss one of its parameters and one of its sums of `data_norm`."""
        number, first = len(numbers), len(numbers)
        configs: dict[str, Any] = {}
        for key, one in programs.items():
            sparse = [numbers[name] for name in one.tables]
            config = configs[key] = {
                "pull_sparse": sparse,
                "push_sparse": list(sparse),
                "pull_dense": [],
                "push_dense": [],
            }
            for pairs in one.pairs:
                plain = [pair for pair in pairs if not _is_sum(pair[0].name)]
                sums = [pair for pair in pairs if _is_sum(pair[0].name)]
                for some in (plain, sums) if sums else (plain,):
                    params, grads = [p for p, _ in some], [g for _, g in some]
                    if some is plain:
                        server.add_dense_table(number, params, grads, strategy.get("dense_table"), one.tables)
                    else:
                        settings = strategy.get("datanorm_table")
                        server.add_data_norm_table(number, self._learning_rate, params, grads, settings, one.tables)
                    one.worker.add_dense_table(number, self._learning_rate, params, grads, first, one.tables)
                    if FLEET_GLOBAL_DICT["enable"]:
                        self._append_push(one.program, slot, grads, number, strategy)
                    config["pull_dense"].append(number)
                    config["push_dense"].append(number)
                    number += 1
            skipped = one.worker.get_desc().skip_op
            if not skipped:
                skipped.extend(_SKIPPED)
        return configs

    def _append_push(self, program: Any, slot: Any, grads: list[Any], number: int, strategy: Any) -> None:
        attrs = {
            "InputNames": [g.name for g in grads],
            "TableId": number,
            "ScaleDataNorm": float(strategy.get("scale_datanorm", -1)),
        }
        program.global_block().append_op(type="push_dense", inputs={"Ids": slot}, attrs=attrs)

    def _opt_info(self, desc: Any, server: DownpourServer, strategy: Any) -> dict[str, Any]:
        """The other settings of the trainers."""
        opt_info = {name: strategy.get(name, copy.copy(default)) for name, default in _TRAINER_SETTINGS.items()}
        opt_info |= {
            "optimizer": "DownpourSGD",
            "fleet_desc": desc,
            "worker_skipped_ops": list(_SKIPPED),
            "dump_slot": False,
            "dump_converter": "",
        }
        tables = server.get_desc().downpour_server_param.downpour_table_param
        accessor = tables[0].accessor.accessor_class if tables else ""
        if accessor in _WITH_SLOTS:
            opt_info["dump_slot"] = True
        elif accessor == "DownpourSparseValueAccessor":
            opt_info["no_cvm"] = True
        return opt_info
