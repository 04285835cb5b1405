"""One builtin for each operator: runs it in dygraph mode, appends it to the current Program in static mode."""

import paddle._core as _core

globals().update({name: getattr(_core.ops, name) for name in dir(_core.ops) if not name.startswith("__")})
