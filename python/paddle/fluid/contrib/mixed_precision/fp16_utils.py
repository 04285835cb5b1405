"""The older place of paddle.static.amp's fp16_utils."""

from paddle.static.amp.fp16_utils import cast_model_to_fp16, cast_parameters_to_fp16, fp16_guard
from paddle.static.amp.fp16_utils import find_true_post_op as find_true_post_op
from paddle.static.amp.fp16_utils import find_true_prev_op as find_true_prev_op
from paddle.static.amp.fp16_utils import rewrite_program as rewrite_program
from paddle.static.amp.fp16_utils import update_role_var_grad as update_role_var_grad

__all__ = ["fp16_guard", "cast_model_to_fp16", "cast_parameters_to_fp16"]
