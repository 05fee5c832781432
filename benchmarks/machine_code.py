"""Reads what the compiler made of a kernel: registers, spills, shared memory, loads by line.

NVIDIA binaries are read with the disassembler that Triton's wheel carries, AMD ones from their
assembly. No GPU is needed.
"""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import triton
from triton.compiler import CompiledKernel

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


class Load(NamedTuple):
    """One load from global memory."""

    file: str
    line: int
    bits: int


class MachineCode(NamedTuple):
    """What one kernel needs of a multiprocessor, and how it reads memory."""

    registers: int  # per thread (on AMD: vector registers)
    stack: int  # bytes per thread
    spills: int  # instructions (on AMD: registers) that move to and from the stack
    shared: int  # bytes per program
    occupancy: float  # share of the multiprocessor's warps that fit at once
    loads: tuple[Load, ...]


class Part(NamedTuple):
    """Limits of one multiprocessor (NVIDIA: SM; AMD: compute unit)."""

    warps: int
    programs: int
    registers: int  # of 32 bits
    register_step: int  # granularity of allocation, per warp
    shared: int  # bytes
    shared_per_program: int  # bytes that the system takes of each program's
    largest_shared: int  # bytes that one program may have


# CUDA C++ Programming Guide, technical specifications by compute capability; CDNA3 ISA guide.
KIB = 1024
PARTS = {
    "sm_80": Part(64, 32, 65536, 256, 164 * KIB, KIB, 163 * KIB),
    "sm_90": Part(64, 32, 65536, 256, 228 * KIB, KIB, 227 * KIB),
    "sm_100": Part(64, 32, 65536, 256, 228 * KIB, KIB, 227 * KIB),
    "gfx942": Part(32, 32, 4 * 512 * 64, 8 * 64, 64 * KIB, 0, 64 * KIB),
}


def occupancy(target: str, registers: int, shared: int, num_warps: int) -> float:
    """Share of a multiprocessor's warps that run at once."""
    part = PARTS[target]
    warp_size = 64 if target.startswith("gfx") else 32
    per_warp = -(-registers * warp_size // part.register_step) * part.register_step
    shared += part.shared_per_program
    programs = min(
        part.programs,
        part.warps // num_warps,
        part.registers // max(1, per_warp) // num_warps,
        part.shared // shared if shared else part.programs,
    )
    return programs * num_warps / part.warps


def read_machine_code(compiled: CompiledKernel, target: str) -> MachineCode:
    """The machine code of a kernel compiled for `target`."""
    read = _read_amd if target.startswith("gfx") else _read_nvidia
    registers, stack, spills, loads = read(compiled)
    shared, num_warps = compiled.metadata.shared, compiled.metadata.num_warps
    fit = occupancy(target, registers, shared, num_warps)
    return MachineCode(registers, stack, spills, shared, fit, tuple(loads))


def _read_nvidia(compiled: CompiledKernel) -> tuple[int, int, int, list[Load]]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        usage = _run("cuobjdump", "-res-usage", file.name)
        text = _run("nvdisasm", "-g", "-c", file.name)
    registers, stack, local = (
        int(re.search(rf"{name}:(\d+)", usage)[1]) for name in ("REG", "STACK", "LOCAL")
    )
    return registers, stack + local, *_nvidia_instructions(text)


def _nvidia_instructions(text: str) -> tuple[int, list[Load]]:
    """Instructions that touch the stack, and loads from global memory."""
    spills, loads, place = 0, [], ("", 0)
    for line in text.splitlines():
        if found := re.search(r'//## File "([^"]+)", line (\d+)', line):
            place = Path(found[1]).name, int(found[2])
        # after the address comment and the predicate: the operation and its suffixes
        elif found := re.search(r"\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)((?:\.\w+)*)", line):
            operation, suffixes = found[1], found[2].split(".")[1:]
            if operation in ("LDL", "STL"):
                spills += 1
            elif operation in ("LDG", "LDGSTS"):
                sizes = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}
                bits = next((sizes[s] for s in suffixes if s in sizes), 32)
                loads.append(Load(*place, bits))
    return spills, loads


def _read_amd(compiled: CompiledKernel) -> tuple[int, int, int, list[Load]]:
    text = compiled.asm["amdgcn"]

    def number(name: str) -> int:
        return int(re.search(rf"\.{name}:\s+(\d+)", text)[1])

    spills = number("vgpr_spill_count") + number("sgpr_spill_count")
    registers = number("vgpr_count") + number("agpr_count")
    return registers, number("private_segment_fixed_size"), spills, _amd_loads(text)


def _amd_loads(text: str) -> list[Load]:
    sizes = {
        "ubyte": 8, "sbyte": 8, "ushort": 16, "sshort": 16, "short": 16, "dword": 32,
        "dwordx2": 64, "dwordx3": 96, "dwordx4": 128,
    }  # fmt: skip
    loads, place = [], ("", 0)
    for line in text.splitlines():
        if found := re.search(r"\.loc\s.*;\s*(\S+):(\d+):\d+", line):
            place = Path(found[1]).name, int(found[2])
        elif found := re.match(r"\s+(?:global|buffer|flat)_load_([a-z0-9]+)", line):
            loads.append(Load(*place, sizes[found[1]]))
    return loads


def inexact_arithmetic(compiled: CompiledKernel) -> list[str]:
    """Instructions that flush subnormal numbers to 0 or approximate a result, by name."""
    if "ptx" in compiled.asm:
        words = re.findall(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.:]*)", compiled.asm["ptx"], re.MULTILINE)
        parts = {"ftz", "approx", "full"}
        return sorted({word for word in words if parts & set(word.split("."))})
    # 3: subnormal numbers are read and written.
    modes = re.findall(r"\.amdhsa_float_denorm_mode_\w+ \d+", compiled.asm["amdgcn"])
    assert modes, "no mode of floating-point arithmetic was found"
    flushing = [mode for mode in modes if not mode.endswith(" 3")]
    approximate = re.findall(r"\bv_(?:rcp|sqrt|rsq|exp|log)_f32\b", compiled.asm["amdgcn"])
    has_division = "v_div_fmas_f32" in compiled.asm["amdgcn"]  # refines an approximation
    return flushing + ([] if has_division else sorted(set(approximate)))


def _run(tool: str, *args: str) -> str:
    result = subprocess.run([TOOLS / tool, *args], capture_output=True, text=True, check=True)
    return result.stdout
