"""paddle.Model in both modes: equal training curves, files readable in either mode, errors."""

import io
import warnings

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.hapi.progressbar import ProgressBar
from paddle.metric import Accuracy
from paddle.static import InputSpec

RANDOM = np.random.RandomState(0)
X = RANDOM.rand(40, 20).astype("float32")
Y = (X.sum(1) % 10).astype("int64").reshape(-1, 1)


class Samples(paddle.io.Dataset):
    def __init__(self, *fields):
        super().__init__()
        self.fields = fields or (X, Y)

    def __getitem__(self, index):
        return tuple(f[index] for f in self.fields)

    def __len__(self):
        return len(self.fields[0])


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(20, 16)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(16, 10)

    def forward(self, x):
        return self.out(self.drop(nn.functional.relu(self.fc(x))))


@pytest.fixture(params=["dygraph", "static"])
def mode(request):
    if request.param == "static":
        paddle.enable_static()
    static = paddle.static
    with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
        with paddle.utils.unique_name.guard():
            yield request.param
    paddle.disable_static()


def made(rate=0.01, prepared=True, metrics=True):
    paddle.seed(7)
    np.random.seed(7)
    net = Net()
    model = paddle.Model(net, InputSpec([None, 20], "float32", "x"), InputSpec([None, 1], "int64", "label"))
    if prepared:
        adam = paddle.optimizer.Adam(rate, parameters=net.parameters())
        model.prepare(adam, nn.CrossEntropyLoss(), Accuracy() if metrics else None)
        if not paddle.in_dynamic_mode():
            # Startup Programs draw the weights of the first layer last.
            for p, value in zip(net.parameters(), WEIGHTS, strict=True):
                paddle.static.global_scope().find_var(p.name).get_tensor().set(value, paddle.CPUPlace())
    return model


def by_hand(epochs, batch):
    """Initial weights, losses and last outputs of the same training, written out."""
    paddle.seed(7)
    np.random.seed(7)
    net = Net()
    weights = [p.numpy() for p in net.parameters()]
    adam = paddle.optimizer.Adam(0.01, parameters=net.parameters())
    losses = []
    for _ in range(epochs):
        for begin in range(0, len(X), batch):
            x, y = paddle.to_tensor(X[begin : begin + batch]), paddle.to_tensor(Y[begin : begin + batch])
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            adam.step()
            adam.clear_grad()
            losses.append(loss.numpy().item())
    net.eval()
    return weights, losses, net(paddle.to_tensor(X)).numpy()


class Losses(paddle.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, step, logs=None):
        self.seen.append(float(logs["loss"][0]))


WEIGHTS, LOSSES, OUTPUTS = by_hand(2, 16)


def test_fit_equals_manual_training(mode):
    model, losses = made(), Losses()
    model.fit(Samples(), batch_size=16, epochs=2, shuffle=False, verbose=0, callbacks=losses)
    np.testing.assert_allclose(losses.seen, LOSSES, rtol=1e-5)
    (outputs,) = model.predict(Samples(X), batch_size=16, stack_outputs=True)
    np.testing.assert_allclose(outputs, OUTPUTS, rtol=1e-4, atol=1e-5)
    result = model.evaluate(Samples(), batch_size=16, verbose=0)
    assert result["acc"] == pytest.approx((OUTPUTS.argmax(1) == Y[:, 0]).mean())
    assert set(result) == {"loss", "acc"}


def test_predict_returns_the_batches(mode):
    model = made()
    batches = model.predict(Samples(), batch_size=16)[0]
    assert [b.shape for b in batches] == [(16, 10), (16, 10), (8, 10)]


def test_batches(mode):
    model = made(metrics=False)
    (loss,) = model.train_batch([X], [Y])
    assert loss.shape == (1,)
    (loss,) = model.eval_batch([X], [Y])
    assert loss.shape == (1,)
    model.prepare(metrics=Accuracy())
    (accuracy,) = model.eval_batch([X], [Y])
    assert 0 <= accuracy <= 1
    model.prepare()
    (out,) = model.predict_batch([X])
    assert out.shape == (40, 10)
    with pytest.raises(AssertionError, match="prepare"):
        model.train_batch([X], [Y])


def test_loaders_and_iterators(mode):
    model, losses = made(), Losses()
    loader = paddle.io.DataLoader(Samples(), batch_size=16, return_list=True)
    model.fit(loader, epochs=1, verbose=0, callbacks=losses)
    np.testing.assert_allclose(losses.seen, LOSSES[:3], rtol=1e-5)

    class Apart:
        """Inputs and labels in separate lists, without a length."""

        def __iter__(self):
            for begin in range(0, 32, 16):
                yield [X[begin : begin + 16]], [Y[begin : begin + 16]]

    model.fit(Apart(), epochs=1, verbose=2, callbacks=losses)
    assert len(losses.seen) == 5


