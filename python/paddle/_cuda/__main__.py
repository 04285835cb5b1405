"""Lists the operators with and without a CUDA launcher: ``python -m paddle._cuda``."""

import textwrap

import paddle._core as _core
from paddle import _cuda


def main() -> None:
    lacking = _cuda.without_launcher()
    kernels = sum(op["kernel"] == "kernel" for op in _core.op_table())
    print(f"operators with a CUDA launcher: {kernels - len(lacking)} of {kernels}")
    print("without one:")
    print(textwrap.fill(" ".join(lacking), 116, initial_indent="  ", subsequent_indent="  "))


if __name__ == "__main__":
    main()
