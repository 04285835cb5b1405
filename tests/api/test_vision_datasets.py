"""paddle.vision.datasets, with small files in the original formats."""

import gzip
import importlib.util
import io
import pickle
import struct
import tarfile

import numpy as np
import paddle
import pytest
from paddle.vision import datasets, transforms

RANDOM = np.random.RandomState(0)
needs_pillow = pytest.mark.skipif(importlib.util.find_spec("PIL") is None, reason="Pillow is not installed")
needs_scipy = pytest.mark.skipif(importlib.util.find_spec("scipy") is None, reason="SciPy is not installed")


def idx(path, array):
    head = struct.pack(f">{array.ndim + 1}I", 0x800 + array.ndim, *array.shape)
    path.write_bytes(gzip.compress(head + array.tobytes()))
    return str(path)


def add(archive, name, content):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def encoded(pixels, form):
    file = io.BytesIO()
    paddle.utils.try_import("PIL.Image").fromarray(pixels).save(file, form)
    return file.getvalue()


@pytest.mark.parametrize(
    ("make", "file"),
    [
        (lambda: datasets.MNIST(mode="test"), "mnist/t10k-images-idx3-ubyte.gz"),
        (lambda: datasets.FashionMNIST(), "fashion-mnist/train-images-idx3-ubyte.gz"),
        (lambda: datasets.Cifar10(), "cifar/cifar-10-python.tar.gz"),
        (lambda: datasets.Cifar100(), "cifar/cifar-100-python.tar.gz"),
        (lambda: datasets.Flowers(), "flowers/102flowers.tgz"),
        (lambda: datasets.VOC2012(), "voc2012/VOCtrainval_11-May-2012.tar"),
    ],
)
def test_unavailable_files(offline, make, file):
    with pytest.raises(RuntimeError, match="could not be fetched") as caught:
        make()
    text = str(caught.value)
    assert text.startswith("http") and file.split("/")[1] in text and str(offline / file) in text and "MD5" in text


def test_arguments():
    for make in (datasets.MNIST, datasets.Cifar10, datasets.Flowers, datasets.VOC2012):
        with pytest.raises(AssertionError, match="mode should be one of"):
            make(mode="dev")
        with pytest.raises(AssertionError, match="downloading automatically is disabled"):
            make(download=False)
        with pytest.raises(ValueError, match="'pil', 'cv2'"):
            make(backend="matlab")


def mnist(tmp_path, **more):
    images = RANDOM.randint(0, 256, (7, 28, 28)).astype("uint8")
    labels = RANDOM.randint(0, 10, 7).astype("uint8")
    files = idx(tmp_path / "images.gz", images), idx(tmp_path / "labels.gz", labels)
    return images, labels, datasets.MNIST(*files, **more)


def test_mnist_arrays(tmp_path):
    images, labels, digits = mnist(tmp_path, backend="cv2")
    assert len(digits) == 7
    image, label = digits[3]
    assert image.dtype == np.float32 and image.shape == (28, 28) and label.dtype == np.int64 and label.shape == (1,)
    np.testing.assert_array_equal(image, images[3])
    assert label == labels[3]
    *_, digits = mnist(
        tmp_path,
        backend="cv2",
        transform=transforms.Compose([transforms.Transpose(), transforms.Normalize([127.5], [127.5])]),
    )
    batch = next(iter(paddle.io.DataLoader(digits, batch_size=4)))
    assert batch[0].shape == [4, 1, 28, 28] and batch[1].shape == [4, 1] and -1 <= batch[0].numpy().min() < 0


@needs_pillow
def test_mnist_images(tmp_path):
    images, _, digits = mnist(tmp_path)
    image, label = digits[2]
    assert image.mode == "L" and image.size == (28, 28)
    np.testing.assert_array_equal(np.array(image), images[2])


def test_mnist_of_another_format(tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"no numbers at all, but a text"))
    labels = idx(tmp_path / "labels.gz", np.zeros(3, "uint8"))
    with pytest.raises(ValueError, match="not an IDX file"):
        datasets.MNIST(str(tmp_path / "x.gz"), labels)
    images = idx(tmp_path / "images.gz", np.zeros((2, 28, 28), "uint8"))
    with pytest.raises(ValueError, match="2 images, .* 3 labels"):
        datasets.MNIST(images, labels)
    whole = gzip.decompress((tmp_path / "images.gz").read_bytes())
    (tmp_path / "images.gz").write_bytes(gzip.compress(whole[:-1]))
    with pytest.raises(ValueError, match="ends before"):
        datasets.MNIST(images, labels)


