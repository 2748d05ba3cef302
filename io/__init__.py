"""Everything that touches storage: list, fetch, parse, write, commit. No Ray, no torch."""
