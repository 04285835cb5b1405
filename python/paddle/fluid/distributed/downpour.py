"""DownpourSGD: builds the description of Downpour's servers and trainers from losses."""

from __future__ import annotations

from typing import Any

from paddle._programs.backward import append_backward
from paddle.distributed.ps.lookup_tables import (
    find_distributed_lookup_table,
    find_distributed_lookup_table_inputs,
    find_distributed_lookup_table_outputs,
)

from . import ps_pb2 as pslib
from .node import DownpourServer, DownpourWorker

__all__ = ["DownpourSGD"]

_SUMS = (".batch_size", ".batch_square_sum", ".batch_sum")
_SKIPPED = ["lookup_table", "lookup_table_grad"]


class DownpourSGD:
    """Describes a job whose servers run the updates (Dean et al., 2012).

    Args:
        learning_rate (float): of all tables. window (int): pushes between pulls.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> from paddle.fluid.distributed.downpour import DownpourSGD
        >>> paddle.enable_static()
        >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 13]), 1))
        >>> _ = DownpourSGD(0.2).minimize([loss])
        >>> fluid.default_main_program()._fleet_opt["device_worker"]
        'DownpourSGD'
    """

    def __init__(self, learning_rate=0.001, window=1):
        self.learning_rate_, self.window_, self.type = learning_rate, window, "downpour"
        self.data_norm_name = [*_SUMS, *(f"{name}@GRAD" for name in _SUMS)]

    def minimize(self, losses, startup_program=None, parameter_list=None, no_grad_set=None):
        """Appends backward, and describes tables and trainers in the Programs' `_fleet_opt`.

        Args:
            losses (list of Variable): the losses. startup_program: not read.
            parameter_list, no_grad_set: as of an optimizer.

        Returns:
            tuple: None, as trainers update nothing, and for each loss pairs of parameter and gradient.

        Raises:
            ValueError: for losses that are not a list.
        """
        if not isinstance(losses, list):
            raise ValueError(f"DownpourSGD.minimize takes a list of losses, got {type(losses)}")
        rate, program = self.learning_rate_, losses[0].block.program
        table = find_distributed_lookup_table(program)
        slots = [
            find(program, table)
            for find in (find_distributed_lookup_table_inputs, find_distributed_lookup_table_outputs)
        ]
        server, worker, desc = DownpourServer(), DownpourWorker(self.window_), pslib.PSParameter()
        server.add_sparse_table(0, rate, *slots)
        worker.add_sparse_table(0, rate, *slots)
        number, every = 1, []
        configs = worker.get_desc().program_config
        for loss in losses:
            pairs = sorted(append_backward(loss, parameter_list, no_grad_set), key=lambda pair: pair[0].name)
            every.append(pairs)
            config = configs.add()
            config.program_id = str(id(loss.block.program))
            config.pull_sparse_table_id.append(0)
            config.push_sparse_table_id.append(0)
            sums = [pair for pair in pairs if pair[0].name.endswith(_SUMS)]
            plain = [pair for pair in pairs if not pair[0].name.endswith(_SUMS)]
            for some in (plain, sums) if sums else (plain,):
                add: Any = server.add_dense_table if some is plain else server.add_data_norm_table
                params, grads = [p for p, _ in some], [g for _, g in some]
                add(number, rate, params, grads)
                worker.add_dense_table(number, rate, params, grads)
                config.pull_dense_table_id.append(number)
                config.push_dense_table_id.append(number)
                number += 1
        worker.get_desc().skip_op.extend(_SKIPPED)
        desc.server_param.CopyFrom(server.get_desc())
        desc.trainer_param.CopyFrom(worker.get_desc())
        opt_info = {
            "trainer": "DistMultiTrainer",
            "device_worker": "DownpourSGD",
            "optimizer": "DownpourSGD",
            "fleet_desc": desc,
            "worker_skipped_ops": list(_SKIPPED),
            "program_id_to_worker": {str(id(loss.block.program)): worker for loss in losses},
            "programs": [loss.block.program for loss in losses],
        }
        for loss in losses:
            loss.block.program._fleet_opt = opt_info
        return None, every
