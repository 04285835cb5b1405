"""paddle.fluid.backward."""

from paddle._programs.backward import append_backward, calc_gradient, gradients
from paddle._programs.backward_ops import (
    _addup_repetitive_outputs_,
    _append_backward_ops_,
    _append_backward_vars_,
    _create_op_desc_,
    _find_not_need_ops,
    _infer_var_data_type_shape_,
    _remove_no_grad_branch_,
    _rename_arg_,
    _rename_grad_,
)
from paddle._programs.backward_path import (
    _all_in_set_,
    _append_grad_suffix_,
    _as_list,
    _find_no_grad_vars,
    _find_op_path_,
    _get_no_grad_set_name,
    _get_output_names,
    _get_stop_gradients_,
    _is_grad_var_,
    _some_in_set_,
    _strip_grad_suffix_,
)
from paddle._programs.program_stats import ProgramStats, serialize_op_decs  # noqa: F401 (outside __all__, as upstream)

__all__ = ["append_backward", "gradients", "calc_gradient"]
