"""A trial run of a saved model: its folder is loaded, checked and run once."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

import paddle._core as core
from paddle._basics.place import CPUPlace
from paddle.static import Executor, scope_guard
from paddle.static.feeder import create_lod_tensor
from paddle.static.inference_folder import load_inference_model
from paddle.static.vars_io import is_persistable

from . import utils

__all__ = ["check_saved_vars_try_dump"]

logger = logging.getLogger(__name__)


def check_saved_vars_try_dump(
    dump_dir, dump_prog_fn, is_text_dump_program, feed_config, fetch_config, batch_size=1, save_filename=None
):
    """Loads a saved model, checks the shapes of parameters and feeds, and runs one batch.

    Args:
        dump_dir (str), dump_prog_fn (str): a folder, and the Program's file in it.
        is_text_dump_program (bool): whether it is protobuf text.
        feed_config: has feeded_vars_names, feeded_vars_dims (without the batch), feeded_vars_types, and
            feeded_vars_filelist: files of space-separated numbers, or None for random ones.
        fetch_config: has fetch_vars_names, or None for the model's outputs.
        batch_size (int): the number of samples.
        save_filename (str): the file of all parameters; None: a file each.

    Returns:
        list: the fetched values, also logged.

    Raises:
        RuntimeError: for different shapes.
    """
    program = utils.load_program(os.path.join(dump_dir, dump_prog_fn), is_text_dump_program)
    saved = {v.name: tuple(v.desc.shape()) for v in program.list_vars() if is_persistable(v)}
    logger.info("persistable vars in dump program: %s", list(saved))
    if any(op.type == "lookup_table" for op in program.global_block().ops):
        logger.warning("the program has the operator lookup_table: check that it was pruned as you want it")
    if is_text_dump_program:
        dump_prog_fn = utils.program_type_trans(dump_dir, dump_prog_fn, is_text_dump_program)
    exe, scope = Executor(CPUPlace()), core._Scope()
    with scope_guard(scope):
        loaded = load_inference_model(dump_dir, exe, model_filename=dump_prog_fn, params_filename=save_filename)
        return _run(exe, scope, loaded, saved, feed_config, fetch_config, batch_size)


def _run(exe: Any, scope: Any, loaded: Any, saved: dict, feeding: Any, fetching: Any, batch_size: int) -> list:
    program, feeds, fetches = loaded
    for name, shape in saved.items():
        var = scope.find_var(name)
        assert var is not None, f"the model's folder has no variable {name}"
        found = np.array(var.get_tensor()).shape
        if found != shape:
            raise RuntimeError(f"the parameter {name} has shape {shape} in the Program, but {found} in the files")
    block = program.global_block()
    names = feeding.feeded_vars_names
    for what, mine, theirs in (("feed", feeds, names), ("fetch", [v.name for v in fetches], fetching.fetch_vars_names)):
        if not mine:
            logger.warning("the program has nothing to %s", what)
        if theirs is not None and list(theirs) != list(mine):
            logger.warning("what to %s differs: %s in the program, %s in the config", what, mine, theirs)
            for index in [i for i, op in enumerate(block.ops) if op.type == what][::-1]:
                block._remove_op(index)
            if what == "fetch":
                fetches = [block.var(name) for name in theirs]
    dims = [tuple(d) if isinstance(d, (list, tuple)) else (d,) for d in feeding.feeded_vars_dims]
    assert len(names) == len(dims) == len(feeding.feeded_vars_types), "names, dims and types must be as many"
    variables = [block.var(name) for name in names]
    for var, dim in zip(variables, dims, strict=True):
        if dim != tuple(var.shape[1:]):
            raise RuntimeError(f"the program feeds {var.name} with shape {tuple(var.shape[1:])}, the config with {dim}")
    if feeding.feeded_vars_filelist:
        arrays = [next(_read(f, (batch_size, *d))) for f, d in zip(feeding.feeded_vars_filelist, dims, strict=True)]
    else:
        arrays = [np.random.random((batch_size, *dim)) for dim in dims]
    feed: dict[str, Any] = {}
    for var, array, kind in zip(variables, arrays, feeding.feeded_vars_types, strict=True):
        if var.lod_level > 1:
            raise RuntimeError(f"{var.name} has {var.lod_level} levels of sequences: one at most can be tried")
        array = array.astype(kind)
        feed[var.name] = create_lod_tensor(array, [[1] * batch_size], CPUPlace()) if var.lod_level else array
    as_arrays = all(v.lod_level == 0 for v in fetches)
    results = exe.run(program, feed=feed, fetch_list=fetches, return_numpy=as_arrays)
    for var, result in zip(fetches, results, strict=True):
        logger.info("fetched %s: %s", var.name, result)
    return results


def _read(path: str, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Arrays of a shape from the numbers in a file; the rest of a line is dropped."""
    size = math.prod(shape)
    with open(path) as f:
        for line in f:
            numbers = np.array(line.split(), "float64")
            for start in range(0, numbers.size - size + 1, size):
                yield numbers[start : start + size].reshape(shape)
    raise RuntimeError(f"the file {path} has no line of {size} numbers, one batch")
