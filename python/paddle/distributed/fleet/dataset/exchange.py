"""The exchange of instances between trainers, for a global shuffle."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np

import paddle._core as _core

__all__ = ["Trainers"]

#: bytes of one message to a trainer
_PIECE = 4 << 20


def _swap(group: Any, parts: list[np.ndarray]) -> list[np.ndarray]:
    """Sends part r to rank r of the group; returns the received parts, by rank."""
    came, _ = group.all_to_all([_core.Tensor(part) for part in parts], (True, None))
    return [t.numpy() for t in came]


class Trainers:
    """The trainers of a job, from a fleet of 2.0 or of fluid: joined by `init_parallel_env`, or connected by Gloo."""

    def __init__(self, fleet: Any) -> None:
        fleet = getattr(fleet, "fleet", fleet)  # the module paddle.distributed.fleet instead of its Fleet
        self._role = fleet._role_maker
        self._old = hasattr(self._role, "barrier_worker")
        self.count = int(fleet.worker_num())
        self.rank = int(fleet.worker_index())

    def _group(self) -> Any:
        """The group of all trainers where they are joined; None otherwise."""
        if not _core.dist.joined():
            return None
        group = _core.dist.get_group(0)
        return group if group.nranks == self.count else None

    def barrier(self) -> None:
        """Waits for all trainers."""
        if self._group() is not None:
            self.sum([0])
        elif self._old:
            self._role.barrier_worker()
        elif self.count > 1:
            self._role._barrier("worker")

    def sum(self, values: list[int]) -> list[int]:
        """The sums over all trainers."""
        mine = np.asarray(values, np.int64)
        if self.count == 1:
            return values
        group = self._group()
        if group is not None:
            return [sum(int(v) for v in column) for column in zip(*_swap(group, [mine] * self.count), strict=True)]
        if not self._old:
            return [int(v) for v in np.asarray(self._role._all_reduce(mine, "sum", "worker"))]
        total = mine * 0
        self._role.all_reduce_worker(mine, total)
        return [int(v) for v in total]

    def exchange(self, messages: list[bytes]) -> list[bytes]:
        """Sends message r to trainer r; returns the received messages, by trainer."""
        if self.count == 1:
            return messages
        group = self._group()
        return self._over_store(messages) if group is None else self._over_ring(group, messages)

    def _over_ring(self, group: Any, messages: list[bytes]) -> list[bytes]:
        sizes = [int(v[0]) for v in _swap(group, [np.array([len(m)], np.int64) for m in messages])]
        # Every trainer sends as many pieces as the longest message has.
        largest = np.array([max(map(len, messages))], np.int64)
        longest = max(int(v[0]) for v in _swap(group, [largest] * self.count))
        came = [bytearray() for _ in messages]
        for at in range(0, longest, _PIECE):
            pieces = []
            for message in messages:
                piece = np.zeros(_PIECE, np.uint8)
                part = message[at : at + _PIECE]
                piece[: len(part)] = np.frombuffer(part, np.uint8)
                pieces.append(piece)
            for kept, piece in zip(came, _swap(group, pieces), strict=True):
                kept += piece.tobytes()
        return [bytes(kept[:size]) for kept, size in zip(came, sizes, strict=True)]

    def _address(self) -> str:
        endpoints = self._role.get_trainer_endpoints() if self._old else self._role._get_trainer_endpoints()
        host = endpoints[0].rsplit(":", 1)[0] if endpoints else "127.0.0.1"
        return socket.gethostbyname(host)

    def _over_store(self, messages: list[bytes]) -> list[bytes]:
        """Through a store of trainer 0, whose address the others receive by a sum."""
        token = bytes(_core.dist.fresh_token()) if self.rank == 0 else b""
        store, announced = None, [0] * 37
        if self.rank == 0:
            store = _core.dist.Store.host("0.0.0.0:0", "global_shuffle", token)
            port = int(store.address.rsplit(":", 1)[1])
            announced = [port, *socket.inet_aton(self._address()), *token[:32]]
            announced += [0] * (37 - len(announced))
        received = self.sum(announced)
        if self.rank != 0:
            if received[0] == 0:
                raise RuntimeError(
                    "global_shuffle: the trainers have not met each other: call init_parallel_env, or set "
                    "PADDLE_WITH_GLOO and its rendezvous before fleet.init"
                )
            where = f"{'.'.join(map(str, received[1:5]))}:{received[0]}"
            store = _core.dist.Store.connect(where, "global_shuffle", bytes(received[5:]))
        assert store is not None
        rounds = max(self._spread([-(-len(m) // _PIECE) for m in messages]), 1)
        came = [bytearray() for _ in messages]
        came[self.rank] += messages[self.rank]
        others = [r for r in range(self.count) if r != self.rank]
        for n in range(rounds):
            for r in others:
                store.set(f"{n}.{self.rank}.{r}", messages[r][n * _PIECE : (n + 1) * _PIECE])
            for r in others:
                key = f"{n}.{r}.{self.rank}"
                came[r] += store.get(key)
                store.delete(key)
        self.barrier()  # the store lives until trainer 0 returns
        return [bytes(m) for m in came]

    def _spread(self, numbers: list[int]) -> int:
        """The maximum over the trainers."""
        table = [0] * self.count
        table[self.rank] = max(numbers)
        return max(self.sum(table))
