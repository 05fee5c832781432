"""Peers are optional, but never another version than the pinned one."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "requirements.txt"


class WrongVersion(RuntimeError):
    """A peer is installed in a version that the figures are not about."""


def pins(text: str | None = None) -> dict[str, str]:
    """Package: version, from the requirements file."""
    lines = (REQUIREMENTS.read_text() if text is None else text).splitlines()
    pairs = (line.split("==") for line in lines if line.strip() and not line.startswith("#"))
    return {name.strip(): version.strip() for name, version in pairs}


def is_installed(package: str, text: str | None = None) -> bool:
    """Whether a peer can be measured.

    Raises:
        WrongVersion: it is installed, but not as pinned.
    """
    pinned = pins(text)[package]
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    if version != pinned:
        raise WrongVersion(f"{package} must be {pinned} (see {REQUIREMENTS.name}), got {version}")
    return True
