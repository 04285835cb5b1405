"""Invalid calls raise the type of error that Paddle raises, with a message that names function and argument.

The types are those of Paddle 2.6.2, or of the source of 2.0.2 where the two differ.
"""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import paddle
import pytest
from paddle._basics.mode import NoValueError

STATIC = "paddle.enable_static(); st = paddle.static; main, startup = st.Program(), st.Program()\n"
NET = STATIC + (
    "with st.program_guard(main, startup):\n"
    "    x = st.data('x', [None, 4]); y = st.nn.fc(x, 2); loss = paddle.mean(y)\n"
)
RUN = "\nexe = st.Executor(paddle.CPUPlace()); exe.run(startup)\none = np.ones((3, 4), 'float32')\n"

# name: (code, type, text in the message)
TABLE = {
    "tensor_of_object": ("paddle.to_tensor(object())", TypeError, "to_tensor: data must be a scalar, list, tuple,"),
    "tensor_of_none": (
        "paddle.to_tensor([[1], [None]])",
        ValueError,
        "to_tensor: data does not make one array: it holds None",
    ),
    "tensor_of_large": (
        "paddle.to_tensor([1, 2**64])",
        ValueError,
        "to_tensor: data does not make one array: it holds 184",
    ),
    "tensor_of_ragged": ("paddle.to_tensor([[1, 2], [3]])", ValueError, "to_tensor: data does not make one array: it"),
    "tensor_of_text": ("paddle.to_tensor('abc')", TypeError, "to_tensor: data must be a scalar, list, tuple,"),
    "tensor_wrong_dtype_name": (
        "paddle.to_tensor([1.0], dtype='float31')",
        TypeError,
        "dtype must be any of [bool, float",
    ),
    "tensor_wrong_place": (
        "paddle.to_tensor([1.0], place=3)",
        ValueError,
        "a place is a string or a Place, but received",
    ),
    "zeros_negative": ("paddle.zeros([-2, 3])", ValueError, "operator fill_constant"),
    "zeros_of_text": ("paddle.zeros('ab')", ValueError, "invalid literal for int() with base"),
    "ones_bad_dtype": ("paddle.ones([2], dtype='int7')", TypeError, "data type 'int7' not understood"),
    "full_no_shape": ("paddle.full(None, 1.0)", TypeError, "'NoneType' object is not iterable"),
    "arange_zero_step": ("paddle.arange(0, 5, 0)", ValueError, "operator range"),
    "item_of_many": ("int(paddle.ones([2]))", AssertionError, "only one element variable can be converted"),
    "float_of_many": ("float(paddle.ones([2, 2]))", AssertionError, "only one element variable can be converted"),
    "len_ok_index_out": ("paddle.ones([2])[5]", IndexError, "the index 5 is out of bounds in the tensor's"),
    "index_too_many": ("paddle.ones([2])[0, 0, 0]", ValueError, "too many indices (3) for a tensor of dimensi"),
    "index_text": ("paddle.ones([2])['a']", ValueError, "(InvalidArgument) a Tensor is indexed by int"),
    "setitem_wrong_shape": ("x = paddle.ones([2, 3]); x[0] = paddle.ones([5])", ValueError, "operator set_value"),
    "reshape_wrong": ("paddle.reshape(paddle.ones([2, 3]), [4])", ValueError, "operator reshape2"),
    "reshape_two_unknown": ("paddle.reshape(paddle.ones([2, 3]), [-1, -1])", ValueError, "operator reshape2"),
    "reshape_text": ("paddle.reshape(paddle.ones([2, 3]), 'a')", ValueError, "operator reshape2"),
    "transpose_wrong_perm": ("paddle.transpose(paddle.ones([2, 3]), [0, 0])", ValueError, "operator transpose2"),
    "transpose_short_perm": ("paddle.transpose(paddle.ones([2, 3]), [0])", ValueError, "operator transpose2"),
    "concat_wrong_shapes": (
        "paddle.concat([paddle.ones([2, 3]), paddle.ones([2, 4])], axis=0)",
        ValueError,
        "operator concat",
    ),
    "concat_of_tensor": ("paddle.concat(3)", ValueError, "concat: argument 'x'"),
    "stack_wrong_shapes": ("paddle.stack([paddle.ones([2]), paddle.ones([3])])", ValueError, "operator stack"),
    "split_uneven": ("paddle.split(paddle.ones([5, 2]), 2)", ValueError, "operator split"),
    "split_axis_out": (
        "paddle.split(paddle.ones([4, 2]), 2, axis=5)",
        ValueError,
        "(InvalidArgument) split: axis must be in [-2",
    ),
    "squeeze_axis_out": (
        "paddle.squeeze(paddle.ones([1, 2]), axis=7)",
        ValueError,
        "(InvalidArgument) squeeze2: axis must be in",
    ),
    "unsqueeze_axis_out": ("paddle.unsqueeze(paddle.ones([2]), axis=7)", ValueError, "operator unsqueeze2"),
    "sum_axis_out": (
        "paddle.sum(paddle.ones([2, 3]), axis=5)",
        ValueError,
        "(InvalidArgument) reduce_sum: axis must be i",
    ),
    "max_axis_out": ("paddle.max(paddle.ones([2]), axis=3)", ValueError, "reduce_max: axis must be in [-1, 1)"),
    "prod_axis_out": ("paddle.prod(paddle.ones([2]), axis=3)", ValueError, "reduce_prod: axis must be in [-1, 1)"),
    "mean_of_list": ("paddle.mean([1.0, 2.0])", ValueError, "operator reduce_mean: input 'X'"),
    "argmax_axis_out": (
        "paddle.argmax(paddle.ones([2, 3]), axis=4)",
        ValueError,
        "(InvalidArgument) arg_max: axis must be in [",
    ),
    "softmax_axis_out": (
        "F.softmax(paddle.ones([2, 3]), axis=4)",
        ValueError,
        "(InvalidArgument) softmax: axis must be in [",
    ),
    "gather_index_out": ("paddle.gather(paddle.ones([2, 3]), paddle.to_tensor([5]))", ValueError, "operator gather"),
    "gather_float_index": (
        "paddle.gather(paddle.ones([2, 3]), paddle.to_tensor([0.5]))",
        ValueError,
        "operator gather",
    ),
    "topk_too_many": ("paddle.topk(paddle.ones([3]), 5)", ValueError, "operator top_k_v2"),
    "cast_unknown": ("paddle.cast(paddle.ones([2]), 'float9')", TypeError, "data type 'float9' not understood"),
    "clip_min_text": ("paddle.clip(paddle.ones([2]), min='a')", ValueError, "could not convert string to float: 'a'"),
    "add_shapes": ("paddle.ones([2, 3]) + paddle.ones([4])", ValueError, "operator elementwise_add"),
    "add_none": ("paddle.ones([2]) + None", TypeError, "unsupported operand type(s) for +: 'paddle.T"),
    "add_fn_of_list": ("paddle.add([1.0], [2.0])", ValueError, "operator elementwise_add"),
    "matmul_shapes": ("paddle.matmul(paddle.ones([2, 3]), paddle.ones([2, 3]))", ValueError, "operator matmul_v2"),
    "compare_text": (
        "paddle.equal(paddle.ones([2]), 'a')",
        ValueError,
        "operator equal: input 'Y' must be a Tensor, got str",
    ),
    "text_alone": ("paddle.fluid.layers.brelu('x')", ValueError, "operator brelu: input 'X' must be a Tensor, got str"),
    "text_and_tensor": (
        "paddle.add('x', paddle.ones([2]))",
        ValueError,
        "operator elementwise_add: input 'X' must be a Tensor, got str",
    ),
    "text_and_named": (
        "paddle._ops.scale('scale', 2.0)",
        ValueError,
        "operator scale: input 'X' must be a Tensor, got str",
    ),
    "number_for_list": ("paddle._ops.sum(3)", ValueError, "operator sum: input 'X' must be a Tensor, got int"),
    "not_equal_list": ("paddle.ones([2]) != [1.0, 1.0]", TypeError, "not with a list"),
    "exp_of_array": ("paddle.exp(np.ones(2))", ValueError, "operator exp"),
    "backward_twice": (
        "x = paddle.ones([2]); x.stop_gradient = False; y = (x * x).sum(); y.backward(); y.backward()",
        RuntimeError,
        "operator reduce_sum",
    ),
    "backward_wrong_seed": (
        "x = paddle.ones([2]); x.stop_gradient = False; y = x * 2; y.backward(paddle.ones([3]))",
        TypeError,
        "'Tensor' object is not an instance of 'bool'",
    ),
    "grad_unused": (
        "x = paddle.ones([2]); "
        "x.stop_gradient = False; "
        "z = paddle.ones([2]); "
        "z.stop_gradient = False; "
        "paddle.grad([(x * 2).sum()], [z])",
        ValueError,
        "(InvalidArgument) input 0 of paddle.grad (sh",
    ),
    "grad_of_number": (
        "paddle.grad(3.0, paddle.ones([1]))",
        AssertionError,
        "outputs must be a Tensor or a list of Tensor",
    ),
    "in_place_saved": (
        "x = paddle.ones([2]); x.stop_gradient = False; y = x * 2; z = y * y; y[0] = 5.0; z.sum().backward()",
        RuntimeError,
        "operator elementwise_mul",
    ),
    "numpy_set_value_shape": (
        "paddle.nn.Linear(2, 3).weight.set_value(np.ones((3, 3), 'float32'))",
        AssertionError,
        "set_value: 'linear_0.w_0' has shape (2, 3), but",
    ),
    "numpy_set_value_dtype": (
        "paddle.nn.Linear(2, 3).weight.set_value(np.ones((2, 3), 'int64'))",
        AssertionError,
        "set_value: 'linear_0.w_0' has dtype float32, but",
    ),
    "linear_wrong_shape": ("paddle.nn.Linear(4, 2)(paddle.ones([3, 5]))", ValueError, "operator matmul"),
    "linear_array": ("paddle.nn.Linear(4, 2)(np.ones((3, 4), 'float32'))", ValueError, "operator matmul"),
    "linear_int": ("paddle.nn.Linear(4, 2)(paddle.ones([3, 4], 'int64'))", ValueError, "operator matmul"),
    "conv_wrong_channels": ("paddle.nn.Conv2D(3, 4, 3)(paddle.ones([1, 2, 8, 8]))", ValueError, "operator conv2d"),
    "conv_rank": ("paddle.nn.Conv2D(3, 4, 3)(paddle.ones([3, 8, 8]))", ValueError, "operator conv2d"),
    "conv_groups": ("paddle.nn.Conv2D(3, 4, 3, groups=2)", ValueError, "in_channels must be divisible by groups."),
    "conv_padding_text": (
        "paddle.nn.Conv2D(3, 4, 3, padding='other')(paddle.ones([1, 3, 8, 8]))",
        ValueError,
        "Unknown padding: 'other'. It can only be 'SA",
    ),
    "conv_too_small": ("paddle.nn.Conv2D(3, 4, 9)(paddle.ones([1, 3, 4, 4]))", ValueError, "operator conv2d"),
    "pool_data_format": (
        "F.max_pool2d(paddle.ones([1, 3, 8, 8]), 2, data_format='XYZ')",
        ValueError,
        "Attr(data_format) should be 'NCHW' or 'NHWC'",
    ),
    "bn_channels": ("paddle.nn.BatchNorm2D(3)(paddle.ones([1, 4, 2, 2]))", ValueError, "operator batch_norm"),
    "bn_rank": ("paddle.nn.BatchNorm2D(3)(paddle.ones([1, 3]))", ValueError, "expected 4D input (got 2D input)"),
    "ln_shape": (
        "paddle.nn.LayerNorm(4)(paddle.ones([2, 5]))",
        ValueError,
        "Given normalized_shape is [4], expected inpu",
    ),
    "embedding_out": ("paddle.nn.Embedding(4, 2)(paddle.to_tensor([9]))", ValueError, "operator lookup_table_v2"),
    "embedding_float": ("paddle.nn.Embedding(4, 2)(paddle.ones([2]))", ValueError, "operator lookup_table_v2"),
    "embedding_pad": ("paddle.nn.Embedding(4, 2, padding_idx=7)", ValueError, "padding_idx must be within [-4, 4)"),
    "dropout_p": ("F.dropout(paddle.ones([2]), p=1.5)", ValueError, "dropout: p must be in [0, 1]"),
    "dropout_mode": (
        "F.dropout(paddle.ones([2]), mode='other')",
        ValueError,
        "dropout: mode must be 'downscale_in_infer' or",
    ),
    "sequential_call": ("paddle.nn.Sequential(3)", AssertionError, "sublayer should be a Layer, but received int"),
    "layer_no_forward": (
        "paddle.nn.Layer()(paddle.ones([1]))",
        NotImplementedError,
        "'forward' not implement in class Layer",
    ),
    "layer_no_super": (
        "type('A', (paddle.nn.Layer,), {'__init__': lambda s: setattr(s, 'w', paddle.nn.Linear(2, 2))})()",
        ValueError,
        "super(YourLayer, self).__init__() should be",
    ),
    "layer_attr": ("paddle.nn.Linear(2, 2).nothing", AttributeError, "'Linear' object has no attribute 'nothing'"),
    "add_parameter_type": (
        "paddle.nn.Layer().add_parameter('a', 3)",
        TypeError,
        "add_parameter: the value should be a Parameter,",
    ),
    "add_sublayer_type": (
        "paddle.nn.Layer().add_sublayer('a', 3)",
        AssertionError,
        "sublayer should be a Layer, but received int",
    ),
    "state_dict_shape": (
        "strict(); paddle.nn.Linear(2, 3).set_state_dict(paddle.nn.Linear(3, 3).state_dict())",
        UserWarning,
        "Skip loading for weight. weight receives a s",
    ),
    "state_dict_key": (
        "strict(); paddle.nn.Linear(2, 3).set_state_dict({'w': paddle.ones([2])})",
        UserWarning,
        "Skip loading for weight. 'weight' is not in the",
    ),
    "ce_label_out": (
        "F.cross_entropy(paddle.ones([2, 3]), paddle.to_tensor([1, 7]))",
        IndexError,
        "operator softmax_with_cross_entropy",
    ),
    "ce_label_float": (
        "F.cross_entropy(paddle.ones([2, 3]), paddle.ones([2]))",
        ValueError,
        "operator softmax_with_cross_entropy",
    ),
    "ce_shape": (
        "F.cross_entropy(paddle.ones([2, 3]), paddle.to_tensor([1, 0, 2]))",
        ValueError,
        "operator softmax_with_cross_entropy",
    ),
    "mse_shape": ("F.mse_loss(paddle.ones([2, 3]), paddle.ones([4]))", ValueError, "operator elementwise_sub"),
    "opt_no_params": (
        "paddle.optimizer.SGD(0.1)",
        AttributeError,
        "parameters must be given to an Optimizer in dygraph",
    ),
    "opt_param_tensor": (
        "paddle.optimizer.SGD(0.1, parameters=paddle.ones([2]))",
        TypeError,
        "`parameters` should be a list of Tensors, bu",
    ),
    "opt_lr_text": (
        "paddle.optimizer.SGD('a', parameters=[paddle.nn.Linear(2, 2).weight])",
        TypeError,
        "learning_rate must be a float or an LRScheduler,",
    ),
    "opt_lr_none": ("paddle.optimizer.Adam(None, parameters=params())", ValueError, "learning_rate is not set"),
    "adam_beta": (
        "paddle.optimizer.Adam(0.1, beta1=2.0, parameters=params())",
        ValueError,
        "Invaild value of beta1, expect beta1 in [0,1",
    ),
    "set_lr_scheduler": (
        "o = paddle.optimizer.SGD(paddle.optimizer.lr.StepDecay(0.1, 3), parameters=params()); o.set_lr(0.2)",
        RuntimeError,
        "set_lr: the learning rate is an LRScheduler,",
    ),
    "step_decay_size": (
        "paddle.optimizer.lr.StepDecay(0.1, '3')",
        TypeError,
        "StepDecay: step_size must be an int, got",
    ),
    "clip_type": (
        "paddle.optimizer.SGD(0.1, parameters=params(), grad_clip=3)",
        TypeError,
        "grad_clip must be of a class that derives from",
    ),
    "opt_state_key": (
        "o = paddle.optimizer.Adam(0.1, parameters=params()); o.set_state_dict({'a': 1}); o.minimize(3)",
        AssertionError,
        "The loss should be an Tensor.",
    ),
    "loader_batch_zero": (
        "paddle.io.DataLoader(paddle.io.TensorDataset([paddle.ones([4])]), batch_size=0)",
        AssertionError,
        "DataLoader: batch_size must be positive, or None",
    ),
    "loader_workers": (
        "paddle.io.DataLoader(paddle.io.TensorDataset([paddle.ones([4])]), num_workers=-1)",
        AssertionError,
        "num_workers should be a non-negative value",
    ),
    "loader_shuffle_iterable": (
        "paddle.io.DataLoader(type('D', (paddle.io.IterableDataset,), {'__iter__': lambda s: iter([1])})(), "
        "shuffle=True)",
        ValueError,
        "IterableDataset not support shuffle, but got",
    ),
    "loader_sampler_and_batch": (
        "d = paddle.io.TensorDataset([paddle.ones([4])]); "
        "paddle.io.DataLoader(d, batch_sampler=paddle.io.BatchSampler(dataset=d), batch_size=3)",
        AssertionError,
        "DataLoader: batch_size, shuffle and drop_last",
    ),
    "tensor_dataset_len": (
        "paddle.io.TensorDataset([paddle.ones([4]), paddle.ones([5])])",
        AssertionError,
        "TensorDataset: the tensors differ in their first",
    ),
    "random_split_len": (
        "paddle.io.random_split(paddle.io.TensorDataset([paddle.ones([4])]), [1, 2])",
        ValueError,
        "random_split: the lengths do not add up to the",
    ),
    "device_name": ("paddle.set_device('tpu')", ValueError, "set_device: device must be 'cpu', 'gpu',"),
    "device_gpu": ("paddle.set_device('gpu:0')", ValueError, "The device should not be 'gpu:0', since no C"),
    "seed_text": ("paddle.seed('a')", ValueError, "invalid literal for int() with base"),
    "default_dtype": ("paddle.set_default_dtype('int32')", TypeError, "set_default_dtype: d must be float16"),
    "randint_range": ("paddle.randint(5, 2, [3])", ValueError, "randint: low must be below high, got 5 and 2"),
    "all_reduce_type": (
        "paddle.distributed.all_reduce('x')",
        TypeError,
        "The type of 'tensor' in all_reduce must be Tensor",
    ),
    "all_gather_type": (
        "paddle.distributed.all_gather([], 'x')",
        TypeError,
        "The type of 'tensor' in all_gather must be Tensor",
    ),
    "randperm_neg": ("paddle.randperm(-1)", ValueError, "randperm: n must be positive"),
    "uniform_shape": ("paddle.uniform([2, 'a'])", ValueError, "invalid literal for int() with base"),
    "missing_feed": (NET + RUN + "exe.run(main, fetch_list=[loss])", RuntimeError, "no data was fed for x"),
    "feed_wrong_shape": (
        NET + RUN + "exe.run(main, feed={'x': np.ones((3, 5), 'float32')}, fetch_list=[loss])",
        ValueError,
        "The fed Variable 'x' should have dimensions",
    ),
    "feed_wrong_dtype": (
        NET + RUN + "exe.run(main, feed={'x': np.ones((3, 4), 'int64')}, fetch_list=[loss])",
        ValueError,
        "The data type of fed Variable 'x' must be 'f",
    ),
    "feed_list": (
        NET + RUN + "exe.run(main, feed={'x': [[1, 2], [3]]}, fetch_list=[loss])",
        TypeError,
        "feed: the data is no array: it holds nested lists",
    ),
    "feed_not_dict": (
        NET + RUN + "exe.run(main, feed=one, fetch_list=[loss])",
        TypeError,
        "run: feed must be a dict, got",
    ),
    "fetch_unknown": (
        NET + RUN + "exe.run(main, feed={'x': one}, fetch_list=['nothing'])",
        RuntimeError,
        "operator of",
    ),
    "fetch_number": (
        NET + RUN + "exe.run(main, feed={'x': one}, fetch_list=[3])",
        TypeError,
        "run: fetch_list must hold names, Variables or",
    ),
    "run_without_startup": (
        NET + "\nwith st.scope_guard(st.Scope()):\n    "
        "st.Executor(paddle.CPUPlace()).run(main, feed={'x': np.ones((3, 4), 'float32')}, fetch_list=[loss])",
        RuntimeError,
        "the startup program has not been run",
    ),
    "run_no_program": (NET + RUN + "exe.run(3)", TypeError, "run: program must be a Program, got"),
    "data_twice_used": (STATIC + "st.data('x', 'ab')", TypeError, "The type of 'shape' in data must be ("),
    "fc_of_number": (STATIC + "st.nn.fc(3, 2)", TypeError, "The type of 'input' in fc must be ("),
    "op_other_mode": (NET + "paddle.disable_static(); paddle.mean(loss)", ValueError, "operator reduce_mean"),
    "dygraph_tensor_in_static": (
        "t = paddle.ones([2])\npaddle.enable_static(); "
        "st = paddle.static; "
        "main, startup = st.Program(), st.Program()\nwith st.program_guard(main, startup):\n    paddle.mean(t)",
        TypeError,
        "Please use `with fluid.dygraph.guard()` arou",
    ),
    "static_backward_twice": (
        NET + "with st.program_guard(main, startup):\n    paddle.optimizer.SGD(0.1).minimize(y)",
        AssertionError,
        "minimize: loss must have one element",
    ),
    "numpy_of_variable": (NET + "loss.numpy()", NoValueError, "'numpy' should be called by imperative Varia"),
    "unknown_op": (
        NET + "main.global_block().append_op(type='no_such_op', inputs={}, outputs={})",
        ValueError,
        '"no_such_op" has not been registered',
    ),
    "unknown_var": (NET + "main.global_block().var('nope')", ValueError, "the block has no variable 'nope'"),
    "load_inference_missing": (
        NET + RUN + "st.load_inference_model('/nonexistent/m', exe)",
        FileNotFoundError,
        "[Errno 2] No such file or directory: '/nonex",
    ),
    "load_program_missing": (NET + "st.load(main, '/nonexistent/m')", ValueError, ".pdparams"),
    "parse_program": (
        NET + "st.Program.parse_from_string(b'garbage')",
        ValueError,
        "(InvalidArgument) a protobuf message has a f",
    ),
    "parse_none": (NET + "st.Program.parse_from_string(None)", TypeError, "a Program is read from bytes"),
    "lod_past_the_end": (
        "t = paddle.fluid.core.LoDTensor(); t.set(np.ones((4, 2), 'float32'), paddle.CPUPlace()); t.set_lod([[0, 9]])",
        ValueError,
        "does not fit a tensor of 4 rows",
    ),
    "cond_types": (
        STATIC + "with st.program_guard(main, startup):\n    st.nn.cond(3, None, None)",
        TypeError,
        "The type of 'pred' in fluid.layers.cond must",
    ),
    "while_cond_type": (
        STATIC + "with st.program_guard(main, startup):\n    st.nn.while_loop(3, None, [])",
        TypeError,
        "cond in while_loop should be callable",
    ),
    "guard_type": (
        "paddle.enable_static()\nwith paddle.static.program_guard(3): pass",
        TypeError,
        "The type of 'main_program' in paddle.static.",
    ),
    "data_in_dygraph_program": (
        STATIC + "with st.program_guard(main, startup):\n    st.data('x', [-1, 4], dtype='float5')",
        TypeError,
        "data type 'float5' not understood",
    ),
    "compiled_wrong": (STATIC + "st.CompiledProgram(3)", TypeError, "CompiledProgram: a Graph or a Program is"),
    "executor_place": (
        "paddle.enable_static(); paddle.static.Executor('abc')",
        ValueError,
        "place must be 'cpu', 'gpu', 'gpu:<id>', 'gpu",
    ),
    "static_stack_shapes": (
        STATIC + "with st.program_guard(main, startup):\n"
        "    paddle.stack([st.data('x', [4, 3]), st.data('y', [4, 4])])",
        ValueError,
        "operator stack: all inputs must have one shape",
    ),
    "to_variable_in_static": (
        STATIC + "paddle.fluid.dygraph.to_variable(np.ones(2))",
        AssertionError,
        "'to_variable()' works in dynamic graph mode only",
    ),
    "fluid_data_append": (
        STATIC + "with st.program_guard(main, startup):\n    st.create_parameter([2], 'int5')",
        TypeError,
        "dtype must be any of [bool, float",
    ),
    "conv_kernel_of_0": ("paddle.nn.Conv2D(3, 4, 0)", ValueError, "Conv: kernel_size must be positive, got 0"),
    "cell_of_0": ("paddle.nn.LSTM(3, 0)", ValueError, "LSTMCell: hidden_size must be positive, got 0"),
    "heads_of_0": ("paddle.nn.MultiHeadAttention(8, 0)", ValueError, "num_heads must be positive, got 0"),
    "embedding_of_0": ("paddle.nn.Embedding(3, 0)", ValueError, "Embedding: embedding_dim must be positive, got 0"),
    "noam_of_0": ("paddle.optimizer.lr.NoamDecay(0, 3)", ValueError, "d_model must be positive, got 0"),
    "polynomial_of_0": (
        "paddle.optimizer.lr.PolynomialDecay(0.1, 0)",
        ValueError,
        "decay_steps must be positive, got 0",
    ),
    "steps_of_0": ("paddle.optimizer.lr.StepDecay(0.1, 0)", ValueError, "step_size must be positive, got 0"),
}


