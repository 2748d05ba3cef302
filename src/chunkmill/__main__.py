"""`python -m chunkmill` is `chunkmill`."""

from chunkmill.jobs.cli import main

main()
