"""Why internal names of Paddle 2.0.2 are not here: names that its modules define at module level, and modules.

In `_NAMES` a line with ``=`` is a reason, and the lines after it are modules below `paddle` with their names.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache

__all__ = ["module_reason", "reason"]

_NAMES = """
= a helper of one function of upstream's; the function itself is here
compat: _to_text _to_bytes
device: _cudnn_version
fluid: core_suffix legacy_core
fluid.average: _is_number_ _is_number_or_matrix_
fluid.communicator: HeterClient
fluid.compiler: DeviceType _place_obj _is_pserver_mode _has_backward_op
  _prune_feed_ops _has_optimize_op _has_optimizer_in_control_flow
fluid.contrib.decoder.beam_search_decoder: _DecoderType _MemoryState _ArrayState
fluid.contrib.memory_usage_calc: dtype_to_size DEBUG
fluid.contrib.mixed_precision.fp16_lists: unsupported_fp16_list
fluid.contrib.mixed_precision.fp16_utils: _logger _valid_types _fp16_guard_pattern _rename_arg _rename_op_input
  _dtype_to_str _insert_cast_op _insert_cast_post_op _is_in_black_varnames _need_keep_fp32
fluid.contrib.model_stat: _summary_model _format_summary _verify_dependent_package _print_summary
fluid.contrib.quantize.quantize_transpiler: _QUANTIZABLE_OP_TYPES _quantized_var_name _dequantized_var_name
  _quantized_scale_name _is_float quant
fluid.contrib.utils.hdfs_utils: getfilelist hadoop_home configs client files downloads
fluid.contrib.utils.lookup_table_utils: _logger get_inference_model
fluid.debugger: _vartype2str_ _dtype2str_ repr_data_type repr_tensor reprtpl repr_lodtensor repr_selected_rows
  repr_tensor_array type_handlers repr_var repr_attr _repr_op_fill_constant op_repr_handlers repr_op
  prepare_fast_nan_inf_debug run_fast_nan_inf_debug
fluid.dygraph.amp.auto_cast: AMP_RELATED_FLAGS AMP_RELATED_FLAGS_SETTING _update_list
fluid.dygraph.base: _functional_dygraph_context_manager param_guard _switch_tracer_mode_guard_
fluid.dygraph.checkpoint: _parse_load_config
fluid.dygraph.io: _load_program_desc _is_persistable _is_parameter _get_persistable_vars _get_persistable_var_names
  _get_all_var_names _append_loaded_suffix _generate_unique_var_name _append_loaded_suffix_to_var
  _generate_unique_var_name_sync_with_main_program _get_loaded_var_new_old _rename_var_program_desc
  _build_program_by_desc _change_is_test_status _ProgramHolder _load_persistable_vars_by_program
  _load_persistable_vars _remove_varname_suffix _construct_program_holders _construct_params_and_buffers _run_dygraph
  _run_static_graph _collect_current_and_parent_var _append_block _get_output_from_program
  append_op_from_block_desc_static append_op_from_desc_static append_var_from_block_desc_static
fluid.dygraph.jit: create_program_from_desc _extract_vars _dygraph_to_static_func_
  copy_decorator_attrs _SaveLoadConfig _parse_save_configs _parse_load_config _get_input_var_names
  _get_output_vars _build_load_path_and_config _trace
fluid.dygraph.layers: _first_cap_re _all_cap_re _convert_camel_to_snake _addindent
fluid.dygraph.math_op_patch: _supported_int_dtype_ _supported_promote_complex_types_ _complex_dtypes
  _already_patch_varbase
fluid.dygraph.parallel: _build_default_parallel_strategy scale_loss
fluid.evaluator: _clone_var_
fluid.executor: g_scope _get_strong_program_cache_key _get_program_cache_key
fluid.framework: _xpu_ids _name_scope _debug_string_ _getitem_impl_
fluid.incubate.checkpoint.auto_checkpoint: CONST_DACP_TYPE CONST_ACP_TYPE g_acp_type g_program_attr _get_logger
  _check_program_oprole _can_auto_checkpoint _get_running_key _normal_yield _get_valid_program _auto_checkpoint
