"""Conll05st: semantic role labelling (CoNLL 2005)."""

from __future__ import annotations

import numpy as np

from paddle.dataset import conll05
from paddle.dataset.local_files import local_file
from paddle.io import Dataset

__all__ = ["Conll05st"]


class Conll05st(Dataset):
    """The free test set of CoNLL 2005. A sample has nine integer arrays for each verb: the words; the five words around
    the verb and the verb, each repeated to the length of the sentence; marks of those five; the semantic roles.

    Args:
        data_file (str, optional): conll05st-tests.tar.gz; it is downloaded when None.
        word_dict_file, verb_dict_file, target_dict_file (str, optional): lists of words, verbs and labels, likewise.
        emb_file (str, optional): word vectors, likewise.
        download (bool): whether files may be downloaded.

    Raises:
        AssertionError: if a file is not given and must not be downloaded. RuntimeError: if a download fails.
    """

    def __init__(
        self,
        data_file: str | None = None,
        word_dict_file: str | None = None,
        verb_dict_file: str | None = None,
        target_dict_file: str | None = None,
        emb_file: str | None = None,
        download: bool = True,
    ) -> None:
        super().__init__()
        c = conll05

        def found(name: str, given: str | None, url: str, md5: str) -> str:
            return local_file(name, given, url, md5, "conll05st", download)

        self.data_file = found("data_file", data_file, c.DATA_URL, c.DATA_MD5)
        self.word_dict_file = found("word_dict_file", word_dict_file, c.WORDDICT_URL, c.WORDDICT_MD5)
        self.verb_dict_file = found("verb_dict_file", verb_dict_file, c.VERBDICT_URL, c.VERBDICT_MD5)
        self.target_dict_file = found("target_dict_file", target_dict_file, c.TRGDICT_URL, c.TRGDICT_MD5)
        self.emb_file = found("emb_file", emb_file, c.EMB_URL, c.EMB_MD5)
        self.word_dict = c.load_dict(self.word_dict_file)
        self.predicate_dict = c.load_dict(self.verb_dict_file)
        self.label_dict = c.load_label_dict(self.target_dict_file)
        samples = list(c.sentences(self.data_file, c.WORDS, c.PROPS))
        self.sentences = [words for words, _, _ in samples]
        self.predicates = [verb for _, verb, _ in samples]
        self.labels = [labels for _, _, labels in samples]

    def __getitem__(self, idx: int) -> tuple[np.ndarray, ...]:
        sample = self.sentences[idx], self.predicates[idx], self.labels[idx]
        lists = conll05.numbers(*sample, self.word_dict, self.predicate_dict, self.label_dict)
        return tuple(np.array(numbers) for numbers in lists)

    def __len__(self) -> int:
        return len(self.sentences)

    def get_dict(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """The ids of words, verbs and labels."""
        return self.word_dict, self.predicate_dict, self.label_dict

    def get_embedding(self) -> str:
        """The path of the word vectors."""
        return self.emb_file
