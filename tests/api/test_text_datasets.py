"""paddle.text and the readers of paddle.dataset, with small files in the original formats."""

import gzip
import importlib.util
import io
import pickle
import re
import tarfile
import zipfile

import numpy as np
import paddle
import pytest
from paddle import dataset
from paddle.dataset import common
from paddle.text import datasets

HAS = {name: importlib.util.find_spec(name) is not None for name in ("PIL", "cv2", "scipy")}


def tar(path, files, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            content = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return str(path)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The data set folder; files placed there are used instead of downloads."""
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("paddle._basics.fetch.is_whole", lambda path, md5: __import__("os").path.isfile(path))

    def urlopen(url, timeout):
        raise OSError("no network")

    monkeypatch.setattr("urllib.request.urlopen", urlopen)

    def folder(name):
        (tmp_path / "home" / name).mkdir(parents=True, exist_ok=True)
        return tmp_path / "home" / name

    return folder


@pytest.mark.parametrize("kind", ["Imdb", "Imikolov", "Movielens", "UCIHousing", "WMT14", "WMT16", "Conll05st"])
def test_unavailable_files(home, kind):
    make = getattr(paddle.text, kind)
    with pytest.raises(RuntimeError, match="belongs at .*home") as caught:
        make()
    assert "http://" in str(caught.value) or "https://" in str(caught.value)
    with pytest.raises(AssertionError, match="downloading automatically is disabled"):
        make(download=False)
    if kind != "Conll05st":
        with pytest.raises(AssertionError, match="mode should be one of"):
            make(mode="dev")


def test_imdb(home):
    path = tar(
        home("imdb") / "imdb%2FaclImdb_v1.tar.gz",
        {
            "aclImdb/train/pos/0_9.txt": "Good, good film!\n",
            "aclImdb/train/neg/0_1.txt": "A bad film.\n",
            "aclImdb/test/pos/0_8.txt": "Good.\n",
            "aclImdb/test/neg/1_2.txt": "bad - bad film",
            "aclImdb/train/unsup/0_0.txt": "film film film film",
        },
    )
    train, test = datasets.Imdb(path, cutoff=1), datasets.Imdb(mode="test", cutoff=1)
    # 3 occurrences of bad, film and good; ties are in alphabetical order
    assert train.word_idx == {b"bad": 0, b"film": 1, b"good": 2, "<unk>": 3} == test.word_idx
    assert [(words.tolist(), label.tolist()) for words, label in train] == [([2, 2, 1], [0]), ([3, 0, 1], [1])]
    assert [(words.tolist(), label.tolist()) for words, label in test] == [([2], [0]), ([0, 0, 1], [1])]
    assert list(dataset.imdb.train(train.word_idx)()) == [([2, 2, 1], 0), ([3, 0, 1], 1)]
    assert list(dataset.imdb.test(train.word_idx)()) == [([2], 0), ([0, 0, 1], 1)]
    assert dataset.imdb.word_dict() == {"<unk>": 0}
    assert list(dataset.imdb.tokenize(re.compile("aclImdb/train/pos"))) == [[b"good", b"good", b"film"]]


def test_imikolov(home):
    path = tar(
        home("imikolov") / "imikolov%2Fsimple-examples.tgz",
        {
            "./simple-examples/data/ptb.train.txt": " a b a \n a c \n",
            "./simple-examples/data/ptb.valid.txt": " a b \n",
            "./simple-examples/data/ptb.test.txt": " c a \n",
        },
    )
    words = dataset.imikolov.build_dict(min_word_freq=1)
    assert words == {b"a": 0, "<e>": 1, "<s>": 2, b"b": 3, "<unk>": 4}
    assert list(dataset.imikolov.train(words, 3)()) == [(2, 0, 3), (0, 3, 0), (3, 0, 1), (2, 0, 4), (0, 4, 1)]
    kind = dataset.imikolov.DataType.SEQ
    assert list(dataset.imikolov.train(words, 3, kind)()) == [([2, 0, 4], [0, 4, 1])]
    assert list(dataset.imikolov.test(words, 0, kind)()) == [([2, 0, 3], [0, 3, 1])]
    grams = datasets.Imikolov(path, "NGRAM", 3, min_word_freq=1)
    assert [tuple(int(n) for n in gram) for gram in grams] == list(dataset.imikolov.train(words, 3)())
    ((source, target),) = datasets.Imikolov(None, "seq", mode="test", min_word_freq=1)
    assert source.tolist() == [2, 4, 0] and target.tolist() == [4, 0, 1]
    with pytest.raises(AssertionError, match="Invalid gram length"):
        datasets.Imikolov(path, "NGRAM")
    with pytest.raises(AssertionError, match="NGRAM"):
        datasets.Imikolov(path, "WORDS")


def movies(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ml-1m/movies.dat", "1::Toy Story (1995)::Animation|Comedy\n7::Story II (1998)::Drama\n")
        archive.writestr("ml-1m/users.dat", "1::F::1::10::48067\n2::M::56::16::70072\n")
        archive.writestr("ml-1m/ratings.dat", "1::1::5::978300760\n2::7::1::978302109\n" * 20)
    return str(path)


def test_movielens(home):
    path = movies(home("movielens") / "movielens%2Fml-1m.zip")
    train, test = datasets.Movielens(path), datasets.Movielens(path, mode="test")
    assert len(train) + len(test) == 40 and 0 < len(test) < 12
    assert [field.tolist() for field in train[0]] == [[1], [1], [0], [10], [1], [0, 1], [0, 1], [5.0]]
    assert train.movie_title_dict == {"toy": 0, "story": 1, "ii": 2}
    m = dataset.movielens
    first = next(m.train()())
    assert first == [1, 1, 0, 10, 1, [0, 1], [0, 1], [5.0]]
    assert len(list(m.test()())) == len(test) and len(list(m.test(test_ratio=1.0)())) == 40
    assert (m.max_movie_id(), m.max_user_id(), m.max_job_id()) == (7, 2, 16)
    assert m.movie_categories() == {"Animation": 0, "Comedy": 1, "Drama": 2} and m.age_table[6] == 56
    assert str(m.movie_info()[7]) == "<MovieInfo id(7), title(Story II ), categories(['Drama'])>"
    assert repr(m.user_info()[2]) == "<UserInfo id(2), gender(M), age(56), job(16)>"
    m._read.cache_clear()


def test_uci_housing(home):
    rows = np.random.RandomState(0).rand(10, 14)
    np.savetxt(home("uci_housing") / "housing.data", rows)
    dataset.uci_housing.parts.cache_clear()
    train, test = datasets.UCIHousing(), datasets.UCIHousing(mode="test")
    features = (rows[:, :-1] - rows[:, :-1].mean(0)) / (rows[:, :-1].max(0) - rows[:, :-1].min(0))
    assert len(train) == 8 and len(test) == 2 and train[0][0].dtype == np.float32
    np.testing.assert_allclose([x for x, _ in train], features[:8], rtol=1e-5)
    np.testing.assert_allclose([y for _, y in test], rows[8:, -1:], rtol=1e-5)
    np.testing.assert_allclose([x for x, _ in dataset.uci_housing.train()()], features[:8])
    np.testing.assert_allclose(dataset.uci_housing.predict_reader()[0], features[8])
    dataset.uci_housing.parts.cache_clear()


def test_wmt14(home):
    path = tar(
        home("wmt14") / "wmt14.tgz",
        {
            "wmt14/src.dict": "<s>\n<e>\n<unk>\nle\nchat\nrare\n",
            "wmt14/trg.dict": "<s>\n<e>\n<unk>\nthe\ncat\n",
            "wmt14/train/train": "le chat\tthe cat\nno tab\nle rare\tthe thing\n" + "le " * 90 + "\tthe\n",
            "wmt14/test/test": "chat\tcat\n",
            "wmt14/gen/gen": "le\tthe\n",
        },
    )
    expected = [([0, 3, 4, 1], [0, 3, 4], [3, 4, 1]), ([0, 3, 2, 1], [0, 3, 2], [3, 2, 1])]
    assert list(dataset.wmt14.train(5)()) == expected
    train = datasets.WMT14(path, dict_size=5)
    assert [tuple(f.tolist() for f in sample) for sample in train] == expected
    assert train.get_dict()[1]["cat"] == 4 and train.get_dict(reverse=True)[0][3] == "le"
    assert dataset.wmt14.get_dict(5)[0] == {0: "<s>", 1: "<e>", 2: "<unk>", 3: "le", 4: "chat"}
    assert (
        len(datasets.WMT14(path, "gen", 5))
        == len(list(dataset.wmt14.test(5)()))
        == len(list(dataset.wmt14.gen(5)()))
        == 1
    )
    with pytest.raises(AssertionError, match="positive"):
        datasets.WMT14(path)


def test_wmt16(home):
    path = tar(
        home("wmt16") / "wmt16.tar.gz",
        {
            "wmt16/train": "a dog a\tein Hund\nthe dog\tder Hund\n",
            "wmt16/test": "a dog\tein Hund\n",
            "wmt16/val": "the cat\tdie Katze\n",
        },
    )
    expected = [([0, 3, 4, 3, 1], [0, 4, 3], [4, 3, 1]), ([0, 2, 4, 1], [0, 2, 3], [2, 3, 1])]
    assert list(dataset.wmt16.train(5, 5)()) == expected
    train = datasets.WMT16(path, src_dict_size=5, trg_dict_size=5)
    assert [tuple(f.tolist() for f in sample) for sample in train] == expected
    assert dataset.wmt16.get_dict("en", 5) == {"<s>": 0, "<e>": 1, "<unk>": 2, "a": 3, "dog": 4} == train.get_dict("en")
    assert dataset.wmt16.get_dict("de", 5, reverse=True)[3] == "Hund" == train.get_dict("de", True)[3]
    german = datasets.WMT16(path, "val", 5, 5, lang="de")
    assert [tuple(f.tolist() for f in sample) for sample in german] == [([0, 2, 2, 1], [0, 2, 2], [2, 2, 1])]
    assert len(list(dataset.wmt16.validation(5, 5)())) == len(list(dataset.wmt16.test(5, 5, "de")())) == 1
    with pytest.raises(ValueError, match="Only support: en"):
        dataset.wmt16.train(5, 5, "fr")
    with pytest.raises(AssertionError, match="Word dictionary does not exist"):
        dataset.wmt16.get_dict("en", 7)


def test_conll05(home, tmp_path):
    words = "Cats\neat\nfish\n.\n\n"
    props = "-  (A0*)\neat  (V*)\n-  (A1*\n-  *)\n\n"
    folder = home("conll05st")
    tar(
        folder / "conll05st-tests.tar.gz",
        {dataset.conll05.WORDS: gzip.compress(words.encode()), dataset.conll05.PROPS: gzip.compress(props.encode())},
    )
    for name, text in (
        ("wordDict", "<unk>\nCats\neat\nfish\nbos\neos\n"),
        ("verbDict", "sleep\neat\n"),
        ("targetDict", "B-A0\nI-A0\nB-A1\nI-A1\nB-V\nI-V\nO\n"),
    ):
        (folder / f"conll05st%2F{name}.txt").write_text(text)
    (folder / "conll05st%2Femb").write_text("vectors")
    found = datasets.Conll05st()
    expected = [[1, 2, 3, 0], [4] * 4, [1] * 4, [2] * 4, [3] * 4, [0] * 4, [1] * 4, [1, 1, 1, 1], [0, 4, 2, 3]]
    assert len(found) == 1 and [field.tolist() for field in found[0]] == expected
    assert [list(sample) for sample in dataset.conll05.test()()] == [expected]
    assert found.get_dict()[2]["B-V"] == 4 and found.get_embedding() == dataset.conll05.get_embedding()
    reader = dataset.conll05.corpus_reader(found.data_file, dataset.conll05.WORDS, dataset.conll05.PROPS)
    assert list(reader()) == [(["Cats", "eat", "fish", "."], "eat", ["B-A0", "B-V", "B-A1", "I-A1"])]


def test_cifar_reader(home):
    data = np.arange(6144).astype("uint8").reshape(2, 3072)
    tar(
        home("cifar") / "cifar-10-python.tar.gz",
        {
            "c/data_batch_1": pickle.dumps({"data": data, "labels": [3, 1]}, protocol=2),
            "c/test_batch": pickle.dumps({"data": data[:1], "labels": [7]}, protocol=2),
        },
    )
    (first, label), _ = dataset.cifar.train10()()
    assert label == 3 and first.dtype == np.float32
    np.testing.assert_allclose(first, data[0] / 255, rtol=1e-6)
    cycle = dataset.cifar.test10(cycle=True)()
    assert [next(cycle)[1] for _ in range(3)] == [7, 7, 7]


@pytest.mark.skipif(not HAS["PIL"], reason="Pillow is not installed")
def test_voc_reader(home):
    def png(pixels):
        file = io.BytesIO()
        paddle.utils.try_import("PIL.Image").fromarray(pixels).save(file, "PNG")
        return file.getvalue()

    pixels, classes = np.full((3, 4, 3), 9, "uint8"), np.full((3, 4), 2, "uint8")
    base = "VOCdevkit/VOC2012/"
    tar(
        home("voc2012") / "VOCtrainval_11-May-2012.tar",
        {
            base + "ImageSets/Segmentation/val.txt": "one\n",
            base + "JPEGImages/one.jpg": png(pixels),
            base + "SegmentationClass/one.png": png(classes),
        },
        "w",
    )
    (found,) = dataset.voc2012.val()()
    np.testing.assert_array_equal(found[0], pixels)
    np.testing.assert_array_equal(found[1], classes)


@pytest.mark.skipif(not (HAS["cv2"] and HAS["scipy"]), reason="OpenCV or SciPy is not installed")
def test_flowers_reader(home):
    import cv2
    from scipy.io import savemat

    folder = home("flowers")
    encoded = [cv2.imencode(".png", np.full((300, 260, 3), 20 * i, "uint8"))[1].tobytes() for i in (1, 2)]
    tar(folder / "102flowers.tgz", {f"jpg/image_{i + 1:05d}.jpg": content for i, content in enumerate(encoded)})
    savemat(folder / "imagelabels.mat", {"labels": np.array([[10, 20]], "uint8")})
    savemat(folder / "setid.mat", {"trnid": [[1]], "valid": [[2]], "tstid": [[1, 2]]})
    ((values, label),) = dataset.flowers.test(use_xmap=False)()
    assert values.shape == (3 * 224 * 224,) and label == 9
    np.testing.assert_allclose(np.unique(values), np.float32(20) - np.float32([123.68, 116.78, 103.94]), rtol=1e-6)
    assert sorted(label for _, label in dataset.flowers.train()()) == [9, 19]


def test_images_in_batches(tmp_path):
    path = tar(tmp_path / "a.tar", {f"{i}.jpg": str(i) for i in range(5)}, "w")
    listed = dataset.image.batch_images_from_tar(path, "train", {f"{i}.jpg": i * 10 for i in range(1, 5)}, 3)
    batches = []
    for line in open(listed):
        with open(line.strip(), "rb") as file:
            batches.append(pickle.load(file))
    assert batches == [{"label": [10, 20, 30], "data": [b"1", b"2", b"3"]}, {"label": [40], "data": [b"4"]}]
    assert dataset.image.batch_images_from_tar(path, "train", {}) == listed


def test_image_functions():
    image = np.arange(48, dtype="uint8").reshape(4, 4, 3)
    np.testing.assert_array_equal(dataset.image.center_crop(image, 2), image[1:3, 1:3])
    assert dataset.image.random_crop(image, 3).shape == (3, 3, 3) and dataset.image.to_chw(image).shape == (3, 4, 4)
    with pytest.raises(AssertionError, match="dimensions"):
        dataset.image.to_chw(image[0])
    if HAS["cv2"]:
        found = dataset.image.simple_transform(image, 4, 2, False, mean=[1, 2, 3])
        np.testing.assert_allclose(found, image[1:3, 1:3].transpose(2, 0, 1) - np.float32([[[1]], [[2]], [[3]]]))
        assert dataset.image.resize_short(np.zeros((4, 8, 3), "uint8"), 2).shape == (2, 4, 3)
