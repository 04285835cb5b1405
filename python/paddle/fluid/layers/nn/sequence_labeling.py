"""Sequence labeling of fluid.layers.nn: CTC decoding, linear chain CRF, evaluation of chunks."""

from __future__ import annotations

import paddle._core as _core
from paddle import _ops
from paddle._basics.element_types import FLOATS
from paddle._basics.mode import in_static_mode
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.static.nn.crf import crf_cost, crf_decoding

__all__ = [
    "chunk_eval",
    "crf_decoding",
    "ctc_greedy_decoder",
    "linear_chain_crf",
]


def ctc_greedy_decoder(input, blank, input_length=None, padding_value=0, name=None):  # noqa: A002
    """Greedy CTC decoding: the best class of each step, with repetitions merged and blanks removed.

    Args:
        input (Variable): scores, float32 or float64 [batch, steps, classes]; without lengths [steps of all sequences,
            classes] with a LoD.
        blank (int): the blank label.
        input_length (Variable): int64 [batch, 1].
        padding_value (int): padding after the labels of a sequence, with lengths.

    Returns:
        int64 labels [labels of all sequences, 1] with a LoD ([[-1]] if there are none); with lengths
        ([batch, steps], their numbers [batch, 1]).
    """
    check_variable_and_dtype(input, "input", FLOATS, "ctc_greedy_decoder")
    _, best = _ops.top_k(input, k=1)
    if input_length is None:
        return _ops.ctc_align(best, merge_repeated=True, blank=blank)[0]
    best = _ops.squeeze2(best, axes=[2])
    # In a Program a dispensable output is created only on request.
    asked = {"OutputLength": 1} if in_static_mode() else {}
    attrs = {"merge_repeated": True, "blank": blank, "padding_value": padding_value}
    return tuple(_ops.ctc_align(best, input_length, **attrs, **asked))


def linear_chain_crf(input, label, param_attr=None, length=None):  # noqa: A002
    """The negative log likelihood of the tags of each sequence in a linear chain CRF.

    Args:
        input (Variable): float32 or float64 scores [rows, tags] with a LoD; with lengths [batch, steps, tags].
        label (Variable): int64 tags [rows, 1] with a LoD; with lengths [batch, steps].
        param_attr (ParamAttr): of the trainable transition scores [tags + 2, tags], which crf_decoding finds by
            name.
        length (Variable): int64 [batch].

    Returns:
        Variable: [sequences, 1].
    """
    return crf_cost(input, label, param_attr, length)


def chunk_eval(  # noqa: D417
    input,  # noqa: A002
    label,
    chunk_scheme,
    num_chunk_types,
    excluded_chunk_types=None,
    seq_length=None,
):
    """Precision, recall and F1 score of the chunks that tags encode.

    Args:
        input, label (Variable): int64 tags [rows, 1] with a LoD; with lengths [batch, steps]. Tag t is position t % n
            of type t // n in a scheme of n positions; the number of types times n is outside of all chunks.
        chunk_scheme (str): "IOB", "IOE", "IOBES" or "plain".
        num_chunk_types (int): the number of types.
        excluded_chunk_types (list of int): types to ignore.
        seq_length (Variable): int64 [batch].

    Returns:
        (precision, recall, F1), float32 [1], and the numbers of inferred, labeled and correct chunks, int64 [1].
    """
    check_variable_and_dtype(input, "input", ["int64"], "chunk_eval")
    check_variable_and_dtype(label, "label", ["int64"], "chunk_eval")
    return tuple(
        _ops.chunk_eval(
            input,
            label,
            seq_length,
            num_chunk_types=num_chunk_types,
            chunk_scheme=chunk_scheme,
            excluded_chunk_types=excluded_chunk_types or [],
        )
    )
