"""The messages of this package: those of pslib, except that a description has one trainer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from paddle._basics.message import Message, Schema
from paddle.distributed.ps.pslib import ps_pb2

__all__: list[str] = []

PS_SPARSE_TABLE, PS_DENSE_TABLE = ps_pb2.PS_SPARSE_TABLE, ps_pb2.PS_DENSE_TABLE
ServerParameter, FsClientParameter = ps_pb2.ServerParameter, ps_pb2.FsClientParameter
DownpourTrainerParameter = ps_pb2.DownpourTrainerParameter
_FIELDS = ps_pb2.PSParameter().schema.values()
_ONE_TRAINER = Schema("PSParameter", *(replace(f, repeated=f.repeated and f.name != "trainer_param") for f in _FIELDS))
PSParameter = partial(Message, _ONE_TRAINER)
