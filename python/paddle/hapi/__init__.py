"""paddle.hapi: Model (training, evaluation, prediction), callbacks, summary and flops of networks."""

from . import callbacks, model, model_summary
from .dynamic_flops import flops
from .model import Model
from .model_summary import summary

__all__ = ["Model", "flops", "summary"]
