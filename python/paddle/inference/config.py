"""Config (AnalysisConfig in 1.x): the model of a predictor, and how it is prepared and run."""

from __future__ import annotations

import enum
import os
import warnings
from typing import Any, NoReturn

from paddle.static.predictor import NativeConfig, PaddleTensor

from .pass_builder import CpuPassStrategy

__all__ = ["AnalysisConfig", "MkldnnQuantizerConfig", "PrecisionType"]


class PrecisionType(enum.IntEnum):
    """The precision of TensorRT's and Lite's engines; predictors here have neither."""

    Float32 = 0
    Int8 = 1
    Half = 2
    Bfloat16 = 3


def _refuse(method: str, what: str) -> NoReturn:
    raise NotImplementedError(f"Config.{method}: predictors run on the CPU, {what} is not implemented")


class MkldnnQuantizerConfig:
    """What quantisation after training by oneDNN would read; the quantisation itself is not implemented.

    Args:
        other (MkldnnQuantizerConfig, optional): copied where it is given.
    """

    def __init__(self, other: MkldnnQuantizerConfig | None = None) -> None:
        self._data: list[PaddleTensor] = list(other._data) if other else []
        self._batch_size: int = other._batch_size if other else 1
        self._op_types: set[str] = set(other._op_types) if other else set()

    def set_quant_data(self, data: list[PaddleTensor]) -> None:
        """Sets the samples.

        Args:
            data (list of PaddleTensor): inputs.
        """
        self._data = list(data)

    def set_quant_batch_size(self, batch_size: int) -> None:
        """Sets the size of the batches.

        Args:
            batch_size (int): positive.
        """
        self._batch_size = int(batch_size)

    def set_enabled_op_types(self, op_types: set[str]) -> None:
        """Sets which operators are quantised.

        Args:
            op_types (set of str): their types.
        """
        self._op_types = set(op_types)


