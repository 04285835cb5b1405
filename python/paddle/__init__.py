"""PaddlePaddle 2.0's API over a Rust core."""
from paddle.framework.dygraph import disable_static, enable_static, grad, in_dynamic_mode
from paddle.framework.dygraph import no_grad_ as no_grad

from . import static  # noqa: I001
from . import fluid