def test_files_are_readable_in_the_other_mode(tmp_path):
    path = str(tmp_path / "made" / "model")
    static = paddle.static
    model = made()
    model.fit(Samples(), batch_size=16, shuffle=False, verbose=0)
    model.save(path)
    paddle.seed(3)
    (following,), _ = model.train_batch([X], [Y])

    paddle.enable_static()
    try:
        with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
            other = made()
            other.load(path)
            other.save(path + "_static")
            paddle.seed(3)
            np.testing.assert_allclose(other.train_batch([X], [Y])[0], [following], rtol=1e-5)
    finally:
        paddle.disable_static()
    again = made()
    again.load(path + "_static.pdparams")
    paddle.seed(3)
    np.testing.assert_allclose(again.train_batch([X], [Y])[0], [following], rtol=1e-5)
    assert sorted(p.name for p in (tmp_path / "made").iterdir()) == [
        "model.pdopt",
        "model.pdparams",
        "model_static.pdopt",
        "model_static.pdparams",
    ]


@pytest.mark.filterwarnings("ignore:Skip loading for")
def test_load_reports_mismatches(tmp_path):
    path = str(tmp_path / "model")
    model = made()
    model.save(path)
    state = paddle.load(path + ".pdparams")
    state["out.weight"] = np.zeros([16, 9], "float32")
    del state["out.bias"]
    paddle.save(state, path + ".pdparams")
    with pytest.raises(ValueError, match=r"out.weight receives a shape \[16, 9\], but the expected .* \[16, 10\]"):
        model.load(path)
    before = model.network.out.weight.numpy()
    with pytest.warns(UserWarning, match="Skip loading for out.bias. out.bias is not found"):
        model.load(path, skip_mismatch=True)
    np.testing.assert_array_equal(model.network.out.weight.numpy(), before)
    with pytest.raises(AssertionError, match="Failed to load parameters"):
        model.load(str(tmp_path / "nothing"))


def test_inference_model(mode, tmp_path):
    model = made(prepared=False)
    model.prepare()
    model.save(str(tmp_path / "net"), training=False)
    (expected,) = model.predict_batch([X])
    paddle.enable_static()
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor = paddle.static.Executor()
        program, feeds, fetches = paddle.static.load_inference_model(str(tmp_path / "net"), executor)
        assert program.global_block().var(feeds[0]).shape == (-1, 20)
        (found,) = executor.run(program, feed={feeds[0]: X[:7]}, fetch_list=fetches)
    np.testing.assert_allclose(found, expected[:7], rtol=1e-5, atol=1e-6)
    if mode == "dygraph":
        paddle.disable_static()
        assert isinstance(model.network.fc.weight, paddle.Tensor) and model.network.training is False


def test_inputs_inferred_from_a_batch(tmp_path):
    model = paddle.Model(Net())
    model.prepare()
    with pytest.raises(RuntimeError, match="needs 'inputs' or running before saving"):
        model.save(str(tmp_path / "net"), training=False)
    model.predict_batch([X[:3]])
    with pytest.warns(UserWarning, match=r"\[\[3, 20\]\]"):
        model.save(str(tmp_path / "net"), training=False)
    assert (tmp_path / "net.pdmodel").exists()


def test_errors(mode, tmp_path):
    with pytest.raises(ValueError, match="Input\\[0\\] has none"):
        paddle.Model(Net(), [InputSpec([None, 20], "float32")])
    if mode == "static":
        with pytest.raises(TypeError, match="static mode requires inputs"):
            paddle.Model(Net())
    model = made(prepared=False)
    with pytest.raises(TypeError, match="'loss' must be a Layer"):
        model.prepare(loss=3)
    with pytest.raises(AssertionError, match="int is not sub class of Metric"):
        model.prepare(metrics=[3])
    with pytest.raises(ValueError, match="path"):
        model.save("")
    with pytest.raises(AssertionError, match="train_data must be given"):
        model.fit()


def test_forward_with_variable_arguments():
    class Any(nn.Layer):
        def forward(self, *inputs):
            return inputs[0]

    model = paddle.Model(Any())
    model.prepare(loss=nn.CrossEntropyLoss())
    assert model.predict(Samples(X), batch_size=40)[0][0].shape == (40, 20)
    with pytest.raises(ValueError, match="do not determine how many"):
        model.evaluate(Samples(), verbose=0)


def test_two_losses_are_summed(mode):
    def both(out, label):
        loss = nn.functional.cross_entropy(out, label)
        return [loss, loss * 0.5]

    model = made(prepared=False)
    model.prepare(paddle.optimizer.SGD(0.1, parameters=model.parameters()), both)
    first, second = model.train_batch([X], [Y])
    np.testing.assert_allclose(second, first * 0.5, rtol=1e-6)


# ------------------------------------------------------------------------------------------ printed output