class AnalysisConfig:
    """The model of a predictor, and how it is prepared and run.

    Args:
        *model: nothing; another Config, which is copied; the folder of a model of 1.x (``__model__`` and a file for
            each parameter); or the model's file (``.pdmodel``) and that of its parameters (``.pdiparams``).

    Raises:
        TypeError: for other arguments.

    Examples:
        >>> from paddle.inference import Config
        >>> config = Config("net.pdmodel", "net.pdiparams")
        >>> config.switch_ir_optim(False)
        >>> config.ir_optim(), config.prog_file()
        (False, 'net.pdmodel')
    """

    Precision = PrecisionType
    Float32, Int8, Half = PrecisionType.Float32, PrecisionType.Int8, PrecisionType.Half

    def __init__(self, *model: Any) -> None:
        self._model_dir = ""
        self._prog_file: str | bytes = ""
        self._params_file: str | bytes = ""
        self._from_memory = False
        self._passes = CpuPassStrategy()
        self._optimise = True
        self._memory_optim = self._profile = self._ir_debug = self._specify_input_names = False
        self._mkldnn = self._bfloat16 = False
        self._feed_fetch_ops = True
        self._glog_info = True
        self._cache_dir = ""
        self._threads = 1
        self._bfloat16_ops: frozenset[str] = frozenset()
        if len(model) == 1 and isinstance(model[0], AnalysisConfig):
            self.__dict__.update(model[0]._copy().__dict__)
        elif model:
            self.set_model(*model)

    def _copy(self) -> AnalysisConfig:
        copy = AnalysisConfig()
        copy.__dict__.update(self.__dict__)
        copy._passes = self._passes._copy()
        return copy

    # ------------------------------------------------------------------ the model

    def set_model(self, *model: str) -> None:
        """Sets the model.

        Args:
            *model (str): its folder; or its file and that of its parameters.

        Raises:
            TypeError: for other arguments.
        """
        if not 1 <= len(model) <= 2 or not all(isinstance(m, (str, os.PathLike)) for m in model):
            raise TypeError(
                "Config: a model is its folder, or its file and that of its parameters, as str; got "
                f"{', '.join(str(type(m)) for m in model)}"
            )
        paths = [os.fspath(m) for m in model]
        if len(paths) == 1:
            self._model_dir = paths[0]
        else:
            self._prog_file, self._params_file = paths
        self._from_memory = False

    def set_prog_file(self, x: str) -> None:
        """Sets the model's file.

        Args:
            x (str): the path.
        """
        self._prog_file = os.fspath(x)

    def set_params_file(self, x: str) -> None:
        """Sets the file of the parameters.

        Args:
            x (str): the path.
        """
        self._params_file = os.fspath(x)

    def model_dir(self) -> str:
        """The folder of the model."""
        return self._model_dir

    def prog_file(self) -> str | bytes:
        """The path of the model's file, or its bytes where the model is in memory."""
        return self._prog_file

    def params_file(self) -> str | bytes:
        """The path of the parameters' file, or its bytes where the model is in memory."""
        return self._params_file

    def set_model_buffer(
        self, prog_buffer: bytes, prog_buffer_size: int, params_buffer: bytes, params_buffer_size: int
    ) -> None:
        """Sets a model in memory.

        Args:
            prog_buffer (bytes): the content of the model's file.
            prog_buffer_size (int): how many bytes of it count.
            params_buffer (bytes): the content of the parameters' file.
            params_buffer_size (int): how many bytes of it count.

        Raises:
            TypeError: for buffers of other types. ValueError: for a size beyond the buffer's.
        """
        contents = []
        for what, data, size in (
            ("prog_buffer", prog_buffer, prog_buffer_size),
            ("params_buffer", params_buffer, params_buffer_size),
        ):
            if not isinstance(data, (bytes, bytearray, memoryview, str)):
                raise TypeError(f"Config.set_model_buffer: {what} must be bytes, got {type(data)}")
            content = data.encode("latin1") if isinstance(data, str) else bytes(data)
            if not 0 <= size <= len(content):
                raise ValueError(f"Config.set_model_buffer: {what} has {len(content)} bytes, but its size is {size}")
            contents.append(content[:size])
        self._prog_file, self._params_file = contents
        self._from_memory = True

    def model_from_memory(self) -> bool:
        """Whether the model is in memory."""
        return self._from_memory

    # ------------------------------------------------------------------ devices

    def enable_use_gpu(self, memory_pool_init_size_mb: int, device_id: int = 0) -> NoReturn:
        """Not implemented: raises NotImplementedError.

        Args:
            memory_pool_init_size_mb (int), device_id (int): as in Paddle.
        """
        _refuse("enable_use_gpu", "inference on GPUs")

    def enable_xpu(self, l3_workspace_size: int) -> NoReturn:
        """Not implemented: raises NotImplementedError.

        Args:
            l3_workspace_size (int): as in Paddle.
        """
        _refuse("enable_xpu", "inference on XPUs")

    def disable_gpu(self) -> None:
        """No effect: predictors run on the CPU."""

    def use_gpu(self) -> bool:
        """False."""
        return False

    def use_xpu(self) -> bool:
        """False."""
        return False

    def gpu_device_id(self) -> int:
        """0: there is no GPU."""
        return 0

    def xpu_device_id(self) -> int:
        """0: there is no XPU."""
        return 0

    def memory_pool_init_size_mb(self) -> int:
        """The size of a GPU's memory pool, which is not used: 100, as in Paddle."""
        return 100

    def fraction_of_gpu_memory_for_pool(self) -> float:
        """0: there is no GPU."""
        return 0.0

    def enable_tensorrt_engine(
        self,
        workspace_size: int = 1 << 20,
        max_batch_size: int = 1,
        min_subgraph_size: int = 3,
        precision_mode: PrecisionType = PrecisionType.Float32,
        use_static: bool = False,
        use_calib_mode: bool = True,
    ) -> NoReturn:
        """Not implemented: raises NotImplementedError.

        Args:
            workspace_size (int), max_batch_size (int), min_subgraph_size (int), precision_mode (PrecisionType),
            use_static (bool), use_calib_mode (bool): as in Paddle.
        """
        _refuse("enable_tensorrt_engine", "TensorRT")

    def set_trt_dynamic_shape_info(
        self,
        min_input_shape: dict[str, list[int]] | None = None,
        max_input_shape: dict[str, list[int]] | None = None,
        optim_input_shape: dict[str, list[int]] | None = None,
        disable_trt_plugin_fp16: bool = False,
    ) -> NoReturn:
        """Not implemented: raises NotImplementedError.

        Args:
            min_input_shape (dict), max_input_shape (dict), optim_input_shape (dict), disable_trt_plugin_fp16 (bool): as
                in Paddle.
        """
        _refuse("set_trt_dynamic_shape_info", "TensorRT")

    def enable_tensorrt_oss(self) -> NoReturn:
        """Not implemented: raises NotImplementedError."""
        _refuse("enable_tensorrt_oss", "TensorRT")

    def tensorrt_oss_enabled(self) -> bool:
        """False."""
        return False

    def enable_tensorrt_dla(self, dla_core: int = 0) -> NoReturn:
        """Not implemented: raises NotImplementedError.

        Args:
            dla_core (int): as in Paddle.
        """
        _refuse("enable_tensorrt_dla", "TensorRT")

    def tensorrt_dla_enabled(self) -> bool:
        """False."""
        return False

    def tensorrt_engine_enabled(self) -> bool:
        """False."""
        return False

    def enable_lite_engine(
        self,
        precision_mode: PrecisionType = PrecisionType.Float32,
        zero_copy: bool = False,
        passes_filter: list[str] | None = None,
        ops_filter: list[str] | None = None,
    ) -> NoReturn:
        """Not implemented: raises NotImplementedError.

        Args:
            precision_mode (PrecisionType), zero_copy (bool), passes_filter (list of str), ops_filter (list of str): as
                in Paddle.
        """
        _refuse("enable_lite_engine", "Paddle-Lite")

    def lite_engine_enabled(self) -> bool:
        """False."""
        return False

    # ------------------------------------------------------------------ preparation

    def switch_ir_optim(self, x: bool = True) -> None:
        """Switches the passes over the model on or off.

        Args:
            x (bool): False runs the operators as they are in the file.
        """
        self._optimise = bool(x)

    def ir_optim(self) -> bool:
        """Whether passes are applied."""
        return self._optimise

    def switch_ir_debug(self, x: bool = True) -> None:
        """With True the model after each pass is written to a file <n>_ir_<pass>.dot in the current folder.

        Args:
            x (bool): on or off.
        """
        self._ir_debug = bool(x)
        if self._ir_debug:
            self._passes.turn_on_debug()
        else:
            self._passes.delete_pass("graph_viz_pass")

    def delete_pass(self, pass_name: str) -> None:
        """Removes a pass from the list; a name that is not in it is ignored, as in Paddle.

        Args:
            pass_name (str): its name.
        """
        self._passes.delete_pass(pass_name)

    def pass_builder(self) -> CpuPassStrategy:
        """The list of passes, which may be edited."""
        return self._passes

    def set_optim_cache_dir(self, opt_cache_dir: str) -> None:
        """Sets a folder for TensorRT's and Lite's files, which are not written here.

        Args:
            opt_cache_dir (str): the folder.
        """
        self._cache_dir = opt_cache_dir

    def enable_memory_optim(self) -> None:
        """Accepted; a run reuses the memory of variables that are no longer read with or without it."""
        self._memory_optim = True

    def enable_mkldnn(self) -> None:
        """Accepted; the kernels do not change, as oneDNN is not used."""
        self._mkldnn = True
        if self._optimise:
            self._passes.enable_mkldnn()

    def mkldnn_enabled(self) -> bool:
        """Whether `enable_mkldnn` was called."""
        return self._mkldnn

    def set_mkldnn_cache_capacity(self, capacity: int = 0) -> None:
        """Accepted: there is no cache by shape to limit.

        Args:
            capacity (int): a number of shapes.
        """

    def set_mkldnn_op(self, op_list: set[str]) -> None:
        """Accepted; the kernels do not change.

        Args:
            op_list (set of str): types of operators.
        """

    def enable_mkldnn_bfloat16(self) -> None:
        """Products compute in bfloat16 where the processor has AMX or AVX512-BF16, else in float32.

        Operands are rounded, sums are float32. Convolutions are products where their filters have one pixel.
        """
        self._bfloat16 = True
        self._passes.enable_mkldnn_bfloat16()

    def set_bfloat16_op(self, op_list: set[str]) -> None:
        """Restricts `enable_mkldnn_bfloat16`.

        Args:
            op_list (set of str): the types of operators that compute in bfloat16.
        """
        self._bfloat16_ops = frozenset(op_list)

    def enable_quantizer(self) -> None:
        """Not implemented: raises NotImplementedError. Models quantised by slim are served as they are."""
        self._passes.enable_mkldnn_quantizer()

    def quantizer_config(self) -> NoReturn:
        """RuntimeError, as in Paddle without `enable_quantizer`."""
        raise RuntimeError("Config.quantizer_config: MkldnnQuantizer was not enabled yet.")

    # ------------------------------------------------------------------ runs

    def set_cpu_math_library_num_threads(self, cpu_math_library_num_threads: int) -> None:
        """Sets the number of threads of an operator of this predictor; 1 by default.

        Args:
            cpu_math_library_num_threads (int): positive.

        Raises:
            TypeError, ValueError: for anything else.
        """
        threads = cpu_math_library_num_threads
        if not isinstance(threads, int):
            raise TypeError(f"Config.set_cpu_math_library_num_threads: an int is expected, got {type(threads)}")
        if threads < 1:
            raise ValueError(f"Config.set_cpu_math_library_num_threads: the number must be positive, got {threads}")
        self._threads = threads

    def cpu_math_library_num_threads(self) -> int:
        """The number of threads of an operator."""
        return self._threads

    def switch_use_feed_fetch_ops(self, x: bool = True) -> None:
        """Accepted: `run` takes PaddleTensors and `zero_copy_run` handles with either.

        Args:
            x (bool): on or off.
        """
        self._feed_fetch_ops = bool(x)

    def use_feed_fetch_ops_enabled(self) -> bool:
        """What `switch_use_feed_fetch_ops` has set; True by default."""
        return self._feed_fetch_ops

    def switch_specify_input_names(self, x: bool = True) -> None:
        """With True PaddleTensors feed the inputs of their names, else the inputs in order.

        Args:
            x (bool): on or off.
        """
        self._specify_input_names = bool(x)

    def specify_input_name(self) -> bool:
        """Whether PaddleTensors feed the inputs of their names."""
        return self._specify_input_names

    def enable_profile(self) -> None:
        """Times the operators of all runs; the predictor's end prints the report."""
        self._profile = True

    def disable_glog_info(self) -> None:
        """Accepted: predictors print nothing."""
        self._glog_info = False

    def glog_info_disabled(self) -> bool:
        """Whether `disable_glog_info` was called."""
        return not self._glog_info

    def to_native_config(self) -> NativeConfig:
        """The same model as a NativeConfig."""
        native = NativeConfig()
        native.model_dir = self._model_dir
        native.prog_file, native.param_file = self._prog_file, self._params_file  # type: ignore[assignment]
        native.specify_input_name = self._specify_input_names
        return native

    def _warn_unused(self) -> None:
        if self._mkldnn and not self._optimise:
            warnings.warn("Config.enable_mkldnn works only while switch_ir_optim is on", stacklevel=3)
