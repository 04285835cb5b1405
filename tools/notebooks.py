"""The programs of the gallery as Jupyter notebooks.

    python tools/notebooks.py FOLDER [--run]

Converts examples/gallery/plot_*.py by sphinx-gallery. With --run the notebooks' cells are executed, by nbclient where
it is installed (the outputs are stored in the notebooks), else one after the other in this process.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def convert(script: Path, folder: Path) -> Path:
    """Writes the notebook of a program and returns its path."""
    from sphinx_gallery import gen_gallery, notebook, py_source_parser

    _, blocks = py_source_parser.split_code_and_text_blocks(str(script))
    config = copy.deepcopy(gen_gallery.DEFAULT_GALLERY_CONF)
    made = notebook.jupyter_notebook(blocks, config, str(folder))
    path = folder / (script.stem + ".ipynb")
    path.write_text(json.dumps(made, indent=1))
    return path


def run(path: Path) -> None:
    """Executes a notebook's cells."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    try:
        import nbclient
        import nbformat
    except ImportError:
        run_cells(path)
        return
    made = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(made, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    nbformat.write(made, path)


def run_cells(path: Path) -> None:
    """Executes the cells in one namespace; a last expression is shown as a notebook shows it."""
    import ast

    names: dict = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        if cell["cell_type"] != "code":
            continue
        lines = "".join(cell["source"]).splitlines()
        code = "\n".join("" if line.startswith("%") else line for line in lines)
        tree = ast.parse(code, f"{path.name}, cell {number}")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{path.name}, cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"{path.name}, cell {number}", "eval"), names)
            if hasattr(value, "_repr_html_"):
                assert isinstance(value._repr_html_(), (str, type(None)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--only", help="the name of one program, without plot_ and .py")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(EXAMPLES))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
    for script in sorted((EXAMPLES / "gallery").glob(f"plot_{args.only or '*'}.py")):
        path = convert(script, args.folder)
        if args.run:
            run(path)
        print(path)


if __name__ == "__main__":
    main()
