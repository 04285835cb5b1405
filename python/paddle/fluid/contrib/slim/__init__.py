"""fluid.contrib.slim: smaller models; of it there is the package `quantization`."""

__all__: list[str] = []