fluid.incubate.fleet.utils.fleet_util: OpRole
fluid.incubate.fleet.utils.hdfs: _handle_errors
fluid.incubate.fleet.utils.http_server: _http_server_logger
fluid.incubate.fleet.utils.utils: persistable_vars_out_fn all_vars_out_fn ops_out_fn feed_fetch_type_list
  not_expected_op_types load_program_binary load_program_text append_save_op append_load_op save_var load_var reader
  feed_gen try_load_model_vars check_not_expected_ops
fluid.install_check: SimpleLayer
fluid.io: _logger _endpoints_replacement
fluid.layers.control_flow: WhileGuard ConditionalBlockGuard copy_var_to_parent_block _error_message IfElseBlockGuard
fluid.layers.distributions: Distribution
fluid.layers.io: monkey_patch_reader_methods _copy_reader_var_ _copy_reader_create_op_ _py_reader
fluid.layers.loss: cross_entropy2
fluid.layers.math_op_patch: _supported_int_dtype_ compare_ops EXPRESSION_MAP _already_patch_variable
fluid.layers.nn: _elementwise_op_in_dygraph _pull_sparse _pull_sparse_v2 _pull_box_sparse _elementwise_op _logical_op
fluid.layers.ops: _softshrink_ _hard_shrink_ _cum_sum_ _thresholded_relu_ _gelu_ _erf_
fluid.layers.rnn: ArrayWrapper _maybe_copy _transpose_batch_time _rnn_dynamic_graph _rnn_static_graph
  _dynamic_decode_imperative _dynamic_decode_declarative
fluid.layers.tensor: save save_combine load_combine
fluid.layers.utils: _sorted _yield_value _yield_flat_nest _sequence_like _packed_nest_with_indices
  _recursive_assert_same_structure _convert_to_tensor_list
fluid.metrics: _is_numpy_ _is_number_ _is_number_or_matrix_
fluid.profiler: NVPROF_CONFIG
fluid.reader: QUEUE_GET_TIMEOUT KEEP_DATA_LOADER_ORDER USE_PINNED_MEMORY _convert_places _reader_process_loop
fluid.trainer_factory: local_logger
fluid.transpiler.collective: OpRole
fluid.transpiler.distribute_transpiler: LOOKUP_TABLE_TYPE LOOKUP_TABLE_GRAD_TYPE OP_NAME_SCOPE CLIP_OP_NAME_SCOPE
  OP_ROLE_VAR_ATTR_NAME RPC_OP_ROLE_ATTR_NAME op_role_attr_name OPT_OP_ROLE_ATTR_VALUE RPC_OP_ROLE_ATTR_VALUE
  DIST_OP_ROLE_ATTR_VALUE LR_SCHED_OP_ROLE_ATTR_VALUE PRINT_LOG log
fluid.transpiler.geo_sgd_transpiler: RPC_OP_ROLE_ATTR_NAME op_role_attr_name RPC_OP_ROLE_ATTR_VALUE
hapi.dynamic_flops: count_convNd count_leaky_relu count_bn count_linear count_avgpool count_adap_avgpool
  count_zero_ops count_parameters count_io_info register_hooks dynamic_flops
hapi.model: _parallel_context_initialized init_communicator _update_input_info
hapi.model_summary: summary_string
hapi.static_flops: VarWrapper OpWrapper GraphWrapper count_convNd count_leaky_relu count_bn count_linear count_pool2d
  count_element_op _graph_flops
metric.metrics: _is_numpy_
nn.functional.conv: _is_list_or_tuple _zero_padding_in_batch_and_channel _exclude_padding_in_batch_and_channel
  _update_padding_nd _conv_nd
nn.functional.pooling: _is_list_or_tuple _check_input _check_instance _zero_padding_in_batch_and_channel
  _exclude_padding_in_batch_and_channel _channel_last _update_padding_nd _expand_low_nd_padding
