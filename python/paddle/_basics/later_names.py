"""Names of Paddle 2.1 to 2.6 that this package has in addition to those of 2.0.2: a table in the format of
`legacy_names.py`; the entry `paddle` is the package itself.
"""

from __future__ import annotations

__all__ = ["IN_PLACE", "MATRIX_METHODS", "ONLY_METHODS", "TABLE", "TENSOR_METHODS"]

TABLE = """
paddle
  _later.elementwise: acosh angle asinh atan2 atanh clone deg2rad expm1 finfo fmax fmin frac heaviside hypot iinfo inner
    is_complex is_floating_point is_integer isclose ldexp lerp logaddexp logit nan_to_num neg outer rad2deg sgn trunc
  _later.reduction: amax amin bincount bucketize count_nonzero cumprod cumulative_trapezoid diff kthvalue logcumsumexp
    nanmean nanmedian nanquantile nansum quantile searchsorted trapezoid
  _later.manipulation: as_strided atleast_1d atleast_2d atleast_3d broadcast_tensors diagflat diagonal einsum index_add
    index_fill logspace masked_fill moveaxis put_along_axis randint_like repeat_interleave rot90 take take_along_axis
    tensordot tolist tril_indices triu_indices unflatten unfold unique_consecutive vander view view_as vsplit
  _later.in_place: abs_ acos_ acosh_ addmm_ asin_ asinh_ atan_ atanh_ cos_ cosh_ cumprod_ cumsum_ divide_ erf_
    expm1_ floor_divide_ floor_mod_ frac_ hypot_ index_add_ index_fill_ ldexp_ log10_ log1p_ log2_ log_ logit_
    masked_fill_ mod_ multiply_ nan_to_num_ neg_ pow_ remainder_ sin_ sinh_ square_ tan_ tril_ triu_ trunc_
  _later.matrices: eigvalsh
  _later.bits: as_complex as_real bitwise_and bitwise_not bitwise_or bitwise_xor cdist
  _later.device: disable_signal_handler get_rng_state is_compiled_with_rocm set_rng_state
  _later.gradients: enable_grad is_grad_enabled set_grad_enabled
  _later.lazy_guard: LazyGuard
  nn.functional: diag_embed
  fluid: get_flags set_flags
  _later.dtypes: bfloat16 bool complex128 complex64 dtype float16 float32 float64 float8_e4m3fn float8_e5m2
    int16 int32 int64 int8 uint8

amp
  _later.amp: decorate

audio
  _later.audio_files: info load save

audio.backends
  _later.audio_files: get_current_backend list_available_backends set_backend

audio.backends.backend
  _later.audio_files: | AudioInfo info load save

audio.datasets
  _later.audio_datasets: ESC50 TESS

audio.datasets.dataset
  _later.audio_datasets: | AudioClassificationDataset

audio.features
  _later.audio_features: LogMelSpectrogram MFCC MelSpectrogram Spectrogram

audio.functional
  _later.audio_functional: compute_fbank_matrix create_dct fft_frequencies hz_to_mel mel_frequencies mel_to_hz
    power_to_db
  _later.audio_windows: get_window

autograd
  _later.gradients: backward
  _later.py_layer: PyLayer PyLayerContext

distributed
  _later.device: is_available
  _later.topology: ParallelMode
  _later.objects: all_gather_object broadcast_object_list scatter_object_list

distributed.fleet
  _later.topology: CommunicateTopology HybridCommunicateGroup get_hybrid_communicate_group

distributed.fleet.base.topology
  _later.topology: CommunicateTopology HybridCommunicateGroup | ParallelMode

device
  _later.device: get_all_custom_device_type is_compiled_with_rocm synchronize

device.cuda
  _later.device: device_count empty_cache max_memory_allocated max_memory_reserved memory_allocated memory_reserved
    synchronize
  _later.streams: Event Stream current_stream get_device_capability get_device_name get_device_properties stream_guard

fft
  _later.fft: fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn irfft
    irfft2 irfftn rfft rfft2 rfftfreq rfftn

geometric
  _later.bits: segment_max segment_mean segment_min segment_sum

incubate
  _later.bits: segment_max segment_mean segment_min segment_sum softmax_mask_fuse softmax_mask_fuse_upper_triangle

io
  _later.data: ConcatDataset SubsetRandomSampler

linalg
  tensor: cholesky norm inv=inverse
  _later.linear_algebra: corrcoef cov matrix_power multi_dot
  _later.matrices: cholesky_solve cond det eig eigh eigvals eigvalsh householder_product lstsq lu lu_unpack matrix_rank
    pca_lowrank pinv qr slogdet solve svd triangular_solve

nn
  _later.layers: CELU ChannelShuffle CosineEmbeddingLoss Fold GLU GaussianNLLLoss HingeEmbeddingLoss Identity LayerDict
    MaxUnPool1D MaxUnPool2D MaxUnPool3D Mish MultiLabelSoftMarginLoss MultiMarginLoss PixelUnshuffle PoissonNLLLoss
    RReLU
    Silu SoftMarginLoss Softmax2D TripletMarginLoss TripletMarginWithDistanceLoss Unflatten Unfold ZeroPad2D

nn.functional
  _later.functional: celu channel_shuffle cosine_embedding_loss fold gaussian_nll_loss glu gumbel_softmax
    hinge_embedding_loss max_unpool1d max_unpool2d max_unpool3d mish multi_label_soft_margin_loss
    multi_margin_loss pairwise_distance pixel_unshuffle poisson_nll_loss rrelu scaled_dot_product_attention
    sequence_mask silu soft_margin_loss triplet_margin_loss
    triplet_margin_with_distance_loss zeropad2d

nn.initializer
  _later.parameters: Dirac Orthogonal calculate_gain

nn.utils
  _later.parameters: clip_grad_norm_ clip_grad_value_ parameters_to_vector vector_to_parameters
  _later.spectral: spectral_norm

optimizer
  _later.lbfgs: LBFGS

optimizer.lr
  _later.lr: CosineAnnealingWarmRestarts CyclicLR LinearLR MultiplicativeDecay OneCycleLR

profiler
  _later.profiler: Profiler ProfilerState ProfilerTarget RecordEvent SortedKeys SummaryView export_chrome_tracing
    export_protobuf make_scheduler

signal
  _later.signal: frame istft overlap_add stft

static
  fluid.optimizer: ExponentialMovingAverage

text
  _later.viterbi: ViterbiDecoder viterbi_decode

vision.ops
  _later.vision_ops: RoIAlign RoIPool box_coder decode_jpeg nms prior_box read_file roi_align roi_pool
"""

