"""An index on disk: a folder that is written whole or not at all, checked when it is opened.

`manifest.json` says what the other files are, `tensors.safetensors` holds the tensors,
`chunks.parquet` with `documents.parquet` the text where there is some, and `lexical.parquet` the
lists of words for hybrid retrieval.
"""

from scar_gpu.storage.errors import IndexFormatError, IndexNotFoundError
from scar_gpu.storage.manifest import Manifest
from scar_gpu.storage.opening import describe, open_index
from scar_gpu.storage.saving import save_index
from scar_gpu.storage.stored_index import StoredIndex

__all__ = [
    "IndexFormatError",
    "IndexNotFoundError",
    "Manifest",
    "StoredIndex",
    "describe",
    "open_index",
    "save_index",
]
