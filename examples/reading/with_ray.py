"""Read a dataset with Ray Data, a block per file: python with_ray.py DATASET"""

import sys

import ray.data


def tokens(dataset: str) -> int:
    """The tokens of all chunks."""
    return ray.data.read_delta(f"{dataset}/chunks", columns=["n_tokens"]).sum("n_tokens")


if __name__ == "__main__":
    print(tokens(sys.argv[1]))
