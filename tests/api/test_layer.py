"""paddle.nn.Layer: members, names, hooks, state; and the containers."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

pytest.importorskip("paddle._core")

import paddle  # noqa: E402
from paddle._basics import unique_name  # noqa: E402
from paddle.nn.layer.container import LayerList, ParameterList, Sequential  # noqa: E402
from paddle.nn.layer.layers import Layer  # noqa: E402


class Scale(Layer):
    """Multiplies by a weight of ones, adds a bias of zeros."""

    def __init__(self, width=2, name_scope=None):
        super().__init__(name_scope)
        self.weight = self.create_parameter([width], default_initializer=paddle.nn.initializer.Constant(1.0))
        self.bias = self.create_parameter([width], is_bias=True)

    def forward(self, x):
        return x * self.weight + self.bias

    def extra_repr(self):
        return f"width={self.weight.shape[0]}"


class Net(Layer):
    def __init__(self):
        super().__init__()
        self.first = Scale()
        self.block = Sequential(Scale(), Scale())
        self.register_buffer("seen", paddle.to_tensor(np.zeros(1, "float32")))
        self.register_buffer("scratch", paddle.to_tensor(np.zeros(1, "float32")), persistable=False)

    def forward(self, x):
        return self.block(self.first(x))


def x():
    return paddle.to_tensor(np.ones([3, 2], "float32"))


def names(pairs):
    return [name for name, _ in pairs]


def test_names():
    with unique_name.guard():
        net = Net()
        assert net.full_name() == "net_0" and net.first.full_name() == "scale_0"
        assert net.block.full_name() == "sequential_0"
        assert [p.name for p in net.parameters()][:4] == ["scale_0.w_0", "scale_0.b_0", "scale_1.w_0", "scale_1.b_0"]
        assert Scale(name_scope="demo").weight.name == "demo_0.w_0"
        assert Net().full_name() == "net_1"

        class BatchNorm2DLike(Layer):
            pass

        assert BatchNorm2DLike().full_name() == "batch_norm2d_like_0"


def test_members():
    net = Net()
    parameters = [f"{layer}.{kind}" for layer in ("first", "block.0", "block.1") for kind in ("weight", "bias")]
    assert names(net.named_parameters()) == parameters
    assert names(net.named_parameters(include_sublayers=False)) == []
    assert names(net.named_parameters(prefix="net"))[0] == "net.first.weight"
    assert names(net.named_sublayers()) == ["first", "block", "block.0", "block.1"]
    assert names(net.named_sublayers(include_self=True, prefix="p")) == [
        "p",
        "p.first",
        "p.block",
        "p.block.0",
        "p.block.1",
    ]
    assert names(net.named_children()) == ["first", "block"] and list(net.children()) == [net.first, net.block]
    assert net.sublayers() == [net.first, net.block, net.block[0], net.block[1]]
    assert net.sublayers(include_sublayers=False) == []
    assert names(net.named_buffers()) == ["seen", "scratch"] and len(net.buffers()) == 2
    net.again = net.first  # shared: counted once
    assert len(net.parameters()) == 6 and len(net.sublayers()) == 4
    assert {"first", "seen", "_parameters", "forward"} <= set(dir(net)) and "weight" in dir(net.first)


def test_attributes():
    net = Net()
    weight = net.first.weight
    with pytest.raises(TypeError, match="parameter 'weight' should be of type Parameter"):
        net.first.weight = 3
    net.first.weight = None
    assert net.first.weight is None and names(net.first.named_parameters()) == ["bias"]
    net.first.weight = weight
    assert net.first.weight is weight
    with pytest.raises(TypeError, match="sublayer 'first'"):
        net.first = 3
    net.first = None
    assert net.first is None and names(net.named_children()) == ["block"]
    with pytest.raises(TypeError, match="buffers 'seen'"):
        net.seen = 3
    net.seen = None
    assert net.seen is None
    net.value = 3
    net.value = Scale()  # an attribute becomes a sublayer, a parameter, a buffer
    assert "value" in net._sub_layers and "value" not in net.__dict__
    net.value = weight
    assert "value" in net._parameters and "value" not in net._sub_layers
    del net.value
    with pytest.raises(AttributeError, match="value"):
        net.value  # noqa: B018
    net.late = x()
    assert "late" in net._buffers and "late" not in net.state_dict()
    del net.late, net.block
    assert not hasattr(net, "late") and not hasattr(net, "block")
    with pytest.raises(AttributeError):
        del net.nothing


def test_property_error_is_the_property_s():
    class Odd(Layer):
        @property
        def broken(self):
            return self.missing_inside

    with pytest.raises(AttributeError, match="missing_inside"):
        Odd().broken  # noqa: B018


def test_before_init():
    class Early(Layer):
        def __init__(self):
            self.child = Scale()

    with pytest.raises(ValueError, match="should be called first"):
        Early()

    class Never(Layer):
        def __init__(self):
            pass

    for use in (Never(), lambda x: Never().parameters(), lambda x: Never().state_dict()):
        with pytest.raises(AttributeError, match=r"has not called super\(\).__init__"):
            use(3)

    class EarlyBuffer(Layer):
        def __init__(self):
            self.register_buffer("b", None)

    with pytest.raises(ValueError, match="should be called first"):
        EarlyBuffer()


@pytest.mark.parametrize(("name", "error"), [(3, TypeError), ("a.b", KeyError), ("", KeyError), ("forward", KeyError)])
def test_bad_names(name, error):
    layer = Scale()
    with pytest.raises(error):
        layer.add_parameter(name, layer.weight)
    with pytest.raises(error):
        layer.register_buffer(name, x())


def test_bad_members():
    layer = Scale()
    with pytest.raises(TypeError, match="should be a Parameter"):
        layer.add_parameter("p", x())
    with pytest.raises(TypeError, match=r"core\.VarBase"):
        layer.register_buffer("p", 3)
    with pytest.raises(AssertionError):
        layer.add_sublayer("p", 3)
    assert layer.add_parameter("p", None) is None and layer.p is None
    assert layer.create_parameter([2], attr=False) is None
    with pytest.raises(ValueError, match="backward"):
        layer.backward()
    with pytest.raises(NotImplementedError, match="forward"):
        Layer()(x())


def test_hooks():
    layer, calls = Scale(), []
    pre = layer.register_forward_pre_hook(lambda layer, inputs: calls.append(len(inputs)))
    double = layer.register_forward_pre_hook(lambda layer, inputs: inputs[0] * 2)
    post = layer.register_forward_post_hook(lambda layer, inputs, out: out + 1)
    np.testing.assert_array_equal(layer(x()).numpy(), np.full([3, 2], 3.0))
    double.remove()
    double.remove()
    np.testing.assert_array_equal(layer(x()).numpy(), np.full([3, 2], 2.0))
    post.remove()
    pre.remove()
    np.testing.assert_array_equal(layer(x()).numpy(), np.ones([3, 2]))
    assert calls == [1, 1]

    once = Scale()
    handle = once.register_forward_post_hook(lambda *_: handle.remove())  # from within a call
    once(x())
    reference = weakref.ref(once)
    del once
    gc.collect()
    assert reference() is None
    handle.remove()


def test_train_eval_apply():
    class Special(Scale):
        def train(self):
            super().train()
            self.woken = True

    net = Net()
    net.block[1] = Special()
    net.eval()
    assert not any(layer.training for layer in [net, *net.sublayers()])
    net.train()
    assert all(layer.training for layer in [net, *net.sublayers()]) and net.block[1].woken
    order = []
    assert net.apply(lambda layer: order.append(type(layer).__name__)) is net
    assert order == ["Scale", "Scale", "Special", "Sequential", "Net"]


def test_repr():
    assert repr(Net()) == (
        "Net(\n  (first): Scale(width=2)\n  (block): Sequential(\n    (0): Scale(width=2)\n    (1): Scale(width=2)\n"
        "  )\n)"
    )
    assert repr(Layer()) == "Layer()"


def test_state():
    net, other = Net(), Net()
    state = net.state_dict()
    assert list(state) == [*names(net.named_parameters())[:0], "seen", *names(net.named_parameters())]
    assert state["first.weight"] is net.first.weight
    assert list(net.state_dict(structured_name_prefix="m."))[0] == "m.seen"
    assert list(net.state_dict(include_sublayers=False)) == ["seen"]
    mine = {}
    assert net.state_dict(destination=mine) is mine and len(mine) == 7

    state["first.weight"].set_value(np.float32([5, 6]))
    other.set_state_dict({key: value.numpy() for key, value in state.items()})
    np.testing.assert_array_equal(other.first.weight.numpy(), [5, 6])
    third = Net()
    third.set_dict(state)
    np.testing.assert_array_equal(third.first.weight.numpy(), [5, 6])
    third.load_dict(
        {p.name: np.float32([7, 8]) for p in third.parameters()} | {third.seen.name: np.ones(1, "float32")},
        use_structured_name=False,
    )
    np.testing.assert_array_equal(third.block[1].bias.numpy(), [7, 8])
    with pytest.warns(UserWarning, match="first.weight.*not in the state dict"):
        third.set_state_dict({key: value for key, value in state.items() if key != "first.weight"})
    with pytest.warns(UserWarning, match=r"receives a shape \[3\], but the expected shape is \[2\]"):
        third.set_state_dict(dict(state, **{"first.bias": np.zeros(3, "float32")}))
    with pytest.warns(DeprecationWarning, match="stat_dict"):
        third.set_state_dict(stat_dict=state)


def test_clear_gradients_and_deprecated():
    layer = Scale()
    layer.bias.trainable = False
    layer.clear_gradients()
    with pytest.warns(DeprecationWarning, match="create_tensor"):
        made = layer.create_variable(name="out")
    assert made.name == f"{layer.full_name()}.out"
    assert layer.create_tensor().name.startswith(f"{layer.full_name()}._generated_var")


def test_copies():
    net = Net()
    copied = copy.deepcopy(net)
    assert copied.first.weight is not net.first.weight and names(copied.named_parameters()) == names(
        net.named_parameters()
    )
    net.first.weight.set_value(np.float32([3, 4]))
    np.testing.assert_array_equal(copied.first.weight.numpy(), [1, 1])
    again = pickle.loads(pickle.dumps(net))
    np.testing.assert_array_equal(again.first.weight.numpy(), [3, 4])
    assert names(again.named_sublayers()) == names(net.named_sublayers())


def test_sequential():
    layers = [Scale() for _ in range(4)]
    net = Sequential(*layers)
    assert len(net) == 4 and net[0] is layers[0] and net[-1] is layers[3] and list(net) == layers
    assert isinstance(net[1:3], Sequential) and net[1:3][0] is layers[1]
    for bad in (4, -5):
        with pytest.raises(IndexError):
            net[bad]
    net[1] = layers[3]
    del net[3]
    assert net[1] is layers[3] and len(net) == 3
    with pytest.raises(AssertionError):
        del net[7]
    with pytest.raises(AssertionError):
        net[0] = 3
    named = Sequential(("a", layers[0]), ("b", layers[1]))
    assert named.a is layers[0] and named["b"] is layers[1] and named[1] is layers[1]
    np.testing.assert_array_equal(named(x()).numpy(), np.ones([3, 2]))


def test_layer_list():
    layers = [Scale() for _ in range(4)]
    box = LayerList(layers[:2])
    assert box.append(layers[2]) is box and box.extend([layers[3]]) is box
    assert list(box) == layers and len(box) == 4 and box[3] is layers[3] and list(box[::2]) == layers[::2]
    extra = Scale()
    box.insert(1, extra)
    assert list(box) == [layers[0], extra, *layers[1:]] and list(box._sub_layers) == ["0", "1", "2", "3", "4"]
    with pytest.raises(AssertionError):
        box.insert(9, extra)
    del box[1]
    assert list(box) == layers
    box[0] = extra
    del box[1:3]
    assert list(box) == [extra, layers[3]] and list(box._sub_layers) == ["0", "1"]
    with pytest.raises(KeyError):
        box[5]
    assert len(box.parameters()) == 4


def test_parameter_list():
    maker = Layer()
    params = [maker.create_parameter([2]) for _ in range(3)]
    box = ParameterList(params[:2])
    assert box.append(params[2]) is box and list(box) == params and len(box) == 3 and box[1] is params[1]
    box[0] = params[2]
    assert box[0] is params[2]
    with pytest.raises(AssertionError):
        box[0] = 3
    with pytest.raises(AssertionError):
        ParameterList([3])
