"""The parameters after every step of DeepSpeed's own class DeepSpeedCPUAdam, whose C++ kernel is compiled beforehand: its own loader would take
minutes for what binds the kernel to Python.

  PYTHON_WITH_DEEPSPEED deepspeed_adam.py KERNEL FOLDER LR WEIGHT_DECAY BETA1 BETA2

FOLDER has initial.npy and gradients.npy; out.npy is written there.
"""
import ctypes
import pathlib
import sys
from unittest import mock

import numpy as np
import torch
from deepspeed.ops.adam import DeepSpeedCPUAdam


class Kernel:
    """What the class calls."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        floats = [ctypes.c_float] * 5
        self.create = library.longhaul_create_adam
        self.create.argtypes = [ctypes.c_int, *floats, ctypes.c_bool, ctypes.c_bool]
        self.step = library.longhaul_adam_step_floats
        self.step.argtypes = [ctypes.c_int, ctypes.c_size_t, *floats, ctypes.c_bool, ctypes.c_int64, *[ctypes.c_void_p] * 4]

    def create_adam(self, *arguments):
        return self.create(*arguments)

    def adam_update(self, *arguments):
        scalars, tensors = arguments[:8], arguments[8:12]
        assert all(t.dtype == torch.float32 and t.is_contiguous() for t in tensors)
        return self.step(*scalars, tensors[0].numel(), *(t.data_ptr() for t in tensors))

    def destroy_adam(self, number):
        return 0


def main(kernel, folder, lr, weight_decay, beta1, beta2):
    folder = pathlib.Path(folder)
    parameter, result = torch.nn.Parameter(torch.from_numpy(np.load(folder / "initial.npy"))), []
    with mock.patch("deepspeed.ops.adam.cpu_adam.CPUAdamBuilder.load", lambda self: Kernel(kernel)):
        optimizer = DeepSpeedCPUAdam([parameter], lr=float(lr), betas=(float(beta1), float(beta2)), weight_decay=float(weight_decay))
    for gradient in np.load(folder / "gradients.npy"):
        parameter.grad = torch.from_numpy(gradient)
        optimizer.step()
        result.append(parameter.detach().numpy().copy())
    np.save(folder / "out.npy", np.stack(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
