"""PaddlePaddle 2.0's API over a Rust core."""
from paddle import _core
from paddle.framework.default_dtype import get_default_dtype, set_default_dtype
from paddle.framework.dygraph import disable_static, enable_static, grad, in_dynamic_mode
from paddle.framework.dygraph import no_grad_ as no_grad
from paddle.framework.place import CPUPlace, CUDAPinnedPlace, CUDAPlace
from paddle.framework.to_string import set_printoptions

Tensor = VarBase = _core.Tensor

from . import tensor  # noqa: E402,I001
from .tensor import to_tensor  # noqa: E402
from . import static  # noqa: E402
from . import fluid  # noqa: E402

__version__ = "2.0.2"
full_version = __version__
