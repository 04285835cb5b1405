"""`paddle.audio`: values of 2.6.2 (`audio_cases.py`), files, data sets, Programs, and what it refuses."""

from __future__ import annotations

import io
import json
import wave
import zipfile
from pathlib import Path

import numpy as np
import paddle
import pytest
from audio_cases import CASES, MELS, WAVES
from paddle import audio
from paddle.audio import features, functional
from paddle.dataset import common

VALUES = json.loads((Path(__file__).parent / "audio_values.json").read_text())


def same(got, want):
    if isinstance(want, list):
        assert len(got) == len(want)
        for pair in zip(got, want, strict=True):
            same(*pair)
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=1e-5, abs=1e-5)
    else:
        assert got == want


@pytest.mark.parametrize("name", CASES)
def test_values_of_paddle(name):
    same(CASES[name](), VALUES[name])


@pytest.mark.parametrize("name", ["Spectrogram", "MelSpectrogram", "LogMelSpectrogram", "MFCC"])
def test_features_in_a_program(name):
    settings = {k: v for k, v in MELS.items() if name != "Spectrogram" or k in ("n_fft", "hop_length", "win_length")}
    settings |= {"n_mfcc": 4} if name == "MFCC" else {}
    want = getattr(features, name)(**settings)(paddle.to_tensor(WAVES)).numpy()
    paddle.enable_static()
    try:
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            waves = paddle.static.data("waves", [None, WAVES.shape[1]], "float32")
            out = getattr(features, name)(**settings)(waves)
        (got,) = paddle.static.Executor().run(main, feed={"waves": WAVES}, fetch_list=[out])
    finally:
        paddle.disable_static()
    np.testing.assert_array_equal(got, want)


def test_a_window_that_numpy_has():
    got = functional.get_window(("kaiser", 5.0), 9, fftbins=False)
    np.testing.assert_allclose(got.numpy(), np.kaiser(9, 5.0), rtol=1e-12)


def test_data_types():
    got = [functional.get_window("hann", 4), functional.get_window("hann", 4, dtype="float32")]
    got += [functional.mel_frequencies(4, dtype="float64"), functional.create_dct(2, 3)]
    assert [str(x.dtype) for x in got] == [f"VarType.FP{n}" for n in (64, 32, 64, 32)]
    want = functional.get_window("hann", 9).numpy()
    paddle.enable_static()
    try:
        with paddle.static.program_guard(paddle.static.Program()):
            window = functional.get_window("hann", 9)
            (got,) = paddle.static.Executor().run(fetch_list=[window])
    finally:
        paddle.disable_static()
    np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize("length", [0, 1])
def test_short_windows(length):
    assert functional.get_window("hann", length, dtype="float32").shape == [length]


@pytest.mark.parametrize("channels_first", [True, False])
def test_files(tmp_path, channels_first):
    path, samples = tmp_path / "a.wav", np.linspace(-1.2, 1.2, 40).astype("float32").reshape(2, 20)
    given = paddle.to_tensor(samples if channels_first else samples.T)
    audio.save(path, given, 8000, channels_first=channels_first)
    facts = audio.info(str(path))
    assert vars(facts) == {
        "sample_rate": 8000,
        "num_samples": 20,
        "num_channels": 2,
        "bits_per_sample": 16,
        "encoding": "PCM_S",
    }
    got, rate = audio.load(path, channels_first=channels_first)
    want = np.clip(samples, -1, 32767 / 32768)
    assert rate == 8000
    np.testing.assert_allclose(got.numpy() if channels_first else got.numpy().T, want, atol=1 / 32768)
    some, _ = audio.load(str(path), frame_offset=5, num_frames=3, normalize=False)
    np.testing.assert_array_equal(some.numpy(), np.clip(samples[:, 5:8] * 32768, -32768, 32767).astype("int16"))
    assert audio.load(path, frame_offset=18)[0].shape == [2, 2] and audio.load(path, 99)[0].shape == [2, 0]


def test_open_files_and_integers():
    file, samples = io.BytesIO(), np.array([[1, -32768, 32767]], "int16")
    audio.save(file, paddle.to_tensor(samples), 100, encoding="PCM_16", bits_per_sample=None)
    file.seek(0)
    assert audio.load(file, normalize=False)[0].tolist() == samples.tolist()
    file.seek(0)
    assert audio.info(file).num_samples == 3 and not file.closed


def other_width(path):
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(10)
        sound.writeframes(b"\x80\x81")


