from paddle import _core
