"""Arguments that 1.8 has and 2.0 not, or under other names."""

from __future__ import annotations

import stat
import warnings

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle.fluid import layers
from paddle.fluid.communicator import Communicator
from paddle.fluid.incubate.fleet.utils.hdfs import HDFSClient


@pytest.fixture
def static():
    paddle.enable_static()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        yield
    paddle.disable_static()


CLIPS = {
    "value": lambda chosen: fluid.clip.GradientClipByValue(0.1, need_clip=chosen),
    "norm": lambda chosen: fluid.clip.GradientClipByNorm(0.1, need_clip=chosen),
    "global": lambda chosen: fluid.clip.GradientClipByGlobalNorm(0.1, need_clip=chosen),
}


@pytest.mark.parametrize("kind", CLIPS)
def test_need_clip_is_a_function_of_the_parameter(kind):
    clip = CLIPS[kind](lambda p: p.name.startswith("w"))
    ones = fluid.initializer.Constant(1.0)
    layer = paddle.nn.Linear(2, 2, paddle.ParamAttr(f"w_{kind}", ones), paddle.ParamAttr(f"b_{kind}", ones))
    paddle.sum(layer(paddle.ones([1, 2]))).backward()
    optimizer = paddle.optimizer.SGD(1.0, parameters=layer.parameters(), grad_clip=clip)
    optimizer.step()
    assert layer.bias.numpy().tolist() == [0.0, 0.0]
    assert layer.weight.numpy().min() >= 0.89


@pytest.mark.parametrize("kind", CLIPS)
def test_need_clip_in_programs(kind, static):
    x = fluid.data("x", [1, 2])
    clip = CLIPS[kind](lambda p: p.name == "w")
    loss = layers.reduce_sum(layers.fc(x, 2, param_attr="w", bias_attr=fluid.ParamAttr("b")))
    fluid.optimizer.SGD(1.0, grad_clip=clip).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    exe.run(feed={"x": np.ones((1, 2), "float32")})
    assert np.array(fluid.global_scope().find_var("b").get_tensor()).tolist() == [-1.0, -1.0]


def test_need_clip_must_be_a_function():
    with pytest.raises(TypeError, match="ClipGradByNorm: need_clip must be a function of a parameter, got bool"):
        fluid.clip.GradientClipByNorm(0.1, need_clip=True)


def test_batch_sampler_of_indices():
    assert list(paddle.io.BatchSampler(indices=[5, 3, 1], batch_size=2)) == [[5, 3], [1]]
    assert list(paddle.io.BatchSampler(None, (5, 3, 1), False, 2, True)) == [[5, 3]]
    sampler = paddle.io.BatchSampler(indices=range_list(20), shuffle=True, batch_size=20)
    (first,), (second,) = list(sampler), list(sampler)
    assert first != second and sorted(first) == sorted(second) == range_list(20) and len(sampler) == 1
    with pytest.raises(AssertionError, match="indices must be a list or a tuple"):
        paddle.io.BatchSampler(indices=3)
    with pytest.raises(AssertionError, match="indices take the place of dataset and sampler"):
        paddle.io.BatchSampler(sampler=paddle.io.SequenceSampler(range(3)), indices=[1])


def range_list(n):
    return list(range(n))


def test_is_empty_writes_to_cond(static):
    x, cond = fluid.data("x", [None, 2]), layers.fill_constant([1], "bool", False)
    assert layers.is_empty(x, cond) is cond and layers.is_empty(x=x, cond=cond) is cond
    exe = fluid.Executor(fluid.CPUPlace())
    assert exe.run(feed={"x": np.zeros((0, 2), "float32")}, fetch_list=[cond])[0].tolist() == [True]
    with pytest.raises(TypeError, match="cond"):
        layers.is_empty(x, x)


@pytest.mark.parametrize("kind", ["roi_pool", "roi_align"])
def test_rois_by_their_lod(kind, static):
    maps, rois = fluid.data("maps", [2, 1, 4, 4]), fluid.data("rois", [None, 4])
    lod, number = fluid.data("lod", [None], "int64"), fluid.data("number", [None], "int32")
    by_lod = getattr(layers, kind)(maps, rois, 2, 2, rois_lod=lod)
    by_number = getattr(layers, kind)(maps, rois, 2, 2, rois_num=number)
    feed = {
        "maps": np.arange(32, dtype="float32").reshape(2, 1, 4, 4),
        "rois": np.float32([[0, 0, 3, 3], [0, 0, 1, 1], [1, 1, 3, 3]]),
        "lod": np.int64([0, 1, 3]),
        "number": np.int32([1, 2]),
    }
    a, b = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[by_lod, by_number])
    assert a.shape == (3, 1, 2, 2) and (a == b).all()


def test_roi_pool_by_lod_returns_one_value_in_dygraph():
    maps, rois = paddle.ones([1, 1, 4, 4]), paddle.to_tensor([[0.0, 0.0, 3.0, 3.0]])
    out = layers.roi_pool(maps, rois, 2, 2, rois_lod=paddle.to_tensor([0, 1]))
    assert out.shape == [1, 1, 2, 2]


