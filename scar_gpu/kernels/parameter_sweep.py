"""The sweep of lam and gamma has no GPU kernel: its input is small, and it runs once."""

from typing import Any, NoReturn


def launch_parameter_sweep(*_: Any) -> NoReturn:
    """Say so."""
    raise NotImplementedError(
        "hits must be on the CPU for parameter_sweep, which has no GPU kernel; move its arguments "
        "there with .cpu()"
    )
