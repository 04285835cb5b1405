"""`paddle.audio.datasets` of Paddle 2.4 to 2.6: sounds and their classes."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import paddle
from paddle.dataset import common
from paddle.utils.download import get_path_from_url

from .audio_features import MFCC, LogMelSpectrogram, MelSpectrogram, Spectrogram
from .audio_files import load

__all__: list[str] = []

_FEATURES = {
    "raw": None,
    "melspectrogram": MelSpectrogram,
    "mfcc": MFCC,
    "logmelspectrogram": LogMelSpectrogram,
    "spectrogram": Spectrogram,
}


class AudioClassificationDataset(paddle.io.Dataset):
    """Waveforms or their features, with labels.

    Args:
        files (list of str): paths of WAV files with one channel.
        labels (list of int): their classes.
        feat_type (str): "raw", "spectrogram", "melspectrogram", "logmelspectrogram" or "mfcc".
        sample_rate (int, optional): ignored: each file has its own.
        kwargs: arguments of the layer of `paddle.audio.features`.

    Raises:
        RuntimeError: for another feat_type.
    """

    def __init__(self, files, labels, feat_type="raw", sample_rate=None, **kwargs):
        super().__init__()
        if feat_type not in _FEATURES:
            raise RuntimeError(f"Unknown feat_type: {feat_type!r}, it must be one in {list(_FEATURES)}")
        self.files, self.labels = files, labels
        self.feat_type, self.sample_rate, self.feat_config = feat_type, sample_rate, kwargs
        self._layers: dict[int, Any] = {}

    def _layer(self, rate: int) -> Any:
        """The layer for files of this rate."""
        if rate not in self._layers:
            given = {} if self.feat_type == "spectrogram" else {"sr": rate}
            self._layers[rate] = _FEATURES[self.feat_type](**given, **self.feat_config)  # type: ignore[misc]
        return self._layers[rate]

    def __getitem__(self, idx):
        """Returns (Tensor, label): [samples], or the features without the dimension of the batch."""
        sound, self.sample_rate = load(self.files[idx])
        if self.feat_type == "raw":
            return sound[0], self.labels[idx]
        return paddle.squeeze(self._layer(self.sample_rate)(sound[:1]), [0]), self.labels[idx]

    def __len__(self):
        return len(self.files)


def _check_split(name: str, split: Any, folds: Any) -> None:
    if not isinstance(folds, int) or folds < 1:
        raise ValueError(f"{name}: n_folds must be an integer of at least 1, got {folds!r}")
    if split not in range(1, folds + 1):
        raise ValueError(f"{name}: split must be an integer from 1 to {folds}, got {split!r}")


class ESC50(AudioClassificationDataset):
    """ESC-50: 2000 recordings of 5 seconds of 50 classes in 5 folds (Piczak 2015).

    Args:
        mode (str): "train" for all folds but one, otherwise that one.
        split (int): the fold, from 1 to 5.
        feat_type (str): as in `AudioClassificationDataset`.
        archive (dict, optional): "url" and "md5" of another archive with the same files.
        kwargs: arguments of the features.

    Raises:
        ValueError: for another split.
        RuntimeError: if the archive cannot be downloaded.
    """

    archive: ClassVar[dict[str, str]] = {
        "url": "https://paddleaudio.bj.bcebos.com/datasets/ESC-50-master.zip",
        "md5": "7771e4b9d86d0945acce719c7a59305a",
    }
    label_list: ClassVar[list[str]] = (
        "Dog|Rooster|Pig|Cow|Frog|Cat|Hen|Insects (flying)|Sheep|Crow|Rain|Sea waves|Crackling fire|Crickets|"
        "Chirping birds|Water drops|Wind|Pouring water|Toilet flush|Thunderstorm|Crying baby|Sneezing|Clapping|"
        "Breathing|Coughing|Footsteps|Laughing|Brushing teeth|Snoring|Drinking, sipping|Door knock|Mouse click|"
        "Keyboard typing|Door, wood creaks|Can opening|Washing machine|Vacuum cleaner|Clock alarm|Clock tick|"
        "Glass breaking|Helicopter|Chainsaw|Siren|Car horn|Engine|Train|Church bells|Airplane|Fireworks|Hand saw"
    ).split("|")
    meta = os.path.join("ESC-50-master", "meta", "esc50.csv")
    audio_path = os.path.join("ESC-50-master", "audio")

    def __init__(self, mode="train", split=1, feat_type="raw", archive=None, **kwargs):
        _check_split("ESC50", split, 5)
        archive = self.archive if archive is None else archive
        meta, folder = (os.path.join(common.DATA_HOME, path) for path in (self.meta, self.audio_path))
        if not os.path.isdir(folder) or not os.path.isfile(meta):
            get_path_from_url(archive["url"], common.DATA_HOME, archive["md5"])
        files, labels = [], []
        with open(meta) as lines:
            next(lines)
            for line in lines:
                name, fold, target, *_ = line.strip().split(",")
                if (int(fold) != split) == (mode == "train"):
                    files.append(os.path.join(folder, name))
                    labels.append(int(target))
        super().__init__(files, labels, feat_type, **kwargs)


class TESS(AudioClassificationDataset):
    """TESS: 2800 recordings of words, spoken by two actresses with seven emotions (Pichora-Fuller and Dupuis 2020).

    Args:
        mode (str): "train" for all folds but one, otherwise that one.
        n_folds (int): the number of folds; file i, in the order of paths, is in fold `i % n_folds + 1`.
        split (int): the fold, from 1 to n_folds.
        feat_type (str): as in `AudioClassificationDataset`.
        archive (dict, optional): "url" and "md5" of another archive with the same files.
        kwargs: arguments of the features.

    Raises:
        ValueError: for another number of folds, or split.
        RuntimeError: if the archive cannot be downloaded.
    """

    archive: ClassVar[dict[str, str]] = {
        "url": "https://bj.bcebos.com/paddleaudio/datasets/TESS_Toronto_emotional_speech_set.zip",
        "md5": "1465311b24d1de704c4c63e4ccc470c7",
    }
    label_list: ClassVar[list[str]] = ["angry", "disgust", "fear", "happy", "neutral", "ps", "sad"]
    audio_path = "TESS_Toronto_emotional_speech_set"

    def __init__(self, mode="train", n_folds=5, split=1, feat_type="raw", archive=None, **kwargs):
        _check_split("TESS", split, n_folds)
        archive = self.archive if archive is None else archive
        folder = os.path.join(common.DATA_HOME, self.audio_path)
        if not os.path.isdir(folder):
            get_path_from_url(archive["url"], common.DATA_HOME, archive["md5"])
        found = sorted(
            os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(".wav")
        )
        kept = [f for i, f in enumerate(found) if (i % n_folds + 1 != split) == (mode == "train")]
        # OAF_back_angry.wav: actress, word, emotion.
        labels = [self.label_list.index(os.path.basename(f)[:-4].split("_")[2]) for f in kept]
        super().__init__(kept, labels, feat_type, **kwargs)