nn.layer.conv: _get_default_param_initializer _reverse_repeat_list
nn.layer.norm: _InstanceNormBase
nn.layer.rnn: split_states concat_states RNNBase
nn.utils.weight_norm_hook: l2_norm norm_except_dim _weight_norm
static.io: _logger _check_args
tensor.attribute: _complex_to_real_dtype
tensor.creation: _tril_triu_op
tensor.manipulation: _print_warning_in_static_mode
tensor.math: _supported_int_dtype_ _supported_float_dtype_ _elementwise_op_in_dygraph _elementwise_op
tensor.to_string: PrintOptions DEFAULT_PRINT_OPTIONS _to_sumary _format_item _get_max_width _format_tensor to_string
utils.download: tqdm logger DOWNLOAD_RETRY_LIMIT nlp_models _map_path _download _md5check _decompress
  _uncompress_file_zip _uncompress_file_tar _is_a_single_file _is_a_single_dir
utils.install_check: _simple_network _prepare_data _is_cuda_available _run_static_single _run_static_parallel
utils.op_version: Singleton OpUpdateInfoHelper
utils.profiler: _current_profiler
vision.models.mobilenetv1: model_urls _mobilenet
vision.models.mobilenetv2: model_urls _mobilenet
vision.models.resnet: model_urls
vision.models.vgg: model_urls
vision.transforms.functional: Sequence Iterable
vision.transforms.functional_cv2: Sequence Iterable center_crop normalize
vision.transforms.functional_pil: Sequence Iterable _pil_interp_from_str center_crop
vision.transforms.functional_tensor: normalize
= a helper of one reader of upstream's; the reader itself is here
dataset.common: HOME must_mkdirs fetch_all
dataset.image: import_cv2_proc out err retcode cv2 _check_cv2
dataset.mnist: URL_PREFIX TEST_IMAGE_URL TEST_IMAGE_MD5 TEST_LABEL_URL TEST_LABEL_MD5 TRAIN_IMAGE_URL TRAIN_IMAGE_MD5
  TRAIN_LABEL_URL TRAIN_LABEL_MD5
dataset.movielens: MOVIE_INFO MOVIE_TITLE_DICT CATEGORIES_DICT USER_INFO
dataset.uci_housing: FLUID_URL_MODEL FLUID_MD5_MODEL
dataset.voc2012: SET_FILE DATA_FILE LABEL_FILE CACHE_DIR
dataset.wmt14: URL_DEV_TEST MD5_DEV_TEST
reader.decorator: fork_context XmapEndSignal
= processes and their environment are started by functions of paddle.distributed's own
distributed.collective: _Group _default_group _get_global_default_group _parallel_linear _parallel_embedding
distributed.fleet.base.distributed_strategy: non_auto_func_called is_strict_auto get_msg_dict assign_configs_value
  check_configs_key DistributedJobInfo
distributed.fleet.base.fleet_base: _inited_runtime_handler_ _is_non_distributed_check_ inited_runtime_handler
  is_non_distributed_check
distributed.fleet.base.meta_optimizer_factory: meta_optimizer_names
distributed.fleet.base.strategy_compiler: create_graph topo_sort floyd maximum_path_len_algo StrategyCompilerBase
distributed.fleet.launch: _print_arguments _parse_args get_cluster_from_args launch_collective launch_ps
  which_distributed_mode
distributed.fleet.launch_utils: logger DistributeMode DeviceMode get_ports pretty_print_envs get_device_mode
  get_device_proc_info direct_start get_custom_endpoints cloud_ps_heter_env_set ParameterServerLauncher
distributed.fleet.utils.fs: _handle_errors
distributed.fleet.utils.http_server: _http_server_logger
distributed.parallel: _start_kv_server
distributed.spawn: ParallelEnvArgs _py_supported_check _get_node_ip _remove_risky_env _set_trainer_env
= the meta optimizers rewrite Programs by functions of their own
distributed.fleet.meta_optimizers.pipeline_optimizer: _get_node_num PipelineHelper
= the sharding optimizer rewrites Programs by functions of its own
distributed.fleet.meta_optimizers.sharding.shard: ProgramSegment
distributed.fleet.meta_optimizers.sharding.utils: check_broadcast check_allreduce_sum get_valid_op_role
  insert_sync_calc_op insert_sync_comm_op insert_sync_comm_ops insert_fill_constant_ops insert_cast_ops
  insert_allreduce_ops insert_broadcast_ops DtypeToSize insert_scale_loss_grad_ops
