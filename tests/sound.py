"""What holds of every parsed document."""

from __future__ import annotations

from chunkmill.io.parsers import Parsed


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
