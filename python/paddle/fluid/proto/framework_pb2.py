"""fluid.proto.framework_pb2: the messages of Program files (ProgramDesc, OpDesc, VarType, ...) as protobuf classes.

The package itself reads and writes Programs in Rust; this module is for packages that handle the messages themselves.
It needs the package protobuf, and describes the messages to it.

Source: paddle/fluid/framework/framework.proto
"""

from __future__ import annotations

import re
from typing import Any

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError as error:
    raise ImportError("paddle.fluid.proto.framework_pb2 needs the package protobuf (pip install protobuf)") from error

__all__: list[str] = []

_PACKAGE = "paddle.framework.proto"
#: a message on a line, its fields (label type name number [default]) or an enumeration below it
_MESSAGES = """
Version
  optional int64 version 1 0
enum AttrType
  INT FLOAT STRING INTS FLOATS STRINGS BOOLEAN BOOLEANS BLOCK LONG BLOCKS LONGS FLOAT64S
OpDesc
  required string type 3
  repeated OpDesc.Var inputs 1
  repeated OpDesc.Var outputs 2
  repeated OpDesc.Attr attrs 4
  optional bool is_target 5 false
OpDesc.Attr
  required string name 1
  required AttrType type 2
  optional int32 i 3
  optional float f 4
  optional string s 5
  repeated int32 ints 6
  repeated float floats 7
  repeated string strings 8
  optional bool b 10
  repeated bool bools 11
  optional int32 block_idx 12
  optional int64 l 13
  repeated int32 blocks_idx 14
  repeated int64 longs 15
  repeated double float64s 16
OpDesc.Var
  required string parameter 1
  repeated string arguments 2
OpProto
  required string type 1
  repeated OpProto.Var inputs 2
  repeated OpProto.Var outputs 3
  repeated OpProto.Attr attrs 4
  required string comment 5
OpProto.Var
  required string name 1
  required string comment 2
  optional bool duplicable 3 false
  optional bool intermediate 4 false
  optional bool dispensable 5 false
OpProto.Attr
  required string name 1
  required AttrType type 2
  required string comment 3
  optional bool generated 4 false
VarType
  required VarType.Type type 1
  optional VarType.TensorDesc selected_rows 2
  optional VarType.LoDTensorDesc lod_tensor 3
  optional VarType.LoDTensorArrayDesc tensor_array 4
  optional VarType.ReaderDesc reader 5
  optional VarType.Tuple tuple 7
enum VarType.Type
  BOOL INT16 INT32 INT64 FP16 FP32 FP64 LOD_TENSOR SELECTED_ROWS FEED_MINIBATCH FETCH_LIST STEP_SCOPES LOD_RANK_TABLE
  LOD_TENSOR_ARRAY PLACE_LIST READER RAW=17 TUPLE SIZE_T UINT8 INT8 BF16 COMPLEX64 COMPLEX128
VarType.TensorDesc
  required VarType.Type data_type 1
  repeated int64 dims 2
VarType.LoDTensorDesc
  required VarType.TensorDesc tensor 1
  optional int32 lod_level 2 0
VarType.LoDTensorArrayDesc
  required VarType.TensorDesc tensor 1
  optional int32 lod_level 2 0
VarType.ReaderDesc
  repeated VarType.LoDTensorDesc lod_tensor 1
VarType.Tuple
  repeated VarType.Type element_type 1
VarDesc
  required string name 1
  required VarType type 2
  optional bool persistable 3 false
  optional bool need_check_feed 4 false
BlockDesc
  required int32 idx 1
  required int32 parent_idx 2
  repeated VarDesc vars 3
  repeated OpDesc ops 4
  optional int32 forward_block_idx 5 -1
OpVersion
  required int32 version 1
OpVersionMap
  repeated OpVersionMap.OpVersionPair pair 1
OpVersionMap.OpVersionPair
  required string op_name 1
  required OpVersion op_version 2
ProgramDesc
  repeated BlockDesc blocks 1
  optional Version version 4
  optional OpVersionMap op_version_map 5
"""
_ENUMS = ("AttrType", "VarType.Type")


def _field(message: Any, line: str) -> None:
    label, kind, name, number, *default = line.split()
    field = message.field.add(name=name, number=int(number))
    field.label = getattr(field, f"LABEL_{label.upper()}")
    if kind[0].isupper():
        field.type = field.TYPE_ENUM if kind in _ENUMS else field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    else:
        field.type = getattr(field, f"TYPE_{kind.upper()}")
    if default:
        field.default_value = default[0]


def _values(enum: Any, lines: list[str]) -> None:
    number = 0
    for item in " ".join(lines).split():
        name, _, given = item.partition("=")
        number = int(given) if given else number
        enum.value.add(name=name, number=number)
        number += 1


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="paddle/framework.proto", package=_PACKAGE, syntax="proto2")
    made: dict[str, Any] = {"": file}
    for part in re.split(r"\n(?=\S)", _MESSAGES.strip()):
        head, *lines = part.split("\n")
        outer, _, name = head.removeprefix("enum ").rpartition(".")
        holder = made[outer]
        if head.startswith("enum "):
            _values(holder.enum_type.add(name=name), lines)
            continue
        messages = holder.nested_type if outer else holder.message_type
        made[head] = message = messages.add(name=name)
        for line in lines:
            _field(message, line)
    return file


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    file = pool.FindFileByName("paddle/framework.proto")
    if hasattr(message_factory, "GetMessageClass"):
        return {name: message_factory.GetMessageClass(kind) for name, kind in file.message_types_by_name.items()}
    factory: Any = message_factory.MessageFactory(pool)  # protobuf before 4.22
    return {name: factory.GetPrototype(kind) for name, kind in file.message_types_by_name.items()}


vars().update(_classes())
(INT, FLOAT, STRING, INTS, FLOATS, STRINGS, BOOLEAN, BOOLEANS, BLOCK, LONG, BLOCKS, LONGS, FLOAT64S) = range(13)