= its tables are described to Baidu's brpc server, which is not part of this package
distributed.fleet.runtime.the_one_ps: conv_indent PSERVER_SAVE_SUFFIX Accessor CommonAccessor Tensor Service
  DownpourServer Server DownpourWorker Worker TheOnePSRuntime
= gradients of Programs are derived from the table of operators in the Rust core
fluid.backward: _logger _pretty_op_desc_ _add_needed_descs_to_block _add_descs_to_block _create_loss_op_desc_
  _accumulate_gradients_by_sum_op_ _accumulate_gradients_by_add_ops_ _append_backward_ops_with_checkpoints_
  _get_sub_block_path _is_grad_op_ _rename_grad_name_ _find_parent_op_ _get_son_parent_block_idx_dict
  _is_ancestor_block
= the passes of slim are written otherwise here
fluid.contrib.slim.quantization.imperative.qat: _logger _op_real_in_out_name
fluid.contrib.slim.quantization.imperative.quant_nn: _get_fake_quant_type
fluid.contrib.slim.quantization.post_training_quantization: _load_variable_data _set_variable_data
  _all_persistable_var_names _remove_unused_var_nodes _remove_ctrl_vars _apply_pass
fluid.contrib.slim.quantization.quantization_pass: _fake_quant_dequant_op_list _conv_ops _init_var_node
  _is_input_all_not_persistable _check_grandchild_op_node
= oneDNN is not used: the Rust core has its own quantized kernels
fluid.contrib.slim.quantization.quant2_int8_mkldnn_pass: OpRole
= it locates and loads the C++ library; this package's core is paddle._core
fluid.core: core_suffix has_avx_core has_noavx_core current_path third_lib_path executable_path avx_supported
  run_shell_command get_dso_path load_dso pre_load get_libc_ver less_than_ver libc_type libc_ver load_noavx
  set_paddle_lib_path
= workers of a DataLoader are watched by paddle.io
fluid.dataloader.dataloader_iter: MP_INDICES_CHECK_INTERVAL _IterableDatasetStopIteration ParentWatchDog _worker_info
fluid.dataloader.dataset: _accumulate
= the passes that split Programs for parameter servers are paddle.distributed.ps's
fluid.incubate.fleet.parameter_server.ir.pserver_pass: LEARNING_RATE_DECAY_COUNTER OP_ROLE_VAR_ATTR_NAME
  RPC_OP_ROLE_ATTR_NAME OPT_OP_ROLE_ATTR_VALUE LR_SCHED_OP_ROLE_ATTR_VALUE _is_optimizer_op _same_or_split_var
  _append_pserver_non_opt_ops _append_pserver_ops _get_input_map_from_op _get_output_map_from_op get_op_by_type
  add_listen_and_serv_pass add_rpc_global_flags_pass _clone_var add_optimizer_pass large_scale_sparse_pass
  get_distributed_from_listen_and_serv delete_unused_in_main_pass delete_unused_in_startup_pass
  build_pserver_startup_program_pass add_geo_optimizer_pass
= the source transformers of to_static are modules of paddle.jit's own
fluid.dygraph.dygraph_to_static.convert_call_func: BUILTIN_LIKELY_MODULES is_builtin is_builtin_len is_unsupported
  translator_logger
fluid.dygraph.dygraph_to_static.convert_operators: _run_paddle_cond _run_paddle_logical_and _run_paddle_logical_not
  _run_paddle_logical_or _run_paddle_pop _run_paddle_while_loop _run_py_ifelse _run_py_logical_and _run_py_logical_not
  _run_py_logical_or _run_py_while _run_python_pop _slice_tensor_array
