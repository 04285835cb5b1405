"""NVRTC through ctypes: compiles CUDA source for an architecture without a GPU or a driver."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path


def library() -> ctypes.CDLL | None:
    """libnvrtc of the wheel nvidia-cuda-nvrtc-cu12, or None."""
    try:
        spec = importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        return None
    if spec is None:
        return None
    for folder in spec.submodule_search_locations or []:
        for path in sorted((Path(folder) / "lib").glob("libnvrtc.so.*")):
            return ctypes.CDLL(str(path))
    return None


def compile_unit(nvrtc: ctypes.CDLL, name: str, text: str, kernels: tuple[str, ...], arch: str) -> dict[str, str]:
    """Compile to machine code; returns the lowered name of each kernel. AssertionError with the log on failure."""
    program = ctypes.c_void_p()

    def check(code: int, what: str) -> None:
        if code:
            size = ctypes.c_size_t()
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise AssertionError(f"{name}: {what} failed with {code}:\n{log.value.decode()}")

    check(
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), f"{name}.cu".encode(), 0, None, None),
        "nvrtcCreateProgram",
    )
    try:
        for k in kernels:
            check(nvrtc.nvrtcAddNameExpression(program, k.encode()), f"the name {k}")
        options = (ctypes.c_char_p * 2)(b"--std=c++14", f"--gpu-architecture={arch}".encode())
        check(nvrtc.nvrtcCompileProgram(program, len(options), options), "compilation")
        size = ctypes.c_size_t()
        check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "nvrtcGetCUBINSize")
        assert size.value > 0, f"{name}: no code for {arch}"
        lowered = {}
        for k in kernels:
            found = ctypes.c_char_p()
            check(nvrtc.nvrtcGetLoweredName(program, k.encode(), ctypes.byref(found)), f"the lowered name of {k}")
            lowered[k] = found.value.decode()
        return lowered
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
