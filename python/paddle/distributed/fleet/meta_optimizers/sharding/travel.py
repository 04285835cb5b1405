"""Where parameters and gradients travel: stretches of a Program, with the exchanges between them."""

from __future__ import annotations

from typing import Any

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType

from ..common import OP_ROLE_KEY, OpRole, is_optimizer_op, role_vars
from .shard import Shard, is_fp16_cast_op
from .utils import get_var_size

__all__: list[str] = []


class Stretch:
    """Neighbouring operators of forward and backward, and what they need of other ranks."""

    def __init__(self, end: int) -> None:
        self.start, self.end = 0, end
        self.megabytes = 0.0
        #: parameter -> what the operators read instead
        self.names: dict[str, str] = {}
        #: (variable, the rank that has it)
        self.broadcasts: list[tuple[str, int]] = []
        #: variables that are made here before they are received
        self.filled: list[str] = []
        #: float16 name -> float32 parameter of this rank
        self.casts: dict[str, str] = {}
        #: gradients that are whole behind it
        self.grads: list[str] = []


class Travel:
    """Cuts a block into stretches, and inserts the exchanges.

    Parameters are received one stretch ahead of their use and gradients summed one stretch behind, so that both can go
    on meanwhile.
    """

    def __init__(self, block: Any, shard: Shard, megabytes: float, ring: int, dp_ring: int) -> None:
        self.block, self.shard, self.ring, self.dp_ring = block, shard, ring, dp_ring
        #: gradient -> parameter
        self.reduced: dict[str, str] = {}
        self.broadcast_vars = shard.find_broadcast_params(block)
        self.stretches = self._cut(megabytes)

    def _cut(self, megabytes: float) -> list[Stretch]:
        ops = self.block.ops
        end = max(i for i, op in enumerate(ops) if not _is_update(op)) + 1
        found = [Stretch(end)]
        for at in reversed(range(end)):
            assert not _is_update(ops[at]), f"sharding: {ops[at].type} updates something in the midst of backward"
            if found[0].megabytes >= megabytes:
                found[0].start = at + 1
                found.insert(0, Stretch(at + 1))
            self._look_at(ops[at], found[0])
        return found

    def _look_at(self, op: Any, stretch: Stretch) -> None:
        for name in op.input_arg_names:
            if name not in self.broadcast_vars or name in stretch.names:
                continue
            mine = self.shard.has_param(name)
            stretch.names[name] = name if mine else unique_name.generate(name + "@BroadCast")
            if not mine:
                stretch.filled.append(stretch.names[name])
            stretch.broadcasts.append((stretch.names[name], self.shard.device(name)))
            stretch.megabytes += get_var_size(self.block.var(name))
        for param, grad in role_vars(op):
            assert grad not in self.reduced, f"sharding: two operators say that {grad} is whole"
            self.reduced[grad] = param
            stretch.grads.append(grad)
        if is_fp16_cast_op(self.block, op, self.shard.global_params):
            source, half = op.input("X")[0], op.output("Out")[0]
            if self.shard.has_param(source):
                stretch.casts[half] = source

    def insert(self) -> None:
        """Renames what is received, and inserts the exchanges, from the last stretch to the first."""
        count = len(self.stretches)
        self._at(self.stretches[-1].end, self._behind(count))
        for k in reversed(range(count)):
            stretch = self.stretches[k]
            self._rename(stretch)
            self._at(stretch.start, self._behind(k))
        self.block._sync_with_cpp()

    def _rename(self, stretch: Stretch) -> None:
        block = self.block
        for name, received in stretch.names.items():
            if name != received:
                var = block.var(name)
                block.create_var(name=received, shape=var.shape, dtype=var.dtype, persistable=False)
        for at in reversed(range(stretch.start, stretch.end)):
            op = block.ops[at]
            if is_fp16_cast_op(block, op, self.shard.global_params):
                block._remove_op(at, sync=False)  # it stands before the exchange, where this rank has the parameter
                continue
            for name in set(op.input_arg_names) & set(stretch.names):
                if stretch.names[name] != name:
                    op._rename_input(name, stretch.names[name])

    def _of(self, k: int) -> Stretch:
        return self.stretches[k] if 0 <= k < len(self.stretches) else Stretch(0)

    def _behind(self, k: int) -> list[tuple]:
        """The operators between the stretches k - 1 and k, in order: (type, variables or pairs, attributes)."""
        soon = [self._of(0), self._of(1)] if k == 0 else [self._of(k + 1)]
        casts = {half: source for stretch in soon for half, source in stretch.casts.items()}
        filled = [name for stretch in soon for name in stretch.filled]
        done, late = self._of(k - 1).grads, self._of(k - 2).grads
        out: list[tuple] = [("cast", half, source) for half, source in reversed(casts.items())]
        out += [("fill_constant", name, None) for name in reversed(filled)]
        made = [*filled, *casts, *done]
        if made:
            out.append(("c_sync_calc_stream", made[-1:], None))
        late_own = self.shard.filter_grads(late) if self.dp_ring >= 0 else []
        here = [name for name, _ in self._of(k).broadcasts] if k else []
        if late_own:
            if here:
                out.append(("c_sync_comm_stream", here, self.ring))
            out.append(("c_sync_comm_stream", late_own, self.dp_ring))
        elif late or here:
            out.append(("c_sync_comm_stream", late + here, self.ring))
        if k == 0:
            out += [("c_broadcast", *pair) for pair in reversed(self._of(0).broadcasts)]
            if self._of(0).broadcasts:
                out.append(("c_sync_comm_stream", [name for name, _ in self._of(0).broadcasts], self.ring))
        return (
            out
            + self._sums(done, k == len(self.stretches))
            + [("c_broadcast", *pair) for pair in reversed(self._of(k + 1).broadcasts)]
        )

    def _sums(self, grads: list[str], last: bool) -> list[tuple]:
        if not grads:
            return []
        out: list[tuple] = [("c_allreduce_sum", grad, self.ring) for grad in reversed(grads)]
        own = self.shard.filter_grads(grads) if self.dp_ring >= 0 else []
        if own or last:
            out.append(("c_sync_comm_stream", grads, self.ring))
        out += [("c_allreduce_sum", grad, self.dp_ring) for grad in reversed(own)]
        if own and last:
            out.append(("c_sync_comm_stream", own, self.dp_ring))
        return out

    def _at(self, at: int, ops: list[tuple]) -> None:
        """Inserts operators at a place, for the role of what stands there."""
        role = self._role(at)
        for kind, names, more in reversed(ops):
            attrs: dict[str, Any] = {OP_ROLE_KEY: OpRole.Backward if kind == "c_allreduce_sum" else role}
            inputs: dict[str, Any] = {"X": names}
            if kind == "cast":
                inputs = {"X": more}
                attrs |= {"in_dtype": VarType.FP32, "out_dtype": VarType.FP16}
            elif kind == "fill_constant":
                var, inputs = self.block.var(names), {}
                attrs |= {"shape": var.shape, "dtype": var.dtype, "value": 0.0}
            elif kind == "c_broadcast":
                attrs |= {"ring_id": self.ring, "root": more}
            elif more is not None:
                attrs["ring_id"] = more
            self.block._insert_op_without_sync(at, type=kind, inputs=inputs, outputs={"Out": names}, attrs=attrs)

    def _role(self, at: int) -> OpRole:
        for op in self.block.ops[at:]:
            role = int(op.attr(OP_ROLE_KEY))
            if role in (int(OpRole.Backward), int(OpRole.Optimize)):
                return OpRole.Backward
            if role in (int(OpRole.Forward), int(OpRole.Loss)):
                return OpRole.Forward
        return OpRole.Backward


def _is_update(op: Any) -> bool:
    return int(op.attr(OP_ROLE_KEY)) == int(OpRole.Optimize) and is_optimizer_op(op)
