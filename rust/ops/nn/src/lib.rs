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
    embedding::TABLE,               // rows of a table by id
    conv::TABLE,                    // convolutions, transposed ones
    pooling::TABLE,                 // maxima and averages of windows
    deformable_conv::TABLE,         // convolutions of displaced elements
    unfold::TABLE,                  // windows as matrices
    row_conv::TABLE,                // row_conv
    conv_shift::TABLE,              // conv_shift
    bilinear_tensor_product::TABLE, // bilinear_tensor_product
    fc::TABLE,                      // fc
    resize::TABLE,                  // images in another size
    batch_norm::TABLE,              // batch_norm
    layer_norm::TABLE,              // layer_norm
    group_norm::TABLE,              // group_norm
    l2_normalize::TABLE,            // norm: vectors of length one
    softmax::TABLE,                 // softmax
    log_softmax::TABLE,             // log_softmax
    instance_norm::TABLE,           // instance_norm
    lrn::TABLE,                     // lrn
    affine_channel::TABLE,          // affine_channel
    spectral_norm::TABLE,           // spectral_norm
    affine_grid::TABLE,             // affine_grid
    grid_sampler::TABLE,            // grid_sampler
    shuffle::TABLE,                 // channels and pixels in another order
    temporal_shift::TABLE,          // temporal_shift
    maxout::TABLE,                  // maxout
    prelu::TABLE,                   // prelu
    add_position_encoding::TABLE,   // add_position_encoding
    label_smooth::TABLE,            // label_smooth
    bilateral_slice::TABLE,         // bilateral_slice
    cvm::TABLE,                     // cvm
    data_norm::TABLE,               // data_norm
    tdm::TABLE,                     // trees of items
    fsp::TABLE,                     // fsp
    similarity_focus::TABLE,        // similarity_focus
    batch_fc::TABLE,                // batch_fc
    rank_attention::TABLE,          // rank_attention
    tree_conv::TABLE,               // tree_conv
    correlation::TABLE,             // correlation
];
