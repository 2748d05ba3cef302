"""Read a dataset with Polars: python with_polars.py DATASET"""

import sys

import polars as pl


def heaviest(dataset: str, n: int = 5) -> pl.DataFrame:
    """The documents with the most chunks."""
    ledger = pl.scan_delta(f"{dataset}/documents")
    good = ledger.filter(pl.col("status") == "ok").sort("n_chunks", "uri", descending=[True, False])
    return good.select("uri", "format", "n_chunks", "n_tokens").head(n).collect()


if __name__ == "__main__":
    print(heaviest(sys.argv[1]))
