"""Objects in notebooks, drawings of Programs and Layers, pictures of a training."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.utils import drawing


def program_of(layer, shape):
    paddle.enable_static()
    try:
        program = paddle.static.Program()
        with paddle.static.program_guard(program, paddle.static.Program()):
            out = layer()(paddle.static.data("x", shape, "float32"))
            paddle.optimizer.SGD(0.1).minimize(paddle.mean(out))
        return program
    finally:
        paddle.disable_static()


def block():
    return nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU())


def texts(svg):
    root = ElementTree.fromstring(svg)
    return ["".join(node.itertext()) for node in root.iter() if node.tag.endswith("}text")]


def test_runs():
    assert drawing._runs(list("abababc")) == [(0, 2, 3), (6, 1, 1)]
    assert drawing._runs(list("abcabc")) == [(0, 3, 2)]
    assert drawing._runs(list("aab")) == [(0, 1, 1), (1, 1, 1), (2, 1, 1)]
    assert drawing._runs(list("aaaaab")) == [(0, 1, 5), (5, 1, 1)]
    assert drawing._runs([]) == []


def test_a_program_folds_repeated_blocks():
    program = program_of(lambda: nn.Sequential(*[block() for _ in range(12)]), [-1, 8])
    svg = program._repr_html_()
    shown = texts(svg)
    assert shown.count("12 x") == 1 and "x  [-1, 8]" in shown
    assert sum(text.startswith("layer_norm  ") for text in shown) == 1
    assert not any("grad" in text or text.startswith("sgd") for text in shown)


def test_branches_and_names_are_drawn():
    class Branches(nn.Layer):
        def forward(self, x):
            return paddle.tanh(x) + paddle.exp(x)

    svg = drawing.program_svg(program_of(Branches, [2, 3]))
    assert [t.split()[0] for t in texts(svg)][:3] == ["x", "tanh", "exp"]
    assert svg.count('<path d="M') >= 4
    program = paddle.static.Program()
    assert texts(drawing.program_svg(program)) == []


def test_draw(tmp_path):
    layer = nn.Sequential(*[block() for _ in range(3)], nn.Linear(8, 2))
    path = tmp_path / "net.svg"
    svg = paddle.utils.draw(layer, path)
    assert path.read_text() == svg
    shown = texts(svg)
    assert "3 x" in shown and f"{3 * (72 + 16) + 18:,} parameters" in shown
    graph = paddle.utils.draw(layer, str(path), input_spec=[paddle.static.InputSpec([None, 8], "float32", "in")])
    assert "in  [-1, 8]" in texts(graph) and "3 x" in texts(graph)
    assert "relu" in paddle.utils.draw(layer, input_spec=paddle.ones([4, 8]))
    with pytest.raises(TypeError, match="draw: target must be a Program or a Layer, got int"):
        paddle.utils.draw(3)
    for name in ("l.png", "l.pdf", "l.svg.gz"):
        with pytest.raises(ValueError, match=r"must end in \.svg"):
            paddle.utils.draw(layer, str(tmp_path / name))
        assert not (tmp_path / name).exists()
    assert layer.training and isinstance(layer[0][0].weight, paddle.Tensor)


def test_a_layer_in_a_notebook():
    text = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))._repr_html_()
    root = ElementTree.fromstring(text.replace("<details style='margin-left:1.2em' open>", "<details>"))
    assert "9 parameters" in "".join(root.itertext()) and text.count("<details") == 2


@pytest.mark.parametrize(
    ("array", "picture"),
    [
        (np.zeros((16, 20), "uint8"), True),
        (np.zeros((16, 20, 3), "uint8"), True),
        (np.random.RandomState(0).rand(3, 16, 20).astype("float32"), True),
        (np.random.RandomState(0).randn(1, 28, 28).astype("float32"), True),
        (np.zeros((16, 20), "float32"), False),
        (np.zeros((4, 4, 3), "uint8"), False),
        (np.zeros((2, 16, 20, 3), "uint8"), False),
        (np.zeros((16, 20, 7), "float32"), False),
        (np.zeros((0, 20, 3), "uint8"), False),
    ],
)
def test_a_tensor_in_a_notebook(array, picture):
    text = paddle.to_tensor(array)._repr_html_()
    assert f"Tensor {list(array.shape)} {array.dtype}, CPUPlace" in text and ("<img" in text) is picture
    assert picture or "<pre>[" in text


def test_pictures_are_png_files():
    import io

    from paddle._basics import png
    from PIL import Image

    for shape in ((5, 7), (5, 7, 1), (5, 7, 2), (5, 7, 3), (5, 7, 4)):
        image = np.random.RandomState(1).randint(0, 256, shape).astype("uint8")
        read = np.asarray(Image.open(io.BytesIO(png.encode(image))))
        np.testing.assert_array_equal(read.reshape(image.shape), image)
    with pytest.raises(ValueError, match="uint8"):
        png.encode(np.zeros((2, 2), "float32"))
    assert png.as_bytes(np.array([-1.0, 0.0, 1.0])).tolist() == [0, 128, 255]
    assert png.as_bytes(np.array([0.0, 1.0, np.nan])).tolist() == [0, 255, 0]


def test_bfloat16_in_a_notebook():
    assert "1.50000000" in paddle.to_tensor([1.5]).astype("bfloat16")._repr_html_()


class Points(paddle.io.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return np.float32([i, -i]), np.int64([i % 2])


def test_history(tmp_path):
    pytest.importorskip("matplotlib")
    model = paddle.Model(nn.Linear(2, 2))
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    model.prepare(optimizer, nn.CrossEntropyLoss(), paddle.metric.Accuracy())
    history = model.fit(Points(), Points(), batch_size=4, epochs=3, eval_freq=2, verbose=0)
    assert {name: len(values) for name, values in history.history.items()} == {
        "loss": 3,
        "acc": 3,
        "eval_loss": 2,
        "eval_acc": 2,
    }
    table = ElementTree.fromstring(history._repr_html_())
    rows = [[cell.text for cell in row] for row in table]
    assert rows[0] == ["epoch", *history.history] and [row[0] for row in rows[1:]] == ["0", "1", "2"]
    evaluated = rows[0].index("eval_loss")
    assert rows[2][evaluated] is None and rows[3][evaluated]
    figure = history.plot(str(tmp_path / "curves.png"))
    assert [axes.get_title() for axes in figure.axes] == ["loss", "acc"] and (tmp_path / "curves.png").stat().st_size
    assert [len(line.get_xdata()) for line in figure.axes[0].lines] == [3, 2]


def test_confusion_matrix(tmp_path):
    pytest.importorskip("matplotlib")
    scores = paddle.to_tensor([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.6, 0.3, 0.1]])
    counts, figure = paddle.utils.confusion_matrix(
        paddle.to_tensor([0, 1, 1]), scores, ["a", "b", "c"], tmp_path / "m.svg"
    )
    assert counts.tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 0]] and (tmp_path / "m.svg").exists()
    with pytest.raises(ValueError, match="2 labels and 1 predictions"):
        paddle.utils.confusion_matrix([0, 1], [0])


def test_net_drawer(tmp_path):
    from paddle.fluid import debugger, net_drawer

    program = program_of(lambda: nn.Linear(2, 3), [4, 2])
    path = tmp_path / "net.gv"
    graph = net_drawer.draw_graph(paddle.static.Program(), program, filename=str(path), node_attr={"shape": "box"})
    text = path.read_text()
    assert text == graph.source and 'label="X(x)"' in text and '"shape"' not in text and 'shape="box"' in text
    assert text.count("->") > 5 and text.startswith("digraph")
    debugger.draw_block_graphviz(program.global_block(), path=str(tmp_path / "block.dot"))
    assert "digraph" in (tmp_path / "block.dot").read_text()
