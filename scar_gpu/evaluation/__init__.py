"""Evaluation on labelled corpora: datasets, metrics, methods, sweeps; needs `scar_gpu[text]`."""
