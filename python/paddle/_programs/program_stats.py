"""ProgramStats: producers and consumers of the variables of a list of operators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from paddle._basics import unique_name
from paddle._programs.text import op_text

__all__: list[str] = []


class ProgramStats:
    """Producers and consumers of variables, for the segments that recomputation runs again.

    Args:
        block (Block): the block of the operators. ops (list): its operators, in order.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [2])
        >>> y = fluid.layers.exp(fluid.layers.tanh(x))
        >>> stats = fluid.backward.ProgramStats(x.block, x.block.ops)
        >>> stats.build_stats()
        >>> stats.get_input_nodes(), stats.op_deps[1]
        (['x'], {'in_ops': [0], 'out_ops': []})
    """

    def __init__(self, block: Any, ops: list[Any]) -> None:
        self.block = block
        self.ops = ops
        #: index of an operator -> {"in_ops", "out_ops"}: indices of its predecessors and successors
        self.op_deps: dict[int, dict[str, list[int]]] = {}
        #: name -> {"var_as_input_ops", "var_as_output_ops"}: indices of its consumers and producers
        self.var_op_deps: dict[str, dict[str, list[int]]] = {}

    def _of(self, name: str) -> dict[str, list[int]]:
        return self.var_op_deps.setdefault(name, {"var_as_input_ops": [], "var_as_output_ops": []})

    def build_stats(self) -> None:
        """Fills `op_deps` and `var_op_deps`, which the other methods read."""
        for i, op in enumerate(self.ops):
            names = op.desc.input_arg_names()
            before = [j for name in names if name in self.var_op_deps for j in self._of(name)["var_as_output_ops"]]
            self.op_deps[i] = {"in_ops": before, "out_ops": []}
            for name in names:
                self._of(name)["var_as_input_ops"].append(i)
            for name in op.desc.output_arg_names():
                self._of(name)["var_as_output_ops"].append(i)
            for j in before:
                self.op_deps[j]["out_ops"].append(i)

    def get_input_nodes(self) -> list[str]:
        """Names of the inputs: variables without a producer that are no parameters; and the outputs of readers."""
        names = [
            name
            for name, deps in self.var_op_deps.items()
            if deps["var_as_input_ops"] and not deps["var_as_output_ops"] and not self.block.var(name).persistable
        ]
        return names + self._outputs_of("read")

    def get_reserved_vars(self) -> list[str]:
        """Names of the seeds of dropouts."""
        return self._outputs_of("seed")

    def _outputs_of(self, kind: str) -> list[str]:
        return [name for op in self.ops if op.type == kind for name in op.desc.output_arg_names()]

    def get_out_of_subgraph_vars(self, begin_op_idx: int, end_op_idx: int) -> list[str]:
        """Names of the variables that a segment shares with operators before and after it."""
        found = []
        for op in self.ops[begin_op_idx:end_op_idx]:
            for name in op.desc.output_arg_names():
                users = self.var_op_deps.get(name, {}).get("var_as_input_ops", [])
                found += [name for user in users if user >= end_op_idx]
            for name in op.desc.input_arg_names():
                makers = self.var_op_deps.get(name, {}).get("var_as_output_ops", [])
                found += [name for maker in makers if maker < begin_op_idx]
        return found

    def is_subgraph(self, var_group1: Iterable[str], var_group2: Iterable[str]) -> tuple[bool, int, int]:
        """Whether there are operators between two groups of variables; the index of the first consumer of the first
        group, and of the last producer of the second.
        """
        low, high = len(self.ops), -1
        group1, group2 = list(var_group1), list(var_group2)
        if any(name not in self.var_op_deps for name in group1 + group2):
            return False, low, high
        low = min([low] + [i for name in group1 for i in self._of(name)["var_as_input_ops"]])
        high = max([high] + [i for name in group2 for i in self._of(name)["var_as_output_ops"]])
        return low < high, low, high

    def sort_checkpoints(self, checkpoints_name: Iterable[str]) -> list[str]:
        """Names in the order of their last producers, inputs first; unknown names are left out."""
        known = [name for name in checkpoints_name if name in self.var_op_deps]
        return sorted(known, key=lambda name: max(self._of(name)["var_as_output_ops"], default=-1))

    def _update_segment_start(self, min_idx: int, pre_segment_end_idx: int) -> int:
        """The start of a segment including the casts of parameters directly before it."""
        while min_idx - 1 > pre_segment_end_idx:
            op = self.ops[min_idx - 1]
            if op.type != "cast" or not self.block.var(op.desc.input_arg_names()[0]).persistable:
                break
            min_idx -= 1
        return min_idx

    def modify_forward_desc_for_recompute(self) -> None:
        """Gives every dropout a seed operator, so that a recomputed dropout draws the same mask."""
        for op in [op for op in self.ops if op.type == "dropout"]:
            name = unique_name.generate_with_ignorable_key(unique_name.generate("seed") + ".tmp")
            var = self.block.create_var(name=name, dtype="int32", persistable=False, stop_gradient=False)
            seed = int(op.attr("seed")) if op.attr("fix_seed") else 0
            added = self.block._insert_op(
                self.block.ops.index(op), type="seed", inputs={}, outputs={"Out": [var]}, attrs={"seed": seed}
            )
            self.ops.insert(self.ops.index(op), added)
            op.desc.set_input("Seed", [name])
            op.desc.remove_attr("fix_seed")
            op.desc.remove_attr("seed")
            self.block._sync_with_cpp()


def serialize_op_decs(op_desc: Any) -> str:
    """An operator's description as protobuf text.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.layers.tanh(fluid.data("x", [2]))
        >>> 'type: "tanh"' in fluid.backward.serialize_op_decs(x.op.desc)
        True
    """
    return op_text(op_desc)
