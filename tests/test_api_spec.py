"""Every implemented name of Paddle 2.0.2 takes the arguments of the specification, in order, with its defaults.

`extensions.json` lists each deliberate difference by name, with its reason.
"""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

from specification import find, resolve

HERE = Path(__file__).resolve().parent
SPEC = find("api.json")
EXTENSIONS: dict[str, str] = json.loads((HERE / "extensions.json").read_text())
NONE = inspect.Parameter.empty


def wanted(signature: str) -> list[tuple[str, Any]]:
    """(name, default as the source has it) of each argument; * and ** keep their stars."""
    args = ast.parse(f"def f{signature}: pass").body[0].args  # type: ignore[attr-defined]
    plain = [*args.posonlyargs, *args.args]
    defaults: list[Any] = [NONE] * (len(plain) - len(args.defaults)) + args.defaults
    found = [(a.arg, d) for a, d in zip(plain, defaults, strict=True)]
    if args.vararg:
        found.append(("*" + args.vararg.arg, NONE))
    found += [(a.arg, NONE if d is None else d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    if args.kwarg:
        found.append(("**" + args.kwarg.arg, NONE))
    return found


def given(obj: Any, method: bool) -> list[tuple[str, Any]] | None:
    """What the object takes; None for what Python cannot look into."""
    if isinstance(obj, type):
        init = obj.__init__ if obj.__init__ is not object.__init__ else obj.__new__
        if not inspect.isfunction(init):
            return None
        obj, method = init, True
    if isinstance(obj, property) or not (inspect.isfunction(obj) or inspect.ismethod(obj)):
        return None
    parameters = list(inspect.signature(obj).parameters.values())
    if method and inspect.isfunction(obj):
        parameters = parameters[1:]
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [(stars.get(p.kind, "") + p.name, p.default) for p in parameters]


def same_default(node: Any, value: Any) -> bool:
    if node is NONE or value is NONE:
        return node is NONE and value is NONE
    try:
        want = ast.literal_eval(node)
    except ValueError:
        return True  # an expression of upstream's own names
    if isinstance(want, list | tuple) and isinstance(value, list | tuple):
        return list(want) == list(value)
    return want == value or want is value


def difference(signature: str, obj: Any, method: bool) -> str | None:
    got = given(obj, method)
    if got is None:
        return None
    try:
        want = wanted(signature)
    except SyntaxError:
        return None
    if [n for n, _ in want] != [n for n, _ in got]:
        return f"takes ({', '.join(n for n, _ in got)}), Paddle {signature}"
    bad = [n for (n, node), (_, v) in zip(want, got, strict=True) if not same_default(node, v)]
    return f"defaults of {', '.join(bad)}: Paddle {signature}, here {dict(got)}" if bad else None


def differences() -> tuple[int, dict[str, str]]:
    count, found = 0, {}
    for entry in json.loads(SPEC.read_text()):
        name = entry["name"]
        try:
            obj = resolve(name)
        except (ImportError, AttributeError):
            continue
        if obj is None or not entry.get("signature", "").startswith("("):
            continue
        count += 1
        method = entry["kind"] == "method" or name.startswith("paddle.Tensor.")
        text = difference(entry["signature"], obj, method)
        if text:
            found[name] = text
        for m in entry.get("methods", []):
            member = inspect.getattr_static(obj, m["name"], None) if isinstance(obj, type) else None
            if m["kind"] != "method" or m["name"].startswith("_") or not inspect.isfunction(member):
                continue
            text = difference(m.get("signature", ""), member, True)
            if text:
                found[f"{name}.{m['name']}"] = text
    return count, found


def test_signatures() -> None:
    count, found = differences()
    assert count > 400
    wrong = {k: v for k, v in found.items() if k not in EXTENSIONS}
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(f"{k}: {v}" for k, v in sorted(wrong.items()))
    gone = sorted(set(EXTENSIONS) - set(found))
    assert not gone, f"extensions.json lists what does not differ: {gone}"
