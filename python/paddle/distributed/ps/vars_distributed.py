"""The placement of blocks of parameters and of optimizers' variables on the servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["VarDistributed", "VarStruct", "VarsDistributed"]


@dataclass
class VarStruct:
    """Properties of a Variable."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
    type: Any
    lod_level: int
    persistable: bool

    @staticmethod
    def of(var: Any) -> VarStruct:
        """The properties of `var`, a Variable or already a VarStruct."""
        if isinstance(var, VarStruct):
            return var
        return VarStruct(var.name, var.shape, var.dtype, var.type, var.lod_level, var.persistable)


class VarDistributed:
    """A variable, and the part of it that one server holds.

    Args:
        origin_var, slice_var (Variable|VarStruct): the whole and the part.
        is_slice (bool, optional): whether the part is smaller than the whole; computed when None.
        block_id (int, optional): the index of the part.
        offset (int, optional): the number of elements of the whole before the part.
        vtype (str, optional): "Param", "Optimizer" or "RemotePrefetch".
        endpoint (str, optional): the server.
    """

    def __init__(self, origin_var, slice_var, is_slice=None, block_id=None, offset=None, vtype=None, endpoint=None):
        self.origin, self.slice = VarStruct.of(origin_var), VarStruct.of(slice_var)
        self.is_slice = not self.equal(self.origin, self.slice) if is_slice is None else is_slice
        self.block_id = block_id or 0
        self.offset = offset or 0
        self.vtype = vtype
        self.endpoint = endpoint

    @staticmethod
    def equal(var1: VarStruct, var2: VarStruct) -> bool:
        """Whether all properties are equal."""
        return var1 == var2

    def __str__(self) -> str:
        def text(var: VarStruct) -> str:
            return f"{var.name} : fluid.{var.type}.shape{var.shape}.astype({var.dtype})"

        part = f"{text(self.slice)}.slice({self.is_slice}).block({self.block_id}).offset({self.offset})"
        return (
            f"var owned: {self.vtype}, origin var: ( {text(self.origin)} ), slice var: ( {part} ), "
            f"endpoint: {self.endpoint} "
        )


class VarsDistributed:
    """All parts on all servers; `static.io` finds remote variables with it."""

    def __init__(self):
        self.distributed_vars: list[VarDistributed] = []

    def add_distributed_var(
        self, origin_var, slice_var, is_slice=None, block_id=None, offset=None, vtype=None, endpoint=None
    ):
        """Adds a part; arguments as of :class:`VarDistributed`."""
        self.distributed_vars.append(VarDistributed(origin_var, slice_var, is_slice, block_id, offset, vtype, endpoint))

    def get_distributed_var_by_slice(self, var_name):
        """The first part of that name, or None."""
        return next((v for v in self.distributed_vars if v.slice.name == var_name), None)

    @staticmethod
    def equal(var1, var2) -> bool:
        """Whether all properties of two Variables are equal."""
        return VarStruct.of(var1) == VarStruct.of(var2)

    def get_distributed_var_by_origin_and_ep(self, origin_var_name, endpoint):
        """The part of a variable on a server, or None."""
        return next(
            (v for v in self.distributed_vars if v.origin.name == origin_var_name and v.endpoint == endpoint), None
        )

    def get_distributed_vars_by_vtypes(self, vtypes, groupby=False):
        """The parts of the given vtypes: a list, or with `groupby` a dict by the name of the whole."""
        found = [v for v in self.distributed_vars if v.vtype in vtypes]
        if not groupby:
            return found
        by_name: dict[str, list[VarDistributed]] = {}
        for v in found:
            by_name.setdefault(v.origin.name, []).append(v)
        return by_name

    def get_distributed_vars_by_ep(self, endpoint, vtype=None):
        """The parts on a server; of one vtype where it is given."""
        return [v for v in self.distributed_vars if v.endpoint == endpoint and (not vtype or v.vtype == vtype)]

    def overview(self) -> str:
        """A text with one line for each part."""
        return "\n".join(map(str, self.distributed_vars))
