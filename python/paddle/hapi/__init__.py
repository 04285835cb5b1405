"""paddle.hapi: Model, which trains, tests and runs a network; its callbacks; tables of a network's layers."""

from . import callbacks, model, model_summary
from .dynamic_flops import flops
from .model import Model
from .model_summary import summary

__all__ = ["Model", "flops", "summary"]
