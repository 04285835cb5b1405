"""DataFeeder: conversion of lists of samples to feeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import paddle._core as core
from paddle._basics.dtypes import to_numpy_dtype
from paddle._basics.mode import _cpu_num, _cuda_ids
from paddle._basics.place import CPUPlace, CUDAPlace
from paddle._programs import guards
from paddle._programs.variable import Variable, isinstance_of

__all__ = ["DataFeeder"]


class DataToLoDTensorConverter:
    """Collects the values of one variable over the samples of a batch.

    Args:
        place: the tensor's place.
        lod_level (int): levels of sequence nesting of a value.
        shape (sequence of int): the shape of each batch, unless more than one size is unknown.
        dtype: element type.
    """

    def __init__(self, place, lod_level, shape, dtype) -> None:
        self.place = place
        self.lod_level = lod_level
        self.shape = None if sum(n < 0 for n in shape) > 1 else tuple(shape)
        self.dtype = to_numpy_dtype(dtype)
        self._reset()

    def _reset(self) -> None:
        self.data: list = []
        self.lod: list[list[int]] = [[] for _ in range(self.lod_level)]

    def feed(self, data) -> None:
        """Append one sample's value."""
        self._take(data, 0)

    def _take(self, data, level: int) -> None:
        if level == self.lod_level:
            self.data.append(data)
            return
        self.lod[level].append(len(data))
        for item in data:
            self._take(item, level + 1)

    def done(self):
        """The batch as a LoDTensor; ValueError when it does not have the variable's shape."""
        array = np.array(self.data, dtype=self.dtype)
        if self.shape and array.ndim != len(self.shape):
            try:
                array = array.reshape(self.shape)
            except ValueError:
                raise ValueError(
                    f"feed: data of shape {array.shape} does not fit the declared shape {self.shape}"
                ) from None
        tensor = core.LoDTensor()
        tensor.set(array, self.place)
        if self.lod_level > 0:
            tensor.set_recursive_sequence_lengths(self.lod)
        self._reset()
        return tensor


class BatchedTensorProvider:
    """Turns a generator of samples into batches of LoDTensors.

    Args:
        feed_list (list of Variable): without LoD.
        place: where tensors go.
        batch_size (int): samples in a batch.
        generator (callable): returns an iterator over samples.
        drop_last (bool): drop an incomplete last batch.
    """

    def __init__(self, feed_list, place, batch_size, generator, drop_last) -> None:
        for var in feed_list:
            assert var.lod_level == 0, "lod_level must be 0"
        self.place = place
        self.batch_size = batch_size
        self.generator = generator
        self.drop_last = drop_last
        self.converters = [DataToLoDTensorConverter(place, 0, v.shape, v.dtype) for v in feed_list]

    def __call__(self) -> Iterator[list]:
        count = 0
        for sample in self.generator():
            for value, converter in zip(sample, self.converters, strict=False):
                converter.data.append(value)
            count += 1
            if count == self.batch_size:
                count = 0
                yield [c.done() for c in self.converters]
        if count and not self.drop_last:
            yield [c.done() for c in self.converters]
        else:
            for converter in self.converters:
                converter._reset()


