"""paddle.inference: saved models behind a predictor."""

from .config import AnalysisConfig as Config
from .config import PrecisionType
from .data_types import DataType, PlaceType, get_num_bytes_of_data_type, get_version
from .handles import Tensor
from .predictor import Predictor, PredictorPool, create_predictor

__all__ = [
    "Config",
    "DataType",
    "PlaceType",
    "PrecisionType",
    "Tensor",
    "Predictor",
    "create_predictor",
    "get_version",
    "get_num_bytes_of_data_type",
    "PredictorPool",
]
