"""Networks in small, of which test_networks.py runs training steps: a model, its batch and its loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle
from paddle import _core, nn
from paddle.nn import functional
from paddle.vision.models import mobilenetv2, resnet, vgg


@dataclass
class Network:
    """`make()` returns a model; `loss(model, *batch)` its loss; an item of the batch is an array or a pair of it and
    its LoD. `exact`: the losses are those of the CPU (the network draws no random numbers). `host`: operators that run
    on the host. `reads`: operators with transfers of at most test_networks.SMALL bytes: numbers of results
    that the host reads."""

    make: Callable[[], nn.Layer]
    batch: tuple[Any, ...]
    loss: Callable[..., Any]
    optimizer: Callable[[list], Any] = lambda p: paddle.optimizer.Adam(1e-2, parameters=p)
    exact: bool = True
    host: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


class Net(nn.Layer):
    """A function of Layers and a batch."""

    def __init__(self, function: Callable[..., Any], *parts: nn.Layer) -> None:
        super().__init__()
        self.function, self.parts = function, nn.LayerList(parts)

    def forward(self, *batch: Any) -> Any:
        return self.function(*self.parts, *batch)


def ids(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(high).integers(0, high, shape)


def real(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype("float32")


def net(function: Callable[..., Any], *parts: Callable[[], nn.Layer]) -> Callable[[], nn.Layer]:
    """A maker of a Net, whose Layers are made by `parts`."""
    return lambda: Net(function, *[part() for part in parts])


def classes(model: nn.Layer, x: Any, label: Any) -> Any:
    return functional.cross_entropy(model(x), label)


def squares(model: nn.Layer, x: Any, y: Any) -> Any:
    return paddle.mean(paddle.square(model(x) - y))


def momentum(p: list) -> Any:
    return paddle.optimizer.Momentum(0.05, 0.9, parameters=p, weight_decay=1e-4)


def sgd(p: list) -> Any:
    return paddle.optimizer.SGD(0.1, parameters=p)


def adamw(p: list) -> Any:
    return paddle.optimizer.AdamW(0.01, parameters=p, weight_decay=0.01, grad_clip=nn.ClipGradByGlobalNorm(1.0))


def lenet() -> nn.Layer:
    features = nn.Sequential(
        nn.Conv2D(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Conv2D(3, 4, 3), nn.ReLU(), nn.MaxPool2D(2, 2)
    )
    return nn.Sequential(features, nn.Flatten(), nn.Linear(16, 12), nn.Linear(12, 10))


def stem(channels: int) -> nn.Layer:
    conv = nn.Conv2D(3, channels, 3, stride=2, padding=1, bias_attr=False)
    return nn.Sequential(conv, nn.BatchNorm2D(channels), nn.ReLU(), nn.MaxPool2D(3, 2, 1))


def residual(block: type, planes: int) -> nn.Layer:
    """A stem and two blocks of ResNet, of which the first one halves the image."""
    wide = planes * block.expansion
    shortcut = nn.Sequential(nn.Conv2D(4, wide, 1, stride=2, bias_attr=False), nn.BatchNorm2D(wide))
    blocks = block(4, planes, stride=2, downsample=shortcut), block(wide, planes)
    return nn.Sequential(stem(4), *blocks, nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(wide, 5))


def vgg_small() -> nn.Layer:
    features = vgg.make_layers([4, "M", 8, "M"], batch_norm=True)
    return nn.Sequential(features, nn.Flatten(), nn.Linear(72, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 5))


def mobilenet() -> nn.Layer:
    blocks = (
        mobilenetv2.InvertedResidual(4, 4, 1, 2),
        mobilenetv2.InvertedResidual(4, 8, 2, 2),
    )
    conv = nn.Sequential(nn.Conv2D(3, 4, 3, stride=2, padding=1, bias_attr=False), nn.BatchNorm2D(4), nn.ReLU6())
    head = nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8, 5)
    return nn.Sequential(conv, *blocks, *head)


class Bert(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.word, self.position, self.kind = nn.Embedding(30, 16), nn.Embedding(8, 16), nn.Embedding(2, 16)
        self.norm, self.dropout = nn.LayerNorm(16), nn.Dropout(0.1)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.pooler, self.head = nn.Linear(16, 16), nn.Linear(16, 30)

    def forward(self, words):
        at = paddle.cumsum(paddle.ones_like(words), axis=1) - 1
        x = self.word(words) + self.position(at) + self.kind(paddle.zeros_like(words))
        x = self.encoder(self.dropout(self.norm(x)))
        return self.head(x) + 0 * paddle.tanh(self.pooler(x[:, 0])).sum()


def translation(model: nn.Layer, source: Any, target: Any) -> Any:
    mask = paddle.tril(paddle.ones([3, 3])) * 1e4 - 1e4
    return paddle.mean(paddle.square(model(source, target, None, mask, None)))


class Attention(nn.Layer):
    """GRU seq2seq: an encoder of cells, a decoder whose steps attend to all states."""

    def __init__(self, cell: type = nn.GRUCell) -> None:
        super().__init__()
        self.embedding, self.encoder, self.decoder = nn.Embedding(20, 8), cell(8, 8), cell(16, 8)
        self.query, self.head = nn.Linear(8, 8), nn.Linear(8, 20)

    def forward(self, source, target):
        states, state = [], None
        for t in range(source.shape[1]):
            out, state = self.encoder(self.embedding(source[:, t]), state)
            states.append(out)
        memory, found = paddle.stack(states, axis=1), []
        for t in range(target.shape[1]):
            score = paddle.matmul(memory, self.query(out).unsqueeze(2))
            context = paddle.sum(functional.softmax(score, axis=1) * memory, axis=1)
            out, state = self.decoder(paddle.concat([self.embedding(target[:, t]), context], axis=1), state)
            found.append(self.head(out))
        return paddle.stack(found, axis=1)


def sequence_loss(model: nn.Layer, source: Any, target: Any, label: Any) -> Any:
    return functional.cross_entropy(model(source, target), label)


class DeepFM(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Embedding(40, 1), nn.Embedding(40, 6)
        self.deep = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, fields):
        v = self.second(fields)
        pairs = paddle.square(v.sum(axis=1)) - paddle.square(v).sum(axis=1)
        linear = self.first(fields).sum(axis=1) + 0.5 * pairs.sum(axis=1, keepdim=True)
        return functional.sigmoid(linear + self.deep(paddle.reshape(v, [v.shape[0], -1])))


def clicks(model: nn.Layer, fields: Any, clicked: Any) -> Any:
    return functional.binary_cross_entropy(model(fields), clicked)


def words(sparse: bool) -> nn.Layer:
    """The N-gram model of the book."""
    table = nn.Embedding(30, 8, sparse=sparse)
    return nn.Sequential(table, nn.Flatten(), nn.Linear(32, 16), nn.Sigmoid(), nn.Linear(16, 30))


def tastes(user_table, movie_table, a, b, pairs):
    u, m = paddle.tanh(a(user_table(pairs[:, 0]))), paddle.tanh(b(movie_table(pairs[:, 1])))
    return 5 * functional.cosine_similarity(u, m, axis=1)


def sentiment(table, first, second, head, text):
    """Convolutions of two widths over the words, their maxima over time."""
    x = table(text).transpose([0, 2, 1]).unsqueeze(2)
    parts = [paddle.max(functional.tanh(conv(x)), axis=[2, 3]) for conv in (first, second)]
    return head(paddle.concat(parts, axis=1))


class Yolo(nn.Layer):
    """A backbone and one detection head of YOLOv3."""

    ANCHORS = (10, 13, 16, 30, 33, 23)

    def __init__(self) -> None:
        super().__init__()
        conv = nn.Conv2D(3, 6, 3, stride=2, padding=1, bias_attr=False)
        self.body = nn.Sequential(conv, nn.BatchNorm2D(6), nn.LeakyReLU(0.1))
        self.down = nn.Sequential(nn.Conv2D(6, 8, 3, stride=2, padding=1), nn.BatchNorm2D(8), nn.LeakyReLU(0.1))
        self.side, self.head = nn.Conv2D(8, 6, 1), nn.Conv2D(12, 2 * (5 + 3), 1)

    def forward(self, x):
        x = self.body(x)
        up = functional.interpolate(self.side(self.down(x)), scale_factor=2, mode="nearest")
        return self.head(paddle.concat([x, up], axis=1))


def detections(model: nn.Layer, x: Any, boxes: Any, labels: Any) -> Any:
    options = {"anchors": list(Yolo.ANCHORS), "anchor_mask": [0, 2], "class_num": 3}
    loss = paddle.vision.ops.yolo_loss(model(x), boxes, labels, ignore_thresh=0.7, downsample_ratio=2, **options)
    return paddle.mean(loss)


class Gan(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 64), nn.Tanh())
        self.up = nn.Conv2DTranspose(4, 1, 4, stride=2, padding=1)
        critic = nn.Conv2D(1, 4, 3, stride=2, padding=1)
        self.critic = nn.Sequential(critic, nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(64, 1))

    def forward(self, noise):
        return self.critic(self.up(paddle.reshape(self.generator(noise), [3, 4, 4, 4])))


def fooled(model: nn.Layer, noise: Any) -> Any:
    return functional.binary_cross_entropy_with_logits(model(noise), paddle.ones([3, 1]))


class Tagger(nn.Layer):
    """label_semantic_roles: a recurrent network with a conditional random field."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.recurrent = nn.Embedding(20, 6), nn.GRU(6, 5, direction="bidirectional")
        self.head, self.transition = nn.Linear(10, 4), self.create_parameter([6, 4])

    def forward(self, text, tags, lengths):
        states, _ = self.recurrent(self.embedding(text))
        results = _core.ops.linear_chain_crf(self.head(states), self.transition, tags, lengths)
        return paddle.mean(results[-1])


