//! Slots of the convolution operators.

use oar_core::slots;

slots! {
    /// PANELS holds the filters as panels for the matrix unit, packed when a predictor loads its model.
    pub(super) mod conv {
        INPUT "Input", FILTER "Filter", BIAS "Bias".dispensable(), RESIDUAL "ResidualData".dispensable(),
        PANELS "Panels".dispensable().extra()
        => OUTPUT "Output"
    }
    pub(super) mod conv3d { INPUT "Input", FILTER "Filter", RESIDUAL "ResidualData".dispensable() => OUTPUT "Output" }
    pub(super) mod transpose { INPUT "Input", FILTER "Filter", BIAS "Bias".dispensable() => OUTPUT "Output" }
    pub(super) mod transpose3d { INPUT "Input", FILTER "Filter" => OUTPUT "Output" }
    // All gradients have the same slot numbers, whatever the third input is.
    pub(super) mod conv_grad {
        INPUT "Input", FILTER "Filter", BIAS "Bias".dispensable(), DOUTPUT "Output@GRAD"
        => DINPUT "Input@GRAD", DFILTER "Filter@GRAD", DBIAS "Bias@GRAD"
    }
    pub(super) mod conv3d_grad {
        INPUT "Input", FILTER "Filter", RESIDUAL "ResidualData".dispensable(), DOUTPUT "Output@GRAD"
        => DINPUT "Input@GRAD", DFILTER "Filter@GRAD"
    }
    pub(super) mod conv_grad_grad {
        INPUT "Input", FILTER "Filter", DOUTPUT "DOutput", DDINPUT "DDInput".dispensable(), DDFILTER "DDFilter".dispensable()
        => DDOUTPUT "DDOutput", DFILTER "DFilter", DINPUT "DInput"
    }
}
