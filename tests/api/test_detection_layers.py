"""Detection layers of fluid.layers in Programs, compared with values recorded from Paddle 1.8.5."""

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest

#: a startup Program of a network without parameters is empty
pytestmark = pytest.mark.filterwarnings("ignore:the Program has no operators to run")

L = fluid.layers
PRIOR = [[0.1, 0.1, 0.5, 0.6], [0.12, 0.1, 0.52, 0.58], [0.6, 0.55, 0.9, 0.95], [0.1, 0.5, 0.3, 0.9]]
PRIOR.append([0.5, 0.0, 0.9, 0.4])
BOX = [[0.1, 0.12, 0.5, 0.6], [0.6, 0.5, 0.9, 0.9], [0.5, 0.1, 0.9, 0.4]]


@pytest.fixture(autouse=True)
def static():
    paddle.enable_static()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        yield
    paddle.disable_static()


def by_images(values, dtype="float32"):
    t = fluid.LoDTensor()
    t.set(np.array(values, dtype), fluid.CPUPlace())
    t.set_lod([[0, 2, 3]])
    return t


def test_ssd_training_and_evaluation():
    rs = np.random.RandomState(3)
    loc, conf = (np.round(rs.uniform(-1, 1, (2, 5, n)), 2).astype("float32") for n in (4, 3))
    values = {"loc": loc, "conf": conf, "prior": np.array(PRIOR, "float32"), "var": np.full((5, 4), 0.1, "float32")}
    v = {name: fluid.data(name, list(value.shape)) for name, value in values.items()}
    v["loc"].stop_gradient = v["conf"].stop_gradient = False
    box, label = fluid.data("box", [None, 4], lod_level=1), fluid.data("label", [None, 1], "int32", lod_level=1)
    values |= {"box": by_images(BOX), "label": by_images([[1], [2], [1]], "int32")}
    boxes = v["prior"], v["var"]
    loss = L.ssd_loss(v["loc"], v["conf"], box, label, *boxes, overlap_threshold=0.4, neg_overlap=0.3)
    found = L.detection_output(v["loc"], v["conf"], *boxes, nms_threshold=0.45, score_threshold=0.3)
    grads = fluid.gradients([L.reduce_sum(loss)], [v["loc"], v["conf"]])
    measure = fluid.metrics.DetectionMAP(found, label, box, class_num=3, overlap_threshold=0.1)
    fetches = [loss, *grads, *measure.get_map_var()]
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())

    losses, of_loc, of_conf, current, overall = exe.run(feed=values, fetch_list=fetches)
    np.testing.assert_allclose(losses, [[2.077872], [1.636896]], rtol=1e-6)
    np.testing.assert_allclose(
        of_loc[0, :2], [[0.025, 0.055, -0.105, 0.107055], [0.25, 0.093333, -0.1875, -0.1475]], atol=1e-6
    )
    np.testing.assert_allclose(of_conf[0, 0], [0.086141, -0.1519, 0.065759], atol=1e-6)
    np.testing.assert_allclose([current, overall], [[0.375]] * 2, rtol=1e-6)

    values["conf"] = conf[::-1].copy()
    losses, _, _, current, overall = exe.run(feed=values, fetch_list=fetches)
    np.testing.assert_allclose(losses, [[2.200055], [1.958108]], rtol=1e-6)
    np.testing.assert_allclose([current, overall], [[0.208333], [0.251488]], atol=1e-6)

    measure.reset(exe)
    _, _, _, current, overall = exe.run(feed=values, fetch_list=fetches)
    assert current == overall


def test_multi_box_head():
    image = fluid.data("image", [None, 3, 16, 16])
    maps = [L.conv2d(image, 4, 3, stride=s, padding=1) for s in (4, 8, 16)]
    loc, conf, box, var = L.multi_box_head(maps, image, 16, 3, [[2.0], [2.0, 3.0], [2.0]], 20, 90, flip=True)
    assert loc.shape[2] == 4 and conf.shape[2] == 3 and box.shape == var.shape
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    outs = exe.run(feed={"image": np.ones((2, 3, 16, 16), "float32")}, fetch_list=[loc, conf, box])
    assert [o.shape for o in outs] == [(2, box.shape[0], 4), (2, box.shape[0], 3), tuple(box.shape)]
    with pytest.raises(ValueError, match="steps"):
        L.multi_box_head(maps, image, 16, 3, [[2.0]] * 3, 20, 90, steps=[4.0])


def test_chunk_evaluation_over_batches():
    tags = [fluid.data(n, [None, 1], "int64", lod_level=1) for n in ("found", "known")]
    with pytest.warns(UserWarning, match="deprecated"):
        evaluator = fluid.evaluator.ChunkEvaluator(*tags, chunk_scheme="IOB", num_chunk_types=1)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    evaluator.reset(exe)
    same = by_images([[0], [1], [0]], "int64")
    for found in (same, by_images([[2], [2], [0]], "int64")):
        exe.run(feed={"found": found, "known": same}, fetch_list=evaluator.metrics)
    precision, recall, f1 = evaluator.eval(exe)
    np.testing.assert_allclose(np.concatenate([precision, recall, f1]), [1.0, 0.75, 6 / 7], rtol=1e-6)


def test_mean_precision_of_fluid_evaluator():
    found = fluid.data("found", [None, 6], lod_level=1)
    label, box = fluid.data("label", [None, 1], "int32", lod_level=1), fluid.data("box", [None, 4], lod_level=1)
    with pytest.warns(UserWarning, match="deprecated"):
        evaluator = fluid.evaluator.DetectionMAP(found, label, box, class_num=3)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    evaluator.reset(exe)
    rows = [[1, 0.9, *BOX[0]], [2, 0.8, *BOX[1]], [2, 0.7, *BOX[2]]]
    feed = {"found": by_images(rows), "label": by_images([[1], [2], [1]], "int32"), "box": by_images(BOX)}
    values = exe.run(feed=feed, fetch_list=list(evaluator.get_map_var()))
    np.testing.assert_allclose(values, [[0.75], [0.75]], rtol=1e-6)