class Crnn(nn.Layer):
    """CRNN-CTC: columns of convolved images are steps of a recurrent network."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2D(1, 4, 3, padding=1), nn.BatchNorm2D(4)
        self.recurrent, self.head = nn.GRU(16, 5, direction="bidirectional", time_major=True), nn.Linear(10, 6)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.norm(self.conv(x))), 2, 2)
        steps = paddle.reshape(x.transpose([3, 0, 1, 2]), [x.shape[3], x.shape[0], 16])
        return self.head(self.recurrent(steps)[0])


def transcription(model: nn.Layer, x: Any, labels: Any, steps: Any, lengths: Any) -> Any:
    return functional.ctc_loss(model(x), labels, steps, lengths)


class Ssd(nn.Layer):
    """Two feature maps with priors, their offsets and scores of three classes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2D(3, 6, 3, stride=4, padding=1), nn.Conv2D(6, 6, 3, stride=2, padding=1)
        self.places = nn.LayerList([nn.Conv2D(6, 8, 1) for _ in range(2)])
        self.scores = nn.LayerList([nn.Conv2D(6, 6, 1) for _ in range(2)])

    def forward(self, x):
        maps = [functional.relu(self.first(x))]
        maps.append(functional.relu(self.second(maps[0])))
        parts = []
        for k, m in enumerate(maps):
            boxes, variances = _core.ops.prior_box(
                m, x, min_sizes=[6.0 + 6 * k], max_sizes=[12.0 + 6 * k], variances=VARIANCES, aspect_ratios=[]
            )
            rows = [conv[k](m).transpose([0, 2, 3, 1]) for conv in (self.places, self.scores)]
            places, scores = (paddle.reshape(r, [x.shape[0], -1, n]) for r, n in zip(rows, (4, 3), strict=True))
            parts.append((places, scores, paddle.reshape(boxes, [-1, 4]), paddle.reshape(variances, [-1, 4])))
        axes = 1, 1, 0, 0
        return [paddle.concat(list(p), axis=a) for p, a in zip(zip(*parts, strict=True), axes, strict=True)]


