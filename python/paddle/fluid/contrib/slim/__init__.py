"""fluid.contrib.slim: model compression; only the package `quantization` is implemented."""

__all__: list[str] = []
