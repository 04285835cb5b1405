"""MultiHeadAttention and Transformer layers."""

from __future__ import annotations

import collections
from typing import Any

from paddle import _ops
from paddle._basics import numpy as np
from paddle._basics.checks import check_positive
from paddle._basics.default_dtype import get_default_dtype
from paddle._programs.variable import Variable, isinstance_of
from paddle.nn import functional as F
from paddle.nn.layer.attention_arguments import _convert_param_attr_to_list
from paddle.nn.layer.common import Dropout, Linear
from paddle.nn.layer.container import LayerList
from paddle.nn.layer.layers import Layer
from paddle.nn.layer.norm import LayerNorm
from paddle.tensor.creation import full, triu
from paddle.tensor.tensor import to_tensor

__all__ = [
    "MultiHeadAttention",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


class MultiHeadAttention(Layer):
    """softmax(q @ k^T / sqrt(head size)) @ v in several heads, between linear layers.

    Args:
        embed_dim: the last dimension of queries and results; `num_heads` must divide it.
        num_heads: number of heads.
        dropout: the probability of dropping attention weights.
        kdim, vdim: the last dimensions of keys and values (default: embed_dim).
        need_weights: also return the attention weights.
        weight_attr, bias_attr: ParamAttr (or a form it accepts) of the four linear layers.

    Examples:
        >>> import paddle
        >>> paddle.nn.MultiHeadAttention(8, 2)(paddle.ones([2, 4, 8])).shape
        [2, 4, 8]
    """

    Cache = collections.namedtuple("Cache", ["k", "v"])
    StaticCache = collections.namedtuple("StaticCache", ["k", "v"])

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        kdim: int | None = None,
        vdim: int | None = None,
        need_weights: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.need_weights = need_weights
        check_positive("MultiHeadAttention", embed_dim=embed_dim, num_heads=num_heads)
        self.head_dim = embed_dim // num_heads
        assert self.head_dim * num_heads == embed_dim, "MultiHeadAttention: num_heads does not divide embed_dim"
        self.q_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr=bias_attr)
        self.k_proj = Linear(self.kdim, embed_dim, weight_attr, bias_attr=bias_attr)
        self.v_proj = Linear(self.vdim, embed_dim, weight_attr, bias_attr=bias_attr)
        self.out_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr=bias_attr)

    def _heads(self, x: Any) -> Any:
        """[batch, length, embed_dim] to [batch, heads, length, head_dim]"""
        x = _ops.reshape2(x, shape=[0, 0, self.num_heads, self.head_dim])
        return _ops.transpose2(x, axis=[0, 2, 1, 3])

    def compute_kv(self, key: Any, value: Any) -> tuple[Any, Any]:
        """Keys and values in the layout of the heads: [batch, heads, length, head_dim]."""
        return self._heads(self.k_proj(key)), self._heads(self.v_proj(value))

    def gen_cache(self, key: Any, value: Any = None, type: Any = Cache) -> Any:  # noqa: A002
        """A cache for `forward`.

        With ``type=MultiHeadAttention.StaticCache`` it holds keys and values computed once from `key` and `value`;
        otherwise those of each call are appended, starting with `key` and `value`, or empty if `value` is None.
        """
        if type == MultiHeadAttention.StaticCache:
            return self.StaticCache(*self.compute_kv(key, value))
        if value is not None:
            return self.Cache(key, value)
        empty = [
            _ops.fill_constant_batch_size_like(
                key, shape=[-1, self.num_heads, 0, self.head_dim], dtype=key.dtype, value=0.0
            )
            for _ in range(2)
        ]
        return self.Cache(*empty)

    def forward(self, query: Any, key: Any = None, value: Any = None, attn_mask: Any = None, cache: Any = None) -> Any:
        """Attention of `query` to `key` and `value` (default: to itself).

        Args:
            query: Tensor of the shape [batch, length, embed_dim].
            key, value: Tensors of the shapes [batch, other length, kdim] and [batch, other length, vdim].
            attn_mask: added to the scores; its shape is broadcast to [batch, heads, length, other length].
            cache: what `gen_cache` returned.

        Returns:
            [batch, length, embed_dim]; with need_weights or a cache a tuple with the weights and the new cache.
        """
        key = query if key is None else key
        value = query if value is None else value
        q = self._heads(self.q_proj(query))
        k, v = (cache.k, cache.v) if isinstance(cache, self.StaticCache) else self.compute_kv(key, value)
        if isinstance(cache, self.Cache):
            k, v = _ops.concat([cache.k, k], axis=2), _ops.concat([cache.v, v], axis=2)
            cache = self.Cache(k, v)
        scores = _ops.matmul(q, k, transpose_Y=True, alpha=self.head_dim**-0.5)
        if attn_mask is not None:
            scores = scores + attn_mask
        weights = F.softmax(scores)
        if self.dropout:
            weights = F.dropout(weights, self.dropout, training=self.training)
        out = _ops.transpose2(_ops.matmul_v2(weights, v), axis=[0, 2, 1, 3])
        out = self.out_proj(_ops.reshape2(out, shape=[0, 0, self.embed_dim]))
        outs = [out]
        if self.need_weights:
            outs.append(weights)
        if cache is not None:
            outs.append(cache)
        return out if len(outs) == 1 else tuple(outs)