def test_lines(capsys):
    made().fit(Samples(), batch_size=16, epochs=1, shuffle=False, log_freq=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("The loss value printed in the log is the current step")
    assert lines[1] == "Epoch 1/1"
    assert lines[2].startswith("step 2/3 - loss: 2.") and lines[2].endswith("/step") and " - acc: " in lines[2]
    assert lines[3].startswith("step 3/3 - loss: ") and len(lines) == 4


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bar_on_a_terminal_is_overwritten():
    out = Terminal()
    bar = ProgressBar(num=4, file=out, width=8)
    bar.update(2, [("loss", 0.5), ("acc", [1e-5, 3])])
    first = out.getvalue()
    assert first.startswith("\rstep 2/4 [") and " - loss: 0.5000 - acc: 1.0000e-05 3 - ETA: 0s - " in first
    bar.update(4, [("loss", np.float32(0.25))])
    rest = out.getvalue()[len(first) :]
    assert rest.startswith("\b" * (len(first) - 1) + "\rstep 4/4 [=") and rest.endswith("\n") and "ETA" not in rest


def test_bar_in_a_file_is_lines():
    out = io.StringIO()
    bar = ProgressBar(num=10, file=out)
    for step in (5, 10):
        bar.update(step, [])
    assert out.getvalue().count("\n") == 2 and "\b" not in out.getvalue() and "\r" not in out.getvalue()
    assert out.getvalue().startswith("step  5/10 [")


def test_bar_of_unknown_length():
    out = io.StringIO()
    ProgressBar(file=out).update(7, [("loss", np.array([0.5]))])
    assert out.getvalue().startswith("step   7 - loss: 0.5000 - ")
    with pytest.raises(TypeError, match="positive"):
        ProgressBar(num=0)


def test_summary(capsys):
    net = nn.Sequential(nn.Conv2D(3, 8, 3), nn.BatchNorm2D(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 4))
    net.eval()
    net[2].train()
    assert paddle.summary(net, (None, 3, 16, 16)) == {"total_params": 6532, "trainable_params": 6516}
    assert [layer.training for layer in net.sublayers()] == [False, False, True, False, False]
    text = capsys.readouterr().out
    # the rows that Paddle 2.6.2 prints for these layers
    assert "[[1, 3, 16, 16]]      [1, 8, 14, 14]          224" in text
    assert "Non-trainable params: 16\n" in text and "Forward/backward pass size (MB): 0.05\n" in text
    for size, error in (((-1, -1, 2), ValueError), ((1, 0, 2), ValueError), ((1, "3"), TypeError), (2.5, TypeError)):
        with pytest.raises(error):
            paddle.summary(net, size)
    assert paddle.summary(nn.Embedding(10, 3), (3, 1), dtypes="int64")["total_params"] == 30

    class Two(nn.Layer):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(2, 4)

        def forward(self, x, both):
            return self.a(x) + self.b(both[0]) * self.b(both[1])

    assert paddle.summary(Two(), [(1, 3), [(-1, 2), (None, 2)]]) == {"total_params": 28, "trainable_params": 28}


def test_summary_of_a_model(mode):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert made(prepared=False).summary()["total_params"] == 20 * 16 + 16 + 16 * 10 + 10


def test_summary_and_flops_of_a_translated_network():
    """Also after a run, from which on the Program runs in place of the layers."""
    net = paddle.jit.to_static(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
    for _ in range(2):
        assert paddle.summary(net, (None, 4))["total_params"] == 15
        assert paddle.flops(net, [1, 4]) == 12
        net(paddle.ones([1, 4]))
    assert paddle.jit.ProgramTranslator().enable_to_static


def test_flops(capsys):
    net = nn.Sequential(
        nn.Conv2D(3, 8, 3), nn.BatchNorm2D(8), nn.ReLU(), nn.AvgPool2D(7), nn.Flatten(), nn.Dropout(), nn.Linear(32, 4)
    )
    # conv 8*14*14*(27+1), norm 2*8*14*14, pool 32, linear 128
    assert paddle.flops(net, [1, 3, 16, 16], print_detail=True) == 43904 + 3136 + 32 + 128
    text = capsys.readouterr().out
    assert " batch_norm2d_" in text and "Cannot find suitable count function for" in text
    assert text.endswith("Total Flops: 47200     Total Params: 388\n")
    assert "total_ops" not in net[0].__dict__

    def count(layer, x, y):
        layer.total_ops += 5

    assert paddle.flops(net, [1, 3, 16, 16], custom_ops={nn.Dropout: count}) == 47205
    with pytest.warns(UserWarning, match="must be an instance"):
        assert paddle.flops(3, [1]) == -1


def test_flops_of_a_program(capsys):
    net = nn.Sequential(nn.Conv2D(3, 8, 3, bias_attr=False), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 4))
    traced = paddle.jit.TracedLayer.trace(net, [paddle.ones([1, 3, 16, 16])])[1]
    count = paddle.flops(traced.program, [1, 3, 16, 16], print_detail=True)
    # static_flops counts one sample: conv, then the product and its bias
    assert count == 8 * 14 * 14 * 27 + 8 * 14 * 14 * 4 + 4
    assert "| conv2d" in capsys.readouterr().out.replace("  ", " ").replace("  ", " ")
