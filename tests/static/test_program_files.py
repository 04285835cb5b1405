"""Files of Programs in fleet 1.x: bytes, text, lists, pictures."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.fluid as fluid
import pytest
from paddle.fluid.incubate.fleet.utils import utils


@pytest.fixture(autouse=True)
def _dygraph_again():
    yield
    paddle.disable_static()


@pytest.fixture
def net():
    paddle.enable_static()
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 3], lod_level=1)
        out = fluid.layers.scale(fluid.layers.fc(x, 2, name='a "ü" \\ \n'), 0.1, bias=float("inf"))
        count = fluid.layers.fill_constant([1], "int64", 3)
        fluid.layers.While(fluid.layers.less_than(count, count)).block().__enter__()
        fluid.layers.increment(count, value=-2.5e-7)
    return main, startup, out


def test_round_trip(net, tmp_path):
    main, startup, _ = net
    main = fluid.Program.parse_from_string(main.desc.serialize_to_string())
    for program in (main, startup):
        for text in (True, False):
            utils.save_program(program, str(tmp_path / "p"), text)
            again = utils.load_program(str(tmp_path / "p"), text)
            # text omits fields with default values; bytes may have them
            assert again.to_string(True) == program.to_string(True)
    assert utils.program_type_trans(str(tmp_path), "p", False) == "p.pbtxt"
    assert utils.program_type_trans(str(tmp_path), "p.pbtxt", True) == "p.pbtxt.bin"
    assert utils.load_program(str(tmp_path / "p.pbtxt.bin")).to_string(True) == startup.to_string(True)


def test_other_text_forms(tmp_path):
    file = tmp_path / "p"
    file.write_text(
        "# a comment\nblocks: < idx: 0, parent_idx: -1; vars { name: 'a' \"b\" type { type: LOD_TENSOR "
        "lod_tensor { tensor { data_type: FP32 dims: [-1, 0x10] } } } } > version { version: 0 } # end"
    )
    assert utils.load_program(str(file), True).global_block().var("ab").shape == (-1, 16)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("block {", "no field 'block'"),
        ("blocks {", "ends in the middle"),
        ("blocks { idx: x }", "'x' is no value"),
        ("blocks { idx { } }", "idx is no message"),
        ("blocks { idx: @ }", "line 1"),
        ("blocks", "ends in the middle"),
        ("blocks { ops { type: 3 } }", "'3' is no value of type"),
        ("blocks { idx: 99999999999999999999 }", "no value"),
        ("blocks { ops { attrs { f: { } } } }", "f is no message"),
    ],
)
def test_invalid_programs(tmp_path, text, says):
    (tmp_path / "p").write_text(text)
    with pytest.raises(ValueError, match=says):
        utils.load_program(str(tmp_path / "p"), True)


def test_lists_and_pictures(net, tmp_path):
    main, _, _ = net
    utils.parse_program(main, str(tmp_path))
    kept = (tmp_path / "vars_persistable.log").read_text().splitlines()
    assert kept[0] == "persistable vars:" and len(kept) == 3 and "'shape': '(3, 2)', 'lod_level': 0" in kept[1]
    ops = (tmp_path / "ops.log").read_text().splitlines()
    assert ops[0] == "ops:" and len(ops) == 1 + len(main.global_block().ops) and "'type': 'mul'" in ops[1]
    assert len((tmp_path / "vars_all.log").read_text().splitlines()) == 1 + len(list(main.list_vars()))
    utils.graphviz(main.global_block(), str(tmp_path), "net")
    assert '[label="mul", shape=box]' in (tmp_path / "net.dot").read_text()


def test_pruned_programs(net, caplog):
    main, _, out = net
    pruned = main.clone(for_test=True)
    assert utils.check_pruned_program_vars(main, pruned) and not caplog.records
    pruned.global_block().create_var(name="new", shape=[1], dtype="float32", persistable=True)
    assert utils.check_pruned_program_vars(main, pruned) and "new is not in" in caplog.text
    pruned.all_parameters()[0].desc.set_shape([9, 9])
    assert not utils.check_pruned_program_vars(main, pruned) and "(9, 9)" in caplog.text
    assert np.isinf(out.op.attr("bias"))
