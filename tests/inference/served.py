"""Predictors of saved models, and what they compute."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from paddle.inference import Config, create_predictor


def predictor_of(prefix: str, change: Callable[[Config], Any] | None = None):
    config = Config(prefix + ".pdmodel", prefix + ".pdiparams")
    if change is not None:
        change(config)
    return create_predictor(config)


def outputs_of(predictor, *arrays: np.ndarray) -> list[np.ndarray]:
    for name, array in zip(predictor.get_input_names(), arrays, strict=True):
        predictor.get_input_handle(name).copy_from_cpu(array)
    predictor.run()
    return [predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()]


def operators_of(predictor) -> list[str]:
    block = predictor._session.model.desc.block(0)
    return [block.op(i).type() for i in range(block.op_size())]


def in_threads(serve: Callable[..., Any], arguments: list[tuple]) -> None:
    """Calls a function with each of the arguments, in threads at once."""
    threads = [threading.Thread(target=serve, args=args) for args in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def panels_of(block) -> list[str]:
    """The packed weights that operators of a Program's block name."""
    return [name for op in block.ops if "Panels" in op.input_names for name in op.input("Panels")]
