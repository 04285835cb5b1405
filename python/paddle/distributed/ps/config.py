"""The configuration of DistributeTranspiler."""

from __future__ import annotations

import os

__all__ = ["DistributeTranspilerConfig", "DistributedMode", "ServerRuntimeConfig"]


class DistributedMode:
    """How a server and its trainers synchronize; the values are stored in Programs."""

    SYNC = 0
    ASYNC = 1
    HALF_ASYNC = 2
    GEO = 3


class DistributeTranspilerConfig:
    """The settings of :class:`DistributeTranspiler`.

    Attributes:
        slice_var_up (bool): split parameters into blocks, to balance the servers' load. Default: True.
        split_method (type, optional): the dispatcher that assigns blocks to servers,
            :class:`~paddle.fluid.transpiler.RoundRobin` (also when None) or :class:`~paddle.fluid.transpiler.HashName`.
        min_block_size (int): minimum number of elements of a block, at least 8192. Default: 8192.
        enable_dc_asgd (bool): delay-compensated asynchronous SGD. Default: False.
        mode (str): "pserver", "nccl2" or "collective". Default: "pserver".
        print_log (bool): print the transpiler's decisions. Default: False.
        wait_port (bool): with "nccl2" and "collective", wait until the other trainers listen. Default: True.
        runtime_split_send_recv (bool): leave splitting and concatenating to the Communicator's threads.
            Needs ``sync_mode=False``. Default: False.
        sync_mode (bool): all trainers synchronize at each step. Default: True.
        half_async (bool): with ``runtime_split_send_recv``, wait at the end of a step until all gradients are sent.
        completely_not_async (bool): average the gradients of all trainers although the Communicator sends them.
        geo_sgd_mode (bool), geo_sgd_need_push_nums (int): GEO-SGD: trainers update their own parameters and
            exchange changes every so many steps. Default: False, 100.
        nccl_comm_num (int), use_hierarchical_allreduce (bool), hierarchical_allreduce_inter_nranks (int),
            collective_mode (str): of the modes without servers.

    Raises:
        ValueError: for ``runtime_split_send_recv=True`` together with ``sync_mode=True``, or None for either.

    Examples:
        >>> import paddle.fluid as fluid
        >>> config = fluid.DistributeTranspilerConfig()
        >>> config.slice_var_up = True
        >>> config.split_method = fluid.transpiler.HashName
        >>> config.min_block_size = 81920
    """

    slice_var_up = True
    split_method = None
    min_block_size = 8192
    enable_dc_asgd = False
    mode = "pserver"
    print_log = False
    wait_port = True
    half_async = False
    completely_not_async = False
    geo_sgd_mode = False
    geo_sgd_need_push_nums = 100
    nccl_comm_num = 1
    use_hierarchical_allreduce = False
    hierarchical_allreduce_inter_nranks = 0
    collective_mode = None

    def __init__(self):
        self.__sync_mode = True
        self.__runtime_split_send_recv = False

    @property
    def runtime_split_send_recv(self) -> bool:
        """Whether the Communicator splits and concatenates variables."""
        return self.__runtime_split_send_recv

    @runtime_split_send_recv.setter
    def runtime_split_send_recv(self, value: bool) -> None:
        if value is None:
            raise ValueError("runtime_split_send_recv must be True or False, got None")
        if value and self.__sync_mode:
            raise ValueError("runtime_split_send_recv=True needs sync_mode=False, which must be set first")
        self.__runtime_split_send_recv = value

    @property
    def sync_mode(self) -> bool:
        """Whether all trainers synchronize at each step."""
        return self.__sync_mode

    @sync_mode.setter
    def sync_mode(self, value: bool) -> None:
        if value is None:
            raise ValueError("sync_mode must be True or False, got None")
        if value and self.__runtime_split_send_recv:
            raise ValueError("sync_mode=True needs runtime_split_send_recv=False, which must be set first")
        self.__sync_mode = value


class ServerRuntimeConfig:
    """The number of a server's threads for each kind of request, from ``FLAGS_rpc_*_thread_num``."""

    def __init__(self):
        self._rpc_send_thread_num = int(os.getenv("FLAGS_rpc_send_thread_num", "12"))
        self._rpc_get_thread_num = int(os.getenv("FLAGS_rpc_get_thread_num", "12"))
        self._rpc_prefetch_thread_num = int(os.getenv("FLAGS_rpc_prefetch_thread_num", "12"))
