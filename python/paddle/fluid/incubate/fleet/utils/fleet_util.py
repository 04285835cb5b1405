"""FleetUtil: utilities of training scripts of click models."""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
import time
from typing import Any

import numpy as np

from paddle._basics.place import CPUPlace
from paddle._programs.scope import global_scope, scope_guard
from paddle.distributed.fleet.utils.fs import HDFSClient
from paddle.fluid import io

from ..parameter_server import distribute_transpiler, pslib
from . import ctr_metrics, device_regions, utils

__all__ = ["FleetUtil"]

_logger = logging.getLogger(__name__)
_FLEETS: dict[str, Any] = {"pslib": pslib.fleet, "transpiler": distribute_transpiler.fleet}
_HOME = "$HADOOP_HOME"
_METRICS = "auc bucket_error mae rmse actual_ctr predicted_ctr copc mean_predict_qvalue total_ins_num".split()


def _client(home: str, name: str, ugi: str) -> HDFSClient:
    return HDFSClient(os.path.expandvars(home), {"fs.default.name": name, "hadoop.job.ugi": ugi})


def _lines(client: HDFSClient, path: str) -> list[str]:
    """The lines of a file, empty for a missing file."""
    if not client.is_file(path):
        return []
    with tempfile.TemporaryDirectory() as folder:
        local = os.path.join(folder, "file")
        client.download(path, local)
        with open(local, encoding="utf-8") as f:
            return f.read().splitlines()


def _range(text: str) -> list[int]:
    """Numbers of a shell's brace expansion, such as ``{0..23}``, or space-separated."""
    found = re.fullmatch(r"\{(\d+)\.\.(\d+)\}", text.strip())
    return list(range(int(found[1]), int(found[2]) + 1)) if found else [int(n) for n in text.split()]


def _scope(given: Any) -> Any:
    return global_scope() if given is None else given


def _folder(day: Any, pass_id: Any) -> str:
    """The folder of a day's base, or of a pass's delta."""
    return f"{day}/base" if str(pass_id) == "-1" else f"{day}/delta-{pass_id}"