def test_refused(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"no sound")
    (tmp_path / "b.wav").write_bytes(b"")
    other_width(tmp_path / "c.wav")
    wrong = [
        (lambda: audio.load(tmp_path / "a.wav"), NotImplementedError, "load: only WAV files of PCM .*a.wav"),
        (lambda: audio.info(tmp_path / "b.wav"), NotImplementedError, "info: only WAV files of PCM"),
        (lambda: audio.load(tmp_path / "c.wav"), NotImplementedError, "only 16-bit samples are supported, got 8 bits"),
        (lambda: audio.load(tmp_path / "none.wav"), FileNotFoundError, "none.wav"),
        (lambda: audio.load(tmp_path / "c.wav", -1), ValueError, "must not be negative, got -1, -1"),
        (lambda: audio.save("x", paddle.zeros([3]), 1), ValueError, r"two dimensions, got shape \[3\]"),
        (lambda: audio.save("x", paddle.zeros([1, 3]), 1, bits_per_sample=8), ValueError, "must be 16, got 8"),
        (lambda: audio.save("x", paddle.zeros([1, 3]), 1, encoding="ULAW"), ValueError, "got 'ULAW'"),
        (lambda: audio.save("x", paddle.zeros([1, 3], "int64"), 1), TypeError, "got int64"),
        (lambda: functional.get_window("round", 3), ValueError, "unknown window 'round'; known are blackman"),
        (lambda: functional.get_window(3, 3), ValueError, "must be a str or a tuple"),
        (lambda: functional.get_window("gaussian", 3), ValueError, "'gaussian' does not fit"),
        (lambda: functional.get_window("exponential", 3), ValueError, "needs parameters"),
        (lambda: functional.get_window(("exponential", 1.0), 3, False), ValueError, "center of 'exponential'"),
        (lambda: functional.get_window("hann", -1), ValueError, "at least 0, got -1"),
        (lambda: functional.compute_fbank_matrix(100, 8, norm="area"), ValueError, "norm must be .* got 'area'"),
        (lambda: functional.create_dct(2, 3, norm="l2"), ValueError, "norm must be 'ortho' or None, got 'l2'"),
        (lambda: functional.power_to_db(paddle.ones([1]), amin=0), ValueError, "amin must be strictly positive"),
        (lambda: functional.power_to_db(paddle.ones([1]), -1.0), ValueError, "ref_value must be strictly positive"),
        (lambda: functional.power_to_db(paddle.ones([1]), top_db=-1), ValueError, "top_db must be non-negative"),
        (lambda: features.Spectrogram(power=0), ValueError, "power must be positive, got 0"),
        (lambda: features.MFCC(n_mfcc=9, n_mels=8), ValueError, r"n_mfcc must be at most n_mels \(8\), got 9"),
        (lambda: audio.backends.set_backend("soundfile"), NotImplementedError, "only 'wave_backend' is available"),
        (lambda: audio.datasets.TESS(split=6), ValueError, "split must be an integer from 1 to 5, got 6"),
        (lambda: audio.datasets.ESC50(split=0), ValueError, "split must be an integer from 1 to 5, got 0"),
    ]
    for call, error, match in wrong:
        with pytest.raises(error, match=match):
            call()


def packed(folder, name, files):
    """An archive in the folder of data sets."""
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return {"url": f"http://example.invalid/{name}", "md5": common.md5file(str(folder / name))}


def sound(value):
    file = io.BytesIO()
    audio.save(file, paddle.full([1, 96], value), 800)
    return file.getvalue()


def test_esc50(offline):
    rows = "filename,fold,target,category,esc10,src_file,take\n" + "".join(
        f"{i}.wav,{i % 5 + 1},{i},x,False,1,A\n" for i in range(10)
    )
    files = {"ESC-50-master/meta/esc50.csv": rows}
    files |= {f"ESC-50-master/audio/{i}.wav": sound(i / 16) for i in range(10)}
    archive = packed(offline, "ESC-50-master.zip", files)
    train, dev = (audio.datasets.ESC50(mode, 2, archive=archive) for mode in ("train", "dev"))
    assert len(train) == 8 and len(dev) == 2 and len(train.label_list) == 50
    assert [(x.shape, float(x[0]), label) for x, label in dev] == [([96], 1 / 16, 1), ([96], 6 / 16, 6)]
    mfcc = audio.datasets.ESC50("dev", 2, "mfcc", archive, n_mfcc=4, n_mels=6, n_fft=32, f_min=10.0)
    assert mfcc[0][0].shape == [4, 13] and mfcc.sample_rate == 800
    batches = list(paddle.io.DataLoader(dev, batch_size=2))
    assert batches[0][0].shape == [2, 96]
    with pytest.raises(RuntimeError, match="Unknown feat_type: 'chroma'"):
        audio.datasets.ESC50("dev", 2, "chroma", archive)


def test_tess(offline):
    top = audio.datasets.TESS.audio_path
    names = [
        f"{actress}_{word}_{mood}" for actress in ("OAF", "YAF") for word in ("back", "bar") for mood in ("sad", "ps")
    ]
    archive = packed(offline, "TESS.zip", {f"{top}/{name}.wav": sound(0.5) for name in names})
    train, dev = (audio.datasets.TESS(mode, 4, 1, archive=archive) for mode in ("train", "dev"))
    assert len(train) == 6 and [Path(f).stem for f in dev.files] == ["OAF_back_ps", "YAF_back_ps"]
    assert dev.labels == [5, 5] and train.labels == [6, 5, 6, 6, 5, 6]
    found = audio.datasets.TESS("dev", 4, 1, "spectrogram", archive, n_fft=32, hop_length=16)[0][0]
    assert found.shape == [17, 7]


@pytest.mark.parametrize("name", ["ESC50", "TESS"])
def test_offline(offline, name):
    with pytest.raises(RuntimeError, match=r"(?s)http.*(ESC-50-master|TESS_Toronto).*zip"):
        getattr(audio.datasets, name)()
