"""Names that upstream's modules import, as sources of names that this package's modules lack.

Packages read names of Paddle's modules that are not in any ``__all__``: ``fluid.layers.core``,
``layer_helper.in_dygraph_mode``. `internal_reasons` has the reasons for internal names that are not here.
"""

from __future__ import annotations

from functools import cache

__all__ = ["imported"]

#: source, and the names that upstream's modules import from it; `new=old` renames
_IMPORTED = """
paddle.fluid: core framework layers unique_name executor compiler initializer backward clip regularizer dygraph
  dygraph_utils optimizer param_attr
paddle.fluid.framework: Block Operator Parameter Program Variable ParamBase OpProtoHolder IrGraph IrNode
  default_main_program default_startup_program program_guard name_scope device_guard in_dygraph_mode dygraph_only
  static_only convert_np_dtype_to_dtype_ _varbase_creator _current_expected_place _dygraph_tracer _get_paddle_place
  _get_paddle_place_list _set_expected_place cpu_places cuda_places is_compiled_with_cuda
paddle.fluid.data_feeder: check_dtype check_type check_variable_and_dtype convert_dtype DataFeeder
paddle.fluid.layer_helper: LayerHelper
paddle.fluid.layer_helper_base: LayerHelperBase
paddle.fluid.dygraph.layer_object_helper: LayerObjectHelper
paddle.fluid.dygraph.base: to_variable no_grad switch_to_static_graph program_desc_tracing_guard
paddle.fluid.dygraph: Layer
paddle.fluid.initializer: Constant Normal NumpyArrayInitializer Initializer Xavier
paddle.fluid.executor: Executor global_scope scope_guard
paddle.fluid.compiler: CompiledProgram
paddle.fluid.param_attr: ParamAttr
paddle.fluid.wrapped_decorator: wrap_decorator signature_safe_contextmanager
paddle.fluid.log_helper: get_logger
paddle.fluid.layers: utils ops tensor control_flow nn
paddle.fluid.layers.tensor: fill_constant assign concat zeros
paddle.fluid.layers.layer_function_generator: templatedoc autodoc generate_layer_fn generate_activation_fn
paddle.fluid.core: VarDesc
paddle.distributed.checkport: wait_server_ready
paddle.distributed: fleet
paddle.utils.deprecated: deprecated
paddle: fluid compat cpt=compat
numpy: np=numpy
"""
_STANDARD = """
abc collections contextlib copy datetime errno functools gzip hashlib importlib inspect itertools logging math
multiprocessing numbers numpy os pickle platform queue random re shutil signal six socket string struct subprocess sys
tarfile tempfile threading time traceback types warnings zipfile
""".split()
_STANDARD_NAMES = {
    "OrderedDict": "collections:OrderedDict",
    "defaultdict": "collections:defaultdict",
    "namedtuple": "collections:namedtuple",
    "partial": "functools:partial",
    "reduce": "functools:reduce",
    "closing": "contextlib:closing",
    "contextmanager": "contextlib:contextmanager",
}


@cache
def _sources() -> dict[str, str]:
    found = {name: f"{name}:." for name in _STANDARD} | dict(_STANDARD_NAMES)
    for line in _IMPORTED.strip().replace("\n  ", " ").split("\n"):
        source, _, names = line.partition(":")
        for name in names.split():
            new, _, old = name.partition("=")
            found[new] = f"{source}:." if old == source else f"{source}:{old or new}"
    return found


def imported(module: str, name: str) -> str | None:
    """The "module:name" that upstream's modules import as `name`; None for another name, or for `paddle` itself."""
    source = _sources().get(name) if "." in module else None
    return None if source is None or source.partition(":")[0] == module else source
