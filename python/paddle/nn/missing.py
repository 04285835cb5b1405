"""What paddle.nn and paddle.nn.functional do not have yet, by the operator that each name waits for."""
from __future__ import annotations

# operator: functions, layers
_ROWS = {
    "bilinear_tensor_product": "bilinear Bilinear",
    "conv2d_transpose": "conv1d_transpose conv2d_transpose Conv1DTranspose Conv2DTranspose",
    "conv3d": "conv3d Conv3D",
    "conv3d_transpose": "conv3d_transpose Conv3DTranspose",
    "max_pool3d_with_index": "adaptive_max_pool3d AdaptiveMaxPool3D",
    "pool3d": "avg_pool3d max_pool3d adaptive_avg_pool3d AvgPool3D MaxPool3D AdaptiveAvgPool3D",
    "unfold": "unfold",
}

MISSING = {name: operator for operator, names in _ROWS.items() for name in names.split()}
