"""Builds `scar_gpu/_C.abi3.so`, the CPU kernels, on the LibTorch stable ABI.

The binary depends on no PyTorch or Python version newer than the oldest supported ones. The row
functions are compiled once per instruction set; everything else for the baseline of the machine.
SCAR_GPU_SANITIZE=1 builds with AddressSanitizer and UndefinedBehaviorSanitizer.
"""

import os
import platform
from pathlib import Path
from typing import Any

import torch
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from torch.utils.cpp_extension import include_paths

SANITIZE = os.environ.get("SCAR_GPU_SANITIZE") == "1"
COMPILE_FLAGS = [
    *(f"-isystem{path}" for path in include_paths()),
    "-std=c++20",
    "-O3",
    "-g0",
    "-fvisibility=hidden",
    "-ffp-contract=off",  # every fused multiply-add is written out: the bits depend on it
    "-fno-math-errno",
    "-Wall",
    "-Wextra",
    *(["-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"] if SANITIZE else []),
]
INSTRUCTION_SET_FLAGS = (
    {
        # GCC 12 takes the undefined vectors inside its own AVX-512 intrinsics for a mistake.
        "rows_avx512": ["-mavx512f", "-mavx2", "-mfma", "-mf16c", "-Wno-maybe-uninitialized"],
        "rows_avx2": ["-mavx2", "-mfma", "-mf16c"],
    }
    if platform.machine().lower() in {"x86_64", "amd64"}
    else {}
)


class BuildExtension(build_ext):
    """`build_ext` with flags of their own for the instruction-set files."""

    def build_extensions(self) -> None:
        compile_one = self.compiler._compile

        def compile_with_flags(
            obj: str, src: str, ext: str, cc_args: Any, extra_postargs: list[str], pp_opts: Any
        ) -> None:
            flags = [*extra_postargs, *INSTRUCTION_SET_FLAGS.get(Path(src).stem, [])]
            compile_one(obj, src, ext, cc_args, flags, pp_opts)

        self.compiler._compile = compile_with_flags
        super().build_extensions()


setup(
    ext_modules=[
        Extension(
            "scar_gpu._C",
            sources=sorted(str(path) for path in Path("csrc").glob("*.cpp")),
            depends=sorted(str(path) for path in Path("csrc").glob("*.[hi]*")),
            library_dirs=[str(Path(torch.__file__).parent / "lib")],
            libraries=["torch", "torch_cpu", "c10"],
            define_macros=[
                ("TORCH_TARGET_VERSION", "0x020a000000000000"),
                ("Py_LIMITED_API", "0x030b0000"),
            ],
            extra_compile_args=COMPILE_FLAGS,
            extra_link_args=["-fsanitize=address,undefined"] if SANITIZE else [],
            language="c++",
            py_limited_api=True,
        )
    ],
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
