"""`scar-gpu build`: documents or vectors in, an index on disk out."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scar_gpu.cli.messages import note
from scar_gpu.cli.options import Device, Model, Overwrite, QueryPrompt, checked_device
from scar_gpu.cli.outputs import check_parents

if TYPE_CHECKING:
    from scar_gpu.text import Document


class Dtype(StrEnum):
    """How the index stores its vectors."""

    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"


def build(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the new index.")],
    source: Annotated[
        Path | None,
        typer.Argument(metavar="SOURCE", help="A folder, or a text, .jsonl or .parquet file."),
    ] = None,
    glob: Annotated[str | None, typer.Option(help="Files of the folder, such as '*.md'.")] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Column of the documents' ids [default: id, if any].")
    ] = None,
    text_column: Annotated[str, typer.Option(help="Column of the documents' texts.")] = "text",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out files that are not UTF-8 text.")
    ] = False,
    chunk_size: Annotated[int, typer.Option(min=2, help="Most characters of a chunk.")] = 600,
    overlap: Annotated[int, typer.Option(min=0, help="Most characters a chunk repeats.")] = 60,
    window: Annotated[int, typer.Option(min=0, help="Neighbours that can be judged.")] = 1,
    model: Model = None,
    query_prompt: QueryPrompt = None,
    passage_prompt: Annotated[
        str | None, typer.Option(help="Put before every chunk [default: the model's].")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts per pass of the model.")] = 32,
    dtype: Annotated[Dtype | None, typer.Option(help="[default: float32, or as given]")] = None,
    device: Device = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(
            help="Your own vectors, one per chunk: .npy, .safetensors or .parquet. SOURCE, if "
            "given, is a .jsonl or .parquet file of the chunks in the same order."
        ),
    ] = None,
    vector_column: Annotated[
        str | None,
        typer.Option(help="Column or tensor of the vectors [default: embeddings, or the only]."),
    ] = None,
    doc_offsets: Annotated[
        str | None,
        typer.Option(help="First row of each document, then N: a .npy file, or the tensor."),
    ] = None,
    doc_ids: Annotated[
        str | None,
        typer.Option(help="The document of each row: a .npy or .txt file, or the column."),
    ] = None,
    lexical: Annotated[
        bool, typer.Option("--lexical", help="Index the words too, for retrieve --hybrid.")
    ] = False,
    overwrite: Overwrite = False,
    resume: Annotated[
        bool, typer.Option(help="Use the vectors that an interrupted build has kept.")
    ] = True,
) -> None:
    """Chunk and embed documents, or take your own vectors, and write an index.

    An interrupted build keeps the vectors it has made in a file beside OUTPUT; the next one
    goes on from there. Equal texts are embedded once.
    """
    started = time.perf_counter()
    _check_folder(output, overwrite)
    place = checked_device(device)
    if lexical:
        from scar_gpu.text.extras import import_extra

        import_extra("bm25s", "hybrid")
    from scar_gpu import ChunkIndex
    from scar_gpu.cli.own_vectors import read_own
    from scar_gpu.storage import save_index

    own = {"vector-column": vector_column, "doc-offsets": doc_offsets, "doc-ids": doc_ids}
    work: Any = None
    if embeddings is not None:
        vectors, chunks, offsets = read_own(
            embeddings, vector_column, doc_offsets, doc_ids, source, id_column, text_column
        )
        record = None
        if lexical and (chunks is None or not chunks.end.any()):
            raise ValueError("lexical must come with SOURCE, the texts of the vectors, got none")
    else:
        for option, value in own.items():
            if value is not None:
                raise ValueError(f"{option} must come with --embeddings, got {value} alone")
        if source is None:
            raise ValueError("SOURCE or --embeddings must be given, got neither")
        from scar_gpu.cli.embedding import EmbeddingWork
        from scar_gpu.text import chunk_documents
        from scar_gpu.text.models import embedder_record, load_embedder

        documents = _documents(source, glob, id_column, text_column, skip_bad)
        chunks = chunk_documents(documents, chunk_size, overlap)
        if not len(chunks):
            raise ValueError(
                f"source must hold some text, got {len(documents)} documents and no character "
                f"in {source}"
            )
        embedder = load_embedder(
            model,
            device=device,
            batch_size=batch_size,
            query_prompt=query_prompt,
            passage_prompt=passage_prompt,
        )
        offsets, record = chunks.doc_offsets, embedder_record(embedder)
        work = EmbeddingWork(embedder, output, resume)
        vectors = work.embed([chunks.embedding_text(row) for row in range(len(chunks))], batch_size)
    index = ChunkIndex.build(
        vectors, offsets, window=window, dtype=_torch_dtype(dtype), device=place
    )
    words = None
    if lexical and chunks is not None:
        from scar_gpu.text.lexical import LexicalIndex

        words = LexicalIndex.of_chunks(chunks)
    save_index(output, index, chunks=chunks, lexical=words, embedder=record, overwrite=overwrite)
    if work is not None:
        work.remove()
    also = "" if words is None else f", {len(words.words):,} words"
    note(
        f"{output}: {index.n_docs:,} documents, {index.n_chunks:,} chunks of {index.dim} "
        f"dimensions{also}, in {time.perf_counter() - started:.1f} s"
    )


def _check_folder(output: Path, overwrite: bool) -> None:
    """Refuse an output that cannot be written, before hours of embedding."""
    check_parents(output)
    if output.exists() and not overwrite:
        raise FileExistsError(f"output must not exist yet, got {output}; --overwrite replaces it")
    if output.is_file():
        raise FileExistsError(f"output must be a folder, got {output}, which is a file")
    if output.is_dir() and any(output.iterdir()) and not (output / "manifest.json").is_file():
        # What --overwrite replaces is gone, so it replaces indexes only.
        raise FileExistsError(f"output must be an index to be replaced, got {output}")


def _documents(
    source: Path, glob: str | None, id_column: str | None, text_column: str, skip_bad: bool
) -> list[Document]:
    """Read the documents; say which files were left out and which documents are empty."""
    from scar_gpu.text import read_documents

    bad: list[Path] = []

    def leave_out(path: Path, error: ValueError) -> None:
        bad.append(path)
        note(f"left out: {error}")

    documents = read_documents(
        source,
        glob=glob,
        id_column=id_column,
        text_column=text_column,
        on_bad=leave_out if skip_bad else None,
    )
    empty = [document.id for document in documents if not document.text.strip()]
    if empty:
        note(f"{len(empty)} of {len(documents)} documents hold no text, the first is {empty[0]!r}")
    return documents


def _torch_dtype(dtype: Dtype | None) -> Any:
    import torch

    return None if dtype is None else getattr(torch, dtype.value)
