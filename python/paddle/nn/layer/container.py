"""Containers of layers and parameters: Sequential, LayerList, ParameterList."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from paddle._basics.checks import INTS
from paddle._programs.variable import Parameter
from paddle.nn.layer.layers import Layer

__all__ = ["Sequential", "ParameterList", "LayerList"]


class Sequential(Layer):
    """Runs layers in order, each on the output of the previous one.

    Takes layers, named "0", "1", ..., or tuples (name, layer).

    Examples:
        >>> import paddle
        >>> net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 2))
        >>> net(paddle.ones([3, 4])).shape
        [3, 2]
        >>> len(net), type(net[1]).__name__
        (3, 'ReLU')
    """

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        if layers and isinstance(layers[0], tuple):
            for name, layer in layers:
                self.add_sublayer(name, layer)
        else:
            for idx, layer in enumerate(layers):
                self.add_sublayer(str(idx), layer)

    def __getitem__(self, name: Any) -> Any:
        if isinstance(name, slice):
            return type(self)(*list(self._sub_layers.values())[name])
        if isinstance(name, str):
            return self._sub_layers[name]
        size = len(self._sub_layers)
        if not -size <= name < size:
            raise IndexError(f"index {name} is out of range")
        key = str(name % size)
        # Named layers have no numeric key: use the position.
        return self._sub_layers[key] if key in self._sub_layers else list(self._sub_layers.values())[name]

    def __setitem__(self, name: Any, layer: Layer) -> None:
        assert isinstance(layer, Layer), f"layer should be a Layer, but received {type(layer).__name__}"
        setattr(self, str(name), layer)

    def __delitem__(self, name: Any) -> None:
        name = str(name)
        assert name in self._sub_layers, f"there is no layer {name}"
        del self._sub_layers[name]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def forward(self, input: Any) -> Any:
        """The output of the last layer."""
        for layer in self._sub_layers.values():
            input = layer(input)
        return input


class ParameterList(Layer):
    """A list of parameters, registered with this layer.

    Examples:
        >>> import paddle
        >>> class Net(paddle.nn.Layer):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.weights = paddle.nn.ParameterList([self.create_parameter([2, 2]) for _ in range(3)])
        >>> len(Net().parameters())
        3
    """

    def __init__(self, parameters: Iterable[Any] | None = None) -> None:
        super().__init__()
        for idx, param in enumerate(() if parameters is None else parameters):
            assert isinstance(param, Parameter), f"expected a Parameter, but received {type(param).__name__}"
            self.add_parameter(str(idx), param)

    def __getitem__(self, idx: int) -> Any:
        return self._parameters[str(idx)]

    def __setitem__(self, idx: int, param: Any) -> None:
        assert isinstance(param, Parameter), f"expected a Parameter, but received {type(param).__name__}"
        setattr(self, str(idx), param)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def append(self, parameter: Any) -> ParameterList:
        """Appends a parameter; returns the list."""
        self.add_parameter(str(len(self._parameters)), parameter)
        return self


class LayerList(Layer):
    """A list of layers, registered as sublayers.

    Examples:
        >>> import paddle
        >>> layers = paddle.nn.LayerList([paddle.nn.Linear(2, 2) for _ in range(3)])
        >>> len(layers), len(layers[1:]), len(layers.parameters())
        (3, 2, 6)
    """

    def __init__(self, sublayers: Iterable[Layer] | None = None) -> None:
        super().__init__()
        for idx, layer in enumerate(() if sublayers is None else sublayers):
            self.add_sublayer(str(idx), layer)

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self._sub_layers.values())[idx])
        return self._sub_layers[self._key(idx)]

    def _key(self, idx: int) -> str:
        # Negative indices count from the end; an index out of range raises KeyError, as in 2.0.2.
        return str(idx + len(self._sub_layers) if idx < 0 else idx)

    def __setitem__(self, idx: int, sublayer: Layer) -> None:
        setattr(self, self._key(idx), sublayer)

    def __delitem__(self, idx: Any) -> None:
        if isinstance(idx, slice):
            for k in range(len(self._sub_layers))[idx]:
                delattr(self, str(k))
        else:
            delattr(self, self._key(idx))
        self._sub_layers = OrderedDict((str(i), layer) for i, layer in enumerate(self._sub_layers.values()))

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._sub_layers.values())

    def append(self, sublayer: Layer) -> LayerList:
        """Appends a layer; returns the list."""
        self.add_sublayer(str(len(self)), sublayer)
        return self

    def insert(self, index: int, sublayer: Layer) -> None:
        """Inserts a layer before the one at `index`, in range(len(self)); AssertionError for another index."""
        assert isinstance(index, INTS) and 0 <= index < len(self._sub_layers), (
            "index must be an int from 0 to len(self) - 1"
        )
        layers = list(self._sub_layers.values())
        layers.insert(index, sublayer)
        self._sub_layers.clear()
        self.extend(layers)

    def extend(self, sublayers: Iterable[Layer]) -> LayerList:
        """Appends layers; returns the list."""
        for layer in list(sublayers):
            self.append(layer)
        return self
