"""`chunks.parquet` and `documents.parquet`: a chunk table on disk.

`chunks.parquet` has one row per row of the index: `document` (its id), `start` and `end` (its
characters), `start_byte` and `end_byte` (the same in UTF-8), `headings`, `path` (equal paths have
equal numbers) and `text`: the document's text from this chunk to the next, so that nothing is
stored twice and a document's rows, joined, are its text. `documents.parquet` has one row per
document: `id`, `characters`, `bytes`, and `text` where no chunk holds it.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scar_gpu.storage.chunk_texts import StoredTexts
from scar_gpu.storage.errors import IndexFormatError, refuse
from scar_gpu.storage.files import ChecksummedFile
from scar_gpu.text.extras import import_extra
from scar_gpu.text.parquet import ParquetReader
from scar_gpu.text.text_bytes import byte_positions

if TYPE_CHECKING:
    from scar_gpu.text.chunks import ChunkTable

# Text is read back a row group at a time: large enough to compress, small enough to throw away.
_GROUP_BYTES = 1 << 20
_GROUP_ROWS = 4096


def write_chunks(
    chunks_file: ChecksummedFile, documents_file: ChecksummedFile, chunks: ChunkTable
) -> None:
    """Write a chunk table, one document in memory at a time beside the table itself."""
    pa = import_extra("pyarrow", "io")
    import_extra("pyarrow.parquet", "io")
    paths = pa.array(list(chunks.paths), pa.list_(pa.string()))
    writer = _writer(chunks_file, _chunk_schema(pa))
    texts: list[str] = []
    size = written = 0
    offsets = chunks.doc_offsets
    sizes = np.zeros((len(chunks.ids), 2), dtype=np.int64)
    start_byte = np.zeros(len(chunks), dtype=np.int64)
    end_byte = np.zeros(len(chunks), dtype=np.int64)
    loose: list[str | None] = [None] * len(chunks.ids)

    def flush(behind: int) -> None:
        rows = slice(written, behind)
        ids = pa.array([chunks.ids[d] for d in chunks.document[rows].tolist()], pa.string())
        columns = {
            "document": ids,
            "start": chunks.start[rows],
            "end": chunks.end[rows],
            "start_byte": start_byte[rows],
            "end_byte": end_byte[rows],
            "headings": paths.take(pa.array(chunks.path[rows])),
            "path": chunks.path[rows],
            "text": pa.array(texts, pa.large_string()),
        }
        writer.write_table(pa.table(columns, schema=writer.schema), row_group_size=len(texts))

    with writer:
        for number, text in enumerate(chunks.texts):
            data = _encoded(chunks.ids[number], text)
            sizes[number] = len(text), len(data)
            rows = slice(offsets[number], offsets[number + 1])
            start_byte[rows] = byte_positions(text, data, chunks.start[rows])
            end_byte[rows] = byte_positions(text, data, chunks.end[rows])
            if rows.start == rows.stop:
                loose[number] = text
                continue
            for row, piece in enumerate(_pieces(text, chunks.start[rows]), int(rows.start)):
                texts.append(piece)
                size += len(piece)
                if size >= _GROUP_BYTES or len(texts) >= _GROUP_ROWS:
                    flush(row + 1)
                    texts, size, written = [], 0, row + 1
        if texts:
            flush(len(chunks))
    columns = {
        "id": pa.array(chunks.ids, pa.string()),
        "characters": sizes[:, 0],
        "bytes": sizes[:, 1],
        "text": pa.array(loose, pa.large_string()),
    }
    with _writer(documents_file, _document_schema(pa)) as writer:
        writer.write_table(pa.table(columns, schema=writer.schema))


def read_chunks(
    chunks_path: Path, chunks_map: mmap.mmap, documents_map: mmap.mmap, doc_offsets: np.ndarray
) -> ChunkTable:
    """Read everything but the texts; `StoredTexts` reads those that are asked for.

    Raises:
        IndexFormatError: Parquet files that are not the ones described above, or other
            documents than those of the index.
    """
    from scar_gpu.text.chunks import ChunkTable

    pa = import_extra("pyarrow", "io")
    try:
        documents = ParquetReader(documents_map).read(["id", "characters", "bytes", "text"])
        file = ParquetReader(chunks_map)
        table = file.read(["start", "end", "start_byte", "end_byte", "path"])
        n_rows, n_docs = int(doc_offsets[-1]), len(doc_offsets) - 1
        if (len(table), len(documents)) != (n_rows, n_docs):
            refuse(
                chunks_path,
                f"have the {n_rows} chunks and {n_docs} documents of its index",
                f"{len(table)} and {len(documents)}",
            )
        columns = {name: table[name].to_numpy() for name in table.column_names}
        path = columns["path"].astype(np.int32)
        texts = StoredTexts(
            chunks_path,
            file,
            doc_offsets,
            documents["characters"].to_numpy(),
            documents["bytes"].to_numpy(),
            columns["start_byte"],
            columns["end_byte"],
            documents["text"],
        )
        return ChunkTable(
            ids=tuple(documents["id"].to_pylist()),
            texts=texts,
            document=np.repeat(np.arange(n_docs), np.diff(doc_offsets)),
            start=columns["start"],
            end=columns["end"],
            path=path,
            paths=tuple(_paths(file, path)),
        )
    except (pa.ArrowException, KeyError, ValueError, IndexError) as error:
        if isinstance(error, IndexFormatError):
            raise
        reason = str(error).split("\n")[0]
        raise IndexFormatError(f"{chunks_path} must be a chunk table, got {reason}") from error


def _chunk_schema(pa: Any) -> Any:
    whole = {name: pa.int64() for name in ("start", "end", "start_byte", "end_byte")}
    return pa.schema(
        {"document": pa.string(), **whole, "headings": pa.list_(pa.string())}
        | {"path": pa.int32(), "text": pa.large_string()}
    )


def _document_schema(pa: Any) -> Any:
    return pa.schema(
        {
            "id": pa.string(),
            "characters": pa.int64(),
            "bytes": pa.int64(),
            "text": pa.large_string(),
        }
    )


def _writer(file: ChecksummedFile, schema: Any) -> Any:
    parquet = import_extra("pyarrow.parquet", "io")
    # Dictionaries pay for what repeats; a dictionary of the texts is only thrown away again.
    repeated = [name for name in schema.names if name in ("document", "headings", "path")]
    return parquet.ParquetWriter(file, schema, compression="zstd", use_dictionary=repeated)


def _encoded(document: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        got = f"{text[error.start]!r} at offset {error.start} of {document!r}"
        raise ValueError(f"document text must be valid Unicode, got {got}") from error


def _pieces(text: str, starts: np.ndarray) -> Iterator[str]:
    """The text cut where chunks begin: one piece per chunk, joined they are the text."""
    cuts = np.maximum.accumulate(starts).tolist()
    cuts[0] = 0
    for begin, end in zip(cuts, [*cuts[1:], len(text)], strict=True):
        yield text[begin:end]


def _paths(file: ParquetReader, path: np.ndarray) -> Iterator[tuple[str, ...]]:
    """The heading path behind each number; one that no chunk has is empty."""
    numbers, rows = np.unique(path, return_index=True)
    headings = file.read(["headings"])["headings"].take(rows).to_pylist()
    found = dict(zip(numbers.tolist(), headings, strict=True))
    for number in range(int(numbers[-1]) + 1 if len(numbers) else 0):
        yield tuple(found.get(number, ()))
