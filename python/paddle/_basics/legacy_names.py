"""Upstream's module paths whose names are defined in other modules of this package: one table.

An entry starts with a module below `paddle`; its indented lines name the sources of its names, as `source: names`.
Names after a bar are outside of `__all__`; `new=old` renames. `module = other` makes both paths the same module object.

The import hook (`import_hook.py`) makes the modules of the table that have no file. A module that has a file gets the
names of its entry in addition to its own, and keeps its `__all__`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from paddle._basics.later_names import TABLE

__all__ = ["Entry", "children", "entries", "entry"]

_TABLE = """
common_ops_import
  nn.layer_helper: | LayerHelper
  nn.param_attr: | ParamAttr

complex
  fluid.complex_functions: elementwise_add elementwise_div elementwise_mul elementwise_sub kron matmul reshape sum trace
    transpose

complex.tensor
  fluid.complex_functions: elementwise_add elementwise_div elementwise_mul elementwise_sub kron matmul reshape sum trace
    transpose

complex.tensor.linalg
  fluid.complex_functions: matmul

complex.tensor.manipulation
  fluid.complex_functions: reshape transpose

complex.tensor.math
  fluid.complex_functions: elementwise_add elementwise_div elementwise_mul elementwise_sub kron sum trace

distributed.collective
  distributed: split

distributed.fs_wrapper
  distributed.fleet.utils.fs: FS LocalFS

distributed.launch
  distributed.utils: | add_arguments find_free_ports get_cluster get_gpus get_host_name_ip start_local_trainers
    terminate_local_procs watch_local_trainers TrainerProc
  distributed.launch.cluster: | Cluster JobServer Pod Trainer

distributed.fleet.launch_utils
  distributed.utils: | add_arguments find_free_ports get_cluster get_gpus get_host_name_ip get_logger pull_worker_log
    start_local_trainers terminate_local_procs watch_local_trainers TrainerProc
  distributed.launch.cluster: | Cluster JobServer Pod Trainer

fluid
  fluid.data_feed_desc: DataFeedDesc
  fluid.dataset: DatasetFactory InMemoryDataset QueueDataset

fluid.backward
  _programs.backward: append_backward gradients calc_gradient
  _programs.backward_ops: | _addup_repetitive_outputs_ _append_backward_ops_ _append_backward_vars_ _create_op_desc_
    _find_not_need_ops _infer_var_data_type_shape_ _remove_no_grad_branch_ _rename_arg_ _rename_grad_
  _programs.backward_path: | _all_in_set_ _append_grad_suffix_ _as_list _find_no_grad_vars _find_op_path_
    _find_loss_op_ _get_no_grad_set_name _get_output_names _get_stop_gradients_ _is_grad_var_ _some_in_set_
    _strip_grad_suffix_
  _programs.program_stats: | ProgramStats serialize_op_decs

fluid.annotations
  utils.deprecated: | deprecated

fluid.clip
  nn.clip: set_gradient_clip ErrorClipByValue ClipGradByValue ClipGradByNorm ClipGradByGlobalNorm | BaseErrorClipAttr
    ClipGradBase GradientClipBase GradientClipByGlobalNorm GradientClipByNorm GradientClipByValue
    _correct_clip_op_role_var append_gradient_clip_ops error_clip_callback

fluid.communicator
  distributed.ps.communicator: Communicator LargeScaleKV
  distributed.ps.async_communication: resume_steps

fluid.compiler
  static.compiler: CompiledProgram
  static.strategies: ExecutionStrategy BuildStrategy
  inference.config: | InferAnalysisConfig=AnalysisConfig
  static.predictor: | InferNativeConfig=NativeConfig

fluid.contrib.mixed_precision
  static.amp: decorate AutoMixedPrecisionLists CustomOpLists fp16_guard cast_model_to_fp16 cast_parameters_to_fp16

fluid.contrib.mixed_precision.amp_nn
  static.amp.amp_nn: check_finite_and_unscale update_loss_scaling

fluid.contrib.mixed_precision.decorator
  static.amp.decorator: decorate | OptimizerWithMixedPrecision
  static.amp.fp16_lists: | AutoMixedPrecisionLists

fluid.contrib.mixed_precision.fp16_lists
  static.amp.fp16_lists: AutoMixedPrecisionLists CustomOpLists | black_list gray_list white_list

fluid.contrib.mixed_precision.fp16_utils
  static.amp.fp16_utils: fp16_guard cast_model_to_fp16 cast_parameters_to_fp16 | find_op_index find_true_post_op
    find_true_prev_op rewrite_program update_role_var_grad

