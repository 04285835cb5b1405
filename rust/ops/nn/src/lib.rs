//! Neural network operators: convolution, pooling, normalization, softmax, embedding, image operators.

pub mod add_position_encoding;
pub mod affine_channel;
pub mod affine_grid;
pub mod batch_fc;
pub mod batch_norm;
pub mod bilateral_slice;
pub mod bilinear_tensor_product;
pub mod conv;
pub mod conv_shift;
pub mod correlation;
pub mod cvm;
pub mod data_norm;
pub mod deformable_conv;
pub mod embedding;
pub mod fc;
pub mod fsp;
pub mod grid_sampler;
pub mod group_norm;
pub mod instance_norm;
pub mod l2_normalize;
pub mod label_smooth;
pub mod layer_norm;
pub mod log_softmax;
pub mod lrn;
pub mod maxout;
mod operands;
pub mod pooling;
pub mod prelu;
pub mod rank_attention;
pub mod resize;
pub mod row_conv;
pub mod shuffle;
pub mod similarity_focus;
pub mod softmax;
pub mod spectral_norm;
pub mod tdm;
pub mod temporal_shift;
pub mod tree_conv;
pub mod unfold;

/// The operators of this group, one line per family.
pub static TABLES: &[&[&oar_core::op::Op]] = &[
    embedding::TABLE,       // rows of a table by id
    conv::TABLE,            // convolutions, transposed ones
    pooling::TABLE,         // maxima and averages of windows
    deformable_conv::TABLE, // convolutions of displaced elements
    unfold::TABLE,          // windows as matrices
    row_conv::TABLE,
    conv_shift::TABLE,
    bilinear_tensor_product::TABLE,
    fc::TABLE,
    resize::TABLE, // images in another size
    batch_norm::TABLE,
    layer_norm::TABLE,
    group_norm::TABLE,
    l2_normalize::TABLE, // norm: vectors of length one
    softmax::TABLE,
    log_softmax::TABLE,
    instance_norm::TABLE,
    lrn::TABLE,
    affine_channel::TABLE,
    spectral_norm::TABLE,
    affine_grid::TABLE,
    grid_sampler::TABLE,
    shuffle::TABLE, // channels and pixels in another order
    temporal_shift::TABLE,
    maxout::TABLE,
    prelu::TABLE,
    add_position_encoding::TABLE,
    label_smooth::TABLE,
    bilateral_slice::TABLE,
    cvm::TABLE,
    data_norm::TABLE,
    tdm::TABLE, // trees of items
    fsp::TABLE,
    similarity_focus::TABLE,
    batch_fc::TABLE,
    rank_attention::TABLE,
    tree_conv::TABLE,
    correlation::TABLE,
];
