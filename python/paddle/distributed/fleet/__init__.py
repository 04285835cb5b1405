"""paddle.distributed.fleet: the strategy and the roles of a job's processes, training in both modes, `util`, and the
launcher (`launch`)."""

from __future__ import annotations

from . import data_generator, dataset, meta_optimizers, metrics, runtime, utils
from .base import role_maker
from .base.distributed_strategy import DistributedStrategy
from .base.fleet_base import Fleet, fleet
from .base.role_maker import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker
from .base.util_factory import UtilBase
from .data_generator import MultiSlotDataGenerator, MultiSlotStringDataGenerator
from .dataset import BoxPSDataset, DatasetBase, FileInstantDataset, InMemoryDataset, QueueDataset

__all__ = [
    "DistributedStrategy",
    "UtilBase",
    "UserDefinedRoleMaker",
    "PaddleCloudRoleMaker",
    "Fleet",
    "Role",
    "MultiSlotDataGenerator",
    "MultiSlotStringDataGenerator",
    "BoxPSDataset",
    "DatasetBase",
    "FileInstantDataset",
    "InMemoryDataset",
    "QueueDataset",
]

# reachable as in 2.0.2, though not in its __all__
_ALSO = (meta_optimizers, runtime)

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
amp_init = fleet.amp_init
minimize = fleet.minimize
init_worker = fleet.init_worker
init_server = fleet.init_server
run_server = fleet.run_server
stop_worker = fleet.stop_worker
save_inference_model = fleet.save_inference_model
save_persistables = fleet.save_persistables
shrink = fleet.shrink
_final_strategy = fleet._final_strategy
_get_applied_meta_list = fleet._get_applied_meta_list
_get_applied_graph_list = fleet._get_applied_graph_list
