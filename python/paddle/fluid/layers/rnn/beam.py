"""Beam search with arrays and While: one step, and the decoding of the sentences."""

from __future__ import annotations

from paddle import _ops
from paddle._basics.checks import check_type
from paddle._dispatch.append import named
from paddle._programs.variable import Variable
from paddle._programs.variable_checks import check_variable_and_dtype
from paddle.nn.layer_helper import LayerHelper

__all__ = ["beam_search", "beam_search_decode"]


def beam_search(
    pre_ids,
    pre_scores,
    ids,
    scores,
    beam_size,
    end_id,
    level=0,
    is_accumulated=True,
    name=None,
    return_parent_idx=False,
):
    """One step of a beam search: the best `beam_size` continuations of the prefixes of every source sentence.

    A finished prefix is kept unchanged; a source whose sentences have all finished has no prefixes any more.

    Args:
        pre_ids (Variable): the last token of every prefix, int64 [prefixes, 1].
        pre_scores (Variable): their scores, float32 [prefixes, 1].
        ids (Variable|None): candidate tokens, int64 [prefixes, candidates]; None: all tokens.
        scores (Variable): their scores, float32 [prefixes, candidates], with a LoD of two levels.
        beam_size (int): number of sentences kept per source.
        end_id (int): the token that ends a sentence.
        level (int): the LoD level whose sequences are the sources.
        is_accumulated (bool): `scores` are accumulated over the prefixes; else probabilities of the candidates.
        name (str, optional): prefix of the outputs' names.
        return_parent_idx (bool): also return the prefix of each selected token.

    Returns:
        (Variable, Variable): tokens and scores, [selected, 1], with a LoD that assigns them to prefixes; and int32
        [selected] with `return_parent_idx`.

    Examples:
        >>> import paddle, paddle.fluid as fluid
        >>> paddle.enable_static()
        >>> pre_ids = fluid.data("pre_ids", [None, 1], "int64", lod_level=2)
        >>> pre_scores = fluid.data("pre_scores", [None, 1], "float32", lod_level=2)
        >>> scores = fluid.data("scores", [None, 100], "float32", lod_level=2)
        >>> top_scores, top_ids = fluid.layers.topk(scores, k=4)
        >>> ids, best = fluid.layers.beam_search(pre_ids, pre_scores, top_ids, top_scores, beam_size=4, end_id=1)
        >>> ids.shape, best.shape
        ((-1, 1), (-1, 1))
    """
    check_variable_and_dtype(pre_ids, "pre_ids", ["int64"], "beam_search")
    check_variable_and_dtype(pre_scores, "pre_scores", ["float32"], "beam_search")
    check_type(ids, "ids", (Variable, type(None)), "beam_search")
    check_variable_and_dtype(scores, "scores", ["float32"], "beam_search")
    helper = LayerHelper("beam_search", name=name)
    best = helper.create_variable_for_type_inference(dtype=pre_scores.dtype)
    chosen = helper.create_variable_for_type_inference(dtype=pre_ids.dtype)
    parents = helper.create_variable_for_type_inference(dtype="int32")
    helper.append_op(
        type="beam_search",
        inputs={"pre_ids": pre_ids, "pre_scores": pre_scores, "scores": scores} | ({} if ids is None else {"ids": ids}),
        outputs={"selected_ids": chosen, "selected_scores": best, "parent_idx": parents},
        attrs={"level": level, "is_accumulated": is_accumulated, "beam_size": beam_size, "end_id": end_id},
    )
    return (chosen, best, parents) if return_parent_idx else (chosen, best)


def beam_search_decode(ids, scores, beam_size, end_id, name=None):
    """The sentences found by the steps of a beam search.

    Args:
        ids, scores (Variable): arrays of the results of `beam_search` in every step.
        beam_size (int): as in the search.
        end_id (int): the token that ends a sentence.
        name (str, optional): prefix of the outputs' names.

    Returns:
        (Variable, Variable): tokens (int64) and their scores, with a LoD of two levels: the
        sentences of each source, by descending score, and the tokens of each sentence.
    """
    check_variable_and_dtype(ids, "ids", ["int64"], "beam_search_encode")
    check_variable_and_dtype(scores, "scores", ["float32"], "beam_search_encode")
    return named(name, _ops.beam_search_decode, ids, scores, beam_size=beam_size, end_id=end_id)
