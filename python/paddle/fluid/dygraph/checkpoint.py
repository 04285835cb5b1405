"""fluid.dygraph.checkpoint: save_dygraph and load_dygraph."""

from __future__ import annotations

import os

from paddle._programs.parameter import ParamBase
from paddle.framework.io import load, save

__all__ = ["save_dygraph", "load_dygraph"]


def save_dygraph(state_dict, model_path) -> None:
    """Writes a state dict to `model_path` plus ``.pdparams`` (of a Layer) or ``.pdopt`` (of an optimizer)."""
    if os.path.basename(model_path) == "":
        raise ValueError(
            "save_dygraph: model_path must end in a file name (dirname/filename), but the filename is empty"
        )
    assert len(state_dict) > 0, "save_dygraph: the state dict has no entry to write"
    is_layer = any(isinstance(v, ParamBase) for v in state_dict.values())
    save(state_dict, model_path + (".pdparams" if is_layer else ".pdopt"))


def load_dygraph(model_path, **configs):
    """(state of the Layer, state of the optimizer) from files with the prefix `model_path`; None for a missing file."""
    prefix = model_path
    for suffix in (".pdparams", ".pdopt", ".pdmodel"):
        prefix = prefix.removesuffix(suffix)
    found = [load(prefix + s, **configs) if os.path.exists(prefix + s) else None for s in (".pdparams", ".pdopt")]
    if found == [None, None]:
        return load(model_path, **configs), None
    return tuple(found)
