"""A stand-in, backed by numpy, for the few torch names that Dynamo's NIXL client touches when it reads into host memory.

First on PYTHONPATH, it lets Dynamo's reading code (`dynamo.common.utils.media_nixl`, `dynamo.nixl_connect`) and NIXL's
Python binding run as published, without the 5 GB that torch brings. Nothing of Dynamo or NIXL is replaced.
"""

import numpy as np

__version__ = "numpy stand-in"

uint8, float32 = np.uint8, np.float32


class _CpuDevice:
    type = "cpu"

    def __str__(self):
        return self.type


class Tensor:
    """What a dense CPU tensor answers to a reader that only needs its address and its size."""

    is_cuda = False
    device = _CpuDevice()

    def __init__(self, array):
        self._array = array

    def __getitem__(self, index):
        return self._array[index]

    def get_device(self):
        return -1

    def is_contiguous(self):
        return self._array.flags["C_CONTIGUOUS"]

    def data_ptr(self):
        return self._array.ctypes.data

    def numel(self):
        return self._array.size

    def element_size(self):
        return self._array.itemsize

    def numpy(self):
        return self._array


def empty(shape, dtype=None):
    """An uninitialised tensor, as `torch.empty`."""
    return Tensor(np.empty(shape, dtype))


class cuda:
    """`torch.cuda` on a machine without a GPU."""

    @staticmethod
    def is_available():
        return False
