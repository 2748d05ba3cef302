"""`python -m chunkmill.jobs` is `chunkmill`."""

from chunkmill.jobs.cli import main

main()
