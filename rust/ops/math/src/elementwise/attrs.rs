//! Attributes that the operators and their second gradients share.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::tensor::Tensor;
use oar_kernels::elementwise::Binary;
use oar_ops_common::broadcast::binary;

attrs! {
    pub struct ElementwiseAttrs {
        axis: i32 = -1, use_mkldnn: bool = false, x_data_format: Text = "".into(), y_data_format: Text = "".into(),
        use_quantizer: bool = false, mkldnn_data_type: Text = "float32".into(), Scale_x: f32 = 1.0,
        Scale_y: f32 = 1.0, Scale_out: f32 = 1.0,
    }
}

pub(super) const REAL: DTypes = DTypes::FLOATS.union(DTypes::HALVES).union(DTypes::INTEGERS);
pub(super) const NUMBERS: DTypes = REAL.union(DTypes::COMPLEX);

pub(super) fn negated(t: &Tensor) -> Result<Tensor> {
    let zero = Tensor::zeros(t.dtype(), &[1])?;
    binary("negation", Binary::Sub, &zero, t, -1)
}
