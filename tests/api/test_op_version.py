"""Version histories of operators: paddle.utils.OpLastCheckpointChecker, fluid.core.get_op_version_map."""

import paddle
from paddle import fluid
from paddle.fluid import core


def test_last_checkpoint():
    checker = paddle.utils.OpLastCheckpointChecker()
    found = checker.filter_updates("momentum")
    assert [u.name() for u in found] == [
        "regularization_method",
        "regularization_coeff",
        "multi_precision",
        "rescale_grad",
    ]
    (only,) = checker.filter_updates("momentum", core.OpUpdateType.kNewAttr, "rescale_grad")
    assert isinstance(only, core.OpAttrInfo) and only.default_value() == 1.0 and "rescale_grad" in only.remark()
    assert checker.filter_updates("momentum", core.OpUpdateType.kNewInput) == []
    (fix,) = checker.filter_updates("leaky_relu", core.OpUpdateType.kBugfixWithBehaviorChanged)
    assert isinstance(fix, core.OpBugfixInfo) and checker.filter_updates("leaky_relu", key="X") == []
    assert checker.filter_updates("relu") == []


def test_history_lengths_equal_saved_versions():
    desc = fluid.Program().desc
    core.save_op_version_info(desc)
    histories = core.get_op_version_map()
    last = histories["roi_align"].checkpoints()[-1]
    assert last.version_desc().infos()[0].type() == core.OpUpdateType.kNewAttr and last.note()
    del histories["for_pybind_test__"]
    assert {name: history.version_id() for name, history in histories.items()} == desc._op_versions()