class FleetUtil:
    """Output of worker 0, metrics of all workers, saved models and their donefiles, Programs in files.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/1.8/api/fluid/incubate (fleet.utils.fleet_util)

    Args:
        mode (str): the fleet, "pslib" or "transpiler".

    Raises:
        ValueError: for another mode.

    Examples:
        >>> from paddle.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
        >>> from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
        >>> from paddle.fluid.incubate.fleet.utils.fleet_util import FleetUtil
        >>> fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 1, ["127.0.0.1:6174"]))
        >>> FleetUtil("transpiler").rank0_print("a pass is over")
        a pass is over
    """

    def __init__(self, mode="pslib"):
        if mode not in _FLEETS:
            raise ValueError(f"FleetUtil: mode is one of {', '.join(_FLEETS)}, got {mode!r}")
        self._fleet: Any = _FLEETS[mode]

    def _is_first(self) -> bool:
        return self._fleet.worker_index() == 0

    def _barrier(self) -> None:
        if self._fleet.worker_num() > 1:
            self._fleet.barrier_worker()

    def rank0_print(self, s):
        """Worker 0 prints."""
        if self._is_first():
            print(s, flush=True)

    def rank0_info(self, s):
        """Worker 0 logs."""
        if self._is_first():
            _logger.info(s)

    def rank0_error(self, s):
        """Worker 0 logs an error."""
        if self._is_first():
            _logger.error(s)

    def set_zero(self, var_name, scope=None, place=None, param_type="int64"):
        """Sets all elements of a variable to zero, of type `param_type`."""
        tensor = _scope(scope).var(var_name).get_tensor()
        tensor.set(np.zeros(tensor._get_dims(), param_type), CPUPlace() if place is None else place)

    # ------------------------------------------------------------------ figures of all workers

    def get_global_auc(self, scope=None, stat_pos="_generated_var_2", stat_neg="_generated_var_3"):
        """The area under the ROC curve, by the buckets of `layers.auc` of all workers.

        Returns:
            float, or None for a scope (the global one when None) without these variables.
        """
        scope = _scope(scope)
        if any(scope.find_var(name) is None for name in (stat_pos, stat_neg)):
            self.rank0_print("not found auc bucket")
            return None
        self._barrier()
        found = ctr_metrics.auc(*(ctr_metrics.total(self._fleet, scope, name) for name in (stat_pos, stat_neg)))
        self._barrier()
        return found

    def print_global_auc(self, scope=None, stat_pos="_generated_var_2", stat_neg="_generated_var_3", print_prefix=""):
        """Worker 0 prints :meth:`get_global_auc`."""
        self.rank0_print(f"{print_prefix} global auc = {self.get_global_auc(scope, stat_pos, stat_neg)}")

    def get_global_metrics(
        self,
        scope=None,
        stat_pos_name="_generated_var_2",
        stat_neg_name="_generated_var_3",
        sqrerr_name="sqrerr",
        abserr_name="abserr",
        prob_name="prob",
        q_name="q",
        pos_ins_num_name="pos",
        total_ins_num_name="total",
    ):
        """Metrics of all workers, by `layers.auc` and `contrib.layers.ctr_metric_bundle`.

        Returns:
            list: auc, bucket_error, mae, rmse, actual_ctr, predicted_ctr, copc, mean_predict_qvalue, total_ins_num;
            all None for a missing variable.
        """
        scope = _scope(scope)
        names = {
            "sqrerr": sqrerr_name,
            "abserr": abserr_name,
            "prob": prob_name,
            "q": q_name,
            "pos": pos_ins_num_name,
            "total": total_ins_num_name,
        }
        for name in (stat_pos_name, stat_neg_name, *names.values()):
            if scope.find_var(name) is None:
                self.rank0_print(f"not found {name}")
                return [None] * len(_METRICS)
        self._barrier()
        fleet = self._fleet
        clicks, others = (ctr_metrics.total(fleet, scope, name) for name in (stat_pos_name, stat_neg_name))
        sums = {key: float(ctr_metrics.total(fleet, scope, name).reshape(-1)[0]) for key, name in names.items()}
        return ctr_metrics.figures(clicks, others, sums.__getitem__)

    def print_global_metrics(
        self,
        scope=None,
        stat_pos_name="_generated_var_2",
        stat_neg_name="_generated_var_3",
        sqrerr_name="sqrerr",
        abserr_name="abserr",
        prob_name="prob",
        q_name="q",
        pos_ins_num_name="pos",
        total_ins_num_name="total",
        print_prefix="",
    ):
        """Worker 0 prints :meth:`get_global_metrics`; or the name of a missing variable."""
        found = self.get_global_metrics(
            scope,
            stat_pos_name,
            stat_neg_name,
            sqrerr_name,
            abserr_name,
            prob_name,
            q_name,
            pos_ins_num_name,
            total_ins_num_name,
        )
        if found[0] is not None:
            texts = [f"{name}={value:.6f}" for name, value in zip(_METRICS[:-1], found[:-1], strict=True)]
            self.rank0_print(f"{print_prefix} global {' '.join(texts)} {_METRICS[-1]}={found[-1]}")

    # ------------------------------------------------------------------ models

    def load_fleet_model_one_table(self, table_id, path):
        """Makes the servers load a table."""
        self._fleet.load_one_table(table_id, path)

    def load_fleet_model(self, path, mode=0):
        """Makes the servers load a model (0: whole, 1: delta)."""
        self._fleet.init_server(path, mode=mode)

    def save_fleet_model(self, path, mode=0):
        """Makes the servers save their model (0: whole, 1: delta)."""
        self._fleet.save_persistables(None, path, mode=mode)

    def _save(self, path: str, mode: int) -> None:
        self.rank0_print(f"going to save {path}")
        self.save_fleet_model(path, mode)
        self.rank0_print(f"{path} is saved")

    def load_model(self, output_path, day, pass_id):
        """Makes the servers load the model of a pass."""
        self.load_fleet_model(f"{output_path}/{day}/{pass_id}/")

    def save_model(self, output_path, day, pass_id):
        """Makes the servers save the model of a pass."""
        self._save(f"{output_path}/{day}/{pass_id}/", 0)

    def save_batch_model(self, output_path, day):
        """Makes the servers save the model of a day."""
        self._save(f"{output_path}/{day}/0/", 3)

    def save_delta_model(self, output_path, day, pass_id):
        """Makes the servers save the delta of a pass."""
        self._save(f"{output_path}/{day}/delta-{pass_id}/", 1)

    def save_xbox_base_model(self, output_path, day):
        """Makes the servers save the base of a day."""
        self._save(f"{output_path}/{day}/base/", 2)

    def save_cache_model(self, output_path, day, pass_id, mode=1, **kwargs):
        """Makes the servers save the most shown rows of the table `table_id`; returns their number."""
        path = f"{output_path.rstrip('/')}/{day}/delta-{pass_id}"
        return self._fleet.save_cache_model(None, path, mode=int(mode), table_id=kwargs.get("table_id", 0))

    def save_cache_base_model(self, output_path, day, **kwargs):
        """As :meth:`save_cache_model`, for the base of a day."""
        path = f"{output_path.rstrip('/')}/{day}/base"
        return self._fleet.save_cache_model(None, path, mode=2, table_id=kwargs.get("table_id", 0))

    def pull_all_dense_params(self, scope, program):
        """Would pull a Program's parameters to worker 0. Workers of this package's servers receive them in each step;
        for those of PSLib, which are not public, it raises NotImplementedError."""
        if hasattr(self._fleet, "_opt_info") and self._fleet._opt_info is not None:
            raise NotImplementedError("pull_all_dense_params is for servers of Baidu's PSLib, which are not public")

    def _upload(self, source: str, output_path: str, day: Any, pass_id: Any, client: HDFSClient) -> None:
        dest = f"{output_path}/{_folder(day, pass_id)}/dnn_plugin"
        client.mkdirs(dest)
        client.upload(source, f"{dest}/{os.path.basename(source)}")

    def save_paddle_inference_model(
        self,
        executor,
        scope,
        program,
        feeded_vars,
        target_vars,
        output_path,
        day,
        pass_id,
        hadoop_fs_name,
        hadoop_fs_ugi,
        hadoop_home=_HOME,
        save_combine=True,
    ):
        """Worker 0 saves an inference model into the folder ``inference_model``, and uploads it.

        Args:
            executor (Executor), scope (Scope), program (Program): of the model.
            feeded_vars, target_vars (list of Variable): inputs and outputs.
            output_path, day, pass_id: the folder in the Hadoop file system; -1 is the day's base.
            hadoop_fs_name, hadoop_fs_ugi, hadoop_home (str): of the file system.
            save_combine (bool): parameters in one file.
        """
        self.pull_all_dense_params(scope, program)
        if self._is_first():
            with scope_guard(scope):
                io.save_inference_model(
                    "inference_model",
                    [v.name for v in feeded_vars],
                    target_vars,
                    executor,
                    program.clone(),
                    params_filename="params" if save_combine else None,
                )
            client = _client(hadoop_home, hadoop_fs_name, hadoop_fs_ugi)
            self._upload("inference_model", output_path, day, pass_id, client)
        self._barrier()

    def save_paddle_params(
        self,
        executor,
        scope,
        program,
        model_name,
        output_path,
        day,
        pass_id,
        hadoop_fs_name,
        hadoop_fs_ugi,
        hadoop_home=_HOME,
        var_names=None,
        save_combine=True,
    ):
        """Worker 0 saves variables into a file (or a folder) `model_name`, and uploads it; arguments as of
        :meth:`save_paddle_inference_model`, and `var_names` (list of str)."""
        self.pull_all_dense_params(scope, program)
        if self._is_first():
            chosen = [program.global_block().var(name) for name in var_names or []]
            with scope_guard(scope):
                where = ("./", model_name) if save_combine else (model_name, None)
                io.save_vars(executor, where[0], program, vars=chosen, filename=where[1])
            client = _client(hadoop_home, hadoop_fs_name, hadoop_fs_ugi)
            self._upload(model_name, output_path, day, pass_id, client)
        self._barrier()

    # ------------------------------------------------------------------ notes of which models there are

    def _note(self, client: HDFSClient, folder: str, name: str, text: str) -> None:
        """Writes a file with this text into a folder of the file system."""
        with open(name, "w", encoding="utf-8") as f:
            f.write(text)
        path = f"{folder}/{name}"
        client.mkdirs(folder)
        client.delete(path)
        client.upload(name, path)
        self.rank0_info(f"{path} is written")

    def write_model_donefile(
        self,
        output_path,
        day,
        pass_id,
        xbox_base_key,
        hadoop_fs_name,
        hadoop_fs_ugi,
        hadoop_home=_HOME,
        donefile_name="donefile.txt",
    ):
        """Worker 0 appends a model to a donefile, once: a tab-separated line of day, key, path, pass and 0.

        Args:
            output_path (str), day, pass_id (str|int): the model; pass -1 is the day's.
            xbox_base_key (str|int): the base's key.
            hadoop_fs_name, hadoop_fs_ugi, hadoop_home (str): of the file system.
            donefile_name (str): the file's name.
        """
        if self._is_first():
            client = _client(hadoop_home, hadoop_fs_name, hadoop_fs_ugi)
            where = f"{output_path.rstrip('/')}/{day}/{0 if str(pass_id) == '-1' else pass_id}/"
            known = _lines(client, f"{output_path}/{donefile_name}")
            there = [line.split("\t") for line in known]
            if any((int(n[0]), int(n[3])) == (int(day), int(pass_id)) for n in there):
                self.rank0_error(f"{donefile_name} has {day}/{pass_id} already")
            else:
                new = f"{day}\t{int(xbox_base_key)}\t{where}\t{pass_id}\t0"
                self._note(client, output_path, donefile_name, "\n".join([*known, new]) + "\n")
        self._barrier()

    def _xbox(self, output_path: str, day: Any, path: str, key: int, data: str, name: str, base: bool) -> str:
        """The JSON line of a base or a delta."""
        path = path.partition(":")[2] if path.startswith(("hdfs:", "afs:")) else path
        job, instance = os.environ.get("JOB_ID", ""), os.environ.get("INSTANCE_ID", "")
        if job in instance and "--" in instance:
            job = instance[instance.find(job) : instance.find("--")]
        return json.dumps(
            {
                "id": str(key if base else int(time.time())),
                "key": str(key),
                "input": f"{name}{path.rstrip('/')}/000",
                "record_count": "111111",
                "partition_type": "2",
                "job_name": "default_job_name",
                "ins_tag": "feasign",
                "ins_path": data,
                "job_id": job,
                "monitor_data": "",
                "monitor_path": f"{output_path.rstrip('/')}/monitor/{day}.txt",
                "mpi_size": str(self._fleet.worker_num()),
            }
        )

    def write_xbox_donefile(
        self,
        output_path,
        day,
        pass_id,
        xbox_base_key,
        data_path,
        hadoop_fs_name,
        hadoop_fs_ugi,
        monitor_data={},  # noqa: B006
        hadoop_home=_HOME,
        donefile_name=None,
    ):
        """Worker 0 appends a pass's delta, or (pass -1) a day's base, to a donefile of JSON lines, unless it has a
        later one.

        Arguments as of :meth:`write_model_donefile`; `data_path` (str|list) is the training data, `monitor_data` is not
        read, as in 2.0.2.
        """
        base = str(pass_id) == "-1"
        name = donefile_name or ("xbox_base_done.txt" if base else "xbox_patch_done.txt")
        if self._is_first():
            client = _client(hadoop_home, hadoop_fs_name, hadoop_fs_ugi)
            known = _lines(client, f"{output_path}/{name}")
            last = self._place(known[-1]) if known else None
            if last is not None and (int(day), 0 if base else int(pass_id)) <= (last[0], 0 if base else int(last[1])):
                self.rank0_error(f"{name} has {day}/{pass_id}, or a later one, already")
            else:
                data = ",".join(data_path) if isinstance(data_path, list) else data_path
                path = f"{output_path.rstrip('/')}/{_folder(day, pass_id)}/"
                new = self._xbox(output_path, day, path, int(xbox_base_key), data, hadoop_fs_name, base)
                self._note(client, output_path, name, "\n".join([*known, new]) + "\n")
        self._barrier()

    def write_cache_donefile(
        self,
        output_path,
        day,
        pass_id,
        key_num,
        hadoop_fs_name,
        hadoop_fs_ugi,
        hadoop_home=_HOME,
        donefile_name="sparse_cache.meta",
        **kwargs,
    ):
        """Worker 0 writes, once, the numbers of files (`file_num`) and rows of a table (`table_id`)."""
        if self._is_first():
            client = _client(hadoop_home, hadoop_fs_name, hadoop_fs_ugi)
            folder = f"{output_path.rstrip('/')}/{_folder(day, pass_id)}/{kwargs.get('table_id', 0):03d}_cache"
            if client.is_file(f"{folder}/{donefile_name}"):
                self.rank0_error(f"{folder}/{donefile_name} is there already")
            else:
                text = f"file_prefix:part\npart_num:{kwargs.get('file_num', 16)}\nkey_num:{int(key_num)}\n"
                self._note(client, folder, donefile_name, text)
        self._barrier()

    def _place(self, line: str) -> tuple[int, str, str, int]:
        """Day, pass, path and key of a JSON line."""
        said = json.loads(line)
        parts = said["input"].split("/")
        return int(parts[-3]), parts[-2].split("-")[-1], "/".join(parts[:-1]), int(said["key"])

    def get_last_save_xbox_base(self, output_path, hadoop_fs_name, hadoop_fs_ugi, hadoop_home=_HOME):
        """Day, path and key of the last base in the donefile; -1, -1 and the time without one (a list)."""
        known = _lines(_client(hadoop_home, hadoop_fs_name, hadoop_fs_ugi), f"{output_path}/xbox_base_done.txt")
        if not known:
            return [-1, -1, int(time.time())]
        day, _, path, key = self._place(known[-1])
        return [day, path, key]

    def get_last_save_xbox(self, output_path, hadoop_fs_name, hadoop_fs_ugi, hadoop_home=_HOME):
        """Day, pass, path and key of the last delta in the donefile; -1, -1, "" and the time without one."""
        known = _lines(_client(hadoop_home, hadoop_fs_name, hadoop_fs_ugi), f"{output_path}/xbox_patch_done.txt")
        if not known:
            return [-1, -1, "", int(time.time())]
        day, number, path, key = self._place(known[-1])
        return [day, int(number), path, key]

    def get_last_save_model(self, output_path, hadoop_fs_name, hadoop_fs_ugi, hadoop_home=_HOME):
        """Day, pass, path and key of the last model in the donefile; -1, -1, "" and the time without one."""
        known = _lines(_client(hadoop_home, hadoop_fs_name, hadoop_fs_ugi), f"{output_path}/donefile.txt")
        if not known:
            return [-1, -1, "", int(time.time())]
        day, key, path, number = known[-1].split("\t")[:4]
        return [int(day), int(number), path, int(key)]

    def get_online_pass_interval(self, days, hours, split_interval, split_per_pass, is_data_hourly_placed):
        """The pieces of a day's data for each pass.

        Args:
            days, hours (str): ``{20190720..20190729}`` and ``{0..23}``, or space-separated numbers.
            split_interval (int|str): minutes of a piece. split_per_pass (int|str): pieces of a pass.
            is_data_hourly_placed (bool): whether pieces are named by the hour only.

        Returns:
            list of lists of str: hour and minute, as ``0005``, of each piece of each pass.

        Examples:
            >>> from paddle.fluid.incubate.fleet.utils.fleet_util import FleetUtil
            >>> FleetUtil().get_online_pass_interval("{20190720..20190729}", "{0..23}", 30, 2, False)[:2]
            [['0000', '0030'], ['0100', '0130']]
        """
        within, minutes, per_pass = _range(hours), int(split_interval), int(split_per_pass)
        starts = [divmod(m, 60) for m in range(0, 24 * 60 // minutes * minutes, minutes)]
        starts = [(h, m) for h, m in starts if within[0] <= h <= within[-1]]
        names = [f"{h:02d}" if is_data_hourly_placed else f"{h:02d}{m:02d}" for h, m in starts]
        return [names[i : i + per_pass] for i in range(0, len(names) // per_pass * per_pass, per_pass)]

    # ------------------------------------------------------------------ Programs

    def program_type_trans(self, prog_dir, prog_fn, is_text):
        """As :func:`utils.program_type_trans`."""
        return utils.program_type_trans(prog_dir, prog_fn, is_text)

    def draw_from_program_file(self, model_filename, is_text, output_dir, output_filename):
        """Draws the Program of a file."""
        self.draw_from_program(utils.load_program(model_filename, is_text), output_dir, output_filename)

    def draw_from_program(self, program, output_dir, output_name):
        """Draws a Program."""
        utils.graphviz(program.global_block(), output_dir, output_name)

    def check_two_programs(self, config):
        """Whether a pruned Program matches the training Program; see :func:`utils.check_pruned_program_vars`.

        Args:
            config: has ``train_prog_path``, ``is_text_train_program``, ``pruned_prog_path``,
                ``is_text_pruned_program``, ``draw`` and ``draw_out_name``.
        """
        trained = utils.load_program(config.train_prog_path, config.is_text_train_program)
        pruned = utils.load_program(config.pruned_prog_path, config.is_text_pruned_program)
        if config.draw:
            self.draw_from_program(pruned, os.path.dirname(config.pruned_prog_path), config.draw_out_name)
        return utils.check_pruned_program_vars(trained, pruned)

    def parse_program_proto(self, prog_path, is_text, output_dir):
        """Lists the Program of a file in three files; see :func:`utils.parse_program`."""
        utils.parse_program(utils.load_program(prog_path, is_text), output_dir)

    def split_program_by_device(self, program):
        """The region of a Program on another device than the CPU, for heterogeneous workers.

        Returns:
            list: its first and last operator, sent and received names, its Program; None without a region.
        """
        return device_regions.split(program)
