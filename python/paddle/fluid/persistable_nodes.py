"""The persistable variables of an IrGraph in files, one each; fluid.io has these functions, too."""

from __future__ import annotations

import logging
import os
from typing import Any

from paddle._basics.dtypes import VarType
from paddle._programs.program import Program
from paddle.static.vars_io import load_vars, save_vars

__all__: list[str] = []


def _variables(graph: Any) -> list:
    """A Variable of another Program for each persistable name that has bytes."""
    descs = {n.name(): n.var() for n in graph.all_persistable_nodes()}
    block = Program().global_block()
    return [
        block.create_var(
            name=name,
            shape=desc.shape(),
            dtype=desc.dtype(),
            type=desc.type(),
            lod_level=desc.lod_level(),
            persistable=True,
        )
        for name, desc in descs.items()
        if desc.type() not in (VarType.RAW, VarType.READER)
    ]


def _save_persistable_nodes(executor, dirname, graph) -> None:
    """Writes the persistable variables of an IrGraph to the folder `dirname`."""
    save_vars(executor=executor, dirname=dirname, vars=_variables(graph))


def _load_persistable_nodes(executor, dirname, graph) -> None:
    """Reads what `_save_persistable_nodes` wrote; variables without a file are left as they are, with a warning."""
    variables = _variables(graph)
    there = [v for v in variables if os.path.exists(os.path.join(dirname, v.name))]
    for gone in sorted({v.name for v in variables} - {v.name for v in there}):
        logging.getLogger(__name__).warning("there is no file of the variable %s in %s", gone, dirname)
    load_vars(executor=executor, dirname=dirname, vars=there)
