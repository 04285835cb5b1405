"""ParamAttr: name, initializer, learning rate, regularizer and other attributes of a parameter."""

from __future__ import annotations

from typing import Any, ClassVar

from paddle._basics.checks import check_type
from paddle.nn.initializer.base import Constant, Initializer, Xavier
from paddle.regularizer import WeightDecayRegularizer

__all__ = ["ParamAttr", "WeightNormParamAttr"]


class ParamAttr:
    """The attributes of a parameter.

    Args:
        name: the parameter's name (default: a unique name); ValueError if empty.
        initializer: its initializer (default: Xavier for weights, zeros for biases).
        learning_rate: a factor of the optimizer's learning rate.
        regularizer: its weight decay, instead of the optimizer's.
        trainable: whether it is trained.
        do_model_average: whether it is included in model averaging.
        need_clip: whether its gradient is included in gradient clipping.

    In static mode arguments of wrong types raise TypeError.

    Examples:
        >>> import paddle
        >>> attr = paddle.ParamAttr(name="weight", learning_rate=0.5, trainable=True)
        >>> attr.name, attr.learning_rate
        ('weight', 0.5)
    """

    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: WeightDecayRegularizer | None = None,
        trainable: bool = True,
        do_model_average: bool = True,
        need_clip: bool = True,
    ) -> None:
        check_type(name, "name", (str, type(None)), "ParamAttr")
        check_type(learning_rate, "learning_rate", (float, int), "ParamAttr")
        check_type(trainable, "trainable", bool, "ParamAttr")
        check_type(do_model_average, "do_model_average", bool, "ParamAttr")
        check_type(need_clip, "need_clip", bool, "ParamAttr")
        check_type(initializer, "initializer", (Initializer, type(None)), "ParamAttr")
        check_type(regularizer, "regularizer", (WeightDecayRegularizer, type(None)), "ParamAttr")
        if name == "":
            raise ValueError("ParamAttr: the name must not be empty")

        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average
        self.need_clip = need_clip

    def _set_default_initializer(self, initializer: Initializer | None) -> None:
        if self.initializer is None:
            if initializer is None:
                raise ValueError("ParamAttr.initializer is not set")
            self.initializer = initializer

    def _set_default_param_initializer(self) -> None:
        self._set_default_initializer(Xavier())

    def _set_default_bias_initializer(self) -> None:
        self._set_default_initializer(Constant(0.0))

    @staticmethod
    def _to_attr(arg: Any) -> Any:
        """A ParamAttr from the forms that layers accept; False (no parameter) is returned as it is."""
        if arg is None:
            return ParamAttr()
        if isinstance(arg, (list, tuple)):
            return [ParamAttr._to_attr(a) for a in arg]
        if isinstance(arg, ParamAttr):
            return arg
        if isinstance(arg, str):
            return ParamAttr(name=arg)
        if isinstance(arg, Initializer):
            return ParamAttr(initializer=arg)
        if isinstance(arg, WeightDecayRegularizer):
            return ParamAttr(regularizer=arg)
        if isinstance(arg, bool):
            return ParamAttr() if arg else False
        raise TypeError(f"{type(arg)} cast to ParamAttr")

    def _to_kwargs(self, with_initializer: bool = False) -> dict[str, Any]:
        """Keyword arguments of `Block.create_parameter`."""
        kwargs: dict[str, Any] = {
            "name": self.name,
            "optimize_attr": {"learning_rate": self.learning_rate},
            "regularizer": self.regularizer,
            "trainable": self.trainable,
            "do_model_average": self.do_model_average,
            "need_clip": self.need_clip,
        }
        if with_initializer:
            kwargs["initializer"] = self.initializer
        return kwargs


class WeightNormParamAttr(ParamAttr):
    """A weight that is trained as a direction and a magnitude (weight normalization), in static mode.

    `dim` is the dimension whose slices have a magnitude each; None: one magnitude for the whole weight. The other
    arguments are those of ParamAttr.

    Examples:
        >>> import paddle
        >>> paddle.static.WeightNormParamAttr(dim=1, name="w").dim
        1
    """

    # The normalized weights: results of operators, not parameters.
    params_with_weight_norm: ClassVar[list[Any]] = []

    def __init__(
        self,
        dim: int | None = None,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: WeightDecayRegularizer | None = None,
        trainable: bool = True,
        do_model_average: bool = False,
        need_clip: bool = True,
    ) -> None:
        super().__init__(
            name=name,
            initializer=initializer,
            learning_rate=learning_rate,
            regularizer=regularizer,
            trainable=trainable,
            do_model_average=do_model_average,
            need_clip=need_clip,
        )
        self.dim = dim
