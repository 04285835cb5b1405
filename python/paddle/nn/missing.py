"""What paddle.nn and paddle.nn.functional do not have yet, by the operator that each name waits for."""
from __future__ import annotations

# operator: functions, layers
_ROWS = {
    "affine_grid": "affine_grid",
    "bce_loss": "binary_cross_entropy BCELoss",
    "bilinear_interp_v2": "interpolate upsample Upsample UpsamplingBilinear2D UpsamplingNearest2D",
    "bilinear_tensor_product": "bilinear Bilinear",
    "conv2d_transpose": "conv1d_transpose conv2d_transpose Conv1DTranspose Conv2DTranspose",
    "conv3d": "conv3d Conv3D",
    "conv3d_transpose": "conv3d_transpose Conv3DTranspose",
    "grid_sampler": "grid_sample",
    "hierarchical_sigmoid": "hsigmoid_loss HSigmoidLoss",
    "huber_loss": "smooth_l1_loss SmoothL1Loss",
    "instance_norm": "instance_norm InstanceNorm1D InstanceNorm2D InstanceNorm3D",
    "kldiv_loss": "kl_div KLDivLoss",
    "label_smooth": "label_smooth",
    "log_loss": "log_loss",
    "max_pool3d_with_index": "adaptive_max_pool3d AdaptiveMaxPool3D",
    "maxout": "maxout Maxout",
    "nll_loss": "nll_loss NLLLoss",
    "norm": "spectral_norm",
    "pad3d": "pad local_response_norm LocalResponseNorm Pad1D Pad2D Pad3D",
    "pixel_shuffle": "pixel_shuffle PixelShuffle",
    "pool3d": "avg_pool3d max_pool3d adaptive_avg_pool3d AvgPool3D MaxPool3D AdaptiveAvgPool3D",
    "prelu": "prelu PReLU",
    "spectral_norm": "SpectralNorm",
    "sync_batch_norm": "SyncBatchNorm",
    "temporal_shift": "temporal_shift",
    "unfold": "unfold",
}

MISSING = {name: operator for operator, names in _ROWS.items() for name in names.split()}