fluid.contrib.reader
  incubate.reader: distributed_batch_reader

fluid.contrib.reader.distributed_reader
  incubate.reader: distributed_batch_reader

fluid.contrib
  fluid.contrib.slim.core: | Compressor

fluid.contrib.slim.core.strategy = fluid.contrib.slim.strategy

fluid.contrib.slim.quantization.quant2_int8_mkldnn_pass
  fluid.contrib.slim.quantization.mkldnn: Quant2Int8MkldnnPass

fluid.contrib.slim.quantization.quant_int8_mkldnn_pass
  fluid.contrib.slim.quantization.mkldnn: QuantInt8MkldnnPass

fluid.core_avx = fluid.core

fluid.core_noavx = fluid.core

fluid.data_feeder
  static.feeder: DataFeeder | BatchedTensorProvider DataToLoDTensorConverter
  _basics.checks: | check_dtype check_type
  _basics.dtypes: | convert_dtype
  _programs.variable_checks: | check_shape check_variable_and_dtype

fluid.dataloader
  io.dataset: Dataset IterableDataset TensorDataset ComposeDataset ChainDataset Subset random_split
  io.batch_sampler: BatchSampler DistributedBatchSampler
  io.worker: get_worker_info
  io.sampler: Sampler SequenceSampler RandomSampler WeightedRandomSampler

fluid.dataloader.batch_sampler
  io.batch_sampler: BatchSampler DistributedBatchSampler | _InfiniteIterableSampler

fluid.dataloader.dataloader_iter
  io.worker: get_worker_info | WorkerInfo _worker_loop
  io.collate: | default_collate_fn
  io.dataloader: | _DataLoaderIterBase _DataLoaderIterMultiProcess _DataLoaderIterSingleProcess
  io.fetcher: | _DatasetKind

fluid.dataloader.dataset
  io.dataset: Dataset IterableDataset TensorDataset ComposeDataset ChainDataset Subset random_split | to_list

fluid.dataloader.fetcher
  io.fetcher: | _DatasetFetcher _IterableDatasetFetcher _MapDatasetFetcher

fluid.dataloader.sampler
  io.sampler: Sampler SequenceSampler RandomSampler WeightedRandomSampler | _weighted_sample

fluid.device_worker
  static.datasets.device_worker: DeviceWorker Hogwild DownpourSGD Section DownpourSGDOPT | DeviceWorkerFactory

fluid.distribute_lookup_table
  distributed.ps.lookup_tables: LOOKUP_TABLE_TYPE find_distributed_lookup_table find_distributed_lookup_table_inputs
    find_distributed_lookup_table_outputs

fluid.dygraph.backward_strategy
  fluid.dygraph: BackwardStrategy

fluid.dygraph.amp
  amp: amp_guard AmpScaler

fluid.dygraph.amp.auto_cast
  amp.auto_cast: amp_guard | WHITE_LIST BLACK_LIST

fluid.dygraph.amp.loss_scaler
  amp: AmpScaler

fluid.dygraph.container
  nn.layer.container: Sequential ParameterList LayerList

fluid.dygraph.dygraph_to_static
  jit.dy2static.variable_trans_func: create_bool_as_type create_fill_constant_node create_static_variable_gast_node
    data_layer_not_check to_static_variable to_static_variable_gast_node
  jit.program_translator: ProgramTranslator
  jit.dy2static.cache: convert_to_static
  jit.dy2static.convert_call_func: convert_call
  jit.dy2static.logging_utils: TranslatorLogger set_verbosity set_code_level get_verbosity get_code_level

fluid.dygraph.dygraph_to_static.convert_call_func
  jit.dy2static.convert_call_func: convert_call | CONVERSION_OPTIONS ConversionOptions is_paddle_func

fluid.dygraph.dygraph_to_static.convert_operators
  jit.dy2static.convert_operators: cast_bool_if_necessary choose_shape_attr_or_api convert_assert convert_ifelse
    convert_len convert_logical_and convert_logical_not convert_logical_or convert_pop convert_print
    convert_shape_compare convert_var_dtype convert_var_shape convert_var_shape_simple convert_while_loop
    eval_if_exist_else_none

fluid.dygraph.dygraph_to_static.error = jit.dy2static.errors

fluid.dygraph.dygraph_to_static.logging_utils = jit.dy2static.logging_utils

fluid.dygraph.dygraph_to_static.utils = jit.dy2static.utils

