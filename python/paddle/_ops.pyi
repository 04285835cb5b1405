# The builtins come from the operator table (`_core.op_table()`): their names are data, not text.
from typing import Any

def __getattr__(name: str) -> Any: ...
