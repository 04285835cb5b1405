"""Device workers: the work of a trainer's thread, as fields of the trainer's message."""

from __future__ import annotations

from typing import Any

__all__ = ["DeviceWorker", "Hogwild", "DownpourSGD", "Section", "DownpourSGDOPT", "DeviceWorkerFactory"]


class DeviceWorker:
    """The base of device workers."""

    def __init__(self) -> None:
        self._program: Any = None
        self._infer: Any = None
        self._fleet_desc: Any = None

    def _set_infer(self, infer: bool = False) -> None:
        self._infer = infer

    def _set_fleet_desc(self, fleet_desc: Any) -> None:
        self._fleet_desc = fleet_desc

    def _set_program(self, program: Any) -> None:
        self._program = program

    def _gen_worker_desc(self, trainer_desc: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} describes no worker; use Hogwild, DownpourSGD or Section")

    def _options(self) -> Any:
        if self._program is None:
            raise RuntimeError(f"{type(self).__name__}: _set_program comes before _gen_worker_desc")
        return self._program._fleet_opt


class _Tables(DeviceWorker):
    """The base of workers whose Program has tables on parameter servers."""

    def _program_config(self, opt: Any, downpour: Any) -> set[int]:
        """Sets the Program's tables in the message; returns the dense ones."""
        dense: set[int] = set()
        program_id = str(id(self._program))
        found = opt["program_configs"].get(program_id)
        if found is not None:
            config = downpour.program_config.add()
            config.program_id = program_id
            for how in ("push_sparse", "push_dense", "pull_sparse", "pull_dense"):
                getattr(config, f"{how}_table_id").extend(found[how])
            dense.update(found["push_dense"], found["pull_dense"])
            for key, value in found.get("cond2denseid", {}).items():
                condition = config.partial_pushdense_condtable_map.add()
                condition.key, condition.value = key, value
        return dense

    def _worker(self, opt: Any) -> Any:
        workers = opt.get("program_id_to_worker")
        if workers is None:
            raise ValueError("opt_info must have program_id_to_worker")
        program_id = str(id(self._program))
        if workers.get(program_id) is None:
            raise ValueError(f"{program_id} not found in program_id_to_worker")
        return workers[program_id].get_desc()

    def _tables(self, opt: Any, trainer_desc: Any, dense: set[int]) -> Any:
        """Sets the pulls and the tables in the message; returns the last sparse one."""
        downpour, pull = trainer_desc.downpour_param, trainer_desc.pull_dense_param
        worker = self._worker(opt)
        pull.device_num = trainer_desc.thread_num
        used = [table for table in worker.dense_table if table.table_id in dense]
        for table in used:
            pulled = pull.dense_table.add()
            pulled.dense_value_name.extend(table.dense_variable_name)
            pulled.table_id = table.table_id
        sparse = None
        for i, table in enumerate(worker.sparse_table):
            sparse = downpour.sparse_table.add()
            sparse.table_id = table.table_id
            sparse.sparse_key_name.extend(table.slot_key)
            sparse.sparse_value_name.extend(table.slot_value)
            sparse.sparse_grad_name.extend(table.slot_gradient)
            accessors = self._fleet_desc.server_param.downpour_server_param.downpour_table_param
            self._dimensions(opt, sparse, accessors[i].accessor.fea_dim)
        downpour.stat_var_names.extend(opt["stat_var_names"] or [])
        for table in used:
            made = downpour.dense_table.add()
            made.table_id = table.table_id
            made.dense_value_name.extend(table.dense_variable_name)
            made.dense_grad_name.extend(table.dense_gradient_variable_name)
        return sparse

    def _dimensions(self, opt: Any, sparse: Any, fea_dim: int) -> None:
        """The width of an embedding: that of the feature, without show and click if the Program does not use them."""
        whole = opt["use_cvm"] or opt.get("no_cvm") is True
        sparse.fea_dim, sparse.emb_dim = fea_dim, fea_dim if whole else fea_dim - 2
        sparse.label_var_name = "click"


class Hogwild(_Tables):
    """Runs the Program over shared parameters without locks."""

    def _gen_worker_desc(self, trainer_desc: Any) -> None:
        trainer_desc.device_worker_name = "HogwildWorker"
        hogwild = trainer_desc.hogwild_param
        if self._infer:
            hogwild.skip_ops.extend(["feed"])
        opt = self._options()
        if not opt or "fleet_desc" not in opt:
            return
        dense = self._program_config(opt, trainer_desc.downpour_param)
        self._tables(opt, trainer_desc, dense)
        hogwild.stat_var_names.extend(opt["stat_var_names"] or [])
        hogwild.skip_ops.extend(self._worker(opt).skip_op)
        if self._infer:
            hogwild.skip_ops.extend(["push_sparse", "push_sparse_v2", "push_dense"])

    def _dimensions(self, opt: Any, sparse: Any, fea_dim: int) -> None:
        sparse.fea_dim, sparse.emb_dim, sparse.label_var_name = fea_dim, -1, ""


class DownpourSGD(_Tables):
    """Pulls from and pushes to tables of the pslib servers (its description only)."""

    def _gen_worker_desc(self, trainer_desc: Any) -> None:
        opt = self._options()
        downpour = trainer_desc.downpour_param
        dense = self._program_config(opt, downpour)
        trainer_desc.device_worker_name = self._name(opt)
        self._last(opt, self._tables(opt, trainer_desc, dense))
        downpour.skip_ops.extend(self._worker(opt).skip_op)
        if self._infer:
            downpour.push_dense = downpour.push_sparse = False

    def _name(self, opt: Any) -> str:
        return opt.get("worker_class", "DownpourWorker")

    def _last(self, opt: Any, sparse: Any) -> None:
        """Sets the fields of the last sparse table."""


class DownpourSGDOPT(DownpourSGD):
    """DownpourSGD with local and asynchronous tables (its description only)."""

    def _name(self, opt: Any) -> str:
        return "DownpourWorkerOpt"

    def _last(self, opt: Any, sparse: Any) -> None:
        if sparse is not None:
            if sparse.table_id in opt.get("local_tables", ()):
                sparse.is_local = True
            if sparse.table_id in opt.get("async_tables", ()):
                sparse.is_async = True


class Section(DeviceWorker):
    """Runs a section of a pipeline (its description only)."""

    def _gen_worker_desc(self, trainer_desc: Any) -> None:
        trainer_desc.device_worker_name = "SectionWorker"
        options = self._program._pipeline_opt
        section = trainer_desc.section_param
        section.num_microbatches = options["num_microbatches"]
        section.start_cpu_core_id = options["start_cpu_core_id"]
        config = section.section_config
        config.program_desc = bytes(options["section_program"]["program"].desc.serialize_to_string())
        config.place = type(options["place"]).__name__
        config.place_id = options["place_id"]


class DeviceWorkerFactory:
    """Makes device workers by name."""

    def _create_device_worker(self, worker_type: str) -> DeviceWorker:
        name = worker_type.capitalize()
        if name not in __all__:
            raise ValueError(f"there is no device worker {worker_type!r}; there are {', '.join(__all__)}")
        return globals()[name]()
