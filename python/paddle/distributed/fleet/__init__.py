"""paddle.distributed.fleet: the strategy and the roles of a job's processes, training in dygraph mode, `util`, and the
launcher (`launch`). Parameter servers and the rewriting of Programs by a strategy are not there yet."""
from __future__ import annotations

from . import metrics, utils
from .base import role_maker
from .base.distributed_strategy import DistributedStrategy
from .base.fleet_base import Fleet, fleet
from .base.role_maker import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker
from .base.util_factory import UtilBase

__all__ = ["DistributedStrategy", "UtilBase", "UserDefinedRoleMaker", "PaddleCloudRoleMaker", "Fleet", "Role"]

util = fleet.util

init = fleet.init
is_first_worker = fleet.is_first_worker
worker_index = fleet.worker_index
worker_num = fleet.worker_num
is_worker = fleet.is_worker
worker_endpoints = fleet.worker_endpoints
server_num = fleet.server_num
server_index = fleet.server_index
server_endpoints = fleet.server_endpoints
is_server = fleet.is_server
barrier_worker = fleet.barrier_worker
distributed_optimizer = fleet.distributed_optimizer
distributed_model = fleet.distributed_model
state_dict = fleet.state_dict
set_state_dict = fleet.set_state_dict
set_lr = fleet.set_lr
get_lr = fleet.get_lr
step = fleet.step
clear_grad = fleet.clear_grad
minimize = fleet.minimize