#: Functions of `paddle` above that are also methods of Tensor and Variable.
TENSOR_METHODS = """
acosh amax amin angle as_strided asinh atan2 atanh bincount broadcast_tensors bucketize count_nonzero cumprod
cumulative_trapezoid deg2rad diagflat diagonal diff expm1 fmax fmin frac heaviside hypot index_add index_fill inner
is_complex is_floating_point is_integer isclose kthvalue ldexp lerp logaddexp logcumsumexp logit masked_fill moveaxis
nan_to_num nanmean nanmedian nanquantile nansum neg outer put_along_axis quantile rad2deg repeat_interleave rot90 sgn
take take_along_axis tensordot tolist trapezoid trunc unflatten unfold unique_consecutive vander view view_as vsplit
"""

#: The functions of `_later.in_place`; the methods of Tensor have all of them, `paddle` those of the table.
IN_PLACE = """
abs_ acos_ acosh_ add_ addmm_ asin_ asinh_ atan_ atanh_ ceil_ clip_ cos_ cosh_ cumprod_ cumsum_ divide_ erf_ exp_
expm1_ floor_ floor_divide_ floor_mod_ frac_ hypot_ index_add_ index_fill_ ldexp_ lerp_ log10_ log1p_ log2_ log_
logit_ masked_fill_ mod_ multiply_ nan_to_num_ neg_ pow_ put_along_axis_ reciprocal_ remainder_ round_ rsqrt_ scale_
sigmoid_ sin_ sinh_ sqrt_ square_ subtract_ tan_ tril_ triu_ trunc_
"""

#: Functions of `paddle.linalg` that are also methods of Tensor and Variable.
MATRIX_METHODS = """
cholesky_solve cond eig eigvals eigvalsh householder_product lstsq lu lu_unpack pca_lowrank pinv qr solve
"""

#: Methods of Tensor that are no functions of `paddle`: name to "module:name".
ONLY_METHODS = {
    "__array_namespace__": "paddle._later.array_api:array_namespace",
    "T": "paddle._later.tensor_methods:transposed",
    **{name: f"paddle._later.matrices:{name}" for name in MATRIX_METHODS.split()},
    **{name: f"paddle._later.linear_algebra:{name}" for name in ("corrcoef", "cov", "matrix_power")},
    "contiguous": "paddle._later.tensor_methods:contiguous",
    "is_contiguous": "paddle._later.tensor_methods:is_contiguous",
    "element_size": "paddle._later.tensor_methods:element_size",
    "fill_": "paddle._later.tensor_methods:fill_",
    "to": "paddle._later.tensor_methods:to",
    "zero_": "paddle._later.tensor_methods:zero_",
    **{name: f"paddle._later.in_place:{name}" for name in IN_PLACE.split()},
}