fluid.dygraph.dygraph_to_static.variable_trans_func
  jit.dy2static.variable_trans_func: create_bool_as_type create_fill_constant_node create_static_variable_gast_node
    data_layer_not_check to_static_variable to_static_variable_gast_node

fluid.dygraph.dygraph_to_static.function_spec
  jit.function_spec: | FunctionSpec

fluid.dygraph.dygraph_to_static.ifelse_transformer
  jit.dy2static.tree_queries: | get_name_ids

fluid.dygraph.dygraph_to_static.logical_transformer
  jit.dy2static.tree_queries: | cmpop_node_to_str

fluid.dygraph.dygraph_to_static.loop_transformer
  jit.dy2static.tree_queries: | NameVisitor

fluid.dygraph.dygraph_to_static.static_analysis
  jit.dy2static.tree_queries: | NodeVarType StaticAnalysisVisitor

fluid.dygraph.dygraph_to_static.origin_info
  jit.dy2static.utils: | unwrap

fluid.dygraph.dygraph_to_static.partial_program
  jit.partial_program: | PartialProgramLayer partial_program_from

fluid.dygraph.dygraph_to_static.program_translator
  jit.program_translator: ProgramTranslator
  jit.program_cache: | CacheKey ProgramCache
  jit.concrete_program: | ConcreteProgram
  jit.static_function: | StaticFunction
  jit.wrapped: | unwrap_decorators

fluid.dygraph.io
  jit.translated_layer: TranslatedLayer
  jit.saved_files: | INFER_MODEL_SUFFIX INFER_PARAMS_SUFFIX INFER_PARAMS_INFO_SUFFIX LOADED_VAR_SUFFIX
    PARAMETER_NAME_PREFIX BUFFER_NAME_PREFIX

fluid.dygraph.jit
  jit.traced: TracedLayer | extract_vars
  jit.decorators: declarative dygraph_to_static_func not_to_static
  jit.dy2static.logging_utils: set_code_level set_verbosity
  jit: | save load

fluid.dygraph.layer_object_helper
  nn.layer_object_helper: LayerObjectHelper

fluid.dygraph.layers
  nn.layer.layers: Layer
  nn.layer.layer_support: | HookRemoveHelper

fluid.dygraph.learning_rate_scheduler
  fluid.lr_decay.decays: NoamDecay PiecewiseDecay NaturalExpDecay ExponentialDecay InverseTimeDecay PolynomialDecay
    CosineDecay LinearLrWarmup ReduceLROnPlateau
  fluid.lr_decay.epochs: StepDecay MultiStepDecay LambdaDecay | _LearningRateEpochDecay
  fluid.lr_decay.base: | LearningRateDecay

fluid.dygraph.math_op_patch
  tensor.tensor: monkey_patch_math_varbase

fluid.dygraph.tracer
  _basics.tracer: Tracer

fluid.dygraph.varbase_patch_methods
  tensor.tensor: monkey_patch_varbase=monkey_patch_math_varbase

fluid.entry_attr
  distributed.entry_attr: ProbabilityEntry CountFilterEntry | EntryAttr

fluid.executor
  static.executor: Executor _fetch_var
  _programs.scope: global_scope scope_guard _switch_scope
  static.feed: as_numpy | _as_lodtensor _to_name_str check_feed_shape_type dimension_is_compatible_with
    dtype_is_compatible_with has_feed_operators has_fetch_operators
  static.datasets: FetchHandler FetchHandlerMonitor
  inference.config: | InferAnalysisConfig=AnalysisConfig
  static.predictor: | InferNativeConfig=NativeConfig

fluid.framework
  static.ir_graph: IrGraph IrNode IrOpNode IrVarNode

fluid.incubate.data_generator
  distributed.fleet.data_generator: MultiSlotDataGenerator MultiSlotStringDataGenerator | DataGenerator

fluid.incubate.fleet.dist_transpiler
  distributed.ps.distribute_transpiler: DistributeTranspiler DistributeTranspilerConfig

fluid.incubate.fleet.parameter_server.ir.ps_dispatcher
  distributed.ps.dispatcher: | HashName PSDispatcher RoundRobin

fluid.incubate.fleet.parameter_server.ir.pserver_pass
  distributed.ps.server_program: | _get_optimizer_input_shape=optimizer_input_shape

fluid.incubate.fleet.parameter_server.pslib.node
  distributed.ps.pslib.node: Server Worker DownpourServer DownpourWorker

