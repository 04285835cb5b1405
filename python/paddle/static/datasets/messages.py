"""The messages of data sets and trainers: data_feed.proto and trainer_desc.proto of 2.0.2."""

from __future__ import annotations

from typing import Any

from paddle._basics.message import Field, Int64, Message, Schema, UInt64

__all__ = ["data_feed_desc", "trainer_desc"]


def _schema(_name: str, **fields: tuple) -> Schema:
    """Fields as (number, kind or default); a kind in a list is repeated."""
    made = []
    for name, (number, what) in fields.items():
        if isinstance(what, list):
            made.append(Field(name, what[0], repeated=True, number=number))
        elif isinstance(what, type | Schema):
            default = None if isinstance(what, Schema) else what()
            made.append(Field(name, what, default, number=number))
        else:
            made.append(Field(name, type(what), what, number=number))
    return Schema(_name, *made)


_SLOT = _schema("Slot", name=(1, str), type=(2, str), is_dense=(3, False), is_used=(4, False), shape=(5, [int]))
_DATA_FEED = _schema(
    "DataFeedDesc",
    name=(1, str),
    batch_size=(2, 32),
    multi_slot_desc=(3, _schema("MultiSlotDesc", slots=(1, [_SLOT]))),
    pipe_command=(4, str),
    thread_num=(5, int),
    rank_offset=(6, str),
    pv_batch_size=(7, 32),
    input_type=(8, 0),
)
_TABLE = _schema(
    "TableParameter",
    table_id=(1, UInt64),
    dense_value_name=(2, [str]),
    dense_grad_name=(3, [str]),
    push_dense_wait_times=(5, [int]),
    sparse_key_name=(6, [str]),
    sparse_value_name=(7, [str]),
    sparse_grad_name=(8, [str]),
    push_sparse_wait_times=(9, [int]),
    emb_dim=(10, int),
    fea_dim=(11, int),
    label_var_name=(12, str),
    is_local=(13, False),
    is_async=(14, False),
    async_wait_op_name=(15, str),
)
_PROGRAM = _schema(
    "ProgramConfig",
    program_id=(1, str),
    push_sparse_table_id=(2, [int]),
    push_dense_table_id=(3, [int]),
    pull_sparse_table_id=(4, [int]),
    pull_dense_table_id=(5, [int]),
    partial_pushdense_condtable_map=(10, [_schema("CondTableMap", key=(1, int), value=(2, int))]),
)
_DOWNPOUR = _schema(
    "DownpourWorkerParameter",
    sparse_table=(1, [_TABLE]),
    dense_table=(2, [_TABLE]),
    skip_ops=(3, [str]),
    program_config=(4, [_PROGRAM]),
    push_sparse=(5, True),
    push_dense=(6, True),
    stat_var_names=(7, [str]),
)
_PLACES = ("CPUPlace", "CUDAPlace", "CUDAPinnedPlace")
_SECTION_FIELDS = _schema(
    "SectionConfig",
    program_desc=(1, bytes),
    concurrency=(3, 1),
    section_in_var_names=(4, [str]),
    section_out_var_names=(5, [str]),
    place_id=(6, -1),
)
_SECTION = Schema("SectionConfig", *_SECTION_FIELDS.values(), Field("place", _PLACES, _PLACES[0], number=2, first=0))
_COPY_TABLE = _schema(
    "CopyTableConfig",
    need_copy=(1, False),
    batch_num=(2, 100),
    src_sparse_tables=(3, [int]),
    dest_sparse_tables=(4, [int]),
    src_dense_tables=(5, [int]),
    dest_dense_tables=(6, [int]),
    src_var_list=(7, [str]),
    dest_var_list=(8, [str]),
    dense_pull_after_copy=(9, False),
    sparse_copy_by_feasign=(10, True),
    enable_dependency=(11, False),
    table_denpendency_map=(12, [_schema("TableDependencyMap", key=(1, int), values=(2, [int]))]),
)
_TRAINER = _schema(
    "TrainerDesc",
    class_name=(1, str),
    device_worker_name=(2, str),
    thread_num=(3, int),
    binding_cpu=(4, False),
    filelist=(5, [str]),
    debug=(6, False),
    fetch_config=(
        7,
        _schema(
            "FetchConfig",
            fetch_var_names=(1, [str]),
            fetch_var_str_format=(2, [str]),
            print_period=(3, 100),
        ),
    ),
    use_cvm=(8, False),
    dump_slot=(9, False),
    scale_datanorm=(10, -1.0),
    mpi_rank=(11, -1),
    dump_fields_path=(12, str),
    dump_fields=(13, [str]),
    dump_converter=(14, str),
    dump_param=(15, [str]),
    mpi_size=(16, -1),
    dump_file_num=(17, 16),
    check_nan_var_names=(18, [str]),
    copy_table_config=(19, _COPY_TABLE),
    adjust_ins_weight_config=(
        20,
        _schema(
            "AdjustInsWeightConfig",
            need_adjust=(1, False),
            nid_slot=(2, ""),
            nid_adjw_threshold=(3, 0.0),
            nid_adjw_ratio=(4, 0.0),
            ins_weight_slot=(5, ""),
        ),
    ),
    no_cvm=(21, False),
    thread_barrier=(22, False),
    loss_names=(23, [str]),
    enable_random_dump=(24, False),
    random_with_lineid=(25, False),
    dump_interval=(26, 10000),
    worker_places=(27, [int]),
    xpu_send_list=(28, [str]),
    xpu_recv_list=(29, [str]),
    xpu_start_idx=(30, int),
    xpu_end_idx=(31, int),
    use_ps_gpu=(32, False),
    user_define_dump_filename=(33, str),
    hogwild_param=(101, _schema("HogwildWorkerParameter", skip_ops=(1, [str]), stat_var_names=(2, [str]))),
    pull_dense_param=(
        102,
        _schema(
            "PullDenseWorkerParameter",
            threshold=(1, 1),
            device_num=(2, int),
            sleep_time_ms=(3, 2),
            dense_table=(4, [_TABLE]),
        ),
    ),
    downpour_param=(103, _DOWNPOUR),
    section_param=(
        104,
        _schema(
            "SectionWorkerParameter",
            section_config=(1, _SECTION),
            queue_size=(2, 1),
            sync_steps=(3, Int64(1)),
            start_cpu_core_id=(4, 1),
            param_need_sync=(5, [str]),
            num_microbatches=(6, int),
        ),
    ),
    data_desc=(201, _DATA_FEED),
)


def data_feed_desc(**fields: Any) -> Message:
    """A new DataFeedDesc: the format of lines, and the batches."""
    return _made(_DATA_FEED, fields)


def trainer_desc(**fields: Any) -> Message:
    """A new TrainerDesc: the trainer and its workers."""
    return _made(_TRAINER, fields)


def _made(schema: Schema, fields: dict) -> Message:
    message = Message(schema)
    for name, value in fields.items():
        message.set(name, value)
    return message
