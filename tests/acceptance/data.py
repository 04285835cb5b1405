"""Small files in the formats of the public data sets: what paddle.dataset reads where nothing can be fetched.

Both Pythons read the same ones. Words and numbers are drawn with one seed, so that networks have something to learn.
"""

import gzip
import io
import os
import pickle
import struct
import tarfile
import zipfile

import numpy as np


def tar(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            content = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def housing(folder, draw):
    x = draw.rand(506, 13) * draw.uniform(1, 50, 13)
    y = (x @ draw.uniform(-0.3, 0.5, 13))[:, None] + 12 + draw.randn(506, 1)
    np.savetxt(os.path.join(folder, "housing.data"), np.hstack([x, y]))


def digits(folder, draw):
    patterns = draw.randint(0, 256, (10, 784))
    for kind, count in (("train", 2600), ("t10k", 200)):
        labels = draw.randint(0, 10, count)
        noise = draw.randint(0, 256, (count, 784))
        images = np.where(draw.rand(count, 784) < 0.6, patterns[labels], noise).astype("uint8")
        with gzip.open(os.path.join(folder, kind + "-images-idx3-ubyte.gz"), "wb") as file:
            file.write(struct.pack(">IIII", 2051, count, 28, 28) + images.tobytes())
        with gzip.open(os.path.join(folder, kind + "-labels-idx1-ubyte.gz"), "wb") as file:
            file.write(struct.pack(">II", 2049, count) + labels.astype("uint8").tobytes())


def pictures(folder, draw):
    def batch(count):
        labels = draw.randint(0, 10, count).tolist()
        values = {"data": draw.randint(0, 256, (count, 3072)).astype("uint8"), "labels": labels}
        # The real files come from Python 2: keys are its strings, and numpy has its former modules.
        text = pickle.dumps(values, 2).replace(b"numpy._core", b"numpy.core")
        for key in values:
            name = key.encode()
            text = text.replace(struct.pack("<cI", b"X", len(name)) + name, b"U" + bytes([len(name)]) + name)
        return text

    files = {"cifar-10-batches-py/data_batch_%d" % i: batch(160) for i in range(1, 6)}
    files["cifar-10-batches-py/test_batch"] = batch(128)
    tar(os.path.join(folder, "cifar-10-python.tar.gz"), files)


def language(folder, draw):
    words = ["w%d" % i for i in range(170)]

    def text(lines):
        drawn = (draw.rand(lines, 12) ** 1.5 * len(words)).astype(int)
        return "".join(" " + " ".join(words[i] for i in line) + " \n" for line in drawn)

    tar(
        os.path.join(folder, "imikolov%2Fsimple-examples.tgz"),
        {
            "./simple-examples/data/ptb.train.txt": text(2500),
            "./simple-examples/data/ptb.valid.txt": text(40),
            "./simple-examples/data/ptb.test.txt": text(20),
        },
    )


def movies(folder, draw):
    kinds = ["kind%d" % i for i in range(18)]
    with zipfile.ZipFile(os.path.join(folder, "movielens%2Fml-1m.zip"), "w") as archive:
        lines = [
            "%d::%s (19%02d)::%s"
            % (
                i,
                " ".join("t%d" % (5 * i + j) for j in range(5)),
                i % 100,
                "|".join(kinds[(i + j) % 18] for j in range(1 + i % 3)),
            )
            for i in range(1, 1000)
        ]
        archive.writestr("ml-1m/movies.dat", "\n".join(lines) + "\n")
        lines = [
            "%d::%s::%d::%d::1" % (i, "MF"[i % 2], [1, 18, 25, 35, 45, 50, 56][i % 7], i % 21) for i in range(1, 301)
        ]
        archive.writestr("ml-1m/users.dat", "\n".join(lines) + "\n")
        ratings = draw.randint([1, 1, 4], [301, 1000, 6], (12000, 3))
        lines = ["%d::%d::%d::97" % tuple(rating) for rating in ratings]
        archive.writestr("ml-1m/ratings.dat", "\n".join(lines) + "\n")


def reviews(folder, draw):
    files = {}
    for part in ("train", "test"):
        for label, words in (("pos", ["good", "fine", "great"]), ("neg", ["bad", "poor", "dull"])):
            for i in range(400 if part == "train" else 50):
                both = ["film%d" % j for j in draw.randint(0, 40, draw.randint(5, 30))]
                own = [words[j] for j in draw.randint(0, 3, 6)]
                files["aclImdb/%s/%s/%d_7.txt" % (part, label, i)] = " ".join(both[:4] + own + both[4:])
    tar(os.path.join(folder, "imdb%2FaclImdb_v1.tar.gz"), files)


def roles(folder, draw):
    words, verbs = ["word%d" % i for i in range(300)], ["verb%d" % i for i in range(20)]
    text, props = [], []
    for _ in range(400):
        length = draw.randint(4, 12)
        place, verb = draw.randint(1, length - 1), verbs[draw.randint(0, 20)]
        for i in range(length):
            text.append(verb if i == place else words[draw.randint(0, 300)])
            mark = "(V*)" if i == place else "(A0*)" if i == place - 1 else "(A1*)" if i == place + 1 else "*"
            props.append("%s %s" % (verb if i == place else "-", mark))
        text.append("")
        props.append("")
    tar(
        os.path.join(folder, "conll05st-tests.tar.gz"),
        {
            "conll05st-release/test.wsj/words/test.wsj.words.gz": gzip.compress(("\n".join(text) + "\n").encode()),
            "conll05st-release/test.wsj/props/test.wsj.props.gz": gzip.compress(("\n".join(props) + "\n").encode()),
        },
    )
    lists = {
        "wordDict": ["<unk>", "bos", "eos"] + words + verbs,
        "verbDict": verbs,
        "targetDict": ["B-A0", "I-A0", "B-A1", "I-A1", "B-V", "I-V", "O"],
    }
    for name, lines in lists.items():
        with open(os.path.join(folder, "conll05st%2F" + name + ".txt"), "w") as file:
            file.write("\n".join(lines) + "\n")
    with open(os.path.join(folder, "conll05st%2Femb"), "wb") as file:
        file.write(bytes(16) + draw.randn(len(lists["wordDict"]), 32).astype("float32").tobytes())


def pairs(draw, count):
    """Lines of two sentences, the second a word for word translation of the first."""
    lines = []
    for _ in range(count):
        ids = draw.randint(0, 100, draw.randint(3, 12))
        lines.append(" ".join("s%d" % i for i in ids) + "\t" + " ".join("t%d" % i for i in ids))
    return "\n".join(lines) + "\n"


def translations(folder, draw):
    first = ["<s>", "<e>", "<unk>"]
    tar(
        os.path.join(folder, "wmt14.tgz"),
        {
            "wmt14/src.dict": "\n".join(first + ["s%d" % i for i in range(100)]) + "\n",
            "wmt14/trg.dict": "\n".join(first + ["t%d" % i for i in range(100)]) + "\n",
            "wmt14/train/train": pairs(draw, 400),
            "wmt14/test/test": pairs(draw, 40),
            "wmt14/gen/gen": pairs(draw, 10),
        },
    )


def translations16(folder, draw):
    tar(
        os.path.join(folder, "wmt16.tar.gz"),
        {"wmt16/train": pairs(draw, 2000), "wmt16/test": pairs(draw, 40), "wmt16/val": pairs(draw, 40)},
    )


def penn(folder, draw):
    for part, count in (("train", 600), ("valid", 150), ("test", 150)):
        with open(os.path.join(folder, "ptb.%s.txt" % part), "w") as file:
            for _ in range(count):
                step = draw.randint(1, 4)
                file.write(" ".join("w%d" % ((i * step) % 97) for i in range(draw.randint(8, 30))) + "\n")


def tagged(folder, draw):
    """Words with tags of PaddleNLP's lexical_analysis, whose dictionaries have letters and these tags."""
    for part, count in (("train", 900), ("test", 60)):
        with open(os.path.join(folder, part + ".tsv"), "w") as file:
            file.write("text_a\tlabel\n")
            for _ in range(count):
                ids = draw.randint(0, 26, draw.randint(3, 20))
                words = "\002".join(chr(97 + i) for i in ids)
                file.write(words + "\t" + "\002".join(("a-B", "a-I", "ad-B")[i % 3] for i in ids) + "\n")


def texts(folder, draw, vocabulary, columns, classes, words, apart):
    """Texts whose words depend on their label, `apart` words between labels, in files of tab-separated columns."""
    with open(os.path.join(folder, vocabulary), "w") as file:
        file.write("\n".join("w%d" % i for i in range(120)) + "\n")
    for part, count in (("train", 800), ("dev", 64), ("test", 64)):
        with open(os.path.join(folder, part + ".tsv"), "w") as file:
            file.write("\t".join(columns) + "\n")
            for _ in range(count):
                label = draw.randint(0, classes)
                ids = draw.randint(0, words, draw.randint(3, 25)) + apart * label
                row = {"label": str(label), "text_a": " ".join("w%d" % i for i in ids)}
                file.write("\t".join(row[name] for name in columns) + "\n")


def emotions(folder, draw):
    texts(folder, draw, "vocab.txt", ("label", "text_a"), 3, 40, 40)


def opinions(folder, draw):
    """As PaddleNLP's sentiment_classification and dygraph/sentiment read them."""
    texts(folder, draw, "word_dict.txt", ("text_a", "label"), 2, 70, 50)


def titles(folder, draw):
    """Queries with a right and a wrong title, or with a label, as PaddleNLP's similarity_net reads them."""
    with open(os.path.join(folder, "term2id.dict"), "w") as file:
        file.write("".join("w%d\t%d\n" % (i, i) for i in range(120)))

    def text(topic):
        return " ".join("w%d" % (20 * topic + i) for i in draw.randint(0, 20, draw.randint(3, 9)))

    with open(os.path.join(folder, "train"), "w") as file:
        for _ in range(800):
            topic = draw.randint(0, 6)
            file.write("\t".join([text(topic), text(topic), text((topic + 1 + draw.randint(0, 5)) % 6)]) + "\n")
    with open(os.path.join(folder, "test"), "w") as file:
        for i in range(64):
            topic = draw.randint(0, 6)
            file.write("\t".join([text(topic), text(topic if i % 2 else (topic + 1) % 6), str(i % 2)]) + "\n")


def letters(folder, draw):
    """Pictures of text, as PaddleCV's ocr_recognition reads them: height, width, name, labels."""
    marks = draw.randint(0, 256, (95, 48, 48)).astype("uint8")
    for part, count in (("train", 360), ("test", 10)):
        lines = []
        for i in range(count):
            labels = draw.randint(0, 95, 8)
            name = "%s%d.pgm" % (part, i)
            with open(os.path.join(folder, name), "wb") as file:
                file.write(b"P5 384 48 255\n" + np.concatenate(marks[labels], 1).tobytes())
            lines.append("48 384 %s %s" % (name, ",".join(map(str, labels))))
        with open(os.path.join(folder, part + ".list"), "w") as file:
            file.write("\n".join(lines) + "\n")


#: Values of the programs' arguments, in folders of HOME.
GIVEN = {
    "penn": penn,
    "tagged": tagged,
    "emotions": emotions,
    "opinions": opinions,
    "titles": titles,
    "letters": letters,
}
SETS = {
    "uci_housing": housing,
    "mnist": digits,
    "cifar": pictures,
    "imikolov": language,
    "movielens": movies,
    "imdb": reviews,
    "conll05st": roles,
    "wmt14": translations,
    "wmt16": translations16,
}


def make(home):
    """Writes the files that are not there yet below `home`, where a process with this HOME looks for them."""
    sets = {os.path.join(".cache", "paddle", "dataset", name): write for name, write in SETS.items()}
    for name, write in {**sets, **GIVEN}.items():
        folder = os.path.join(home, name)
        if not os.path.isdir(folder):
            os.makedirs(folder + ".part", exist_ok=True)
            write(folder + ".part", np.random.RandomState(len(os.path.basename(name))))
            os.rename(folder + ".part", folder)
