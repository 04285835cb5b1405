"""Arrays that another thread resizes while their elements are read without the GIL."""

import subprocess
import sys

CHILD = """
import threading
import numpy as np
import paddle

array = np.ones(4_000_000, "float32")
view = array[:]
stop, refused, resized = False, 0, 0

def resize():
    global refused, resized
    while not stop:
        for size in (10, 4_000_000):
            try:
                array.resize((size,), refcheck=False)
                resized += 1
            except ValueError as error:
                assert "does not own its data" in str(error), error
                refused += 1
        array[:] = 1

thread = threading.Thread(target=resize)
thread.start()
for _ in range(300):
    x = paddle.to_tensor(array)
    assert x.shape in ([10], [4_000_000])
stop = True
thread.join()
array.resize((5,), refcheck=False)  # its flag is back
assert array.flags.owndata
print(refused, resized)
"""


def test_an_array_is_not_resized_while_it_is_read():
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