def test_communicator_of_a_program(static):
    loss = layers.mean(layers.fc(fluid.data("x", [None, 2]), 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    config = fluid.DistributeTranspilerConfig()
    config.sync_mode, config.runtime_split_send_recv = False, True
    t = fluid.DistributeTranspiler(config)
    t.transpile(0, pservers="127.0.0.1:6174", trainers=1, sync_mode=False)
    program = t.get_trainer_program(wait_port=False)
    envs = {"communicator_send_queue_size": 3}
    for comm in (
        Communicator(program),
        Communicator(program=program),
        Communicator(program, 1, None, envs),
        Communicator(program, mode=1, kwargs={}, envs=envs),
        Communicator(program, envs=envs),
    ):
        assert comm.mode == "ASYNC" and not comm.is_running()
    assert comm._setting("send_queue_size") == 3
    with pytest.raises(TypeError, match="program must be a Program, got int"):
        Communicator(program=3)


def test_pipeline_by_a_cut_list(static):
    x = fluid.data("x", [None, 2])
    hidden = layers.fc(x, 2, param_attr=fluid.initializer.Constant(0.5))
    loss = layers.reduce_mean(hidden)
    with pytest.raises(ValueError, match="place_list must have 3 elements for a cut_list of 2, got 1"):
        fluid.optimizer.PipelineOptimizer(fluid.optimizer.SGD(0.5), [[hidden], [loss]], place_list=[fluid.CPUPlace()])
    optimizer = fluid.optimizer.PipelineOptimizer(
        fluid.optimizer.SGD(0.5),
        cut_list=[[hidden], [loss]],
        place_list=[fluid.CPUPlace()] * 3,
        concurrency_list=[1, 1, 1],
        queue_size=2,
        sync_steps=1,
    )
    optimizer.minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    losses = [exe.run(feed={"x": np.ones((1, 2), "float32")}, fetch_list=[loss])[0].item() for _ in range(2)]
    np.testing.assert_allclose(losses, [1.0, 0.25])


def test_old_names_of_arguments():
    layer = paddle.nn.Linear(2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer.set_dict(stat_dict=layer.state_dict())
        fluid.dygraph.ProgramTranslator().enable(enable_declarative=True)
        brighter = paddle.vision.transforms.BrightnessTransform([2, 2])
        assert brighter(img=np.array([[7]], "uint8")).tolist() == [[14]]
        with pytest.raises(TypeError, match="state_dict is given twice, also as stat_dict"):
            layer.set_dict(state_dict={}, stat_dict={})
    double = fluid.dygraph.declarative(func=lambda x: x * 2)
    assert double(paddle.ones([1])).item() == 2.0


def test_create_variable_of_a_type(static):
    variable = fluid.dygraph.Layer("a").create_variable("v", True, "float32", fluid.core.VarDesc.VarType.LOD_TENSOR)
    assert variable.persistable
    with pytest.raises(ValueError, match="create_variable: type must be"):
        fluid.dygraph.Layer("a").create_variable(type=fluid.core.VarDesc.VarType.SELECTED_ROWS)


HADOOP = """#!/bin/sh
# a file system in the folder $ROOT
shift
command=$1; shift
case $command in
  -test) [ $1 "$ROOT$2" ] ;;
  -ls) depth=1; [ "$1" = -R ] && { depth=9; shift; }; find "$ROOT$1" -mindepth 1 -maxdepth $depth \
    | sort | while read f; do k=-; [ -d "$f" ] && k=d; echo "${k}rw-r--r-- 1 u g 5 2020-01-01 10:00 ${f#$ROOT}"; done
    [ -e "$ROOT$1" ] || { echo "No such file or directory" >&2; exit 1; } ;;
  -cat) cat "$ROOT$1" ;;
  -mkdir) mkdir -p "$ROOT$2" ;;
  -put) cp -r "$1" "$ROOT$2" ;;
  -get) cp -r "$ROOT$1" "$2" ;;
  -rm) for last; do :; done; rm -r "$ROOT$last" ;;
  -mv) mv "$ROOT$1" "$ROOT$2" ;;
esac
"""


@pytest.fixture
def client(tmp_path, monkeypatch):
    binary = tmp_path / "hadoop" / "bin" / "hadoop"
    binary.parent.mkdir(parents=True)
    binary.write_text(HADOOP)
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "root").mkdir()
    monkeypatch.setenv("ROOT", str(tmp_path / "root"))
    return HDFSClient(str(tmp_path / "hadoop"), {})


def test_hdfs_client_of_18(client, tmp_path):
    local = tmp_path / "local"
    local.mkdir()
    for name in "ab":
        (local / name).write_text(name)
    assert client.upload(hdfs_path="/data", local_path=str(local), multi_processes=2, overwrite=True)
    assert sorted(client.ls("/data")) == ["/data/a", "/data/b"] and client.lsr("/", excludes=["/data/b"]) == ["/data/a"]
    assert client.cat("/data/a") == "a" and client.cat("/data/none") == ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert client.is_dir(hdfs_path="/data") and client.is_file(hdfs_path="/data/a")
        client.rename(hdfs_src_path="/data/a", hdfs_dst_path="/data/b", overwrite=True)
        assert not client.is_exist(hdfs_path="/data/a")
    assert client.download(hdfs_path="/data", local_path=str(tmp_path / "back"), overwrite=True)
    assert (tmp_path / "back" / "b").read_text() == "a"
    assert client.makedirs("/more") and HDFSClient.split_files(range_list(5), 1, 2) == [3, 4]


def test_hdfs_client_by_the_flag(client, tmp_path):
    (tmp_path / "f").write_text("1")
    paddle.set_flags({"FLAGS_compat": "1.8"})
    try:
        assert client.upload("/data", str(tmp_path / "f")) and client.is_file("/data/f")
    finally:
        paddle.set_flags({"FLAGS_compat": "2.0"})
    client.upload(str(tmp_path / "f"), "/g")
    assert client.is_file("/g")