fluid.dygraph.dygraph_to_static.error: TraceBackFrame remove_static_file
fluid.dygraph.dygraph_to_static.function_spec: _replace_spec_name convert_to_input_spec get_buffers get_parameters
  replace_spec_empty_name
fluid.dygraph.dygraph_to_static.ifelse_transformer: FALSE_FUNC_PREFIX IfElseTransformer NameVisitor TRUE_FUNC_PREFIX
  create_convert_ifelse_node parse_cond_args parse_cond_return transform_if_else
fluid.dygraph.dygraph_to_static.logging_utils: synchronized
fluid.dygraph.dygraph_to_static.logical_transformer: LogicalTransformer cmpop_type_to_str
fluid.dygraph.dygraph_to_static.loop_transformer: FOR_BODY_PREFIX FOR_CONDITION_PREFIX GENERATE_VARIABLE_PREFIX
  LoopTransformer WHILE_BODY_PREFIX WHILE_CONDITION_PREFIX create_while_node
fluid.dygraph.dygraph_to_static.origin_info: Location ORIGI_INFO ORIGI_INFO_MAP OriginInfo OriginInfoAttacher ast_walk
  attach_origin_info create_and_update_origin_info_map global_origin_info_map update_op_callstack_with_origin_info
fluid.dygraph.dygraph_to_static.partial_program: LazyInitialized NestSequence _change_is_test_status valid_vars
fluid.dygraph.dygraph_to_static.program_translator: FunctionCache MAX_TRACED_PROGRAM_COUNT _CACHE_LOCK _FUNCTION_CACHE
  _extract_indeed_params_buffers _in_declarative_mode_ _switch_declarative_mode_guard_ _verify_init_in_dynamic_mode
  convert_to_static in_declarative_mode synchronized
fluid.dygraph.dygraph_to_static.static_analysis: AstNodeWrapper AstVarEnv AstVarScope
fluid.dygraph.dygraph_to_static.utils: BaseNodeVisitor DYGRAPH_MODULE_PREFIX DYGRAPH_TO_STATIC_MODULE_PREFIX
  FOR_ITER_INDEX_PREFIX FOR_ITER_TUPLE_INDEX_PREFIX FOR_ITER_TUPLE_PREFIX FOR_ITER_VAR_LEN_PREFIX
  FOR_ITER_VAR_NAME_PREFIX ForLoopTuplePreTransformer ForNodeVisitor FullArgSpec IsControlFlowVisitor
  NameNodeReplaceTransformer PADDLE_MODULE_PREFIX RenameTransformer SplitAssignTransformer _add_keywords_to
  _delete_keywords_from _is_api_in_module_helper compare_with_none create_api_shape_node create_assign_node
  create_funcDef_node dygraph_class_to_static_api generate_name_node get_attribute_full_name
  get_constant_variable_node getfullargspec input_specs_compatible is_api_in_module is_candidate_node is_numpy_api
  is_paddle_api make_hashable parse_arg_and_kwargs parse_varargs_name recover_globals_attribute to_static_api
  to_static_ast update_args_of_func
= fluid.net_drawer draws by paddle.utils.draw
fluid.net_drawer: GRAPH_ID draw_edge draw_node logger unique_id
= the descriptions of PSLib are paddle.distributed.ps.pslib's
fluid.distributed.ps_pb2: AdamSGDParameter DESCRIPTOR DenseSGDRuleParameter DenseTableParameter
  DownpourServerParameter DownpourTableAccessorParameter DownpourWorkerParameter MovingAverageRuleParameter
  NaiveSGDParameter ProgramConfig PsCmdID PsRequestMessage PsResponseMessage ServerServiceParameter
  SparseSGDRuleParameter SparseTableParameter SummarySGDParameter TableAccessorParameter TableAccessorSaveParameter
  TableParameter TableType WorkerParameter