class _Block(Layer):
    """Attention and feed-forward sublayers, each with a residual connection and normalization before or after."""

    _attentions: tuple[str, ...]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        config = _config(locals())
        super().__init__()
        self._config = config
        self.normalize_before = normalize_before
        count = len(self._attentions) + 1
        weights, biases = _convert_param_attr_to_list(weight_attr, count), _convert_param_attr_to_list(bias_attr, count)
        for i, name in enumerate(self._attentions):
            attention = MultiHeadAttention(
                d_model,
                nhead,
                dropout=dropout if attn_dropout is None else attn_dropout,
                weight_attr=weights[i],
                bias_attr=biases[i],
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, weights[-1], bias_attr=biases[-1])
        self.dropout = Dropout(dropout if act_dropout is None else act_dropout, mode="upscale_in_train")
        self.linear2 = Linear(dim_feedforward, d_model, weights[-1], bias_attr=biases[-1])
        for i in range(count):
            setattr(self, f"norm{i + 1}", LayerNorm(d_model))
        for i in range(count):
            setattr(self, f"dropout{i + 1}", Dropout(dropout, mode="upscale_in_train"))
        self.activation = getattr(F, activation)

    def _part(self, x: Any, norm: Layer, dropout: Layer, compute: Any) -> tuple[Any, Any]:
        """(x + dropout(compute(x)), normalized before or after; further results of `compute`)"""
        inner = compute(norm(x) if self.normalize_before else x)
        inner, more = inner if isinstance(inner, tuple) else (inner, None)
        x = x + dropout(inner)
        return (x if self.normalize_before else norm(x)), more

    def _feed_forward(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _config(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in ("self", "__class__")}


class TransformerEncoderLayer(_Block):
    """Self-attention and a feed-forward network, each with a residual connection and normalization.

    Args:
        d_model: the last dimension of input and output.
        nhead: number of attention heads.
        dim_feedforward: the size between the two linear layers.
        dropout: the probability before the residual additions.
        activation: the name of a function of paddle.nn.functional.
        attn_dropout, act_dropout: of attention weights and after the activation (default: `dropout`).
        normalize_before: normalize before each sublayer instead of after the addition.
        weight_attr, bias_attr: ParamAttr (or a form it accepts), or a list of two: attention and feed-forward network.

    Examples:
        >>> import paddle
        >>> paddle.nn.TransformerEncoderLayer(8, 2, 16)(paddle.ones([2, 4, 8])).shape
        [2, 4, 8]
    """

    _attentions = ("self_attn",)

    def forward(self, src: Any, src_mask: Any = None, cache: Any = None) -> Any:
        """`src` [batch, length, d_model] to the same shape; with a cache a pair with the new one."""
        src, new_cache = self._part(src, self.norm1, self.dropout1, lambda x: self.self_attn(x, x, x, src_mask, cache))
        src, _ = self._part(src, self.norm2, self.dropout2, self._feed_forward)
        return src if cache is None else (src, new_cache)

    def gen_cache(self, src: Any) -> Any:
        """An empty cache for `forward`."""
        return self.self_attn.gen_cache(src, type=MultiHeadAttention.Cache)


class TransformerDecoderLayer(_Block):
    """Self-attention, attention to the encoder's output, and a feed-forward network.

    The arguments are those of :class:`TransformerEncoderLayer`; lists of attributes have three entries.

    Examples:
        >>> import paddle
        >>> layer = paddle.nn.TransformerDecoderLayer(8, 2, 16)
        >>> layer(paddle.ones([2, 4, 8]), paddle.ones([2, 6, 8])).shape
        [2, 4, 8]
    """

    _attentions = ("self_attn", "cross_attn")

    def forward(self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, cache: Any = None) -> Any:
        """`tgt` [batch, length, d_model] and the encoder's output to the shape of `tgt`; with a cache a pair."""
        own, other = cache or (None, None)
        tgt, own = self._part(tgt, self.norm1, self.dropout1, lambda x: self.self_attn(x, x, x, tgt_mask, own))
        tgt, other = self._part(
            tgt, self.norm2, self.dropout2, lambda x: self.cross_attn(x, memory, memory, memory_mask, other)
        )
        tgt, _ = self._part(tgt, self.norm3, self.dropout3, self._feed_forward)
        return tgt if cache is None else (tgt, (own, other))

    def gen_cache(self, memory: Any) -> tuple[Any, Any]:
        """Caches for `forward`: an empty one, and one with the encoder's keys and values."""
        return (
            self.self_attn.gen_cache(memory, type=MultiHeadAttention.Cache),
            self.cross_attn.gen_cache(memory, memory, type=MultiHeadAttention.StaticCache),
        )


def _copies(layer: Any, count: int) -> LayerList:
    """`layer` and new layers created with its arguments."""
    return LayerList([layer if i == 0 else type(layer)(**layer._config) for i in range(count)])


class TransformerEncoder(Layer):
    """A stack of encoder layers.

    Args:
        encoder_layer: the first layer; the others are created with its arguments.
        num_layers: number of layers.
        norm: a layer applied to the result, or None.
    """

    def __init__(self, encoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, src: Any, src_mask: Any = None, cache: Any = None) -> Any:
        """`src` [batch, length, d_model] to the same shape; with caches a pair with the new ones."""
        caches = []
        for i, layer in enumerate(self.layers):
            if cache is None:
                src = layer(src, src_mask=src_mask)
            else:
                src, new_cache = layer(src, src_mask=src_mask, cache=cache[i])
                caches.append(new_cache)
        if self.norm is not None:
            src = self.norm(src)
        return src if cache is None else (src, caches)

    def gen_cache(self, src: Any) -> list[Any]:
        """Empty caches, one for each layer."""
        return [layer.gen_cache(src) for layer in self.layers]


class TransformerDecoder(Layer):
    """A stack of decoder layers; the arguments of :class:`TransformerEncoder`."""

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, cache: Any = None) -> Any:
        """`tgt` [batch, length, d_model] and the encoder's output to the shape of `tgt`; with caches a pair."""
        caches = []
        for i, layer in enumerate(self.layers):
            if cache is None:
                tgt = layer(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask)
            else:
                tgt, new_cache = layer(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, cache=cache[i])
                caches.append(new_cache)
        if self.norm is not None:
            tgt = self.norm(tgt)
        return tgt if cache is None else (tgt, caches)

    def gen_cache(self, memory: Any, do_zip: bool = False) -> list[Any]:
        """Caches, one pair for each layer; with `do_zip` all of the first kind, then all of the second."""
        caches = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*caches, strict=True)) if do_zip else caches


