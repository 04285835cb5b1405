"""The programs that run.py knows, by the folder of fetched sources that has them.

`book`: python/paddle/fluid/tests/book of Paddle 2.0.2. `book16`: PaddlePaddle/book, branch for_paddle1.6. `models`:
PaddlePaddle/models, release/1.8. `paddlerec`: PaddlePaddle/PaddleRec, release/1.8.5. `parl`: PaddlePaddle/PARL, v1.3
(v1.4 takes Paddle 2.0 for its own dygraph core, and its examples of fluid do not run on it). `learn`:
yeyupiaoling/LearnPaddle2. `pgl`: the examples of PaddlePaddle/PGL, 1.2. `scripts`: chenwhql/PaddleScripts. `first`:
kylezhang/learn_paddlepaddle.

Modules that programs need go into folders that --path and --theirs-path name: gym 0.12.1 for reinforcement learning;
for PARL cloudpickle, termcolor, pyzmq, psutil, tensorboardX and grpcio too; cv2 for ocr_recognition; matplotlib and
imageio for gan; pandas for youtube_dnn; pgl 1.2.1, tqdm and easydict for PGL. PARL imports pyarrow (a context with
set_pickle and register_type) and lexical_analysis paddlehub, of which they use nothing there: modules that do nothing
serve. dssm, youtube_dnn and rerank/listwise make a number of an array of one element: they need numpy 1.
"""

from typing import NamedTuple


class Program(NamedTuple):
    """Where it stands, how it is started, and how many losses are compared (0: it runs to its end).

    `folder` is copied for each side, and the program started `inside` it; `{home}` in its arguments is where data.py's
    files are.
    """

    name: str
    source: str
    folder: str
    command: tuple
    losses: int = 20
    seconds: int = 150
    inside: str = "."


def book(name):
    return Program("book/" + name, "book", ".", (name + ".py",), 0)


def rec(folder):
    command = ("-m", "paddlerec.run", "-m", "models/" + folder + "/config.yaml")
    return Program("rec/" + folder, "paddlerec", ".", command)


def former(folder, script, *args):
    return Program("book16/" + folder[3:] + "/" + script[:-3], "book16", folder, (script, *args))


def nlp(folder, script, *args):
    return Program("models/" + folder, "models", "PaddleNLP", (script, *args), inside=folder)


def learn(number, script):
    return Program("learn/" + script[:-3], "learn", "note%d" % number, (script,))


def pgl(folder, script="train.py"):
    return Program("pgl/" + folder, "pgl", "examples/" + folder, (script,))


