"""fluid.dygraph.static_runner: StaticModelRunner, an older name of `paddle.jit.load`."""

from __future__ import annotations

from paddle.jit.loading import load
from paddle.jit.translated_layer import TranslatedLayer

__all__ = ["StaticModelRunner"]


class StaticModelRunner:
    """Loads a model as a Layer, for inference and fine-tuning; calling the class returns a TranslatedLayer.

    Args:
        model_dir (str): the folder of the model, or its prefix.
        model_filename (str, optional): the model's file, ``__model__`` when None.
        params_filename (str, optional): the file of all parameters; a file for each when None.

    Raises:
        ValueError: when there is no model. RuntimeError: when the parameters do not fit it.
    """

    def __new__(  # type: ignore[misc]  # as in Paddle, no instance of itself
        cls, model_dir: str, model_filename: str | None = None, params_filename: str | None = None
    ) -> TranslatedLayer:
        """As of the class."""
        return load(model_dir, model_filename=model_filename, params_filename=params_filename)
