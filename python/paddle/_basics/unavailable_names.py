"""Names that this package does not have, for the messages of `missing.py`: read only when a name is missing.

An entry is a module, then its names.
"""

from __future__ import annotations

import difflib

__all__ = ["hint", "is_later_module"]

#: Names that Paddle 2.1 to 2.6 added and that are not in `later_names.py`.
LATER = """
paddle
  CustomPlace IPUPlace async_save bitwise_and_ bitwise_not_ bitwise_or_ bitwise_xor_ cast_ cauchy_
  clear_async_save_task_queue combinations cummax cummin diagonal_scatter digamma digamma_ equal_ erfinv frexp gcd
  gcd_ geometric_ greater_equal_ greater_than_ hub i0 i0_ i0e i1 i1e index_put index_put_
  is_compiled_with_cinn is_compiled_with_custom_device is_compiled_with_distribute is_compiled_with_ipu lcm lcm_
  less_equal_ less_than_ lgamma lgamma_ logical_and_ logical_not_ logical_or_ logical_xor_ mode multigammaln
  multigammaln_ nextafter normal_ not_equal_ poisson polar polygamma polygamma_ quantization renorm renorm_
  select_scatter sparse t_ transpose_ where_

paddle.amp
  is_bfloat16_supported is_float16_supported

paddle.autograd
  hessian jacobian saved_tensors_hooks

paddle.callbacks
  WandbCallback

paddle.device
  Event IPUPlace Stream current_stream get_all_device_type get_available_custom_device get_available_device
  is_compiled_with_cinn is_compiled_with_custom_device is_compiled_with_distribute is_compiled_with_ipu set_stream
  stream_guard

paddle.distributed
  DistAttr Partial Placement ProcessMesh ReduceType Replicate Shard ShowClickEntry Strategy
  alltoall_single destroy_process_group dtensor_from_fn gather get_backend
  gloo_barrier gloo_init_parallel_env gloo_release io irecv isend load_state_dict save_state_dict
  shard_layer shard_optimizer shard_tensor to_static

paddle.distribution
  AbsTransform AffineTransform Bernoulli Beta Cauchy ChainTransform Dirichlet ExpTransform ExponentialFamily
  Geometric Gumbel Independent IndependentTransform Laplace LogNormal Multinomial PowerTransform ReshapeTransform
  SigmoidTransform SoftmaxTransform StackTransform StickBreakingTransform TanhTransform Transform
  TransformedDistribution kl_divergence register_kl

paddle.geometric
  reindex_graph reindex_heter_graph sample_neighbors send_u_recv send_ue_recv send_uv weighted_sample_neighbors

paddle.hub
  help list load

paddle.incubate
  graph_khop_sampler graph_reindex graph_sample_neighbors graph_send_recv identity_loss

paddle.incubate.nn
  FusedBiasDropoutResidualLayerNorm FusedDropoutAdd FusedEcMoe FusedFeedForward FusedLinear
  FusedMultiHeadAttention FusedMultiTransformer FusedTransformerEncoderLayer

paddle.nn
  RNNTLoss

paddle.nn.functional
  class_center_sample hardtanh_ leaky_relu_ margin_cross_entropy rnnt_loss
  sparse_attention thresholded_relu_

paddle.profiler
  get_profiler load_profiler_result

paddle.quantization
  BaseObserver BaseQuanter PTQ QAT QuantConfig quanter

paddle.sparse
  abs add addmm asin asinh atan atanh cast coalesce deg2rad divide expm1 is_same_shape isnan log1p masked_matmul
  matmul multiply mv neg pca_lowrank pow rad2deg reshape sin sinh slice sparse_coo_tensor sparse_csr_tensor sqrt
  square subtract sum tan tanh transpose

paddle.static
  IpuCompiledProgram IpuStrategy ctr_metric_bundle ipu_shard_guard set_ipu_shard

paddle.static.nn
  static_pylayer

paddle.vision.models
  AlexNet DenseNet GoogLeNet InceptionV3 MobileNetV3Large MobileNetV3Small ShuffleNetV2 SqueezeNet alexnet
  densenet121 densenet161 densenet169 densenet201 densenet264 googlenet inception_v3 mobilenet_v3_large
  mobilenet_v3_small resnext101_32x4d resnext101_64x4d resnext152_32x4d resnext152_64x4d resnext50_32x4d
  resnext50_64x4d shufflenet_v2_swish shufflenet_v2_x0_25 shufflenet_v2_x0_33 shufflenet_v2_x0_5
  shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0 squeezenet1_0 squeezenet1_1 wide_resnet101_2
  wide_resnet50_2

paddle.vision.ops
  PSRoIPool distribute_fpn_proposals generate_proposals matrix_nms psroi_pool

paddle.vision.transforms
  RandomAffine RandomErasing RandomPerspective affine erase perspective
"""

#: PyTorch's names, with Paddle's.
TORCH = """
paddle
  cat=concat from_numpy=to_tensor as_tensor=to_tensor mul=multiply sub=subtract div=divide
  permute=transpose clamp=clip absolute=abs arccos=acos arcsin=asin arctan=atan arctan2=atan2 eq=equal
  ne=not_equal gt=greater_than ge=greater_equal lt=less_than le=less_equal addcmul=add addcdiv=add
  manual_seed=seed swapaxes=transpose swapdims=transpose movedim=moveaxis hstack=concat vstack=concat
  dstack=concat fliplr=flip flipud=flip inference_mode=no_grad true_divide=divide row_stack=concat
  column_stack=concat concatenate=concat Generator=seed

paddle.nn
  Module=Layer ModuleList=LayerList ReflectionPad2d=Pad2D ConvTranspose2d=Conv2DTranspose
  Conv1d=Conv1D Conv2d=Conv2D Conv3d=Conv3D BatchNorm1d=BatchNorm1D BatchNorm2d=BatchNorm2D
  BatchNorm3d=BatchNorm3D MaxPool2d=MaxPool2D AvgPool2d=AvgPool2D AdaptiveAvgPool2d=AdaptiveAvgPool2D
  Dropout2d=Dropout2D InstanceNorm2d=InstanceNorm2D ZeroPad2d=ZeroPad2D MultiheadAttention=MultiHeadAttention

paddle.optimizer
  Rprop=SGD

paddle.io

"""


def _names(table: str, module: str) -> list[str]:
    for block in table.strip().split("\n\n"):
        head, *lines = block.split("\n")
        if head == module:
            return " ".join(lines).split()
    return []


def is_later_module(name: str) -> bool:
    """Whether Paddle 2.1 to 2.6 has names in the module `name` that this package lacks."""
    return any(name == block.split("\n")[0] for block in LATER.strip().split("\n\n"))


def hint(module: str, name: str, known: list[str]) -> str:
    """What to say about `name`, which `module` does not have, behind "has no attribute ...": "; ..." or "".

    Args:
        module (str): the module's full name.
        name (str): the missing name.
        known (list[str]): the names that the module has.
    """
    for pair in _names(TORCH, module):
        torch, _, ours = pair.partition("=")
        if torch == name:
            return f"; this is PyTorch's name: in Paddle it is {module}.{ours}"
    if name in _names(LATER, module) or is_later_module(f"{module}.{name}"):
        return "; it is new in Paddle 2.1 to 2.6, this package follows 2.0.2"
    near = difflib.get_close_matches(name, [k for k in known if not k.startswith("_")], 1, 0.75)
    return f"; did you mean {near[0]!r}?" if near else ""
