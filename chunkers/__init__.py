"""The pure core: text and structure in, spans out. No Ray, no torch, no Arrow, no files."""
