"""Read a dataset with pandas: python with_pandas.py DATASET"""

import sys

import pandas as pd
from deltalake import DeltaTable


def chunks(dataset: str) -> pd.DataFrame:
    """The chunks' places and texts."""
    table = DeltaTable(f"{dataset}/chunks").to_pyarrow_dataset()
    return table.to_table(columns=["chunk_id", "uri", "heading_path", "n_tokens", "text"]).to_pandas()


if __name__ == "__main__":
    print(chunks(sys.argv[1]).groupby("uri")["n_tokens"].describe())