fluid.incubate.fleet.parameter_server.pslib.ps_pb2: AdamSGDParameter DESCRIPTOR DenseSGDRuleParameter
  DenseTableParameter DownpourTableAccessorParameter DownpourWorkerParameter MovingAverageRuleParameter
  NaiveSGDParameter ProgramConfig PsCmdID PsRequestMessage PsResponseMessage ServerServiceParameter
  SparseAdagradSGDRuleParameter SparseAdamSGDParameter SparseCommonSGDRuleParameter SparseNaiveSGDRuleParameter
  SparseSGDRuleParameter SparseTableParameter SummarySGDParameter TableAccessorParameter TableAccessorSaveParameter
  TableType
fluid.incubate.fleet.parameter_server.pslib: _prepare_params _fleet_embedding _fleet_embedding_v2
fluid.incubate.fleet.parameter_server.pslib.optimizer_factory: OpRole DistributedOptimizerImplBase
= functions of layers are written, not generated from protos
fluid.layers.layer_function_generator: _convert_ _type_to_str_ _two_dollar_pattern_ _single_dollar_pattern_
  _two_bang_pattern_ escape_math _generate_doc_string_ generate_activation_fn autodoc templatedoc add_sample_code
= operators are created from the table of the Rust core
fluid.op: is_str OpDescCreationMethod OpInfo create_op_creation_method OperatorFactory RecurrentOp CondOp
= checkpoints of collective training are those of fluid.incubate.checkpoint.auto_checkpoint
fluid.incubate.fleet.collective: TrainStatus
= clients of HDFS are HDFSClient of paddle.distributed.fleet.utils
distributed.fs_wrapper: BDFS
fluid.incubate.fleet.collective: BDFS
= the engine of dygraph mode is in the Rust core
fluid.core: Tracer DeviceContext LoDTensorBlockingQueue LodRankTable ProgramDescTracer Reader IterableDatasetWrapper
  TracerOption TrainerBase MultiDeviceFeedReader OrderedMultiDeviceFeedReader
= files are read by paddle._persistence
framework.io: _build_saved_state_dict _load_state_dict_from_save_inference_model _load_state_dict_from_save_params
  _build_load_path_and_config _parse_load_config
= addresses and sums of files are those of paddle.dataset
text.datasets.conll05: DATA_URL DATA_MD5 WORDDICT_URL WORDDICT_MD5 VERBDICT_URL VERBDICT_MD5 TRGDICT_URL TRGDICT_MD5
  EMB_URL EMB_MD5 UNK_IDX
text.datasets.imdb: URL MD5
text.datasets.imikolov: URL MD5
text.datasets.movielens: age_table URL MD5 MovieInfo UserInfo
text.datasets.uci_housing: URL MD5 feature_names
text.datasets.wmt14: URL_DEV_TEST MD5_DEV_TEST URL_TRAIN MD5_TRAIN START END UNK UNK_IDX
text.datasets.wmt16: DATA_URL DATA_MD5 TOTAL_EN_WORDS TOTAL_DE_WORDS START_MARK END_MARK UNK_MARK
vision.datasets.cifar: URL_PREFIX CIFAR10_URL CIFAR10_MD5 CIFAR100_URL CIFAR100_MD5 MODE_FLAG_MAP
vision.datasets.flowers: DATA_URL LABEL_URL SETID_URL DATA_MD5 LABEL_MD5 SETID_MD5 MODE_FLAG_MAP
vision.datasets.folder: has_valid_extension make_dataset pil_loader cv2_loader
vision.datasets.voc2012: VOC_URL VOC_MD5 SET_FILE DATA_FILE LABEL_FILE CACHE_DIR MODE_FLAG_MAP
= operators in C++ need the headers of Paddle's C++ core
utils.cpp_extension.cpp_extension: _generate_extension_name EasyInstallCommand BuildCommand
utils.cpp_extension.extension_utils: MSVC_COMPILE_FLAGS MSVC_LINK_FLAGS COMMON_NVCC_FLAGS GCC_MINI_VERSION
  MSVC_MINI_VERSION WRONG_COMPILER_WARNING ABI_INCOMPATIBILITY_WARNING USING_NEW_CUSTOM_OP_LOAD_METHOD
  DEFAULT_OP_ATTR_NAMES use_new_custom_op_load_method bootstrap_context custom_write_stub OpInfo CustomOpInfo
  VersionFields VersionManager combine_hash clean_object_if_change_cflags prepare_unix_cudaflags prepare_win_cudaflags
  add_std_without_repeat get_cuda_arch_flags normalize_extension_kwargs find_cuda_includes find_paddle_includes
  find_cuda_libraries find_paddle_libraries add_compile_flag is_cuda_file _generate_python_module _custom_api_content
  _load_module_from_file _get_api_inputs_str list2str parse_op_name_from run_cmd check_abi_compatibility
  _expected_compiler_current_platform log_v
