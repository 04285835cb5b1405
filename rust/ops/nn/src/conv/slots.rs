//! The slots of convolutions.

use oar_core::slots;

slots! {
    pub(super) mod conv { INPUT "Input", FILTER "Filter", BIAS "Bias".opt(), RESIDUAL "ResidualData".opt() => OUTPUT "Output" }
    pub(super) mod conv3d { INPUT "Input", FILTER "Filter", RESIDUAL "ResidualData".opt() => OUTPUT "Output" }
    pub(super) mod transpose { INPUT "Input", FILTER "Filter", BIAS "Bias".opt() => OUTPUT "Output" }
    pub(super) mod transpose3d { INPUT "Input", FILTER "Filter" => OUTPUT "Output" }
    // The gradients have the same slots at the same places, whatever the third is.
    pub(super) mod conv_grad {
        INPUT "Input", FILTER "Filter", BIAS "Bias".opt(), DOUTPUT "Output@GRAD"
        => DINPUT "Input@GRAD", DFILTER "Filter@GRAD", DBIAS "Bias@GRAD"
    }
    pub(super) mod conv3d_grad {
        INPUT "Input", FILTER "Filter", RESIDUAL "ResidualData".opt(), DOUTPUT "Output@GRAD"
        => DINPUT "Input@GRAD", DFILTER "Filter@GRAD"
    }
    pub(super) mod conv_grad_grad {
        INPUT "Input", FILTER "Filter", DOUTPUT "DOutput", DDINPUT "DDInput".opt(), DDFILTER "DDFilter".opt()
        => DDOUTPUT "DDOutput", DFILTER "DFilter", DINPUT "DInput"
    }
}
