"""UtilBase: collectives of small values, partition of files, printing on one rank."""

from __future__ import annotations

from typing import Any

from .role_maker import RoleMakerBase

__all__ = ["UtilBase"]


class UtilFactory:
    """Creates the `util` of a Fleet."""

    def _create_util(self, context: dict[str, Any] | None = None) -> UtilBase:
        util, context = UtilBase(), context or {}
        if "valid_strategy" in context:
            util._set_strategy(context["valid_strategy"])
        if "role_maker" in context:
            util._set_role_maker(context["role_maker"])
        return util


class UtilBase:
    """Collectives of small values on the host, partition of files, printing on one rank: `fleet.util`.

    Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/fleet/UtilBase_en.html
    """

    def __init__(self) -> None:
        self.role_maker: Any = None
        self.dist_strategy: Any = None
        self.fs_client: Any = None

    def _set_strategy(self, dist_strategy: Any) -> None:
        self.dist_strategy = dist_strategy

    def _set_role_maker(self, role_maker: RoleMakerBase) -> None:
        self.role_maker = role_maker

    def _set_file_system(self, fs_client: Any) -> None:
        self.fs_client = fs_client

    def _role(self) -> Any:
        if self.role_maker is None:
            raise RuntimeError("fleet.util: call fleet.init first, which sets the role of this process")
        return self.role_maker

    def all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:  # noqa: A002
        """The sum, minimum or maximum over workers, servers or all, element by element.

        Args:
            input (list|numpy.ndarray): numbers, of the same shape on every rank. mode (str): "sum", "min" or "max".
            comm_world (str): "worker", "server" or "all".

        Returns:
            numpy.ndarray: of the shape of `input`; without PADDLE_WITH_GLOO `input` itself.

        Raises:
            ValueError: for another mode or group. TimeoutError: naming the missing ranks.
        """
        return self._role()._all_reduce(input, mode, comm_world)

    def barrier(self, comm_world: str = "worker") -> None:
        """Waits for the processes of "worker", "server" or "all"."""
        self._role()._barrier(comm_world)

    def all_gather(self, input: Any, comm_world: str = "worker") -> Any:  # noqa: A002
        """The value of every process of "worker", "server" or "all", as a list by rank."""
        return self._role()._all_gather(input, comm_world)

    def get_file_shard(self, files: list[str]) -> list[str]:
        """This worker's part of `files`: consecutive ones; the first workers get one more if the number is not
        divisible.

        Raises:
            TypeError: unless `files` is a list.

        Examples:
            >>> from paddle.distributed import fleet
            >>> fleet.init(fleet.UserDefinedRoleMaker(
            ...     current_id=0, role=fleet.Role.WORKER, worker_endpoints=["127.0.0.1:6003", "127.0.0.1:6004"],
            ...     server_endpoints=["127.0.0.1:6001", "127.0.0.1:6002"]))
            >>> fleet.util.get_file_shard(["file1", "file2", "file3"])
            ['file1', 'file2']
        """
        if not isinstance(files, list):
            raise TypeError(f"get_file_shard takes a list of files, got {type(files)}")
        index, workers = self._role()._worker_index(), self._role()._worker_num()
        each, more = divmod(len(files), workers)
        begin = index * each + min(index, more)
        return files[begin : begin + each + (index < more)]

    def print_on_rank(self, message: str, rank_id: int) -> None:
        """Prints `message` on the worker `rank_id` only."""
        if self._role()._worker_index() == rank_id:
            print(message)