"""

#: modules (with wildcards) and the reason
_MODULES = [
    ("fluid.dygraph.dygraph_to_static.*", "the source transformers of to_static are modules of paddle.jit's own"),
    ("*.meta_optimizers.ascend*", "Ascend processors are not supported"),
    ("*.meta_optimizers.parameter_server_graph_optimizer", "the optimizers of parameter servers are in one module"),
    ("*.sharding.*_helper", "the sharding optimizer rewrites Programs by functions of its own"),
    ("*.sharding.prune", "the sharding optimizer rewrites Programs by functions of its own"),
    ("*.parameter_server.ir.*", "the passes that split Programs for parameter servers are paddle.distributed.ps's"),
    ("*.test_data_generator", "it is a test of upstream's"),
    ("*.ufind", "the passes that split Programs for parameter servers are paddle.distributed.ps's"),
    ("distributed.fleet.data_generator.*", "the generators are in paddle.distributed.fleet.data_generator"),
    ("fluid.inference.wrapper", "the functions of inference are in paddle.inference"),
    ("libs", "the native library is paddle._core"),
    ("nn.functional.transformer", "it is empty in 2.0.2"),
    ("fluid.distributed.ps_instance", "processes of MPI are described by paddle.fluid.incubate.fleet"),
    ("fluid.dygraph.profiler", "the sampling profiler gperftools is a part of Paddle's C++ build"),
    ("fluid.graphviz", "fluid.debugger.draw_block_graphviz draws a Program"),
    ("fluid.multiprocess_utils", "workers of a DataLoader are watched by paddle.io"),
    ("fluid.contrib.slim.*", "pruning and search of slim 1.x moved to the package paddleslim"),
    ("dataset.mq2007", "2.0 has removed this data set"),
    ("dataset.sentiment", "2.0 has removed this data set"),
    ("amp.auto_cast", "it is the function paddle.amp.auto_cast"),
    ("amp.grad_scaler", "GradScaler is in paddle.amp"),
    ("complex.*", "Tensors are complex themselves since 2.0: the functions of paddle take them"),
    ("utils.plotcurve", "paddle.utils.Ploter and History.plot draw losses"),
    ("utils.preprocess_*", "paddle.vision.transforms and paddle.io have these functions"),
    ("utils.image_util", "paddle.vision.transforms and paddle.dataset.image have these functions"),
    ("proto", "it is the configuration of Paddle before Fluid"),
]


@cache
def _reasons() -> dict[tuple[str, str], str]:
    found, why = {}, ""
    for line in _NAMES.strip().replace("\n  ", " ").split("\n"):
        if line.startswith("= "):
            why = line[2:]
            continue
        module, _, names = line.partition(": ")
        found.update({(f"paddle.{module}", name): why for name in names.split()})
    return found


def reason(module: str, name: str) -> str | None:
    """Why `module` lacks `name`, which 2.0.2 defines there; None for another name."""
    if module.endswith("ps_pb2") and name.startswith(("_", "PS_")):
        return "it is code that protobuf generates; the messages themselves are here"
    return _reasons().get((module, name))


def module_reason(module: str) -> str | None:
    """Why a module of 2.0.2 is not here; None for another module."""
    below = module.removeprefix("paddle.")
    return next((why for pattern, why in _MODULES if fnmatchcase(below, pattern)), None)
