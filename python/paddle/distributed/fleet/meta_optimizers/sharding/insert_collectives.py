"""Insertion of the collectives of sharding: a Program is cut into segments, with broadcasts and sums between them."""

from __future__ import annotations

from typing import Any

from paddle._basics import unique_name
from paddle._basics.dtypes import VarType

from ..common import OP_ROLE_KEY, OpRole, is_optimizer_op, role_vars
from .shard import Shard, is_fp16_cast_op
from .utils import get_var_size

__all__: list[str] = []


class Segment:
    """Adjacent operators of forward and backward, with the variables that they need from other ranks."""

    def __init__(self, end: int) -> None:
        self.start, self.end = 0, end
        self.megabytes = 0.0
        #: parameter -> the variable that the operators read instead
        self.names: dict[str, str] = {}
        #: (variable, the rank that holds it)
        self.broadcasts: list[tuple[str, int]] = []
        #: variables that are allocated before they are received
        self.filled: list[str] = []
        #: float16 name -> float32 parameter of this rank
        self.casts: dict[str, str] = {}
        #: gradients that are complete after this segment
        self.grads: list[str] = []


class CollectiveInserter:
    """Cuts a block into segments of about `megabytes` of received parameters, and inserts the collectives.

    Parameters are received one segment before their use and gradients are summed one segment after their last operator,
    so that communication overlaps with computation.
    """

    def __init__(self, block: Any, shard: Shard, megabytes: float, ring: int, dp_ring: int) -> None:
        self.block, self.shard, self.ring, self.dp_ring = block, shard, ring, dp_ring
        #: gradient -> parameter
        self.reduced: dict[str, str] = {}
        self.broadcast_vars = shard.find_broadcast_params(block)
        self.segments = self._cut(megabytes)

    def _cut(self, megabytes: float) -> list[Segment]:
        ops = self.block.ops
        end = max(i for i, op in enumerate(ops) if not _is_update(op)) + 1
        found = [Segment(end)]
        for at in reversed(range(end)):
            assert not _is_update(ops[at]), f"sharding: {ops[at].type} updates something between operators of backward"
            if found[0].megabytes >= megabytes:
                found[0].start = at + 1
                found.insert(0, Segment(at + 1))
            self._look_at(ops[at], found[0])
        return found

    def _look_at(self, op: Any, segment: Segment) -> None:
        for name in op.input_arg_names:
            if name not in self.broadcast_vars or name in segment.names:
                continue
            mine = self.shard.has_param(name)
            segment.names[name] = name if mine else unique_name.generate(name + "@BroadCast")
            if not mine:
                segment.filled.append(segment.names[name])
            segment.broadcasts.append((segment.names[name], self.shard.device(name)))
            segment.megabytes += get_var_size(self.block.var(name))
        for param, grad in role_vars(op):
            assert grad not in self.reduced, f"sharding: two operators complete the gradient {grad}"
            self.reduced[grad] = param
            segment.grads.append(grad)
        if is_fp16_cast_op(self.block, op, self.shard.global_params):
            source, half = op.input("X")[0], op.output("Out")[0]
            if self.shard.has_param(source):
                segment.casts[half] = source

    def insert(self) -> None:
        """Renames received variables and inserts the collectives, from the last segment to the first."""
        count = len(self.segments)
        self._at(self.segments[-1].end, self._between(count))
        for k in reversed(range(count)):
            segment = self.segments[k]
            self._rename(segment)
            self._at(segment.start, self._between(k))
        self.block._sync_with_cpp()

    def _rename(self, segment: Segment) -> None:
        block = self.block
        for name, received in segment.names.items():
            if name != received:
                var = block.var(name)
                block.create_var(name=received, shape=var.shape, dtype=var.dtype, persistable=False)
        for at in reversed(range(segment.start, segment.end)):
            op = block.ops[at]
            if is_fp16_cast_op(block, op, self.shard.global_params):
                block._remove_op(at, sync=False)  # the rank that holds the parameter casts before the broadcast
                continue
            for name in set(op.input_arg_names) & set(segment.names):
                if segment.names[name] != name:
                    op._rename_input(name, segment.names[name])

    def _of(self, k: int) -> Segment:
        return self.segments[k] if 0 <= k < len(self.segments) else Segment(0)

    def _between(self, k: int) -> list[tuple]:
        """The operators between the segments k - 1 and k, in order: (type, variables, ring, root or source)."""
        soon = [self._of(0), self._of(1)] if k == 0 else [self._of(k + 1)]
        casts = {half: source for segment in soon for half, source in segment.casts.items()}
        filled = [name for segment in soon for name in segment.filled]
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
            + self._sums(done, k == len(self.segments))
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
        """Inserts operators at an index, with the role of the operators that follow."""
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