def cifar(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, batch in members.items():
            # protocol 2, with bytes for str, as written by Python 2
            add(archive, name, pickle.dumps(batch, protocol=2))
    return str(path)


def test_cifar(tmp_path):
    data = RANDOM.randint(0, 256, (5, 3072)).astype("uint8")
    path = cifar(
        tmp_path / "cifar-10-python.tar.gz",
        {
            "cifar-10-batches-py/data_batch_1": {"data": data[:2], "labels": [3, 1]},
            "cifar-10-batches-py/data_batch_2": {"data": data[2:4], "labels": [0, 9]},
            "cifar-10-batches-py/test_batch": {"data": data[4:], "labels": [7]},
        },
    )
    train, test = (datasets.Cifar10(path, mode, backend="cv2") for mode in ("train", "test"))
    assert len(train) == 4 and len(test) == 1
    image, label = train[2]
    np.testing.assert_array_equal(image, data[2].reshape(3, 32, 32).transpose(1, 2, 0))
    assert image.dtype == np.float32 and label.dtype == np.int64
    assert [int(train[i][1]) for i in range(4)] == [3, 1, 0, 9]
    path = cifar(
        tmp_path / "cifar-100-python.tar.gz",
        {
            "cifar-100-python/train": {"data": data[:3], "fine_labels": [99, 1, 2], "coarse_labels": [0, 0, 0]},
            "cifar-100-python/test": {"data": data[3:], "fine_labels": [5, 6]},
        },
    )
    assert [int(label) for _, label in datasets.Cifar100(path, backend="cv2")] == [99, 1, 2]
    with pytest.raises(ValueError, match="no file with 'data_batch'"):
        datasets.Cifar10(path)


def test_cifar_runs_no_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return print, ("code of the file ran",)

    path = cifar(tmp_path / "cifar.tar.gz", {"c/data_batch_1": {"data": Evil(), "labels": []}})
    with pytest.raises(pickle.UnpicklingError):
        datasets.Cifar10(path)


@needs_pillow
@needs_scipy
def test_flowers(tmp_path):
    from scipy.io import savemat

    pixels = RANDOM.randint(0, 256, (4, 9, 8, 3)).astype("uint8")
    with tarfile.open(tmp_path / "102flowers.tgz", "w:gz") as archive:
        for i in range(4):
            add(archive, f"jpg/image_{i + 1:05d}.jpg", encoded(pixels[i], "PNG"))
    savemat(tmp_path / "labels.mat", {"labels": np.array([[10, 20, 30, 40]], "uint8")})
    savemat(tmp_path / "setid.mat", {"trnid": [[1]], "valid": [[2]], "tstid": [[3, 4]]})
    files = [str(tmp_path / name) for name in ("102flowers.tgz", "labels.mat", "setid.mat")]
    train = datasets.Flowers(*files)
    assert len(train) == 2 and [int(label[0]) for _, label in train] == [30, 40]
    np.testing.assert_array_equal(np.array(train[1][0]), pixels[3])
    image, label = datasets.Flowers(*files, mode="test", backend="cv2")[0]
    assert image.dtype == np.float32 and image.shape == (9, 8, 3) and label.tolist() == [10]
    # several processes read from one archive
    loader = paddle.io.DataLoader(datasets.Flowers(*files, backend="cv2"), batch_size=1, num_workers=2)
    assert [int(label) for _, label in loader] == [30, 40]


@needs_pillow
def test_voc2012(tmp_path):
    pixels = RANDOM.randint(0, 256, (2, 9, 8, 3)).astype("uint8")
    classes = RANDOM.randint(0, 21, (2, 9, 8)).astype("uint8")
    folder = "VOCdevkit/VOC2012/"
    with tarfile.open(tmp_path / "voc.tar", "w") as archive:
        add(archive, folder + "ImageSets/Segmentation/trainval.txt", b"one\ntwo\n")
        add(archive, folder + "ImageSets/Segmentation/val.txt", b"two\n")
        for i, name in enumerate(("one", "two")):
            add(archive, folder + f"JPEGImages/{name}.jpg", encoded(pixels[i], "PNG"))
            add(archive, folder + f"SegmentationClass/{name}.png", encoded(classes[i], "PNG"))
    train = datasets.VOC2012(str(tmp_path / "voc.tar"))
    assert len(train) == 2
    np.testing.assert_array_equal(np.array(train[1][0]), pixels[1])
    np.testing.assert_array_equal(np.array(train[1][1]), classes[1])
    image, label = datasets.VOC2012(str(tmp_path / "voc.tar"), mode="valid", backend="cv2")[0]
    assert image.dtype == label.dtype == np.float32
    np.testing.assert_array_equal(label, classes[1])
    with pytest.raises(KeyError, match="train.txt"):
        datasets.VOC2012(str(tmp_path / "voc.tar"), mode="test")


def test_folders(tmp_path):
    for name in ("b/2.txt", "b/deep/1.TXT", "a/9.txt", "a/notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "loose.txt").write_text("loose.txt")

    def text(path):
        with open(path) as file:
            return file.read()

    classes = datasets.DatasetFolder(str(tmp_path), text, extensions=(".txt",), transform=str.upper)
    assert classes.classes == ["a", "b"] and classes.class_to_idx == {"a": 0, "b": 1}
    assert list(classes) == [("A/9.TXT", 0), ("B/2.TXT", 1), ("B/DEEP/1.TXT", 1)] and classes.targets == [0, 1, 1]
    chosen = datasets.DatasetFolder(str(tmp_path), text, is_valid_file=lambda path: path.endswith("md"))
    assert list(chosen) == [("a/notes.md", 0)]
    flat = datasets.ImageFolder(str(tmp_path), text, extensions=[".txt"])
    assert list(flat) == [["loose.txt"], ["a/9.txt"], ["b/2.txt"], ["b/deep/1.TXT"]]
    for kind in (datasets.DatasetFolder, datasets.ImageFolder):
        with pytest.raises(RuntimeError, match="Found 0 files in subfolders"):
            kind(str(tmp_path))


@needs_pillow
def test_folder_of_images(tmp_path):
    (tmp_path / "cat").mkdir()
    pixels = RANDOM.randint(0, 256, (9, 8, 3)).astype("uint8")
    (tmp_path / "cat" / "1.png").write_bytes(encoded(pixels, "PNG"))
    image, target = datasets.DatasetFolder(str(tmp_path))[0]
    np.testing.assert_array_equal(np.array(image), pixels)
    assert image.mode == "RGB" and target == 0