def matched(model: nn.Layer, x: Any, boxes: Any, labels: Any) -> Any:
    """The loss of SSD, by the operators of `fluid.layers.ssd_loss`, which is for static graphs."""
    ops = _core.ops
    places, scores, priors, variances = model(x)
    with paddle.no_grad():
        overlaps = ops.iou_similarity(boxes, priors)
        rows, likeness = ops.bipartite_match(overlaps, match_type="per_prediction", dist_threshold=0.3)
        kinds = ops.unsqueeze2(labels, axes=[1])
        first = ops.target_assign(kinds, rows, mismatch_value=0)[0]
        entropy = functional.softmax_with_cross_entropy(scores, paddle.cast(first, "int64"))
        negative, rows = ops.mine_hard_examples(
            paddle.squeeze(entropy, 2), None, rows, likeness, neg_pos_ratio=3.0, neg_dist_threshold=0.5
        )
        encoded = ops.box_coder(priors, variances, boxes, code_type="encode_center_size")
        offsets, is_object = ops.target_assign(encoded, rows, mismatch_value=0)
        first, counts = ops.target_assign(kinds, rows, negative, mismatch_value=0)
    of_classes = functional.softmax_with_cross_entropy(scores, paddle.cast(first, "int64")) * counts
    of_places = functional.smooth_l1_loss(places, offsets, reduction="none") * is_object
    return (paddle.sum(of_classes) + paddle.sum(of_places)) / paddle.sum(is_object)


