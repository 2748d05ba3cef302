"""What holds of every parsed document."""

from __future__ import annotations

from typing import NamedTuple

from chunkmill.chunkers.base import Kind
from chunkmill.io.parsers import Parsed, parse


def assert_sound(parsed: Parsed) -> None:
    """Blocks and parts lie inside the text, in order, disjoint, not white; text and metadata can be written."""
    parsed.text.encode()
    end = 0
    for block in parsed.blocks:
        assert end <= block.span.start < block.span.end <= len(parsed.text)
        assert parsed.text[slice(*block.span)].strip()
        end = block.span.start
        for part in block.parts:
            assert end <= part.start < part.end <= block.span.end
            end = part.end
        end = block.span.end
    for image in parsed.images:
        assert 0 <= image.span.start <= image.span.end <= len(parsed.text)
        assert image.png.startswith(b"\x89PNG")
    for key, value in parsed.metadata.items():
        assert isinstance(value, str)
        (key + value).encode()


class Readers(NamedTuple):
    """How a source is read that is the whole of a file: the document, and what is asked of it most."""

    name: str
    format: str

    def read(self, source: str) -> Parsed:
        (parsed,) = parse(source.encode("utf-8", "surrogatepass"), self.name, format=self.format)
        assert_sound(parsed)
        return parsed

    def blocks(self, source: str) -> list[tuple[Kind, str]]:
        parsed = self.read(source)
        return [(block.kind, parsed.text[slice(*block.span)]) for block in parsed.blocks]

    def parts(self, source: str, at: int = 0) -> list[str]:
        parsed = self.read(source)
        return [parsed.text[slice(*part)] for part in parsed.blocks[at].parts]

    def headings(self, source: str) -> list[tuple[int, str]]:
        return [(block.level, block.title) for block in self.read(source).blocks if block.kind == "heading"]
