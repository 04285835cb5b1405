"""Sphinx extension: a page of the API reference for each public module, from docstrings as reStructuredText."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

# Module and one line about it. An object is documented in the first module that lists it; later ones refer to that.
MODULES = {
    "paddle": "tensors, modes, devices, and the functions on tensors",
    "paddle.nn": "layers",
    "paddle.nn.functional": "functions behind the layers",
    "paddle.nn.initializer": "initial values of parameters",
    "paddle.tensor": "functions on tensors",
    "paddle.optimizer": "optimizers",
    "paddle.optimizer.lr": "learning-rate schedules",
    "paddle.regularizer": "weight decay",
    "paddle.amp": "mixed precision",
    "paddle.autograd": "custom gradients",
    "paddle.io": "data sets, samplers, DataLoader",
    "paddle.metric": "metrics",
    "paddle.static": "Programs and executors",
    "paddle.static.nn": "layers of static Programs",
    "paddle.jit": "Programs from dygraph code",
    "paddle.inference": "Serving saved models",
    "paddle.vision": "computer vision",
    "paddle.vision.models": "networks",
    "paddle.vision.transforms": "image transforms",
    "paddle.vision.datasets": "image data sets",
    "paddle.vision.ops": "operators of detection",
    "paddle.text": "text data sets",
    "paddle.distribution": "probability distributions",
    "paddle.callbacks": "callbacks of paddle.Model",
    "paddle.distributed": "collectives, launch, groups",
    "paddle.distributed.fleet": "distributed strategies and roles",
    "paddle.distributed.fleet.utils": "file systems, recompute",
    "paddle.utils": "utilities",
    "paddle.utils.profiler": "profiler",
    "paddle.device": "devices",
    "paddle.reader": "reader decorators of 1.x",
    "paddle.fluid": "the API of Paddle 1.x",
    "paddle.fluid.layers": "layers of 1.x",
    "paddle.fluid.optimizer": "optimizers of 1.x",
    "paddle.fluid.dygraph": "dygraph mode of 1.x",
    "paddle.fluid.io": "saving and loading in 1.x",
    "paddle.fluid.initializer": "initial values in 1.x",
    "paddle.fluid.nets": "composed networks of 1.x",
    "paddle.fluid.metrics": "metrics of 1.x",
    "paddle.fluid.clip": "gradient clipping in 1.x",
    "paddle.fluid.backward": "gradients in 1.x",
    "paddle.fluid.profiler": "profiler of 1.x",
}


def public_names(module: Any) -> list[str]:
    """The names of `__all__` in order, without modules."""
    return [n for n in dict.fromkeys(module.__all__) if not inspect.ismodule(getattr(module, n, None))]


def page_of(name: str, about: str, seen: dict[int, str]) -> str | None:
    """reStructuredText of one module's page; `seen` maps an object's id to the name that documents it."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    own, elsewhere, values = [], [], []
    for short in public_names(module):
        thing, full = getattr(module, short), f"{name}.{short}"
        if not callable(thing):
            values.append(short)
        elif id(thing) in seen:
            elsewhere.append((short, seen[id(thing)]))
        else:
            seen[id(thing)] = full
            own.append((short, thing))
    lines = [name, "=" * len(name), "", f"{about[0].upper()}{about[1:]}.", "", f".. currentmodule:: {name}", ""]
    for short, thing in own:
        if inspect.isclass(thing):
            lines += [f".. autoclass:: {short}", "   :members:", "   :show-inheritance:", ""]
        else:
            lines += [f".. autofunction:: {short}", ""]
    if values:
        lines += ["Values", "------", "", ", ".join(f"``{v}``" for v in values) + ".", ""]
    if elsewhere:
        lines += ["Also here", "---------", "", "Documented under another name:", ""]
        lines += [f"- ``{short}``: :py:obj:`{full}`" for short, full in elsewhere] + [""]
    return "\n".join(lines)


def write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def write_pages(app: Any) -> None:
    """Writes api/index.rst and api/<module>.rst below the source folder."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    seen: dict[int, str] = {}
    rows, tree = [], []
    for name, about in MODULES.items():
        text = page_of(name, about, seen)
        if text is None:
            continue
        write_if_changed(folder / f"{name}.rst", text)
        rows.append(f"   * - :doc:`{name}`\n     - {about}")
        tree.append(f"   {name}")
    head = ["API reference", "=============", "", "From the docstrings; their examples run as tests.", ""]
    table = [".. list-table::", "   :widths: 30 70", "", *rows, ""]
    lines = [*head, *table, ".. toctree::", "   :hidden:", "", *tree, ""]
    write_if_changed(folder / "index.rst", "\n".join(lines))


CODE = re.compile(r"(``[^`]+``|`[^`\n]+`)")


def escape(line: str) -> str:
    """Text outside of backticks without reStructuredText's marks."""
    parts = CODE.split(line)  # texts and code spans in turn
    for i in range(0, len(parts), 2):
        text = re.sub(r"([*|\\`]|_(?=\W|$))", r"\\\1", parts[i])
        # Markup ends before a word character only after an escaped space.
        parts[i] = "\\ " + text if i and text[:1].isalnum() else text
    return "".join(parts)


def adapt_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text in Google style: escapes marks, keeps examples as they are.

    Runs before napoleon, which reads the sections.
    """
    for i, line in enumerate(lines):
        if line.startswith("Warning: API"):  # written before the docstring, whose indentation is still there
            lines[i + 1 :] = ["", *inspect.cleandoc("\n".join(lines[i + 1 :])).split("\n")]
            break
    out, in_example = [], False
    for line in lines:
        stripped = line.strip()
        if stripped.startswith(">>>"):
            if not in_example and out and out[-1].strip():
                out.append("")
            in_example = True
        elif not stripped:
            in_example = False
        out.append(line if in_example else escape(line))
    lines[:] = out


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", adapt_docstring, priority=100)
    return {"parallel_read_safe": True}