@pytest.fixture(autouse=True)
def dygraph():
    with paddle.fluid.unique_name.guard(), warnings.catch_warnings():
        yield
    paddle.disable_static()


@pytest.mark.filterwarnings("ignore:a batch norm that trains always updates")
@pytest.mark.parametrize("name", TABLE)
def test_invalid_call(name):
    code, kind, words = TABLE[name]
    names = {
        "paddle": paddle,
        "np": np,
        "F": paddle.nn.functional,
        "params": lambda: paddle.nn.Linear(2, 2).parameters(),
        "strict": lambda: warnings.simplefilter("error"),
    }
    with pytest.raises(kind) as caught:
        exec(code, names)
    assert type(caught.value) in (kind, paddle.fluid.core.EnforceNotMet)
    assert words in str(caught.value)


class Raises(paddle.io.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return 1 / (i - 2)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_that_raises(workers):
    loader = paddle.io.DataLoader(Raises(), places=paddle.CPUPlace(), num_workers=workers)
    with pytest.raises((ZeroDivisionError, RuntimeError), match="division by zero"):
        list(loader)


@pytest.mark.filterwarnings("ignore:.*the state dict has no entry")
def test_files(tmp_path):
    missing = str(tmp_path / "nothing.pdparams")
    with pytest.raises(ValueError, match="nothing.pdparams"):
        paddle.load(missing)
    for content in (b"", b"garbage", pickle.dumps(print)):
        path = tmp_path / "x.pdparams"
        path.write_bytes(content)
        with pytest.raises((pickle.UnpicklingError, EOFError), match="x.pdparams"):
            paddle.load(str(path))
    with pytest.raises(ValueError, match="filename is empty"):
        paddle.save({}, str(tmp_path) + "/")


def test_errors_name_uninitialized_variables():
    names = {"paddle": paddle, "np": np}
    with pytest.raises(RuntimeError, match="no data was fed for x"):
        exec(NET + RUN + "exe.run(main, fetch_list=[loss])", names)
    with pytest.raises(RuntimeError, match=r"startup program has not been run in this scope for .*w_0"):
        exec(
            NET + "with st.scope_guard(st.Scope()):\n    "
            "st.Executor().run(main, feed={'x': np.ones((3, 4), 'float32')}, fetch_list=[loss])",
            names,
        )
