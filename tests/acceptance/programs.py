"""The programs that run.py knows, by the folder of fetched sources that has them.

`book`: python/paddle/fluid/tests/book of Paddle 2.0.2. `book16`: PaddlePaddle/book, branch for_paddle1.6. `models`:
PaddlePaddle/models, release/1.8. `paddlerec`: PaddlePaddle/PaddleRec, release/1.8.5. `parl`: PaddlePaddle/PARL, v1.4.
"""

from typing import NamedTuple


class Program(NamedTuple):
    """Where it stands, how it is started, and how many losses are compared (0: it runs to its end)."""

    name: str
    source: str
    folder: str
    command: tuple
    losses: int = 20
    seconds: int = 150


def book(name):
    return Program("book/" + name, "book", ".", (name + ".py",), 0)


def rec(folder):
    command = ("-m", "paddlerec.run", "-m", "models/" + folder + "/config.yaml")
    return Program("rec/" + folder, "paddlerec", ".", command)


def former(folder, script, *args):
    return Program("book16/" + folder[3:] + "/" + script[:-3], "book16", folder, (script, *args))


PROGRAMS = [
    *(book(name) for name in (
        "test_fit_a_line", "test_recognize_digits", "test_image_classification", "test_word2vec",
        "test_recommender_system", "notest_understand_sentiment", "test_label_semantic_roles",
        "test_machine_translation", "test_rnn_encoder_decoder")),
    former("01.fit_a_line", "train.py", "--num_epochs", "2"),
    former("02.recognize_digits", "train.py", "--num_epochs", "1"),
    former("03.image_classification", "train.py", "--num_epochs", "1"),
    former("04.word2vec", "train.py", "--num_epochs", "1"),
    former("05.recommender_system", "train.py", "--num_epochs", "1"),
    former("06.understand_sentiment", "train_conv.py", "--num_epochs", "1"),
    former("06.understand_sentiment", "train_dyn_rnn.py", "--num_epochs", "1"),
    former("06.understand_sentiment", "train_stacked_lstm.py", "--num_epochs", "1"),
    former("07.label_semantic_roles", "train.py", "--num_epochs", "1"),
    former("08.machine_translation", "seq2seq.py"),
    former("09.gan", "dc_gan.py", "--use_gpu", ""),
    *(rec(folder) for folder in (
        "contentunderstanding/tagspace", "contentunderstanding/textcnn", "match/dssm", "match/match-pyramid",
        "match/multiview-simnet", "multitask/esmm", "multitask/mmoe", "multitask/share-bottom", "rank/AutoInt",
        "rank/BST", "rank/afm", "rank/dcn", "rank/deep_crossing", "rank/deepfm", "rank/dien", "rank/din", "rank/dnn",
        "rank/ffm", "rank/fgcnn", "rank/fibinet", "rank/flen", "rank/fm", "rank/fnn", "rank/logistic_regression",
        "rank/nfm", "rank/pnn", "rank/wide_deep", "rank/xdeepfm", "recall/fasttext", "recall/gnn", "recall/gru4rec",
        "recall/look-alike_recall", "recall/ncf", "recall/ssr", "recall/word2vec", "recall/youtube_dnn",
        "rerank/listwise")),
    *(Program("models/" + folder, "models", "PaddleRec/" + folder, ("train.py", *more)) for folder, *more in (
        ("gru4rec",), ("ssr", "--batch_size", "8"), ("tagspace",), ("multiview_simnet", "--sparse_feature_dim", "1001"),
        ("rerank/listwise",), ("text_classification",))),
    Program("models/gru4rec_negative", "models", "PaddleRec/gru4rec", ("train_sample_neg.py",)),
]  # fmt: skip
