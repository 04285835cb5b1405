"""Global shuffles between trainers."""

from __future__ import annotations

import os

import paddle
from paddle.distributed import fleet
from paddle.distributed.fleet.dataset.exchange import Trainers

LINES = 2000
JOINED = Trainers._group


def shuffled(folder: str, by_id: bool, by_store: bool):
    """This trainer's values before and after a global shuffle, and the sizes of all trainers."""
    rank, world = paddle.distributed.get_rank(), paddle.distributed.get_world_size()
    endpoints = [f"127.0.0.1:{6170 + r}" for r in range(world)]
    os.environ.update(PADDLE_TRAINER_ENDPOINTS=",".join(endpoints), PADDLE_CURRENT_ENDPOINT=endpoints[rank])
    os.environ.update(PADDLE_WITH_GLOO=str(int(by_store)), PADDLE_GLOO_RENDEZVOUS="2", PADDLE_GLOO_FS_PATH=folder)
    Trainers._group = (lambda self: None) if by_store else JOINED
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program()):
        ids = paddle.static.data("ids", [None, 1], "int64", lod_level=1)
        weight = paddle.static.data("weight", [None, 2], "float32")
    path = os.path.join(folder, f"{rank}.txt")
    with open(path, "w") as file:
        for i in range(LINES // (rank + 1)):
            name = f"1 name{i} " if by_id else ""
            file.write(f"{name}2 {i + 1} {rank + 1} 2 {rank}.5 {i}\n")
    fleet.init(is_collective=True)
    dataset = paddle.distributed.InMemoryDataset()
    dataset.init(batch_size=16, use_var=[ids, weight])
    if by_id:
        dataset.update_settings(parse_ins_id=True)
        dataset.dataset.set_merge_by_lineid(0)
    dataset.set_filelist([path])
    dataset.load_into_memory()
    dataset.global_shuffle(fleet)
    found = []
    dataset._prepare_to_run()
    _, (reader,) = dataset.dataset.batches(1)
    while (batch := reader.next()) is not None:
        values = batch[1][0].__array__().reshape(-1, 2).tolist()
        weights = batch[1][1].__array__().tolist()
        found += [(*v, *w) for v, w in zip(values, weights, strict=True)]
    paddle.disable_static()
    return world, found, dataset.get_memory_data_size(), dataset.get_shuffle_data_size(fleet)