fluid.incubate.fleet.parameter_server.pslib.optimizer_factory
  distributed.ps.pslib.optimizer_factory: DistributedAdam FLEET_GLOBAL_DICT

fluid.incubate.fleet.parameter_server.pslib.ps_pb2
  distributed.ps.pslib.ps_pb2: | PS_DENSE_TABLE PS_SPARSE_TABLE DownpourServerParameter DownpourTrainerParameter
    FsClientParameter PSParameter ServerParameter TableParameter WorkerParameter

fluid.incubate.fleet.utils.fs
  distributed.fleet.utils.fs: LocalFS | FS ExecuteError FSFileExistsError FSFileNotExistsError FSShellCmdAborted
    FSTimeOut

fluid.incubate.fleet.utils.http_server
  distributed.fleet.utils.http_server: KVServer | KVHandler KVHTTPServer

fluid.inference
  inference: Config DataType PlaceType PrecisionType Tensor Predictor create_predictor get_version
    get_num_bytes_of_data_type PredictorPool

fluid.initializer = nn.initializer.base

fluid.install_check
  static.install_check: run_check

fluid.contrib.slim.quantization
  fluid.contrib.slim.quantization.mkldnn: | QatInt8MkldnnPass=QuantInt8MkldnnPass
    Qat2Int8MkldnnPass=Quant2Int8MkldnnPass

fluid.io
  io: | Dataset IterableDataset TensorDataset ComposeDataset ChainDataset Subset random_split BatchSampler
    DistributedBatchSampler Sampler SequenceSampler RandomSampler WeightedRandomSampler
  io.collate: | default_collate_fn

fluid.layer_helper
  nn.layer_helper: LayerHelper

fluid.layer_helper_base
  nn.layer_helper_base: LayerHelperBase
  nn.param_attr: | WeightNormParamAttr

fluid.layers.math_op_patch
  _dispatch.math_op_patch: monkey_patch_variable

fluid.layers.metric_op
  static.metric: accuracy auc

fluid.layers.nn
  fluid.layers: addcmul addmm allclose bmm clamp cross diag_embed dist dot elementwise_equal flip index_sample
    index_select log1p log_softmax logsumexp meshgrid nonzero randint randn randperm roll t

fluid.layers.tensor
  fluid.layers: arange full full_like kron trace tril

fluid.lod_tensor
  static.feeder: create_lod_tensor create_random_int_lodtensor

fluid.parallel_executor
  static.parallel_executor: ParallelExecutor
  static.strategies: BuildStrategy ExecutionStrategy

fluid.param_attr
  nn.param_attr: ParamAttr WeightNormParamAttr

fluid.profiler
  utils.profiler: cuda_profiler reset_profiler profiler start_profiler stop_profiler

fluid.reader
  io.generator: PyReader | DataLoaderBase DatasetLoader DygraphGeneratorLoader GeneratorLoader keep_data_loader_order
    use_pinned_memory
  io.dataloader: DataLoader
  io.collate: default_collate_fn
  static.py_reader: | data_loader_unique_name_generator=loader_names

fluid.regularizer
  regularizer: L1Decay=L1DecayRegularizer L2Decay=L2DecayRegularizer L1DecayRegularizer L2DecayRegularizer
    | WeightDecayRegularizer
  optimizer.regularization: | _create_regularization_of_grad append_regularization_ops

fluid.trainer_desc
  static.datasets.trainer_desc: TrainerDesc MultiTrainer DistMultiTrainer PipelineTrainer HeterXpuTrainer
    | HeterBoxTrainer PSGPUTrainer

fluid.trainer_factory
  static.datasets.trainer_factory: TrainerFactory
  static.datasets.fetch_handler: FetchHandler FetchHandlerMonitor

fluid.transpiler.collective
  distributed.collective_transpiler: GradAllReduce LocalSGD | Collective MultiThread SingleProcessMultiThread

fluid.transpiler.details
  distributed.ps.vars_distributed: VarDistributed VarStruct VarsDistributed
  distributed.ps.program_utils: delete_ops find_op_by_input_arg find_op_by_output_arg
  distributed.checkport: wait_server_ready

fluid.transpiler.details.checkport
  distributed.checkport: wait_server_ready

fluid.transpiler.details.program_utils
  distributed.ps.program_utils: delete_ops find_op_by_input_arg find_op_by_output_arg

fluid.transpiler.details.vars_distributed
  distributed.ps.vars_distributed: VarDistributed VarStruct VarsDistributed

