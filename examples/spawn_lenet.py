"""The training of parallel_lenet.py, in processes that `paddle.distributed.spawn` starts from one script.

python examples/spawn_lenet.py [--out FOLDER] [--epochs N]
"""

import digits
import paddle.distributed as dist
import parallel_lenet

if __name__ == "__main__":
    dist.spawn(parallel_lenet.main, args=(digits.arguments(__doc__),), nprocs=2)
