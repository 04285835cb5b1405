"""Readers for distributed training."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

__all__ = ["distributed_batch_reader"]


def distributed_batch_reader(batch_reader: Callable[[], Any]) -> Callable[[], Iterator[Any]]:
    """Distributes the batches of a reader over the n trainers of a job: trainer i reads the batches i, i + n, ...

    Source: paddle.fluid.contrib.reader.distributed_batch_reader of Paddle 2.0.2.

    The number of trainers and the index of this one are PADDLE_TRAINERS_NUM and PADDLE_TRAINER_ID, read at the call.
    An incomplete last round of batches is dropped, so that every trainer runs the same number of steps.

    Args:
        batch_reader (callable): a reader of batches: called without arguments, it yields them.

    Returns:
        callable: a reader of this trainer's batches.

    Raises:
        ValueError: for an index that is not below the number of trainers.

    Examples:
        >>> import os, paddle
        >>> os.environ.update(PADDLE_TRAINERS_NUM="2", PADDLE_TRAINER_ID="1")
        >>> reader = paddle.incubate.reader.distributed_batch_reader(lambda: range(7))
        >>> list(reader())
        start data reader (trainers_num: 2, trainer_id: 1)
        [1, 3, 5]
        >>> del os.environ["PADDLE_TRAINERS_NUM"], os.environ["PADDLE_TRAINER_ID"]
    """
    trainers = int(os.environ.get("PADDLE_TRAINERS_NUM", 1))
    number = int(os.environ.get("PADDLE_TRAINER_ID", 0))
    if not 0 <= number < trainers:
        raise ValueError(f"distributed_batch_reader: PADDLE_TRAINER_ID is {number}, with {trainers} trainers")

    def batches() -> Iterator[Any]:
        if trainers == 1:
            yield from batch_reader()
            return
        print(f"start data reader (trainers_num: {trainers}, trainer_id: {number})")
        source = iter(batch_reader())
        while len(turn := list(islice(source, trainers))) == trainers:
            yield turn[number]

    return batches