fluid.transpiler.distribute_transpiler
  distributed.ps.distribute_transpiler: DistributeTranspiler same_or_split_var
  distributed.ps.config: DistributeTranspilerConfig DistributedMode ServerRuntimeConfig
  distributed.ps.blocks: VarBlock slice_variable

fluid.transpiler.geo_sgd_transpiler
  distributed.ps.geo_sgd_transpiler: GeoSgdTranspiler

fluid.transpiler.ps_dispatcher
  distributed.ps.dispatcher: PSDispatcher HashName RoundRobin

fluid.unique_name = _basics.unique_name

hapi.model
  hapi.helpers: | _all_gather extract_args flatten_list restore_flatten_list to_numpy
  distributed.checkport: | wait_server_ready

incubate.hapi
  hapi: Model callbacks
  hapi.logger: | setup_logger

incubate.hapi.callbacks = hapi.callbacks

incubate.hapi.datasets = vision.datasets

incubate.hapi.distributed
  io: DistributedBatchSampler

incubate.hapi.download = utils.download

incubate.hapi.metrics = metric

incubate.hapi.model
  hapi: Model
  static: Input=InputSpec
  device: set_device

incubate.hapi.text = text

incubate.hapi.vision = vision

incubate.optimizer.modelaverage
  incubate.optimizer: ModelAverage

nn.functional.common
  nn.functional: interpolate pad upsample

nn.functional.loss
  nn.functional: binary_cross_entropy ctc_loss hsigmoid_loss kl_div log_loss nll_loss smooth_l1_loss

nn.layer.common
  nn.layer: Pad1D Pad2D Pad3D Upsample UpsamplingBilinear2D UpsamplingNearest2D

nn.layer.loss
  nn.layer: CTCLoss

nn.layer.norm
  nn.layer: InstanceNorm1D InstanceNorm2D InstanceNorm3D LocalResponseNorm SpectralNorm SyncBatchNorm

nn.layer.transformer
  nn.layer.attention_arguments: | _convert_attention_mask _convert_param_attr_to_list

nn.layer.rnn
  nn.layer: BiRNN GRU LSTM RNN SimpleRNN

optimizer.adamw
  optimizer: AdamW

static.input
  static: data InputSpec

static.nn.common
  static.nn: deform_conv2d

tensor.creation
  tensor: to_tensor

tensor.manipulation
  tensor: cast transpose

tensor.to_string
  _basics.to_string: | set_printoptions

tensor.math
  tensor: addmm inverse isfinite isinf isnan kron mm multiplex trace

utils
  utils.plot: | Ploter

utils.install_check
  static.install_check: run_check

vision.transforms.transforms
  vision.transforms.color: | _check_input=_limits
"""


class Entry(NamedTuple):
    """One module of the table.

    Attributes:
        public: its `__all__`.
        names: name to "module:name" of its definition.
        same: the module that this one is identical with.
    """

    public: tuple[str, ...]
    names: dict[str, str]
    same: str | None


def _parse(text: str) -> tuple[str, Entry]:
    head, *lines = text.replace("\n    ", " ").split("\n")
    module, _, same = head.partition(" = ")
    public: list[str] = []
    names: dict[str, str] = {}
    for line in lines:
        source, _, listed = line.strip().partition(":")
        shown, _, hidden = listed.partition("|")
        public += (name.partition("=")[0] for name in shown.split())
        for name in [*shown.split(), *hidden.split()]:
            new, _, old = name.partition("=")
            names[new] = f"paddle.{source}:{old or new}"
    return "paddle" if module == "paddle" else f"paddle.{module}", Entry(
        tuple(public), names, f"paddle.{same}" if same else None
    )


@cache
def entries() -> dict[str, Entry]:
    """The table by full module names, with the names of later versions of Paddle."""
    found = dict(map(_parse, _TABLE.strip().split("\n\n")))
    for module, later in map(_parse, TABLE.strip().split("\n\n")):
        known = found.get(module, Entry((), {}, None))
        # A public module of 2.0.2 keeps its __all__.
        found[module] = Entry(known.public or later.public, {**later.names, **known.names}, known.same)
    return found


def entry(module: str) -> Entry | None:
    """The entry of a module; None for one that is not in the table."""
    return entries().get(module)


@cache
def children() -> dict[str, set[str]]:
    """Packages that have modules in the table: full name to the last parts of these modules' names."""
    found: dict[str, set[str]] = {}
    for name in entries():
        package, _, last = name.rpartition(".")
        found.setdefault(package, set()).add(last)
    return found
