"""Query a dataset with DuckDB, by SQL and by vector: python with_duckdb.py DATASET"""

import sys

import duckdb
from deltalake import DeltaTable


def sizes(dataset: str) -> list[tuple[str, int, float]]:
    """Of each format the number of chunks and their mean size."""
    chunks = DeltaTable(f"{dataset}/chunks").to_pyarrow_dataset()  # noqa: F841  the SQL names it
    return duckdb.sql("SELECT format, count(*), round(avg(n_tokens), 1) FROM chunks GROUP BY format ORDER BY format").fetchall()


def nearest(dataset: str, vector: list[float], k: int = 3) -> list[tuple[str, float]]:
    """The chunks nearest to a vector: vectors have unit length, so the dot product is the cosine."""
    chunks = DeltaTable(f"{dataset}/chunks").to_pyarrow_dataset()  # noqa: F841
    by = "SELECT chunk_id, list_dot_product(vector, ?::FLOAT[]) AS score FROM chunks ORDER BY score DESC LIMIT ?"
    return duckdb.execute(by, [vector, k]).fetchall()


if __name__ == "__main__":
    print(*sizes(sys.argv[1]), sep="\n")
