"""HTML pages that stand alone: one file, no network, no framework; what they show is never trusted.

Nothing but the page's own script can run (its hash is in the page's policy), nothing can be loaded, and characters that hide
or turn what a reader sees (controls, bidirectional overrides, tags) are shown by their names.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chunkmill import __version__
from chunkmill.chunkers.errors import ConfigError

# Controls but tab and line feed; marks, embeddings, overrides and isolates of direction; invisible signs; tags.
HIDDEN = re.compile(
    "\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)

NOWHERE = "base-uri 'none'; form-action 'none'"

STYLE = """
:root { color-scheme: light dark;
  --bg: #fbfaf8; --card: #ffffff; --ink: #1c1b1a; --soft: #5d5a55; --line: #dedad3; --link: #1d4fa8; --bar: #4a78c2;
  --ok: #2f7d4f; --empty: #8a6d1a; --failed: #b3332b; --mark: #b3332b;
  --c0: #d3e4fb; --c1: #d6f0d9; --c2: #fdeabf; --c3: #f6d9ea; --on: #1c1b1a; }
@media (prefers-color-scheme: dark) { :root {
  --bg: #171615; --card: #201f1d; --ink: #ece9e4; --soft: #a8a39b; --line: #3a3835; --link: #8db6f5; --bar: #6d9be6;
  --ok: #6cc18d; --empty: #d6b656; --failed: #f08c84; --mark: #f08c84;
  --c0: #1f3a5c; --c1: #1f4630; --c2: #4d3c12; --c3: #4c2740; --on: #ffffff; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--bg); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif; }
a { color: var(--link); }
header, main, footer { max-width: 72rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 1.75rem; }
footer { padding: 2rem 1.25rem 5rem; color: var(--soft); font-size: .85rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .75rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
p { margin: .4rem 0; }
.soft { color: var(--soft); }
.small { font-size: .875rem; }
.wrap { overflow-wrap: anywhere; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem; margin: 1.25rem 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .8rem 1rem; min-width: 0; }
.card b { display: block; font-size: 1.45rem; line-height: 1.25; font-weight: 600; font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: .85rem; }
.halves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: .75rem; }
.scroll + h3 { margin-top: 1.5rem; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
caption { text-align: left; padding: .6rem .9rem 0; color: var(--soft); font-size: .85rem; }
th, td { text-align: left; padding: .45rem .9rem; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td, tr:last-child th { border-bottom: 0; }
thead th { color: var(--soft); font-weight: 600; white-space: nowrap; }
tbody th { font-weight: 500; }
.num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.long { overflow-wrap: anywhere; min-width: 14rem; }
.meter { display: block; height: .55rem; border-radius: .3rem; background: var(--bar); min-width: 2px; }
td:has(> .meter) { width: 28%; min-width: 6rem; vertical-align: middle; }
td code, th code { white-space: nowrap; }
.ok { color: var(--ok); } .empty { color: var(--empty); } .failed { color: var(--failed); }
.meter.ok { background: var(--ok); } .meter.empty { background: var(--empty); } .meter.failed { background: var(--failed); }
details { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .6rem 1rem; margin: .5rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
details pre, details .scroll { margin: .75rem 0 .25rem; }
pre { font: .82rem/1.5 ui-monospace, "SF Mono", "DejaVu Sans Mono", monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
code { font: .9em ui-monospace, "SF Mono", "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
svg.chart { display: block; width: 100%; height: auto; }
svg.chart text { font-size: 11px; fill: var(--soft); }
svg.chart .bar { fill: var(--bar); } svg.chart .axis { stroke: var(--line); }
svg.chart .limit { stroke: var(--mark); stroke-dasharray: 4 3; } svg.chart text.limit { fill: var(--mark); stroke: none; }
.x { font: .72em ui-monospace, "DejaVu Sans Mono", monospace; color: var(--failed); border: 1px solid currentColor;
  border-radius: .2rem; padding: 0 .15em; margin: 0 .05em; unicode-bidi: isolate; direction: ltr; white-space: nowrap; }
a:focus-visible, button:focus-visible, summary:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
@media (max-width: 40rem) { body { font-size: 15px; } header, main, footer { padding-left: .8rem; padding-right: .8rem; }
  th, td { padding: .4rem .6rem; } }
@media print { details > * { display: block; } }
"""


def named(character: str) -> str:
    """`U+202E`, as a hidden character is shown."""
    return f"U+{ord(character):04X}"


def shown(text: str) -> str:
    """The text with hidden characters as `⟨U+202E⟩`: for terminals, attributes and titles."""
    return HIDDEN.sub(lambda m: "\n" if m[0] == "\r\n" else f"⟨{named(m[0])}⟩", text)


def line(name: str) -> str:
    """The same of a name, which stays on its line."""
    return shown(name).replace("\n", f"⟨{named(chr(10))}⟩")


def counted(number: int, noun: str) -> str:
    """`1 chunk`, `2,000 chunks`: for nouns whose plural ends in s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def escape(text: object) -> str:
    """Any value as text of a page or of an attribute, its hidden characters shown."""
    return html.escape(shown(str(text)))


def marked(text: str) -> str:
    """The text of a document as HTML: hidden characters as badges, all else as it is."""
    parts, at = [], 0
    for match in HIDDEN.finditer(text):
        parts += [html.escape(text[at : match.start()]), _badge(match[0])]
        at = match.end()
    return "".join([*parts, html.escape(text[at:])])


def _badge(hidden: str) -> str:
    if hidden == "\r\n":
        return "\n"
    name = unicodedata.name(hidden, "control character")
    return f'<b class=x title="{html.escape(name)}">{named(hidden)}</b>' + ("\n" if hidden == "\r" else "")


def page(title: str, body: Iterable[str], *, style: str = "", script: str = "") -> str:
    """A whole page. `style` and `script` are ours, never made of what is shown."""
    allowed = f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" if script else "'none'"
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed}; {NOWHERE}"
    return "\n".join(
        [
            '<!doctype html>\n<html lang=en>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style>\n<body>",
            *body,
            f"<footer>Made by chunkmill {escape(__version__)}. This page is one file and loads nothing.</footer>",
            f"<script>{script}</script>" if script else "",
            "</body>\n</html>\n",
        ]
    )


def data(name: str, value: Any) -> str:
    """Values for the page's script, as JSON that can't end its element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f'<script type="application/json" id={name}>{text.replace("<", chr(92) + "u003c")}</script>'


def cards(values: Mapping[str, object]) -> str:
    """Numbers with what they count."""
    return "<div class=cards>" + "".join(f"<div class=card>{_card(k, v)}</div>" for k, v in values.items()) + "</div>"


def _card(name: str, value: object) -> str:
    return f"<b>{escape(f'{value:,}' if isinstance(value, int) else value)}</b><span>{escape(name)}</span>"


def grid(heads: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "", numbers: Sequence[int] = ()) -> str:
    """A table. Cells are HTML; the columns `numbers` stand right; the first column names the row."""
    align = [" class=num" if i in numbers else "" for i in range(len(heads))]
    head = "".join(f"<th scope=col{a}>{escape(h)}</th>" for a, h in zip(align, heads, strict=True))
    lines = (
        "".join(
            f"<th scope=row{a}>{c}</th>" if not i else f"<td{a}>{c}</td>"
            for i, (a, c) in enumerate(zip(align, row, strict=True))
        )
        for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<div class=scroll tabindex=0><table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def save(path: str, page: str) -> None:
    """Write a page. Raises ConfigError where that can't be."""
    try:
        Path(path).write_text(page, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigError(f"--html {path!r} can't be written: {error.strerror}") from None