class FasterRcnn(nn.Layer):
    """A backbone, a region proposal network, and heads of pooled regions."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.rpn = nn.Conv2D(3, 6, 3, stride=4, padding=1), nn.Conv2D(6, 6, 3, padding=1)
        self.objectness, self.deltas = nn.Conv2D(6, 2, 1), nn.Conv2D(6, 8, 1)
        self.dense, self.classes, self.boxes = nn.Linear(24, 12), nn.Linear(12, 3), nn.Linear(12, 12)

    def forward(self, x, gt_boxes, gt_classes, crowd, info):
        ops = _core.ops
        features = functional.relu(self.body(x))
        hidden = functional.relu(self.rpn(features))
        scores, deltas = self.objectness(hidden), self.deltas(hidden)
        sizes = {"anchor_sizes": [12.0], "aspect_ratios": [0.5, 1.0], "stride": [4.0, 4.0]}
        anchors, variances = ops.anchor_generator(features, **sizes, variances=[1.0] * 4)
        limits = {"pre_nms_topN": 20, "post_nms_topN": 8, "nms_thresh": 0.7, "min_size": 1.0, "eta": 1.0}
        rois = ops.generate_proposals(functional.sigmoid(scores), deltas, info, anchors, variances, **limits)[0]
        wanted = {"rpn_straddle_thresh": 0.0, "rpn_batch_size_per_im": 16, "use_random": False}
        at, chosen, box, label, _ = ops.rpn_target_assign(
            paddle.reshape(anchors, [-1, 4]), gt_boxes, crowd, info, **wanted
        )
        flat = (
            paddle.reshape(scores.transpose([0, 2, 3, 1]), [-1, 1]),
            paddle.reshape(
                paddle.reshape(deltas, [x.shape[0], 2, 4, *deltas.shape[2:]]).transpose([0, 3, 4, 1, 2]), [-1, 4]
            ),
        )
        picked = paddle.gather(flat[0], chosen)
        loss = paddle.mean(functional.binary_cross_entropy_with_logits(picked, paddle.cast(label, "float32")))
        loss = loss + functional.smooth_l1_loss(paddle.gather(flat[1], at), box)
        more = {"batch_size_per_im": 8, "fg_fraction": 0.5, "fg_thresh": 0.5, "bg_thresh_hi": 0.5, "bg_thresh_lo": 0.0}
        more |= {"bbox_reg_weights": [0.1, 0.1, 0.2, 0.2], "class_nums": 3, "use_random": False}
        rois, label, box, inside, outside, _ = ops.generate_proposal_labels(
            rois.detach(), gt_classes, crowd, gt_boxes, info, **more
        )
        pooled = ops.roi_align(features, rois, spatial_scale=0.25, pooled_height=2, pooled_width=2, sampling_ratio=2)
        h = functional.relu(self.dense(paddle.flatten(pooled, 1)))
        places = self.boxes(h) * inside - box * inside
        loss = loss + functional.cross_entropy(self.classes(h), paddle.cast(label, "int64"))
        return loss + paddle.mean(paddle.square(places) * outside)


def own_loss(model: nn.Layer, *batch: Any) -> Any:
    return model(*batch)


def uniform(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).uniform(0.1, 0.4, shape).astype("float32")


VARIANCES = [0.1, 0.1, 0.2, 0.2]
# Boxes of two images; of the first of them two.
OBJECTS = np.array([[0.1, 0.1, 0.5, 0.6], [0.4, 0.3, 0.9, 0.9], [0.2, 0.2, 0.7, 0.8]], "float32")
OF_IMAGES = [[0, 2, 3]]
IMAGE, FIVE = real(2, 3, 12, 12), ids(5, 2, 1)
FIELDS, CLICKED = ids(40, 8, 4), ids(2, 8, 1).astype("float32")
TRANSLATED = ids(20, 2, 4), ids(20, 2, 3), ids(20, 2, 3, 1)

NETWORKS: dict[str, Network] = {
    "lenet": Network(lenet, (real(2, 1, 12, 12), ids(10, 2, 1)), classes),
    "resnet18": Network(lambda: residual(resnet.BasicBlock, 4), (IMAGE, FIVE), classes, momentum),
    "resnet50": Network(lambda: residual(resnet.BottleneckBlock, 2), (IMAGE, FIVE), classes, momentum),
    "vgg": Network(vgg_small, (IMAGE, FIVE), classes, momentum, exact=False),
    "mobilenet_v2": Network(mobilenet, (IMAGE, FIVE), classes, momentum, exact=False),
    "bert": Network(Bert, (ids(30, 2, 6), ids(30, 2, 6, 1)), classes, adamw, exact=False),
    "transformer": Network(
        lambda: nn.Transformer(16, 2, 1, 1, 32, dropout=0.0), (real(2, 4, 16), real(2, 3, 16)), translation
    ),
    "gru_seq2seq_attention": Network(Attention, TRANSLATED, sequence_loss),
    "machine_translation": Network(lambda: Attention(nn.LSTMCell), TRANSLATED, sequence_loss),
    "deepfm": Network(DeepFM, (FIELDS, CLICKED), clicks),
    "ctr_dnn": Network(
        net(
            lambda table, a, b, x: b(functional.relu(a(paddle.reshape(table(x), [-1, 32])))),
            lambda: nn.Embedding(30, 8),
            lambda: nn.Linear(32, 16),
            lambda: nn.Linear(16, 2),
        ),
        (ids(30, 4, 4), ids(2, 4, 1)),
        classes,
    ),
    "word2vec": Network(lambda: words(False), (ids(30, 4, 4), ids(30, 4, 1)), classes, sgd),
    "recommender": Network(
        net(
            tastes,
            lambda: nn.Embedding(10, 8),
            lambda: nn.Embedding(12, 8),
            lambda: nn.Linear(8, 8),
            lambda: nn.Linear(8, 8),
        ),
        (ids(10, 5, 2), real(5)),
        squares,
    ),
    "sentiment": Network(
        net(
            sentiment,
            lambda: nn.Embedding(20, 6),
            lambda: nn.Conv2D(6, 4, (1, 3)),
            lambda: nn.Conv2D(6, 4, (1, 4)),
            lambda: nn.Linear(8, 2),
        ),
        (ids(20, 3, 7), ids(2, 3, 1)),
        classes,
    ),
    "yolov3": Network(Yolo, (real(2, 3, 16, 16), uniform(2, 3, 4), ids(3, 2, 3).astype("int32")), detections, momentum),
    "lstm": Network(
        net(
            lambda table, lstm, head, x: head(lstm(table(x))[0][:, -1]),
            lambda: nn.Embedding(20, 6),
            lambda: nn.LSTM(6, 5, num_layers=2),
            lambda: nn.Linear(5, 3),
        ),
        (ids(20, 3, 6), ids(3, 3, 1)),
        classes,
    ),
    "label_semantic_roles": Network(
        Tagger,
        (ids(20, 3, 6), ids(4, 3, 6, 1), np.array([[6], [4], [1]])),
        own_loss,
    ),
    "crnn_ctc": Network(
        Crnn,
        (real(2, 1, 8, 16), ids(5, 2, 3).astype("int32") + 1, np.array([8, 7]), np.array([3, 2])),
        transcription,
    ),
    "ssd": Network(
        Ssd,
        (real(2, 3, 32, 32), (OBJECTS, OF_IMAGES), (np.array([[1], [2], [1]], "int32"), OF_IMAGES)),
        matched,
        momentum,
        reads=("mine_hard_examples",),
    ),
    "faster_rcnn": Network(
        FasterRcnn,
        (
            real(1, 3, 32, 32),
            (np.array([[4, 4, 16, 18], [12, 10, 28, 29]], "float32"), [[0, 2]]),
            (np.array([[1], [2]], "int32"), [[0, 2]]),
            (np.zeros((2, 1), "int32"), [[0, 2]]),
            np.array([[32, 32, 1]], "float32"),
        ),
        own_loss,
        momentum,
        host=("rpn_target_assign", "generate_proposal_labels"),
    ),
    "gan": Network(Gan, (real(3, 4),), fooled),
}
