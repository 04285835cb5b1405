"""The variables that a Communicator sends and receives, read from a trainer's Program."""

from __future__ import annotations

from typing import Any, NamedTuple

import paddle._core as core

from .blocks import height_sections
from .config import DistributedMode

__all__ = ["CommContext", "Communication", "of_geo", "of_program"]


class CommContext:
    """The placement of a variable on the servers.

    Args:
        name (str): the variable of the trainer.
        split_varnames (list of str): the servers' names of its parts.
        split_endpoints (list of str): the server of each part.
        sections (list of int): rows of each part.
        origin_varnames (list of str): the original variables.
        trainer_id (int): the number of this trainer.
        aggregate (bool): gradients of several steps are added rather than averaged.
        is_sparse (bool): it has sparse rows. is_distributed (bool): only servers hold it.
        table_id (int): not read.
        everywhere (bool): the whole goes to each endpoint.

    Examples:
        >>> from paddle.distributed.ps.communication import CommContext
        >>> c = CommContext("w@GRAD", ["w@GRAD.block0", "w@GRAD.block1"], ["10.0.0.1:80", "10.0.0.2:80"], [3, 2])
        >>> c.sections()
        [3, 2]
    """

    def __init__(
        self,
        name,
        split_varnames,
        split_endpoints,
        sections,
        origin_varnames=(),
        trainer_id=0,
        aggregate=True,
        is_sparse=False,
        is_distributed=False,
        table_id=-1,
        everywhere=False,
    ):
        self._name, self._parts, self._endpoints = name, list(split_varnames), list(split_endpoints)
        self._sections, self._origin, self._trainer = list(sections), list(origin_varnames), trainer_id
        self._aggregate, self._sparse, self._distributed = aggregate, is_sparse, is_distributed
        self._table_id, self.everywhere = table_id, everywhere

    def var_name(self) -> str:
        """The trainer's variable."""
        return self._name

    def split_varnames(self) -> list[str]:
        """The servers' names of its parts."""
        return self._parts

    def split_endpoints(self) -> list[str]:
        """The server of each part."""
        return self._endpoints

    def sections(self) -> list[int]:
        """Rows of each part."""
        return self._sections

    def origin_varnames(self) -> list[str]:
        """The original variables."""
        return self._origin

    def trainer_id(self) -> int:
        """The number of this trainer."""
        return self._trainer

    def aggregate(self) -> bool:
        """Whether gradients of several steps are added."""
        return self._aggregate

    def is_sparse(self) -> bool:
        """Whether only its changed rows are sent."""
        return self._sparse

    def is_distributed(self) -> bool:
        """Whether it is a table that only servers hold."""
        return self._distributed

    def table_id(self) -> int:
        """The number of its table."""
        return self._table_id

    def __str__(self) -> str:
        parts = ", ".join(f"{p} at {e}" for p, e in zip(self._parts, self._endpoints, strict=True))
        return f"{self._name} of trainer {self._trainer}: {parts}"


class Communication(NamedTuple):
    """The variables that a trainer exchanges with the servers, and the mode."""

    mode: int
    trainers: int
    push_nums: int
    send: dict[str, CommContext]
    recv: dict[str, CommContext]


def of_program(mode: int, trainers: int, program: Any) -> Communication:
    """Of the send and recv operators that leave splitting and concatenating to the Communicator."""
    send, recv = {}, {}
    block = program.global_block()
    for op in block.ops:
        if op.type == "send" and op.attr("send_varnames"):
            name, endpoints = op.input("X")[0], list(op.attr("endpoints"))
            parts, whole = list(op.attr("send_varnames")), not op.attr("use_send_handler")
            send[name] = CommContext(
                name,
                parts * len(endpoints) if whole else parts,
                endpoints,
                list(op.attr("sections")),
                [name],
                op.attr("trainer_id"),
                is_sparse=block.vars[name].type == core.VarDesc.VarType.SELECTED_ROWS,
                everywhere=whole,
            )
        elif op.type == "recv" and op.attr("recv_varnames"):
            name = op.output("Out")[0]
            recv[name] = CommContext(
                name, list(op.attr("recv_varnames")), list(op.attr("epmap")), [], [name], op.attr("trainer_id")
            )
    return Communication(mode, trainers, 1, send, recv)


def of_geo(t: Any) -> Communication:
    """Of GeoSgdTranspiler: parameters are received, their differences sent."""
    send, recv = {}, {}
    for name, parts in t.param_var_mapping.items():
        names, sections = [v.name for v in parts], height_sections(parts)
        endpoints, sparse = t.vars_info[name]["epmap"], name in t.sparse_var_list
        common: Any = {"origin_varnames": [name], "trainer_id": t.trainer_id, "is_sparse": sparse}
        send[name] = CommContext(name, [f"{n}.delta" for n in names], endpoints, sections, **common)
        recv[name] = CommContext(name, names, endpoints, sections, **common)
    return Communication(DistributedMode.GEO, t.trainer_num, t.config.geo_sgd_need_push_nums, send, recv)
