"""The Programs of a described job's servers: blocks that look up rows and apply the trainers' pushes.

Rows of sparse tables are initialized on first access and assigned to servers by id modulo their number; each parameter
of the dense tables is whole on one server, round robin. Rules: naive, adagrad and adam for rows; naive, adam (PSLib's,
with decaying sums: `DAdamD2Sum` of Paddle since 2.1) and summary for parameters. A push is applied on arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from paddle import _ops, tensor
from paddle._basics import unique_name
from paddle._core import VarDesc
from paddle._programs.guards import default_main_program, default_startup_program, program_guard
from paddle._programs.program import Program
from paddle.distributed.ps.config import DistributedMode
from paddle.static.pyfunc import py_func

from . import ps_pb2 as pslib

__all__: list[str] = []

READY = "pslib.ready"
#: the variables of a table command of the first worker, and of the server's answer
COMMAND, ANSWER = "pslib.command", "pslib.answer"
#: columns of click accessors: shows, clicks, score gained since the last save, days without a show
_COUNTS = ["Show", "Click", "Delta", "Unseen"]
#: suffix of the variable with a parameter's initial value
INITIAL = "@INITIAL"
CLICKS = ("DownpourCtrAccessor", "DownpourFeatureValueAccessor", "DownpourCtrDoubleAccessor", "DownpourUnitAccessor")


@dataclass
class Part:
    """Columns of a row that one optimizer rule updates."""

    name: str
    width: int
    rule: str
    settings: Any
    #: whether the initial values are zeros
    zeros: bool = False
    #: the rule's states: names, widths, initial values
    states: list[tuple[str, int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        s, d = self.settings, self.width
        if self.rule == "adagrad":
            self.states = [("G2Sum", 1, 0.0)]
        elif self.rule == "adam":
            powers = [("Pow1", 1, s.beta1_decay_rate), ("Pow2", 1, s.beta2_decay_rate)]
            self.states = [("Moment1", d, 0.0), ("Moment2", d, 0.0), *powers]
        self.states = [(self.name + name, width, value) for name, width, value in self.states]

    def values(self) -> list[tuple[str, int, str]]:
        """The names, widths and initializers of the columns and states."""
        reach = 0.0 if self.zeros else self.settings.initial_range
        first = f"uniform_random&{1 + len(self.name)}&{-reach}&{reach}" if reach else "fill_constant&0"
        return [(self.name, self.width, first), *((n, w, f"fill_constant&{v}") for n, w, v in self.states)]

    def apply(self, grad: Any, held: list[Any]) -> list[Any]:
        """The updated values and states of rows, from the current ones (`held`) and a gradient."""
        s, (param, *states) = self.settings, held
        if self.rule == "naive":
            param = param - grad * s.learning_rate
        elif self.rule == "adagrad":
            (g2sum,) = states
            step = grad * s.learning_rate
            param = param - step * _ops.sqrt(s.initial_g2sum / (g2sum + s.initial_g2sum))
            states = [g2sum + tensor.mean(_ops.square(grad), axis=1, keepdim=True)]
        else:
            first, second, pow1, pow2 = states
            first = first * s.beta1_decay_rate + grad * (1 - s.beta1_decay_rate)
            second = second * s.beta2_decay_rate + _ops.square(grad) * (1 - s.beta2_decay_rate)
            rate = _ops.sqrt(1.0 - pow2) / (1.0 - pow1) * s.learning_rate
            param = param - first / (_ops.sqrt(second) + s.ada_epsilon) * rate
            states = [first, second, pow1 * s.beta1_decay_rate, pow2 * s.beta2_decay_rate]
        low_high = list(s.weight_bounds)
        return [tensor.clip(param, *low_high) if low_high else param, *states]


class SparseTable:
    """A sparse table of a description.

    Raises:
        NotImplementedError: for an accessor or a rule that is not supported.
    """

    def __init__(self, table: Any) -> None:
        accessor, self.number = table.accessor, table.table_id
        self.name, self.ids, self.grad = (f"pslib.{table.table_id}{tail}" for tail in ("", ".ids", "@GRAD"))
        kind = accessor.accessor_class
        self.clicks = kind in CLICKS
        self.accessor = accessor
        if kind == "DownpourSparseValueAccessor":
            rows = [("Param", accessor.embedx_dim, accessor.sparse_commonsgd_param)]
        elif kind == "DownpourUnitAccessor":
            rows = [("Embed", 1, accessor.embed_sgd_param), ("Embedx", accessor.embedx_dim, accessor.embedx_sgd_param)]
        elif self.clicks:
            rows = [("Embed", 1, None), ("Embedx", accessor.embedx_dim, None)]
        else:
            raise NotImplementedError(f"pslib: sparse table {self.number}: the accessor {kind!r} is not supported")
        self.parts = [self._part(*row) for row in rows]
        self.width = sum(part.width for part in self.parts) + 2 * self.clicks

    def _part(self, name: str, width: int, rule: Any) -> Part:
        """A part of a row; click accessors (`rule` None) have one adagrad rule for the whole row."""
        if rule is None:
            return Part(name, width, "adagrad", self.accessor.sparse_sgd_param, name == "Embed")
        if rule.name not in ("naive", "adagrad", "adam"):
            raise NotImplementedError(
                f"pslib: sparse table {self.number}: the rule {rule.name!r} is not one of naive, adagrad and adam"
            )
        return Part(name, width, rule.name, rule.get(rule.name), name == "Embed")

    def meta(self) -> str:
        """The description of the table for lookup_sparse_table_init."""
        values = [(name, 1, "fill_constant&0") for name in _COUNTS * self.clicks]
        values += [value for part in self.parts for value in part.values()]
        names, widths, firsts = (",".join(map(str, column)) for column in zip(*values, strict=True))
        return f"{self.name}:{names}:{widths}:0:{self.grad}:{names}:{firsts}:none"

    def read(self, ids: Any, names: list[str]) -> list[Any]:
        """Appends a read of the named values of rows."""
        block = default_main_program().current_block()
        outs = [block.create_var(name=unique_name.generate(self.name), dtype="float32") for _ in names]
        attrs = {"tablename": self.name, "value_names": names, "init": True}
        block.append_op(type="lookup_sparse_table_read", inputs={"Ids": ids}, outputs={"Out": outs}, attrs=attrs)
        for out, width in zip(outs, self._widths(names), strict=True):
            out.desc.set_shape([-1, width])
        return outs

    def write(self, ids: Any, names: list[str], values: list[Any]) -> None:
        """Appends a write of the named values of rows."""
        block = default_main_program().current_block()
        attrs = {"tablename": self.name, "value_names": names}
        block.append_op(type="lookup_sparse_table_write", inputs={"Ids": ids, "In": values}, outputs={}, attrs=attrs)

    def _widths(self, names: list[str]) -> list[int]:
        known = {name: width for part in self.parts for name, width, _ in part.values()}
        return [known.get(name, 1) for name in names]

    def score(self, show: Any, click: Any) -> Any:
        """The score of rows from their counts, which are Variables or arrays."""
        s = self.accessor.downpour_accessor_param
        return (show - click) * s.nonclk_coeff + click * s.click_coeff

    def _extended(self, show: Any, click: Any) -> Any:
        """1 for rows whose score reaches embedx_threshold, else 0: other rows have no embedx columns yet."""
        score = self.score(show, click)
        least = tensor.full([1], float(self.accessor.embedx_threshold), "float32")
        return tensor.cast(score >= least, "float32")

    def lookup(self, ids: Any) -> None:
        """Appends the lookup of ids; rows of click accessors include shows and clicks."""
        names = ["Show", "Click"] * self.clicks + [part.name for part in self.parts]
        found = self.read(ids, names)
        if self.clicks:
            found[3] = found[3] * self._extended(*found[:2])
        tensor.concat(found, axis=1)

    def push(self, grad: Any) -> None:
        """Appends the update of rows by a push."""
        block = default_main_program().current_block()
        row = block.create_var(name=self.name + ".row", shape=[-1, 1], dtype="int64")
        value = block.create_var(name=self.name + ".value", shape=[-1, self.width], dtype="float32")
        block.append_op(
            type="lookup_sparse_table_grad_split",
            inputs={"Grad": grad},
            outputs={"Row": row, "Value": value},
            attrs={"tablename": self.name, "is_entry": False},
        )
        names, at = _COUNTS * self.clicks, 2 * self.clicks
        names += [name for part in self.parts for name, _, _ in part.values()]
        held = self.read(row, names)
        new = []
        if self.clicks:
            more = [tensor.slice(value, [1], [i], [i + 1]) for i in (0, 1)]
            new = [h + m for h, m in zip(held, [*more, self.score(*more)], strict=False)]
            new.append(tensor.zeros_like(held[3]))
            extended, held = self._extended(*held[:2]), held[4:]
        for part in self.parts:
            columns = tensor.slice(value, [1], [at], [at + part.width])
            if self.clicks:
                # The gradient is the mean over the row's shows.
                columns = columns / more[0]
            mine, held, at = held[: 1 + len(part.states)], held[1 + len(part.states) :], at + part.width
            after = part.apply(columns, mine)
            if part.name == "Embedx":
                after = [old + (next_ - old) * extended for old, next_ in zip(mine, after, strict=True)]
            new += after
        self.write(row, names, new)


def sparse_tables(desc: Any) -> dict[int, SparseTable]:
    """The sparse tables of a description, by id."""
    tables = desc.server_param.downpour_server_param.downpour_table_param
    return {t.table_id: SparseTable(t) for t in tables if t.type == pslib.PS_SPARSE_TABLE}


def _trainers(desc: Any) -> list[Any]:
    return desc.trainer_param if isinstance(desc.trainer_param, list) else [desc.trainer_param]


def dense_placement(desc: Any, endpoints: list[str]) -> dict[str, tuple[str, str, Any]]:
    """For each parameter of the dense tables: its gradient, its server, its rule."""
    rules = {
        t.table_id: t.accessor.dense_sgd_param
        for t in desc.server_param.downpour_server_param.downpour_table_param
        if t.type == pslib.PS_DENSE_TABLE
    }
    found: dict[str, tuple[str, str, Any]] = {}
    for table in (table for trainer in _trainers(desc) for table in trainer.dense_table):
        for name in table.dense_variable_name:
            found.setdefault(name, (name + "@GRAD", endpoints[len(found) % len(endpoints)], rules[table.table_id]))
    return found


#: suffixes of the states of a parameter's rule
_STATES = (".d2sum", ".g2sum", ".velocity")


def _dense_push(param: Any, grad: Any, rule: Any) -> None:
    startup = default_startup_program().global_block()

    def state(tail: str, shape: Any = param.shape) -> Any:
        top = default_main_program().global_block()
        for block in (top, startup):
            made = block.create_var(name=param.name + tail, shape=shape, dtype="float32", persistable=True)
        attrs = {"shape": list(shape), "dtype": made.dtype, "value": 0.0}
        startup.append_op(type="fill_constant", inputs={}, outputs={"Out": made}, attrs=attrs)
        return top.var(param.name + tail)

    if rule.name == "naive":
        tensor.assign(param - grad * rule.naive.learning_rate, param)
    elif rule.name == "summary":
        tensor.assign(param * rule.summary.summary_decay_rate + grad, param)
    elif rule.name == "adam":
        s = rule.adam
        d2sum, g2sum, velocity = map(state, _STATES)
        tensor.assign(d2sum * s.ada_decay_rate + 1.0, d2sum)
        tensor.assign(g2sum * s.ada_decay_rate + _ops.square(grad), g2sum)
        tensor.assign((velocity - grad) * s.mom_decay_rate + grad, velocity)
        small = d2sum * s.ada_epsilon
        scale = _ops.sqrt((d2sum + small) / (g2sum + small))
        tensor.assign(param - velocity * scale * s.learning_rate, param)
    else:
        raise NotImplementedError(
            f"pslib: the dense table of {param.name}: the rule {rule.name!r} is not one of naive, adam and summary"
        )


def dense_tables(desc: Any) -> dict[int, list[str]]:
    """The parameters of the dense tables, by id."""
    found: dict[int, list[str]] = {}
    for trainer in _trainers(desc):
        for table in trainer.dense_table:
            found.setdefault(table.table_id, list(table.dense_variable_name))
    return found


def build(
    desc: Any,
    programs: list[Any],
    endpoints: list[str],
    endpoint: str,
    trainers: int,
    loads: bool,
    commands: Callable[[list[SparseTable], dict[int, list[str]]], Any],
) -> tuple[Any, Any, Any]:
    """The main and the startup Program of a server, and its table commands, made by `commands` of its tables.

    With `loads` parameters are read from a folder instead of received from worker 0.
    """
    main, startup = Program(), Program()
    top, blocks, lookups = main.global_block(), [], []

    def in_a_block(name: str, work: Any, *arguments: Any) -> str:
        block = main._create_block(0)
        work(*arguments)
        main._rollback()
        return f"{name}:{block.idx}"

    def held(name: str, shape: Any, value: float = 0.0) -> Any:
        for block in (startup.global_block(), top):
            made = block.create_var(name=name, shape=shape, dtype="float32", persistable=True)
        attrs = {"shape": list(shape), "dtype": made.dtype, "value": value}
        startup.global_block().append_op(
            type="fill_constant", inputs={}, outputs={"Out": startup.global_block().var(name)}, attrs=attrs
        )
        begin = top.create_var(name=name + INITIAL, shape=shape, dtype="float32")
        blocks.append(in_a_block(begin.name, tensor.assign, begin, made))
        return made

    with program_guard(main, startup), unique_name.guard("pslib"):
        tables = list(sparse_tables(desc).values())
        attrs = {"large_scale_metas": [table.meta() for table in tables]}
        startup.global_block().append_op(type="lookup_sparse_table_init", inputs={}, outputs={}, attrs=attrs)
        for table in tables:
            ids = top.create_var(name=table.ids, shape=[-1, 1], dtype="int64")
            grad = top.create_var(
                name=table.grad, shape=[-1, table.width], dtype="float32", type=VarDesc.VarType.SELECTED_ROWS
            )
            lookups.append(in_a_block(ids.name, table.lookup, ids))
            blocks.append(in_a_block(grad.name, table.push, grad))
        held(READY, [1], float(loads))
        for name, (grad_name, where, rule) in dense_placement(desc, endpoints).items():
            if where == endpoint:
                like = next(p.global_block().vars[name] for p in programs if name in p.global_block().vars)
                param = held(name, like.shape)
                grad = top.create_var(name=grad_name, shape=like.shape, dtype="float32")
                blocks.append(in_a_block(grad_name, _dense_push, param, grad, rule))
        mine = startup.global_block().vars
        dense = {
            number: [name + tail for name in names for tail in ("", *_STATES) if name + tail in mine]
            for number, names in dense_tables(desc).items()
        }
        kept = commands(tables, dense)
        command = top.create_var(name=COMMAND, shape=[-1], dtype="uint8")
        answer = top.create_var(name=ANSWER, shape=[-1], dtype="uint8", persistable=True)
        blocks.append(in_a_block(COMMAND, py_func, kept, command, answer))
        top.append_op(
            type="listen_and_serv",
            inputs={"X": []},
            outputs={},
            attrs={
                "endpoint": endpoint,
                "Fanin": trainers,
                "distributed_mode": DistributedMode.ASYNC,
                "optimize_blocks": [main.block(i) for i in range(1, main.num_blocks)],
                "grad_to_block_id": blocks,
                "prefetch_var_name_to_block_id": lookups,
            },
        )
    return main, startup, kept