class DataFeeder:
    """Converts batches, which are lists of samples, to feeds of ``Executor.run``.

    Args:
        feed_list (list of Variable|str): the variables, in the order of a sample's fields.
        place: where tensors go.
        program (Program, optional): the Program of the names; the default main program when None.

    Raises:
        TypeError: for items other than variables and names.

    Examples:
        >>> import numpy as np, paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> x = fluid.data("x", [None, 2])
        >>> feeder = fluid.DataFeeder([x], fluid.CPUPlace())
        >>> feeder.feed([([1.0, 2.0],), ([3.0, 4.0],)])["x"].shape()
        [2, 2]
    """

    def __init__(self, feed_list, place, program=None) -> None:
        program = guards.default_main_program() if program is None else program
        self.feed_dtypes, self.feed_names, self.feed_shapes, self.feed_lod_level = [], [], [], []
        for var in feed_list:
            if isinstance(var, str):
                var = program.block(0).var(var)
            if not isinstance_of(var, Variable):
                raise TypeError("feed_list must hold Variables")
            self.feed_dtypes.append(var.dtype)
            self.feed_names.append(var.name)
            self.feed_lod_level.append(var.lod_level)
            self.feed_shapes.append(var.shape)
        self.place = place

    def feed(self, iterable: Iterable) -> dict[str, Any]:
        """One batch as a feed.

        Args:
            iterable: over samples, each a sequence with one field for each variable.

        Returns:
            dict: name to LoDTensor.

        Raises:
            AssertionError: when a sample has another number of fields. ValueError: for values of another shape.
        """
        converters = [
            DataToLoDTensorConverter(self.place, level, shape, dtype)
            for level, shape, dtype in zip(self.feed_lod_level, self.feed_shapes, self.feed_dtypes, strict=False)
        ]
        for sample in iterable:
            assert len(sample) == len(converters), (
                f"feed: a sample has {len(sample)} fields, but feed_list has {len(converters)}"
            )
            for converter, value in zip(converters, sample, strict=False):
                converter.feed(value)
        return {name: c.done() for name, c in zip(self.feed_names, converters, strict=False)}

    def feed_parallel(self, iterable, num_places=None) -> Iterator[dict[str, Any]]:
        """Several batches, one for each place, as feeds.

        Raises:
            ValueError: when their numbers differ.
        """
        count = self._get_number_of_places_(num_places)
        cuda = isinstance(self.place, CUDAPlace)
        places = [CUDAPlace(i) if cuda else CPUPlace() for i in range(count)]
        if len(iterable) != len(places):
            raise ValueError(
                f"feed_parallel takes one mini-batch for each device: there are {len(iterable)} mini-batches and "
                f"{len(places)} devices."
            )
        former = self.place
        try:
            for self.place, batch in zip(places, iterable, strict=False):
                yield self.feed(batch)
        finally:
            self.place = former

    def _get_number_of_places_(self, num_places=None) -> int:
        if num_places is not None:
            return int(num_places)
        return len(_cuda_ids()) if isinstance(self.place, CUDAPlace) else _cpu_num()

    def decorate_reader(self, reader: Callable, multi_devices, num_places=None, drop_last=True) -> Callable:
        """A reader of feeds from a reader of batches; with `multi_devices` of lists of feeds, one for each place.

        Raises:
            ValueError: while reading, when batches remain and `drop_last` is False.
        """

        def feeds():
            if not multi_devices:
                yield from map(self.feed, reader())
                return
            count = self._get_number_of_places_(num_places)
            waiting = []
            for batch in reader():
                waiting.append(batch)
                if len(waiting) == count:
                    yield list(self.feed_parallel(waiting, count))
                    waiting = []
            if waiting and not drop_last:
                raise ValueError(
                    f"{len(waiting)} batches remain, fewer than the {count} devices: drop_last=True drops them"
                )

        return feeds


def create_lod_tensor(data, recursive_seq_lens, place):
    """A LoDTensor with the given lengths of sequences.

    Args:
        data (numpy.ndarray|list|LoDTensor): the rows; a list of lists of ids becomes int64 of shape [rows, 1].
        recursive_seq_lens (list of list of int): lengths, level by level.
        place: its place.

    Raises:
        AssertionError: when the lengths do not fit the data. TypeError: for other data.

    Examples:
        >>> import numpy as np, paddle.fluid as fluid
        >>> t = fluid.create_lod_tensor(np.ones([5, 30]), [[2, 3]], fluid.CPUPlace())
        >>> t.recursive_sequence_lengths()
        [[2, 3]]
    """
    if isinstance(data, core.LoDTensor):
        data = np.array(data)
    if isinstance(data, list):
        # the rows of all sequences, concatenated; each id is a row
        lengths = [len(sequence) for sequence in data]
        assert [lengths] == recursive_seq_lens, "recursive_seq_lens do not fit the data"
        rows = np.array([row for sequence in data for row in sequence])
        data = rows.reshape((*rows.shape, 1))
    if not isinstance(data, np.ndarray):
        raise TypeError("feed: data must be an ndarray, a list or a LoDTensor")
    tensor = core.LoDTensor()
    tensor.set(data, place)
    tensor.set_recursive_sequence_lengths(recursive_seq_lens)
    assert tensor.has_valid_recursive_sequence_lengths(), "the sequence lengths do not fit the data"
    return tensor


def create_random_int_lodtensor(recursive_seq_lens, base_shape, place, low, high):
    """A LoDTensor of random integers from `low` to `high`, both included.

    Args:
        recursive_seq_lens (list of list of int): lengths of sequences, level by level.
        base_shape (list of int): the shape of a row.
        place: its place.
        low, high (int): the bounds.
    """
    assert isinstance(base_shape, list), "base_shape: a list is expected"
    shape = [sum(recursive_seq_lens[-1]), *base_shape]
    return create_lod_tensor(np.random.randint(low, high + 1, shape).astype("int64"), recursive_seq_lens, place)
