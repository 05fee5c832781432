"""`python -m scar_gpu.cli` is `scar-gpu`."""

from scar_gpu.cli.main import main

main()
