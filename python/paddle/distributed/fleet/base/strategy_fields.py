"""The fields of a DistributedStrategy, as 2.0.2's framework/distributed_strategy.proto has them."""

from __future__ import annotations

from typing import Any

from paddle._basics.message import Field, Schema

__all__: list[str] = []

_KINDS = {bool: bool, int: int, float: float, str: str}


def _schema(name: str, **fields: Any) -> Schema:
    """A default says a field's type; a type alone is a repeated field."""
    return Schema(
        name,
        *(
            Field(n, d, repeated=True) if d in _KINDS and isinstance(d, type) else Field(n, type(d), d)
            for n, d in fields.items()
        ),
    )


_RECOMPUTE = _schema("RecomputeConfig", checkpoints=str, enable_offload=False, checkpoint_shape=int)
_AMP = _schema(
    "AMPConfig",
    init_loss_scaling=32768.0,
    incr_every_n_steps=1000,
    decr_every_n_nan_or_inf=2,
    incr_ratio=2.0,
    decr_ratio=0.8,
    use_dynamic_loss_scaling=True,
    custom_white_list=str,
    custom_black_list=str,
    custom_black_varnames=str,
    use_pure_fp16=False,
    use_fp16_guard=True,
)
_LOCALSGD = _schema("LocalSGDConfig", k_steps=1, begin_step=1)
_GRADIENT_MERGE = _schema("GradientMergeConfig", k_steps=1, avg=True)
_DGC = _schema("DGCConfig", rampup_begin_step=0, rampup_step=1, sparsity=float)
_PIPELINE = _schema("PipelineConfig", micro_batch=1)
_A_SYNC = _schema(
    "AsyncConfig",
    k_steps=-1,
    max_merge_var_num=1,
    send_queue_size=16,
    independent_recv_thread=False,
    min_send_grad_num_before_recv=1,
    thread_pool_size=1,
    send_wait_times=1,
    runtime_split_send_recv=False,
    launch_barrier=True,
    heter_worker_device_guard="cpu",
    lr_decay_steps=10,
)
_LARS = _schema("LarsConfig", lars_coeff=0.001, lars_weight_decay=0.0005, epsilon=0.0, exclude_from_weight_decay=str)
_LAMB = _schema("LambConfig", lamb_weight_decay=0.01, exclude_from_weight_decay=str)
_ADAPTIVE_LOCALSGD = _schema("AdaptiveLocalSGDConfig", init_k_steps=1, begin_step=1)
_SHARDING = _schema("ShardingConfig", fuse_broadcast_MB=32.0, hybrid_dp=False, sharding_group_size=8)
_BUILD = _schema(
    "BuildStrategy",
    enable_sequential_execution=False,
    fuse_elewise_add_act_ops=False,
    fuse_bn_act_ops=False,
    fuse_relu_depthwise_conv=False,
    fuse_broadcast_ops=False,
    fuse_all_optimizer_ops=False,
    enable_inplace=False,
    enable_backward_optimizer_op_deps=True,
    cache_runtime_context=False,
    fuse_bn_add_act_ops=True,
    enable_auto_fusion=False,
    enable_addto=False,
)
_EXECUTION = _schema(
    "ExecutionStrategy",
    num_threads=1,
    num_iteration_per_drop_scope=10,
    num_iteration_per_run=1,
    use_thread_barrier=False,
)
#: what stands below the flags, in the order of the fields' numbers
CONFIGS = {
    "recompute": _RECOMPUTE,
    "amp": _AMP,
    "localsgd": _LOCALSGD,
    "gradient_merge": _GRADIENT_MERGE,
    "dgc": _DGC,
    "pipeline": _PIPELINE,
    "a_sync": _A_SYNC,
    "lars": _LARS,
    "lamb": _LAMB,
    "adaptive_localsgd": _ADAPTIVE_LOCALSGD,
    "sharding": _SHARDING,
}

_FLAGS = _schema(
    "",
    amp=False,
    recompute=False,
    localsgd=False,
    dgc=False,
    gradient_merge=False,
    lars=False,
    lamb=False,
    pipeline=False,
    elastic=False,
    auto=False,
    a_sync=True,
    sync_nccl_allreduce=True,
    nccl_comm_num=1,
    use_hierarchical_allreduce=False,
    hierarchical_allreduce_inter_nranks=1,
    sync_batch_norm=False,
    fuse_all_reduce_ops=True,
    fuse_grad_size_in_MB=32,
    fuse_grad_size_in_TFLOPS=50.0,
    cudnn_exhaustive_search=False,
    conv_workspace_size_limit=512,
    cudnn_batchnorm_spatial_persistent=False,
    adaptive_localsgd=False,
    fp16_allreduce=False,
    sharding=False,
    last_comm_group_size_MB=1.0,
)

STRATEGY = Schema(
    "DistributedStrategy",
    Field("mode", ("COLLECTIVE", "PS", "PIPELINE", "HETER"), "COLLECTIVE"),
    *_FLAGS.values(),
    *(Field(f"{name}_configs", schema) for name, schema in CONFIGS.items()),
    Field("build_strategy", _BUILD),
    Field("execution_strategy", _EXECUTION),
)
