"""ConfigFactory: distillers, strategies and settings of a Compressor, from a YAML file."""

from __future__ import annotations

import inspect
import os
from typing import Any

from paddle.utils.lazy_import import try_import

from ..distillation import DistillationStrategy, FSPDistiller, L2Distiller, SoftLabelDistiller
from ..quantization import QuantizationStrategy

__all__ = ["ConfigFactory"]

_SECTIONS = ("pruners", "quantizers", "distillers", "strategies", "controllers")
_CLASSES: dict[str, Any] = {
    c.__name__: c for c in (DistillationStrategy, FSPDistiller, L2Distiller, QuantizationStrategy, SoftLabelDistiller)
}
#: Classes of 1.8 that are not here, and what replaces them.
_REPLACED = {
    "StructurePruner": "paddleslim.prune.Pruner",
    "UniformPruneStrategy": "paddleslim.prune.Pruner",
    "SensitivePruneStrategy": "paddleslim.prune.sensitivity and Pruner",
    "PruneStrategy": "paddleslim.prune.Pruner",
    "AutoPruneStrategy": "paddleslim.prune.AutoPruner",
    "LightNASStrategy": "paddleslim.nas.SANAS",
    "SAController": "paddleslim.common.SAController",
    "MKLDNNPostTrainingQuantStrategy": "fluid.contrib.slim.quantization.PostTrainingQuantization",
}


class ConfigFactory:
    """Objects by the names that a YAML file gives them.

    Args:
        config (str): the file. Sections `pruners`, `quantizers`, `distillers`, `strategies` and `controllers` map names
            to a ``class`` and its arguments, which may be names of objects defined above; ``compressor`` has `epoch`,
            `strategies`, `checkpoint_path`, `init_model`, `eval_epoch`; ``include`` lists further files.

    Attributes:
        instances (dict): the objects. compressor (dict): the settings. version (int or None).

    Raises:
        NotImplementedError: the class is one of 1.8's for pruning or architecture search, which paddleslim has.
        ValueError: the class is unknown, or a strategy is not defined.
    """

    def __init__(self, config: str) -> None:
        self.instances: dict[str, Any] = {}
        self.compressor: dict[str, Any] = {}
        self.version: int | None = None
        self._read(config)

    def instance(self, name: str) -> Any:
        """The object, or None."""
        return self.instances.get(name)

    def _read(self, path: str) -> None:
        yaml = try_import("yaml")
        with open(path, encoding="utf-8") as file:
            sections = yaml.safe_load(file) or {}
        for section, content in sections.items():
            if section == "version" and self.version is None:
                self.version = int(content)
            elif section in _SECTIONS:
                for name, fields in content.items():
                    if name not in self.instances:
                        self.instances[name] = self._made(name, dict(fields), path)
            elif section == "compressor":
                self._settings(content, path)
            elif section == "include":
                for other in content:
                    self._read(other.strip())

    def _made(self, name: str, fields: dict[str, Any], path: str) -> Any:
        kind = fields.pop("class", None)
        if kind in _REPLACED:
            raise NotImplementedError(f"{path}: {name}: class {kind} is not here: use {_REPLACED[kind]}")
        if kind not in _CLASSES:
            raise ValueError(f"{path}: {name}: class must be one of {sorted(_CLASSES)}, got {kind!r}")
        known = set(inspect.signature(_CLASSES[kind]).parameters)
        return _CLASSES[kind](**{key: self._value(value) for key, value in fields.items() if key in known})

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, str):
            return None if value.lower() == "none" else self.instances.get(value, value)
        return value

    def _settings(self, content: dict[str, Any], path: str) -> None:
        self.compressor = {
            k: content[k] for k in ("epoch", "init_model", "checkpoint_path", "eval_epoch") if k in content
        }
        if "epoch" not in content:
            raise ValueError(f"{os.fspath(path)}: compressor: epoch is missing")
        missing = [name for name in content.get("strategies", []) if name not in self.instances]
        if missing:
            raise ValueError(f"{path}: compressor: strategies {missing} are not defined above")
        self.compressor["strategies"] = [self.instances[name] for name in content.get("strategies", [])]
