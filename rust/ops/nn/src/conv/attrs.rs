//! Attributes of the convolution operators, behind one trait.

use oar_core::attrs;
use oar_core::op::attrs::Text;
use oar_ops_common::conv::Convolution;

attrs! {
    pub struct ConvAttrs {
        is_test: bool = false, strides: Vec<i32> = vec![1, 1], paddings: Vec<i32> = vec![0, 0],
        padding_algorithm: Text = "EXPLICIT".into(), groups: i32 = 1, dilations: Vec<i32> = vec![1, 1],
        use_cudnn: bool = false, fuse_relu_before_depthwise_conv: bool = false, use_mkldnn: bool = false,
        use_quantizer: bool = false, mkldnn_data_type: Text = "float32".into(), fuse_relu: bool = false,
        fuse_brelu: bool = false, fuse_brelu_threshold: f32 = 6.0, fuse_activation: Text = "".into(),
        fuse_alpha: f32 = 0.0, fuse_beta: f32 = 0.0, use_addto: bool = false, fuse_residual_connection: bool = false,
        Scale_in: f32 = 1.0, Scale_out: f32 = 1.0, Scale_in_eltwise: f32 = 1.0, Scale_weights: Vec<f32> = vec![1.0],
        force_fp32_output: bool = false, data_format: Text = "NCHW".into(), workspace_size_MB: i32 = 512,
        exhaustive_search: bool = false,
    }
    pub struct Conv3dAttrs {
        is_test: bool = false, strides: Vec<i32> = vec![1, 1, 1], paddings: Vec<i32> = vec![0, 0, 0],
        padding_algorithm: Text = "EXPLICIT".into(), groups: i32 = 1, dilations: Vec<i32> = vec![1, 1, 1],
        use_cudnn: bool = false, use_mkldnn: bool = false, mkldnn_data_type: Text = "float32".into(),
        fuse_relu: bool = false, fuse_activation: Text = "".into(), fuse_alpha: f32 = 0.0, fuse_beta: f32 = 0.0,
        use_addto: bool = false, fuse_residual_connection: bool = false, data_format: Text = "NCDHW".into(),
        force_fp32_output: bool = false, workspace_size_MB: i32 = 512, exhaustive_search: bool = false,
    }
    pub struct TransposeAttrs {
        is_test: bool = false, output_padding: Vec<i32> = vec![], output_size: Vec<i32> = vec![], groups: i32 = 1,
        dilations: Vec<i32> = vec![1, 1], strides: Vec<i32> = vec![1, 1], paddings: Vec<i32> = vec![0, 0],
        use_cudnn: bool = false, use_mkldnn: bool = false, fuse_relu: bool = false, fuse_activation: Text = "".into(),
        fuse_alpha: f32 = 0.0, fuse_beta: f32 = 0.0, data_format: Text = "NCHW".into(),
        padding_algorithm: Text = "EXPLICIT".into(), workspace_size_MB: i32 = 512,
    }
    pub struct Transpose3dAttrs {
        output_padding: Vec<i32> = vec![], output_size: Vec<i32> = vec![], dilations: Vec<i32> = vec![1, 1, 1],
        strides: Vec<i32> = vec![1, 1, 1], paddings: Vec<i32> = vec![0, 0, 0], groups: i32 = 1,
        use_cudnn: bool = false, use_mkldnn: bool = false, data_format: Text = "NCHW".into(),
        padding_algorithm: Text = "EXPLICIT".into(), workspace_size_MB: i32 = 512,
    }
}

/// Attributes of a convolution operator.
pub trait Convolves: 'static {
    /// The third input is a bias (else it is not read on the CPU).
    const BIAS: bool;
    /// The fifth input holds packed filters.
    const PACKED: bool;
    /// Operands of the forward pass may be rounded to bfloat16.
    fn bfloat16(&self) -> bool;
    fn convolution<'a>(&'a self, op: &'a str) -> Convolution<'a>;
}

macro_rules! convolves {
    ($($attrs:ty, $bias:literal, $packed:literal, |$a:ident| $transposed:expr, |$b:ident| $bf16:expr;)*) => {$(
        impl Convolves for $attrs {
            const BIAS: bool = $bias;
            const PACKED: bool = $packed;
            fn bfloat16(&self) -> bool {
                let $b = self;
                $bf16
            }
            fn convolution<'a>(&'a self, op: &'a str) -> Convolution<'a> {
                let $a = self;
                Convolution {
                    op,
                    data_format: &self.data_format,
                    groups: self.groups,
                    strides: &self.strides,
                    dilations: &self.dilations,
                    paddings: &self.paddings,
                    padding_algorithm: &self.padding_algorithm,
                    transposed: $transposed,
                }
            }
        }
    )*};
}

convolves! {
    ConvAttrs, true, true, |_a| None, |a| a.mkldnn_data_type == "bfloat16";
    Conv3dAttrs, false, false, |_a| None, |a| a.mkldnn_data_type == "bfloat16";
    TransposeAttrs, true, false, |a| Some((&a.output_size, &a.output_padding)), |_a| false;
    Transpose3dAttrs, false, false, |a| Some((&a.output_size, &a.output_padding)), |_a| false;
}
