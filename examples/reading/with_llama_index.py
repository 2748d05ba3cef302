"""Chunks with their vectors as LlamaIndex nodes: python with_llama_index.py DATASET"""

import sys
from collections.abc import Iterator

from deltalake import DeltaTable
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

COLUMNS = ["chunk_id", "doc_id", "uri", "start", "end", "text", "vector"]


def nodes(dataset: str) -> Iterator[TextNode]:
    """One for each chunk, with its vector and its document."""
    for batch in DeltaTable(f"{dataset}/chunks").to_pyarrow_dataset().to_batches(columns=COLUMNS):
        for row in batch.to_pylist():
            yield TextNode(
                id_=row["chunk_id"],
                text=row["text"],
                embedding=row["vector"],
                start_char_idx=row["start"],
                end_char_idx=row["end"],
                metadata={"uri": row["uri"]},
                relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=row["doc_id"])},
            )


if __name__ == "__main__":
    print(next(nodes(sys.argv[1])))
