"""The messages of a PSLib job's description: fields, types and defaults, without protobuf."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from paddle._basics.message import Double, Field, Int64, Message, Schema, UInt32, UInt64

__all__: list[str] = []

#: message: number, field, type (* repeated), default; a message follows those of its fields
_TABLE = """
TableAccessorSaveParameter: 1 param uint32, 2 converter string, 3 deconverter string
DownpourTableAccessorParameter: 1 nonclk_coeff float=0.1, 2 click_coeff float=1, 3 base_threshold float=1.5,
  4 delta_threshold float=0.25, 5 delta_keep_days float=16, 6 show_click_decay_rate float=0.98,
  7 delete_threshold float=0.8, 8 delete_after_unseen_days float=30, 9 ssd_unseenday_threshold int32=1
SparseSGDRuleParameter: 1 learning_rate double=0.05, 2 initial_g2sum double=3, 3 initial_range double=0.0001,
  4 weight_bounds float*
SparseNaiveSGDRuleParameter: 1 learning_rate double=0.05, 2 initial_range double=0.0001, 3 weight_bounds float*
SparseAdagradSGDRuleParameter: 1 learning_rate double=0.05, 2 initial_g2sum double=3,
  3 initial_range double=0.0001, 4 weight_bounds float*
SparseAdamSGDParameter: 1 learning_rate double=0.001, 2 initial_range double=0.0001, 3 beta1_decay_rate double=0.9,
  4 beta2_decay_rate double=0.999, 5 ada_epsilon double=1e-08, 6 weight_bounds float*
SparseCommonSGDRuleParameter: 1 name string, 2 naive SparseNaiveSGDRuleParameter,
  3 adagrad SparseAdagradSGDRuleParameter, 4 adam SparseAdamSGDParameter
AdamSGDParameter: 1 learning_rate double=5e-06, 2 avg_decay_rate double=0.999993, 3 ada_decay_rate double=0.9999,
  4 ada_epsilon double=1e-08, 5 mom_decay_rate double=0.99
NaiveSGDParameter: 1 learning_rate double=0.0002, 2 avg_decay_rate double
SummarySGDParameter: 1 summary_decay_rate double=0.999999
MovingAverageRuleParameter: 1 momentum double
DenseSGDRuleParameter: 1 name string, 2 adam AdamSGDParameter, 3 naive NaiveSGDParameter,
  4 summary SummarySGDParameter, 5 moving_average MovingAverageRuleParameter
TableAccessorParameter: 1 accessor_class string, 2 sparse_sgd_param SparseSGDRuleParameter,
  3 dense_sgd_param DenseSGDRuleParameter, 4 fea_dim uint32=11, 5 embedx_dim uint32=8, 6 embedx_threshold uint32=10,
  7 downpour_accessor_param DownpourTableAccessorParameter, 8 table_accessor_save_param TableAccessorSaveParameter*,
  9 sparse_commonsgd_param SparseCommonSGDRuleParameter, 10 embed_sgd_param SparseCommonSGDRuleParameter,
  11 embedx_sgd_param SparseCommonSGDRuleParameter
TableParameter: 1 table_id uint64, 2 table_class string, 3 shard_num uint64=1000, 4 accessor TableAccessorParameter,
  5 type TableType, 6 compress_in_save bool=false, 7 enable_sparse_table_cache bool=true,
  8 sparse_table_cache_rate double=0.00055, 9 sparse_table_cache_file_num uint32=16
ServerServiceParameter: 1 server_class string=DownpourBrpcPsServer, 2 client_class string=DownpourBrpcPsClient,
  3 service_class string=DownpourPsService, 4 start_server_port uint32=0, 5 server_thread_num uint32=12
DownpourServerParameter: 1 downpour_table_param TableParameter*, 2 service_param ServerServiceParameter
DownpourWorkerParameter: 1 downpour_table_param TableParameter*
ServerParameter: 1 downpour_server_param DownpourServerParameter
WorkerParameter: 1 downpour_worker_param DownpourWorkerParameter
SparseTableParameter: 1 table_id int32, 2 feature_dim int32, 3 slot_key string*, 4 slot_value string*,
  5 slot_gradient string*
DenseTableParameter: 1 table_id int32, 2 dense_variable_name string*, 3 dense_gradient_variable_name string*,
  4 fea_dim int32
ProgramConfig: 1 program_id string, 2 push_sparse_table_id int32*, 3 push_dense_table_id int32*,
  4 pull_sparse_table_id int32*, 5 pull_dense_table_id int32*
DownpourTrainerParameter: 1 dense_table DenseTableParameter*, 2 sparse_table SparseTableParameter*,
  3 push_sparse_per_batch int32, 4 push_dense_per_batch int32, 5 skip_op string*, 6 program_config ProgramConfig*
FsClientParameter: 1 fs_type FsApiType=HDFS, 2 uri string, 3 user string, 4 passwd string, 5 buffer_size int32,
  51 hadoop_bin string, 101 afs_conf string
PSParameter: 1 worker_class string, 2 server_class string, 3 instance_class string, 4 init_gflags string,
  101 worker_param WorkerParameter, 102 server_param ServerParameter, 301 trainer_param DownpourTrainerParameter*,
  501 fs_client_param FsClientParameter
"""

PS_SPARSE_TABLE, PS_DENSE_TABLE = "PS_SPARSE_TABLE", "PS_DENSE_TABLE"
_KINDS: dict[str, Any] = {
    "string": str,
    "int32": int,
    "uint32": UInt32,
    "int64": Int64,
    "uint64": UInt64,
    "bool": bool,
    "float": float,
    "double": Double,
    "TableType": (PS_SPARSE_TABLE, PS_DENSE_TABLE),
    "FsApiType": ("HDFS", "AFS"),
}
_ZERO: dict[Any, Any] = {str: "", bool: False, float: 0.0, Double: 0.0}


def _default(kind: Any, text: str) -> Any:
    """A field's default; without one zero, empty, or an enum's first name."""
    if isinstance(kind, tuple):
        return text or kind[0]
    if kind is bool:
        return text == "true"
    if not text:
        return _ZERO.get(kind, 0)
    return text if kind is str else float(text) if kind in (float, Double) else int(text)


def _schemas() -> dict[str, Schema]:
    made: dict[str, Schema] = {}
    for row in _TABLE.strip().replace("\n  ", " ").split("\n"):
        name, _, rest = row.partition(": ")
        fields = []
        for text in rest.split(", "):
            number, field, what = text.split()
            what, _, default = what.partition("=")
            repeated, what = what.endswith("*"), what.rstrip("*")
            kind = made[what] if what in made else _KINDS[what]
            value = None if repeated or isinstance(kind, Schema) else _default(kind, default)
            fields.append(Field(field, kind, value, repeated, int(number), 0))
        made[name] = Schema(name, *fields)
    return made


_SCHEMAS = _schemas()


def _message_class(name: str) -> Callable[[], Message]:
    return partial(Message, _SCHEMAS[name])


PSParameter = _message_class("PSParameter")
ServerParameter = _message_class("ServerParameter")
WorkerParameter = _message_class("WorkerParameter")
DownpourServerParameter = _message_class("DownpourServerParameter")
DownpourTrainerParameter = _message_class("DownpourTrainerParameter")
TableParameter = _message_class("TableParameter")
FsClientParameter = _message_class("FsClientParameter")