class Transformer(Layer):
    """An encoder and a decoder (Vaswani et al., 2017).

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, attn_dropout, act_dropout, normalize_before: see
            :class:`TransformerEncoderLayer`.
        num_encoder_layers, num_decoder_layers: number of layers.
        weight_attr, bias_attr: ParamAttr (or a form it accepts), or a list of one to three: self-attention,
            cross-attention, feed-forward.
        custom_encoder, custom_decoder: layers that replace the default ones.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
    ) -> None:
        super().__init__()
        shared = (d_model, nhead, dim_feedforward, dropout, activation, attn_dropout, act_dropout, normalize_before)
        for name, custom, layer_type, stack, count, parts in (
            ("encoder", custom_encoder, TransformerEncoderLayer, TransformerEncoder, num_encoder_layers, 2),
            ("decoder", custom_decoder, TransformerDecoderLayer, TransformerDecoder, num_decoder_layers, 3),
        ):
            if custom is None:
                layer = layer_type(*shared, self._parts(weight_attr, parts), self._parts(bias_attr, parts))
                custom = stack(layer, count, LayerNorm(d_model))
            setattr(self, name, custom)
        self.d_model = d_model
        self.nhead = nhead

    @staticmethod
    def _parts(attr: Any, count: int) -> Any:
        """A list of attributes for the two sublayers of the encoder or the three of the decoder."""
        if not isinstance(attr, (list, tuple)):
            return attr
        assert 1 <= len(attr) <= 3, "a list or tuple of param_attr must have 1, 2 or 3 entries"
        middle = attr[1] if len(attr) == 3 else attr[0]
        return [attr[0], attr[-1]] if count == 2 else [attr[0], middle, attr[-1]]

    def forward(self, src: Any, tgt: Any, src_mask: Any = None, tgt_mask: Any = None, memory_mask: Any = None) -> Any:
        """`src` and `tgt` [batch, length, d_model] to the shape of `tgt`."""
        memory = self.encoder(src, src_mask=src_mask)
        return self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask)

    def generate_square_subsequent_mask(self, length: int | Any) -> Any:
        """A mask [length, length] that hides later positions: -inf above the diagonal, zeros elsewhere."""
        if isinstance_of(length, Variable):
            return triu(full([length, length], -np.inf, get_default_dtype()), 1)
        return to_tensor(np.triu(np.full((length, length), -np.inf), 1).astype(get_default_dtype()))
