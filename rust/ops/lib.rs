//! The table of operators, a line a family. This is the table of contents.

use oar_core::op::{table, Op};
use oar_ops_comm as comm;
use oar_ops_control as control;
use oar_ops_detection as detection;
use oar_ops_fused as fused;
use oar_ops_io as io;
use oar_ops_loss as loss;
use oar_ops_math as math;
use oar_ops_nn as nn;
use oar_ops_optim as optim;
use oar_ops_ps as ps;
use oar_ops_quant as quant;
use oar_ops_random as random;
use oar_ops_rnn as rnn;
use oar_ops_sequence as sequence;
use oar_ops_shape as shape;

/// Every operator.
pub static TABLES: &[&[&Op]] = &[
    math::basic::TABLE,               // scale, sum, cast, assign
    math::elementwise::TABLE,         // binary operators with broadcasting
    math::elementwise::second::TABLE, // their second gradients
    math::activation::TABLE,          // unary formulas
    math::scalar::TABLE,              // pow, clip
    math::comparison::TABLE,          // comparisons and logic
    math::reduction::TABLE,           // reductions over axes, mean
    math::reduction::logs::TABLE,     // logsumexp, frobenius_norm
    math::norms::TABLE,               // p_norm, dist
    math::products::TABLE,            // bmm, mv, dot, addmm
    math::kron::TABLE,                // kron, cross
    math::decompose::TABLE,           // cholesky, inverse
    math::finite::TABLE,              // isfinite, isinf, isnan
    math::equality::TABLE,            // allclose, equal_all
    math::histogram::TABLE,           // histogram
    math::matmul::TABLE,              // matrix products
    math::complex::TABLE,             // parts and conjugates of complex numbers
    math::order::TABLE,               // cumsum, argmax, sorting, top-k
    loss::metric::TABLE,              // accuracy
    control::arrays::TABLE,           // LoDTensorArrays
    control::array_tensor::TABLE,     // arrays as one tensor
    control::control_flow::TABLE,     // sub-blocks
    control::branch_rows::TABLE,      // split_lod_tensor, merge_lod_tensor
    control::program::TABLE,          // feed, fetch, print, py_func
    control::delete_var::TABLE,       // delete_var
    control::rank_table::TABLE,       // sequences by length, for dynamic recurrent networks
    control::recurrent::TABLE,        // recurrent
    control::run_program::TABLE,      // run_program
    control::select::TABLE,           // select_input, select_output, get_places
    io::reader::TABLE,                // create_py_reader, read
    io::files::TABLE,                 // save, load
    shape::creation::TABLE,           // constants, ranges, shapes
    random::random::TABLE,            // random numbers, dropout
    random::sampling::TABLE,          // bernoulli, multinomial, seed
    shape::reshape::TABLE,            // the same elements in another shape
    shape::transpose::TABLE,          // transpose
    shape::concat::TABLE,             // concat, split
    shape::stack::TABLE,              // stack, unstack
    shape::expand_v2::TABLE,          // expand
    shape::expand::TABLE,             // expand of 1.x, tile
    shape::slice::TABLE,              // slice, strided_slice
    shape::set_value::TABLE,          // assignment to a slice
    shape::indexing::TABLE,           // gather, scatter, where, one-hot
    shape::flip::TABLE,               // reverse, flip
    shape::grid::TABLE,               // linspace, meshgrid
    shape::memory::TABLE,             // memcpy, coalesce_tensor
    shape::multiplex::TABLE,          // multiplex, shard_index
    shape::gather_nd::TABLE,          // gather_nd, scatter_nd_add
    shape::index_select::TABLE,       // index_select, index_sample
    shape::masked_select::TABLE,      // masked_select
    shape::unique::TABLE,             // unique
    shape::roll::TABLE,               // roll
    shape::diagonal::TABLE,           // diag, trace, eye
    shape::tril_triu::TABLE,          // tril, triu
    nn::embedding::TABLE,             // rows of a table by id
    nn::conv::TABLE,                  // convolutions, transposed ones
    nn::pooling::TABLE,               // maxima and averages of windows
    nn::deformable::TABLE,            // convolutions of displaced elements
    nn::unfold::TABLE,                // windows as matrices
    nn::row_conv::TABLE,              // row_conv, conv_shift
    nn::bilinear::TABLE,              // bilinear_tensor_product
    nn::fc::TABLE,                    // fc
    fused::conv_fusion::TABLE,        // conv2d_fusion, conv2d_inception_fusion
    nn::resize::TABLE,                // images in another size
    nn::batch_norm::TABLE,            // batch_norm
    nn::layer_norm::TABLE,            // layer_norm
    nn::group_norm::TABLE,            // group_norm
    nn::l2_normalize::TABLE,          // norm: vectors of length one
    nn::softmax::TABLE,               // softmax
    nn::log_softmax::TABLE,           // log_softmax
    nn::instance_norm::TABLE,         // instance_norm
    nn::lrn::TABLE,                   // lrn
    nn::affine_channel::TABLE,        // affine_channel
    nn::spectral_norm::TABLE,         // spectral_norm
    nn::grid::TABLE,                  // affine_grid, grid_sampler
    nn::shuffle::TABLE,               // channels and pixels in another order
    nn::temporal_shift::TABLE,        // temporal_shift
    nn::maxout::TABLE,                // maxout
    nn::prelu::TABLE,                 // prelu
    nn::position::TABLE,              // add_position_encoding
    nn::label_smooth::TABLE,          // label_smooth
    shape::pad::TABLE,                // pad, crop
    shape::pad_images::TABLE,         // pad2d, pad3d
    nn::bilateral_slice::TABLE,       // bilateral_slice
    math::clip_by_norm::TABLE,        // clip_by_norm
    random::random_crop::TABLE,       // random_crop
    comm::sync_batch_norm::TABLE,     // sync_batch_norm, inplace_abn
    loss::loss::TABLE,                // cross entropies of scores
    loss::probability::TABLE,         // bce_loss, log_loss, kldiv_loss
    loss::likelihood::TABLE,          // nll_loss
    loss::residual::TABLE,            // losses of differences
    loss::margin::TABLE,              // hinge and rank losses
    loss::sigmoid::TABLE,             // sigmoid_focal_loss, teacher_student_sigmoid_loss, bpr_loss
    loss::hierarchical::TABLE,        // hierarchical_sigmoid
    loss::nce::TABLE,                 // nce
    random::sampling_id::TABLE,       // sampling_id
    loss::auc::TABLE,                 // auc
    loss::counts::TABLE,              // mean_iou, precision_recall
    loss::cross_entropy::TABLE,       // cross entropies of probabilities
    optim::optimizer::TABLE,          // sgd, momentum, adam
    optim::adaptive::TABLE,           // adagrad, adadelta, adamax, rmsprop
    optim::proximal::TABLE,           // ftrl, proximal_gd, proximal_adagrad
    optim::layerwise::TABLE,          // lamb, lars_momentum
    optim::dgc_momentum::TABLE,       // dgc_momentum
    optim::private::TABLE,            // dpsgd
    optim::average::TABLE,            // average_accumulates
    optim::loss_scaling::TABLE,       // check_finite_and_unscale, update_loss_scaling
    optim::rows::TABLE,               // SelectedRows
    sequence::sequence::TABLE,        // sequence_pool, sequence_expand
    sequence::segment_pool::TABLE,    // segment_pool
    sequence::reverse::TABLE,         // sequence_reverse
    sequence::beam::TABLE,            // beam_search, beam_search_decode
    sequence::concat::TABLE,          // sequence_concat
    sequence::conv::TABLE,            // sequence_conv
    sequence::cut::TABLE,             // sequence_slice, sequence_scatter
    sequence::expand_as::TABLE,       // sequence_expand_as
    sequence::padding::TABLE,         // sequence_mask, sequence_pad, sequence_unpad
    sequence::relevel::TABLE,         // sequence_reshape, lod_reset
    sequence::softmax::TABLE,         // sequence_softmax
    sequence::tokens::TABLE,          // sequence_enumerate, sequence_erase
    rnn::rnn::TABLE,                  // SimpleRNN, LSTM, GRU
    rnn::gather_tree::TABLE,          // the sequences of a beam search
    comm::communicator::TABLE,        // rings
    comm::collective::TABLE,          // collectives of Programs
    ps::compress::TABLE,              // dgc
    ps::exchange::TABLE,              // send, recv, listen_and_serv
    ps::pipeline::TABLE,              // queues within a process
    ps::outside::TABLE,               // tables of PSLib and BoxPS
    ps::tables::TABLE,                // tables of rows made when they are asked for
    ps::split::TABLE,                 // values cut up for servers
    sequence::pyramid_hash::TABLE,    // pyramid_hash
    sequence::topk::TABLE,            // sequence_topk_avg_pooling
    rnn::lstm::TABLE,                 // LSTM over sequences with LoD
    rnn::lstm_unit::TABLE,            // a step of it
    rnn::gru::TABLE,                  // GRU over sequences with LoD, a step of it
    rnn::fusion_nets::TABLE,          // these with their input products
    rnn::attention_lstm::TABLE,       // LSTM with attention
    rnn::fusion_seq::TABLE,           // pooled, expanded, convolved sequences at once
    rnn::crf::TABLE,                  // linear chain CRF
    rnn::chunk_eval::TABLE,           // chunks of tags
    rnn::warpctc::TABLE,              // connectionist temporal classification
    rnn::ctc_align::TABLE,            // labels of an alignment
    rnn::edit_distance::TABLE,        // edits between sequences
    detection::rois::max::TABLE,      // regions of interest: their maxima,
    detection::rois::align::TABLE,    // bilinear samples,
    detection::rois::psroi::TABLE,    // averages, every bin of its own plane,
    detection::rois::precise::TABLE,  // integrals,
    detection::rois::deform::TABLE,   // samples of displaced bins,
    detection::rois::quads::TABLE,    // quadrangles as rectangles
    fused::batch_norm::TABLE,         // batch_norm with a sum and an activation
    fused::elementwise::TABLE,        // fused_elemwise_activation
    fused::transformer::TABLE,        // attention and layer_norm with what stands before them
    fused::products::TABLE,           // chains of products
    fused::seq_pool::TABLE,           // fused_embedding_seq_pool
    math::similarity::TABLE,          // cos_sim
    math::minus::TABLE,               // minus
    shape::fill::TABLE,               // fill
    random::shuffle_batch::TABLE,     // shuffle_batch
    loss::sample_logits::TABLE,       // sample_logits
    nn::cvm::TABLE,                   // cvm
    nn::data_norm::TABLE,             // data_norm
    nn::tdm::TABLE,                   // trees of items
    sequence::instag::TABLE,          // filter_by_instag
    sequence::hash::TABLE,            // hash
    detection::rois::fpn::TABLE,      // levels of a feature pyramid
    detection::proposals::TABLE,      // generate_proposals
    detection::targets::rpn::TABLE,   // what anchors aim at,
    detection::targets::rcnn::TABLE,  // proposals,
    detection::targets::masks::TABLE, // masks
    quant::fake::TABLE,               // simulated quantisation
    quant::dequantize::TABLE,         // levels back to numbers
    quant::bytes::TABLE,              // quantize, requantize, dequantize
    detection::anchors::TABLE,        // anchor_generator, prior_box, density_prior_box
    detection::box_coder::TABLE,      // box_coder, box_clip, box_decoder_and_assign
    detection::similarity::TABLE,     // iou_similarity, polygon_box_transform
    detection::matching::TABLE,       // bipartite_match, target_assign, mine_hard_examples
    detection::multiclass_nms::TABLE, // multiclass_nms
    detection::other_nms::TABLE,      // matrix_nms, locality_aware_nms, retinanet_detection_output
    detection::yolo::TABLE,           // yolo_box, yolov3_loss
    detection::detection_map::TABLE,  // detection_map
    nn::fsp::TABLE,                   // fsp
    nn::similarity_focus::TABLE,      // similarity_focus
    shape::partial::TABLE,            // partial_concat, partial_sum
    nn::batch_fc::TABLE,              // batch_fc, rank_attention
    nn::tree_conv::TABLE,             // tree_conv
    sequence::match_matrix::TABLE,    // match_matrix_tensor
    sequence::var_conv::TABLE,        // var_conv_2d
    nn::correlation::TABLE,           // correlation
    loss::pairs::TABLE,               // positive_negative_pair
];

/// Makes the table known to the engine ([`table::lookup`]). Whoever uses operators calls it first; once is enough.
pub fn install() {
    table::install(TABLES);
}
