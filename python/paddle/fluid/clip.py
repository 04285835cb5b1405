"""The older import path of the gradient clips, with their older names."""

from paddle.nn.clip import (
    BaseErrorClipAttr,
    ClipGradBase,
    ClipGradByGlobalNorm,
    ClipGradByNorm,
    ClipGradByValue,
    ErrorClipByValue,
    GradientClipBase,
    GradientClipByGlobalNorm,
    GradientClipByNorm,
    GradientClipByValue,
    _correct_clip_op_role_var,
    append_gradient_clip_ops,
    error_clip_callback,
    set_gradient_clip,
)

__all__ = ["set_gradient_clip", "ErrorClipByValue", "ClipGradByValue", "ClipGradByNorm", "ClipGradByGlobalNorm"]
