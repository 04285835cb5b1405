"""NVRTC through ctypes: compiles CUDA source for an architecture without a GPU or a driver."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
from pathlib import Path

# The options with which CuPy compiles a RawModule of this package, besides the architecture.
OPTIONS = ("--std=c++14", "-ftz=true")


def library() -> ctypes.CDLL | None:
    """libnvrtc at OAR_NVRTC or of the wheel nvidia-cuda-nvrtc-cu12, or None."""
    if "OAR_NVRTC" in os.environ:
        return ctypes.CDLL(os.environ["OAR_NVRTC"])
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


def log_of(nvrtc: ctypes.CDLL, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    return log.value.decode()


def spilled(log: str) -> list[str]:
    """The functions of ptxas' report that spill registers."""
    found, function = [], ""
    for line in log.splitlines():
        name = re.search(r"Function properties for (\S+)", line)
        function = name[1] if name else function
        spill = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line)
        if spill and (int(spill[1]) or int(spill[2])):
            found.append(f"{function}: {spill[1]} bytes")
    return found


def compile_unit(nvrtc: ctypes.CDLL, name: str, text: str, kernels: tuple[str, ...], arch: str) -> dict[str, str]:
    """Compile to machine code; returns the lowered name of each kernel. AssertionError with the log on failure."""
    program = ctypes.c_void_p()

    def check(code: int, what: str) -> None:
        if code:
            raise AssertionError(f"{name}: {what} failed with {code}:\n{log_of(nvrtc, program)}")

    check(
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), f"{name}.cu".encode(), 0, None, None),
        "nvrtcCreateProgram",
    )
    try:
        for k in kernels:
            check(nvrtc.nvrtcAddNameExpression(program, k.encode()), f"the name {k}")
        words = (*OPTIONS, f"-arch={arch}", "--ptxas-options=-v")
        options = (ctypes.c_char_p * len(words))(*(w.encode() for w in words))
        check(nvrtc.nvrtcCompileProgram(program, len(options), options), "compilation")
        spills = spilled(log_of(nvrtc, program))
        assert not spills, f"{name}: registers are spilled for {arch}: {spills}"
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
