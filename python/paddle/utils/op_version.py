"""Version history of operators up to 2.0.2: each checkpoint of an operator is a list of changes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

__all__ = ["OpLastCheckpointChecker"]


class OpUpdateType(enum.IntEnum):
    """The kinds of changes; those from 100 on are incompatible with saved Programs."""

    kInvalid = 0  # noqa: N815 (Paddle's names)
    kModifyAttr = 1  # noqa: N815
    kNewAttr = 2  # noqa: N815
    kNewInput = 3  # noqa: N815
    kNewOutput = 4  # noqa: N815
    kBugfixWithBehaviorChanged = 5  # noqa: N815
    kDeleteAttr = 100  # noqa: N815
    kModifyInput = 101  # noqa: N815
    kModifyOutput = 102  # noqa: N815
    kDeleteInput = 103  # noqa: N815
    kDeleteOutput = 104  # noqa: N815


_KINDS = {
    "+attr": OpUpdateType.kNewAttr,
    "~attr": OpUpdateType.kModifyAttr,
    "-attr": OpUpdateType.kDeleteAttr,
    "+input": OpUpdateType.kNewInput,
    "-input": OpUpdateType.kDeleteInput,
    "+output": OpUpdateType.kNewOutput,
    "-output": OpUpdateType.kDeleteOutput,
    "fix": OpUpdateType.kBugfixWithBehaviorChanged,
}

#: For each operator its checkpoints, oldest first: changes as (kind, name, default). "fix" changes results.
_CHANGES: dict[str, list[list[tuple]]] = {
    "adam": [[("+attr", "multi_precision", False)]],
    "allclose": [
        [("+input", "Rtol"), ("+input", "Atol")],
        [("-attr", "rtol"), ("-attr", "atol"), ("+attr", "rtol", "1e-5"), ("+attr", "atol", "1e-8")],
    ],
    "arg_max": [[("+attr", "flatten", False), ("~attr", "dtype", 3)]],
    "arg_min": [[("+attr", "flatten", False), ("~attr", "dtype", 3)]],
    "clip": [[("+input", "Min"), ("+input", "Max")]],
    "coalesce_tensor": [[("+attr", "use_align", True)]],
    "collect_fpn_proposals": [[("+input", "MultiLevelRoIsNum"), ("+output", "RoisNum")]],
    "conv2d": [[("+attr", "use_addto", False)]],
    "conv2d_transpose": [[("+attr", "output_padding", [])]],
    "conv3d": [[("+attr", "use_addto", False)]],
    "conv3d_transpose": [[("+attr", "output_padding", [])]],
    "conv_transpose": [[("+attr", "output_padding", [])]],
    "cudnn_lstm": [
        [("+input", "WeightList"), ("+input", "SequenceLength"), ("+output", "StateOut"), ("+output", "Reserve")],
    ],
    "cumsum": [[("+attr", "flatten", False)]],
    "data_norm": [[("+input", "scale_w")]],
    "depthwise_conv2d": [[("+attr", "use_addto", False)]],
    "depthwise_conv2d_transpose": [[("+attr", "output_padding", [])]],
    "distribute_fpn_proposals": [
        [("+input", "RoisNum"), ("+output", "MultiLevelRoisNum")],
        [("+attr", "pixel_offset", True)],
    ],
    "elementwise_add": [[("+attr", "Scale_y", 1.0)]],
    "elementwise_div": [[("+attr", "Scale_y", 1.0)]],
    "elementwise_floordiv": [[("+attr", "Scale_y", 1.0)]],
    "elementwise_max": [[("+attr", "Scale_y", 1.0)]],
    "elementwise_min": [[("+attr", "Scale_y", 1.0)]],
    "elementwise_mod": [[("+attr", "Scale_y", 1.0)]],
    "elementwise_mul": [[("+attr", "Scale_y", 1.0)]],
    "elementwise_pow": [[("+attr", "Scale_y", 1.0)]],
    "elementwise_sub": [[("+attr", "Scale_y", 1.0)]],
    "equal": [[("~attr", "force_cpu", False)]],
    "fake_channel_wise_dequantize_max_abs": [[("+attr", "quant_axis", 0)]],
    "fake_channel_wise_quantize_abs_max": [[("+attr", "quant_axis", 0)]],
    "fill_constant": [[("+input", "ValueTensor")], [("+attr", "place_type", -1)]],
    "flip": [[("+attr", "axis", None), ("-attr", "dims")]],
    "fusion_gru": [[("+attr", "Scale_weights", [1.0])]],
    "gather": [[("+input", "Axis")]],
    "gaussian_random": [[("+input", "ShapeTensor"), ("+input", "ShapeTensorList"), ("~attr", "shape", [])]],
    "generate_proposals": [[("-output", "RpnRoisLod")], [("+output", "RpnRoisNum")]],
    "generate_proposals_v2": [[("+attr", "pixel_offset", True)]],
    "greater_equal": [[("~attr", "force_cpu", False)]],
    "greater_than": [[("~attr", "force_cpu", False)]],
    "grid_sampler": [[("+attr", "mode", "bilinear")]],
    "hard_shrink": [[("fix",)]],
    "instance_norm": [[("~attr", "Bias", True), ("~attr", "Scale", True)]],
    "lamb": [[("+input", "Beta1PowOut"), ("+input", "Beta2PowOut")]],
    "leaky_relu": [[("fix",)]],
    "less_equal": [[("~attr", "force_cpu", False)]],
    "less_than": [[("~attr", "force_cpu", False)]],
    "linspace": [[("+attr", "dtype", 5)]],
    "lookup_table_v2": [[("fix",)]],
    "matmul": [[("+attr", "fused_reshape_Y", [])]],
    "matrix_nms": [[("+output", "RoisNum")]],
    "momentum": [
        [
            ("+attr", "regularization_method", ""),
            ("+attr", "regularization_coeff", 0.0),
            ("+attr", "multi_precision", False),
            ("+attr", "rescale_grad", 1.0),
        ],
    ],
    "not_equal": [[("~attr", "force_cpu", False)]],
    "pixel_shuffle": [[("+attr", "data_format", True)]],
    "print": [[("+attr", "print_tensor_layout", True)]],
    "quantize": [[("+attr", "bfloat16", False)]],
    "rank_attention": [[("+output", "InputHelp"), ("+attr", "MaxSize", 0)]],
    "roi_align": [[("-input", "RpnRoisLod")], [("+input", "RoisNum")], [("+attr", "aligned", False)]],
    "roi_pool": [[("-input", "RpnRoisLod")], [("+input", "RoisNum")]],
    "softmax_with_cross_entropy": [[("+attr", "use_softmax", True)]],
    "softplus": [[("+attr", "beta", 1.0), ("+attr", "threshold", 20.0)]],
    "trace": [[("+attr", "axis1", [0.0]), ("+attr", "axis2", [1.0]), ("-attr", "dim1"), ("-attr", "dim2")]],
    "unique": [
        [
            ("+output", "Indices"),
            ("+output", "Counts"),
            ("+attr", "return_index", False),
            ("+attr", "return_inverse", False),
            ("+attr", "return_counts", False),
            ("+attr", "axis", []),
            ("+attr", "is_sorted", False),
        ],
    ],
}

#: The entries that Paddle registers for the test of this table, with remarks.
_FOR_TESTS: list[list[tuple]] = [
    [("fix", "", None, "BugfixWithBehaviorChanged Remark")],
    [
        ("~attr", "BOOL", True, "bool"),
        ("~attr", "FLOAT", 1.23, "float"),
        ("~attr", "INT", -1, "int32"),
        ("~attr", "STRING", "hello", "std::string"),
    ],
    [
        ("~attr", "BOOLS", [True, False], "std::vector<bool>"),
        ("~attr", "FLOATS", [2.56, 1.28], "std::vector<float>"),
        ("~attr", "INTS", [10, 100], "std::vector<int32>"),
        ("+attr", "LONGS", [10000001, -10000001], "std::vector<int64>"),
    ],
    [
        ("+attr", "STRINGS", ["str1", "str2"], "std::vector<std::string>"),
        ("~attr", "LONG", 10000001, "int64"),
        ("+input", "NewInput", None, "NewInput_"),
        ("+output", "NewOutput", None, "NewOutput_"),
        ("fix", "", None, "BugfixWithBehaviorChanged_"),
    ],
]


@dataclass(frozen=True)
class OpBugfixInfo:
    """A change of results."""

    _remark: str

    def remark(self) -> str:
        """What changed, in words."""
        return self._remark


@dataclass(frozen=True)
class OpInputOutputInfo(OpBugfixInfo):
    """A change of an input or output."""

    _name: str

    def name(self) -> str:
        """The slot."""
        return self._name


@dataclass(frozen=True)
class OpAttrInfo(OpInputOutputInfo):
    """A change of an attribute."""

    _default: Any

    def default_value(self) -> Any:
        """The default for Programs without the attribute; None for a deleted attribute."""
        return self._default


_Info = OpBugfixInfo | OpInputOutputInfo | OpAttrInfo


@dataclass(frozen=True)
class OpUpdate:
    """One change."""

    _type: OpUpdateType
    _info: _Info

    def type(self) -> OpUpdateType:
        """The kind."""
        return self._type

    def info(self) -> _Info:
        """The details."""
        return self._info


@dataclass(frozen=True)
class OpVersionDesc:
    """The changes of a checkpoint."""

    _infos: list[OpUpdate]

    def infos(self) -> list[OpUpdate]:
        """All changes."""
        return self._infos


@dataclass(frozen=True)
class OpCheckpoint:
    """A version of an operator."""

    _note: str
    _desc: OpVersionDesc

    def note(self) -> str:
        """A description."""
        return self._note

    def version_desc(self) -> OpVersionDesc:
        """Its changes."""
        return self._desc


@dataclass(frozen=True)
class OpVersion:
    """The version history of an operator."""

    _checkpoints: list[OpCheckpoint]

    def version_id(self) -> int:
        """The number of checkpoints, which saved Programs record."""
        return len(self._checkpoints)

    def checkpoints(self) -> list[OpCheckpoint]:
        """Its checkpoints, oldest first."""
        return self._checkpoints


def _words(kind: str, name: str) -> str:
    what = {"+": "added", "~": "changed", "-": "removed"}.get(kind[0])
    return f"{kind[1:]} {name} {what}" if what else "results changed"


def _update(kind: str, name: str = "", default: Any = None, remark: str | None = None) -> OpUpdate:
    remark = _words(kind, name) if remark is None else remark
    info: _Info
    if kind.endswith("attr"):
        info = OpAttrInfo(remark, name, default)
    else:
        info = OpInputOutputInfo(remark, name) if name else OpBugfixInfo(remark)
    return OpUpdate(_KINDS[kind], info)


def _history(checkpoints: list[list[tuple]], numbered: bool = False) -> OpVersion:
    made = []
    for i, changes in enumerate(checkpoints):
        updates = [_update(*change) for change in changes]
        note = f"Note {i}" if numbered else "; ".join(update.info().remark() for update in updates)
        made.append(OpCheckpoint(note, OpVersionDesc(updates)))
    return OpVersion(made)


def get_op_version_map() -> dict[str, OpVersion]:
    """The version histories of the operators that have changed, by name."""
    histories = {name: _history(checkpoints) for name, checkpoints in _CHANGES.items()}
    return {**histories, "for_pybind_test__": _history(_FOR_TESTS, numbered=True)}


class OpLastCheckpointChecker:
    """Looks up the changes in the last checkpoint of an operator.

    Examples:
        >>> import paddle
        >>> checker = paddle.utils.OpLastCheckpointChecker()
        >>> [update.name() for update in checker.filter_updates("roi_align")]
        ['aligned']
    """

    def __init__(self) -> None:
        self.raw_version_map = get_op_version_map()
        self.checkpoints_map = {
            name: version.checkpoints()[-1].version_desc().infos() for name, version in self.raw_version_map.items()
        }

    def filter_updates(self, op_name: str, type: OpUpdateType = OpUpdateType.kInvalid, key: str = "") -> list:
        """The changes in the last checkpoint of `op_name`.

        Args:
            op_name (str): the operator; the result is empty for one that never changed.
            type (OpUpdateType): only changes of this kind; `kInvalid`: all kinds.
            key (str): only changes of the attribute, input or output of this name.

        Returns:
            list: objects with `name()` (except for "fix"), `remark()` and, for attributes, `default_value()`.
        """
        found = (u.info() for u in self.checkpoints_map.get(op_name, []) if type in (OpUpdateType.kInvalid, u.type()))
        return [info for info in found if not key or (isinstance(info, OpInputOutputInfo) and info.name() == key)]