PROGRAMS = [
    *(
        book(name)
        for name in (
            "test_fit_a_line",
            "test_recognize_digits",
            "test_image_classification",
            "test_word2vec",
            "test_recommender_system",
            "notest_understand_sentiment",
            "test_label_semantic_roles",
            "test_machine_translation",
            "test_rnn_encoder_decoder",
        )
    ),
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
    former("09.gan", "dc_gan.py", "--use_gpu", "False"),
    *(
        rec(folder)
        for folder in (
            "contentunderstanding/tagspace",
            "contentunderstanding/textcnn",
            "match/dssm",
            "match/match-pyramid",
            "match/multiview-simnet",
            "multitask/esmm",
            "multitask/mmoe",
            "multitask/share-bottom",
            "rank/AutoInt",
            "rank/BST",
            "rank/afm",
            "rank/dcn",
            "rank/deep_crossing",
            "rank/deepfm",
            "rank/dien",
            "rank/din",
            "rank/dnn",
            "rank/ffm",
            "rank/fgcnn",
            "rank/fibinet",
            "rank/flen",
            "rank/fm",
            "rank/fnn",
            "rank/logistic_regression",
            "rank/nfm",
            "rank/pnn",
            "rank/wide_deep",
            "rank/xdeepfm",
            "recall/fasttext",
            "recall/gnn",
            "recall/gru4rec",
            "recall/look-alike_recall",
            "recall/ncf",
            "recall/ssr",
            "recall/word2vec",
            "recall/youtube_dnn",
            "rerank/listwise",
        )
    ),
    *(
        Program("models/" + folder, "models", "PaddleRec/" + folder, ("train.py", *more))
        for folder, *more in (
            ("gru4rec",),
            ("ssr", "--batch_size", "8"),
            ("tagspace",),
            ("multiview_simnet", "--sparse_feature_dim", "1001"),
            ("rerank/listwise",),
            ("text_classification",),
        )
    ),
    Program("models/gru4rec_negative", "models", "PaddleRec/gru4rec", ("train_sample_neg.py",)),
    Program("models/dssm", "models", "PaddleRec/dssm", ("dssm.py",)),
    Program("models/youtube_dnn", "models", "PaddleRec/youtube_dnn", ("train.py",)),
    nlp("language_model", "train.py", "--data_path", "{home}/penn", "--use_gpu", "False", "--parallel", "False"),
    nlp(
        "lexical_analysis",
        "train.py",
        "--train_data",
        "{home}/tagged/train.tsv",
        "--test_data",
        "{home}/tagged/test.tsv",
        "--batch_size",
        "16",
        "--cpu_num",
        "1",
    ),
    *(
        nlp(
            "emotion_detection",
            "run_classifier.py",
            "--do_train",
            "true",
            "--data_dir",
            "{home}/emotions",
            "--vocab_path",
            "{home}/emotions/vocab.txt",
            "--batch_size",
            "16",
            "--epoch",
            "1",
            "--model_type",
            kind,
        )._replace(name="models/emotion_" + kind)
        for kind in ("textcnn_net", "bow_net", "gru_net", "lstm_net")
    ),
    *(
        Program(
            "models/ocr_" + kind,
            "models",
            "PaddleCV/ocr_recognition",
            (
                "train.py",
                "--use_gpu",
                "False",
                "--model",
                kind,
                "--batch_size",
                "8",
                "--train_images",
                "{home}/letters",
                "--train_list",
                "{home}/letters/train.list",
                "--test_images",
                "{home}/letters",
                "--test_list",
                "{home}/letters/test.list",
                "--log_period",
                "1",
                "--total_step",
                "30",
            ),
        )
        for kind in ("crnn_ctc", "attention")
    ),
    *(
        nlp(
            "sentiment_classification",
            "run_classifier.py",
            *("--task_name", "senta", "--do_train", "True", "--do_val", "False", "--do_infer", "False"),
            *("--use_cuda", "False", "--data_dir", "{home}/opinions"),
            *("--vocab_path", "{home}/opinions/word_dict.txt"),
            *("--batch_size", "16", "--epoch", "1", "--senta_config_path", "senta_config.json"),
            *("--model_type", kind),
        )._replace(name="models/sentiment_" + kind)
        for kind in ("bow_net", "cnn_net", "gru_net")
    ),
    *(
        nlp(
            "similarity_net",
            "run_classifier.py",
            *("--task_name", "simnet", "--use_cuda", "False", "--do_train", "True", "--do_valid", "True"),
            *("--do_test", "False", "--do_infer", "False", "--batch_size", "32", "--task_mode", mode),
            *("--train_data_dir", "{home}/titles/" + part, "--valid_data_dir", "{home}/titles/test"),
            *("--vocab_path", "{home}/titles/term2id.dict", "--config_path", f"./config/{kind}_{mode}.json"),
            *("--epoch", "12", "--compute_accuracy", "False", "--lamda", "0.958", "--init_checkpoint", ""),
        )._replace(name=f"models/similarity_{kind}_{mode}")
        for mode, part in (("pairwise", "train"), ("pointwise", "test"))
        for kind in ("bow", "cnn", "gru")
    ),
    Program("models/dygraph/mnist", "models", "dygraph/mnist", ("train.py", "-e", "1")),
    Program(
        "models/gan_DCGAN",
        "models",
        "PaddleCV/gan",
        (
            "train.py",
            "--model_net",
            "DCGAN",
            "--dataset",
            "mnist",
            "--data_dir",
            "{home}/.cache/paddle/dataset",
            "--use_gpu",
            "False",
            "--epoch",
            "1",
            "--batch_size",
            "16",
            "--run_test",
            "False",
            "--save_checkpoints",
            "False",
        ),
    ),
    Program(
        "models/dygraph/ptb_lm",
        "models",
        "dygraph/ptb_lm",
        ("ptb_dy.py", "--data_path", "{home}/penn", "--use_gpu", "False"),
    ),
    *(
        Program("models/dygraph/" + name, "models", "dygraph/reinforcement_learning", (name + ".py",))
        for name in ("reinforce", "actor_critic")
    ),
    *(Program("parl/" + name, "parl", ".", ("train.py",), inside="examples/" + name) for name in ("QuickStart", "DQN")),
    learn(3, "linear_regression.py"),
    learn(3, "uci_housing_linear.py"),
    learn(4, "mnist_classification.py"),
    learn(5, "text_classification.py"),
    learn(6, "GAN.py"),
    learn(7, "DQN.py"),
    learn(8, "save_infer_model.py"),
    pgl("gcn"),
    pgl("gat"),
    pgl("sgc", "sgc.py"),
    pgl("dgi", "dgi.py"),
    pgl("static_gcn"),
    pgl("static_gat"),
    *(
        Program(
            "pgl/citation_" + kind,
            "pgl",
            "examples/citation_benchmark",
            ("train.py", "--conf", "config/%s.yaml" % kind, "--runs", "1"),
        )
        for kind in ("gcn", "gat", "appnp", "gcnii", "sgc")
    ),
    Program("scripts/recognize_digits", "scripts", ".", ("recognize_digits.py",)),
    Program("scripts/mnist_dygraph", "scripts", "save_load", ("mnist_dygraph.py",)),
    Program("scripts/mnist_static", "scripts", "save_load", ("mnist_static.py", "--use_gpu=")),
    Program("first/test_paddle", "first", "P000", ("test_paddle.py",)),
    Program("first/index_002", "first", "P001", ("index.002.py",)),
]
