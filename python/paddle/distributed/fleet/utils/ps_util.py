"""DistributedInfer: inference with the lookup tables of parameter servers."""

from __future__ import annotations

import os
from typing import Any

from paddle._programs.guards import default_main_program, default_startup_program
from paddle.optimizer import SGD
from paddle.static.vars_io import is_persistable, load_vars

from ..base.distributed_strategy import DistributedStrategy
from ..base.fleet_base import fleet

__all__ = ["DistributedInfer"]

_LOOKUPS = ("lookup_table", "lookup_table_v2")
#: attributes of a remote lookup
_WHERE = ("table_names", "endpoints", "height_sections", "trainer_id", "pserver_num")


class DistributedInfer:
    """Makes an inference Program look up rows in the servers' tables.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/2.0/api/paddle/distributed/fleet
    (fleet.utils.DistributedInfer)

    Args:
        main_program (Program, optional): the inference Program; a copy of the default one when None.
        startup_program (Program, optional): its startup Program; the default one when None.

    Examples:
        >>> import paddle
        >>> from paddle.distributed.fleet.utils import DistributedInfer
        >>> paddle.enable_static()
        >>> ids = paddle.static.data("ids", [None, 1], "int64")
        >>> found = paddle.static.nn.embedding(ids, [10, 4])
        >>> infer = DistributedInfer()  # in a job with servers its Program would look up there
        >>> [op.type for op in infer.origin_main_program.global_block().ops]
        ['lookup_table_v2']
    """

    def __init__(self, main_program=None, startup_program=None):
        self.origin_main_program = (main_program or default_main_program()).clone()
        self.origin_startup_program = startup_program or default_startup_program()
        self.sparse_table_maps: dict[str, dict[str, Any]] | None = None

    def init_distributed_infer_env(self, exe, loss, role_maker=None, dirname=None):
        """Starts an inference job: servers load the model and serve until all workers have stopped, workers load
        the other variables. Does nothing in a process that already trains.

        Args:
            exe (Executor): of the worker.
            loss (Variable): of the default main Program, the parameters and tables of which are served.
            role_maker (RoleMakerBase, optional): the role of this process; read from the environment when None.
            dirname (str, optional): a folder of ``fleet.save_persistables``.

        Raises:
            ValueError: for a missing folder.
        """
        if fleet._runtime_handle is not None:
            return
        fleet.init(role_maker=role_maker)
        strategy = DistributedStrategy()
        strategy.a_sync = True
        fleet.distributed_optimizer(SGD(), strategy=strategy).minimize(loss, self.origin_startup_program)
        if fleet.is_server():
            fleet.init_server(*([] if dirname is None else [dirname]))
            fleet.run_server()
            return
        exe.run(default_startup_program())
        fleet.init_worker()
        if dirname is not None:
            self._load_own(exe, dirname)

    def _load_own(self, exe: Any, dirname: str) -> None:
        if not os.path.isdir(dirname):
            raise ValueError(f"init_distributed_infer_env: there is no folder {dirname}")
        tables = self._tables()
        own = [
            v
            for v in self.origin_main_program.list_vars()
            if is_persistable(v) and v.name not in tables and os.path.isfile(os.path.join(dirname, v.name))
        ]
        load_vars(exe, dirname, self.origin_main_program, vars=own)

    def _tables(self) -> dict[str, dict[str, Any]]:
        """The placement of each remote table by name, read from the worker's training Program."""
        if self.sparse_table_maps is None:
            if fleet._runtime_handle is None:
                raise ValueError(
                    "DistributedInfer: this process is not in a job: call init_distributed_infer_env first"
                )
            made = fleet._runtime_handle._programs()
            ops = [] if made is None else made.program.global_block().ops
            self.sparse_table_maps = {
                op.input("W")[0]: {name: op.attr(name) for name in _WHERE}
                for op in ops
                if op.type == "distributed_lookup_table"
            }
        return self.sparse_table_maps

    def get_dist_infer_program(self):
        """The inference Program, with remote lookups in the servers' tables.

        Returns:
            Program

        Raises:
            ValueError: in a process outside of a job with servers.
        """
        program, tables = self.origin_main_program.clone(), self._tables()
        block = program.global_block()
        for index, op in enumerate(list(block.ops)):
            table = tables.get(op.input("W")[0]) if op.type in _LOOKUPS else None
            if table is None:
                continue
            slots = {"Ids": op.input("Ids"), "W": op.input("W")}, {"Outputs": op.output("Out")}
            kept = {"padding_idx": op.attr("padding_idx"), "lookup_table_version": op.type}
            sections = table["height_sections"]
            attrs = {**{k: v for k, v in table.items() if k != "height_sections"}, **kept}
            block._remove_op(index)
            made = block._insert_op(
                index=index, type="distributed_lookup_table", inputs=slots[0], outputs=slots[1], attrs=attrs
            )
            made._set_attr("height_sections", sections)
        return program
