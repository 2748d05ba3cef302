"""Chunks as LangChain documents: python with_langchain.py DATASET"""

import sys
from collections.abc import Iterator

from deltalake import DeltaTable
from langchain_core.documents import Document

COLUMNS = ["chunk_id", "uri", "heading_path", "page_start", "text"]


def documents(dataset: str) -> Iterator[Document]:
    """One for each chunk; its id is the `chunk_id`, so that an index can be kept up to date."""
    for batch in DeltaTable(f"{dataset}/chunks").to_pyarrow_dataset().to_batches(columns=COLUMNS):
        for row in batch.to_pylist():
            metadata = {"source": row["uri"], "headings": row["heading_path"], "page": row["page_start"]}
            yield Document(id=row["chunk_id"], page_content=row["text"], metadata=metadata)


if __name__ == "__main__":
    print(next(documents(sys.argv[1])))
