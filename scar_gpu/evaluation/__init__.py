"""Evaluation on labelled corpora: datasets, metrics, methods, sweeps, the report.

Needs `scar_gpu[text]`; hybrid methods `scar_gpu[hybrid]`, pictures `scar_gpu[plots]`.
"""

from scar_gpu.evaluation.bootstrap import Difference, Estimate, differences, estimates
from scar_gpu.evaluation.datasets import Dataset, Evidence, Question, sample_documents
from scar_gpu.evaluation.evaluate import Comparison, Results, Row, evaluate, paper_methods
from scar_gpu.evaluation.gold import Gold, gold_of
from scar_gpu.evaluation.held_out import HeldOut, hold_out
from scar_gpu.evaluation.methods import MatchedTopK, Method, ParentSection, Scar, TopK, Window
from scar_gpu.evaluation.metrics import Scores, Sizes, document_means, score, sizes_of
from scar_gpu.evaluation.probes import make_probes
from scar_gpu.evaluation.reading import read_dataset
from scar_gpu.evaluation.reranking import Reranked
from scar_gpu.evaluation.sweep import Grid, GridSums, sweep
from scar_gpu.evaluation.tables import to_csv, to_json, to_markdown
from scar_gpu.evaluation.trial import Settings, Trial, prepare

__all__ = [
    "Comparison",
    "Dataset",
    "Difference",
    "Estimate",
    "Evidence",
    "Gold",
    "Grid",
    "GridSums",
    "HeldOut",
    "MatchedTopK",
    "Method",
    "ParentSection",
    "Question",
    "Reranked",
    "Results",
    "Row",
    "Scar",
    "Scores",
    "Settings",
    "Sizes",
    "TopK",
    "Trial",
    "Window",
    "differences",
    "document_means",
    "estimates",
    "evaluate",
    "gold_of",
    "hold_out",
    "make_probes",
    "paper_methods",
    "prepare",
    "read_dataset",
    "sample_documents",
    "score",
    "sizes_of",
    "sweep",
    "to_csv",
    "to_json",
    "to_markdown",
]
