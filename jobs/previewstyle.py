"""How the preview's page looks, and what it does when a reader points at a chunk."""

from __future__ import annotations

STYLE = """
main, header, footer { max-width: 96rem; }
.legend { display: flex; flex-wrap: wrap; gap: .35rem 1.4rem; font-size: .875rem; margin: .75rem 0 .25rem; }
.legend span { white-space: nowrap; }
.legend i { display: inline-block; width: 1.1em; height: 1.1em; vertical-align: -.2em; border-radius: .2em;
  margin-right: .15em; }
h2.first { font: .875rem/1.5 ui-monospace, "DejaVu Sans Mono", monospace; color: var(--soft); margin: 1rem 0 0; }
.c0 { background: var(--c0); fill: var(--c0); } .c1 { background: var(--c1); fill: var(--c1); }
.c2 { background: var(--c2); fill: var(--c2); } .c3 { background: var(--c3); fill: var(--c3); }
.twice { background-image: repeating-linear-gradient(-45deg, transparent 0 5px,
  color-mix(in srgb, var(--ink) 16%, transparent) 5px 7px); }
.card svg.chart { max-width: 34rem; margin-top: .5rem; }
.columns { margin: 1.25rem 0; }
.row { display: grid; gap: .75rem; content-visibility: auto; contain-intrinsic-size: auto 900px; }
.columns.n2 .row { grid-template-columns: 1fr 1fr; }
.columns.drawn .row { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); }
.columns.n2.drawn .row { grid-template-columns: repeat(3, minmax(0, 1fr)); }
.row.heads { position: sticky; top: 0; z-index: 2; content-visibility: visible; background: var(--bg); padding: .4rem 0;
  font-size: .85rem; font-weight: 600; }
.text { background: var(--card); border: solid var(--line); border-width: 0 1px; padding: 0 1.1rem; white-space: pre-wrap;
  overflow-wrap: anywhere; unicode-bidi: plaintext; min-width: 0; font-size: .95rem; line-height: 1.75; tab-size: 4; }
.even .text { font: .82rem/1.75 ui-monospace, "DejaVu Sans Mono", monospace; }
.row:first-child .text, .heads + .row .text { border-top-width: 1px; border-radius: .6rem .6rem 0 0; padding-top: 1rem; }
.row:last-child .text { border-bottom-width: 1px; border-radius: 0 0 .6rem .6rem; padding-bottom: 1rem; }
.drawn .row { border-bottom: 1px solid var(--line); padding: .75rem 0; }
.drawn .text { border: 1px solid var(--line) !important; border-radius: .6rem !important; padding: .8rem 1.1rem !important; }
.k { cursor: pointer; border-radius: .15em; padding: .12em 0; box-decoration-break: clone;
  -webkit-box-decoration-break: clone; }
.n, .p { font: 600 .68em/1 ui-monospace, "DejaVu Sans Mono", monospace; color: var(--bg); background: var(--ink);
  border-radius: .25em; padding: .1em .3em; margin-right: .3em; vertical-align: .15em; text-decoration: none;
  unicode-bidi: isolate; direction: ltr; white-space: nowrap; scroll-margin-top: 5rem; }
.p { background: transparent; color: var(--mark); border: 1px solid currentColor; }
.lit { background: var(--on); color: var(--bg); }
@media (prefers-color-scheme: light) { .lit { background: #2b4d86; color: #fff; } }
@media (prefers-color-scheme: dark) { .lit { background: #c9dcf9; color: #14161a; } }
.lit .x { color: inherit; }
.lit .n { background: var(--bg); color: var(--ink); }
.sheet { min-width: 0; }
.sheet svg { position: sticky; top: .5rem; display: block; width: 100%; max-height: 96vh; border: 1px solid var(--line);
  background: #fff; border-radius: .3rem; }
.n2 .sheet svg { top: 3.5rem; max-height: calc(96vh - 3rem); }
.sheet rect { fill-opacity: .55; mix-blend-mode: multiply; stroke: none; }
.sheet rect.c0 { fill: #a9cbf7; } .sheet rect.c1 { fill: #a5e0ac; }
.sheet rect.c2 { fill: #fbd77f; } .sheet rect.c3 { fill: #efb0d5; }
.sheet rect.lit { fill: #2b6be0; fill-opacity: .45; }
#panel { position: fixed; z-index: 3; right: 1rem; bottom: 1rem; width: min(26rem, calc(100vw - 2rem)); max-height: 45vh;
  overflow: auto; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .8rem 1rem;
  box-shadow: 0 6px 28px rgb(0 0 0 / .22); font-size: .875rem; }
#panel dl { display: grid; grid-template-columns: auto 1fr; gap: .1rem .8rem; margin: .3rem 0 .6rem; }
#panel dt { color: var(--soft); } 
#panel dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; max-height: 9em; overflow: auto; }
#panel strong { font-size: 1rem; }
.keys { display: flex; gap: .5rem; position: sticky; bottom: -.8rem; margin-bottom: -.8rem; padding: .3rem 0 .8rem;
  background: var(--card); }
button { font: inherit; color: inherit; background: transparent; border: 1px solid var(--line); border-radius: .4rem;
  padding: .25rem .7rem; cursor: pointer; } button:hover { border-color: var(--soft); }
#close { margin-left: auto; }
@media (max-width: 48rem) {
  .columns.drawn .row, .columns.n2.drawn .row { grid-template-columns: minmax(0, 1fr); }
  .columns.n2 .row { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: .3rem; }
  .columns.n2.drawn .heads > :first-child { display: none; }
  .text { padding: 0 .6rem; font-size: .9rem; }
  .sheet svg, .row.heads { position: static; }
  #panel { right: 0; bottom: 0; width: 100%; max-height: 40vh; border-radius: .8rem .8rem 0 0; } }
"""

SCRIPT = r"""
(() => {
  'use strict';
  const cuts = new Map(JSON.parse(document.getElementById('chunks').textContent).map(c => [c.name, c]));
  const panel = document.getElementById('panel'), held = document.getElementById('held');
  let lit = [], now = [], pinned = false;
  const known = key => {
    const [, name, ordinal] = /^(.*?[ab])(\d+)$/.exec(key) || [];
    const cut = cuts.get(name);
    return cut && {name, ordinal: +ordinal, values: cut.chunks[ordinal]};
  };
  const make = (tag, text) => Object.assign(document.createElement(tag), {textContent: text});
  function describe(chunk) {
    const list = document.createElement('dl');
    for (const [key, value] of Object.entries(chunk.values)) {
      const unit = key === 'Size' ? ' ' + cuts.get(chunk.name).unit : '';
      list.append(make('dt', key), make('dd', value + unit));
    }
    const letter = cuts.size > 1 ? chunk.name.slice(-1).toUpperCase() + ' · ' : '';
    return [make('strong', letter + 'chunk ' + (chunk.ordinal + 1)), list];
  }
  function show(keys) {
    if (keys.join() === now.join()) return;
    lit.forEach(e => e.classList.remove('lit'));
    now = keys;
    lit = keys.flatMap(key => [...document.getElementsByClassName(key)]);
    lit.forEach(e => e.classList.add('lit'));
    const found = keys.map(known).filter(c => c && c.values);
    held.replaceChildren(...found.flatMap(describe));
    panel.hidden = !found.length;
  }
  const at = event => {
    const e = event.target.closest && event.target.closest('[data-k]');
    return e ? e.dataset.k.split(' ') : null;
  };
  document.addEventListener('mouseover', event => {
    if (pinned || panel.contains(event.target)) return;
    show(at(event) || []);
  });
  document.addEventListener('click', event => {
    if (panel.contains(event.target)) return;
    const keys = at(event);
    pinned = !!keys;
    show(keys || []);
  });
  document.addEventListener('focusin', event => {
    if (event.target.classList.contains('n')) { pinned = true; show([event.target.id]); }
  });
  function go(by) {
    const first = now.length && known(now[0]);
    if (!first) return;
    for (let n = first.ordinal + by; cuts.get(first.name).chunks[n]; n += by) {
      const flag = document.getElementById(first.name + n);
      if (!flag) continue;
      pinned = true;
      show([first.name + n]);
      flag.scrollIntoView({block: 'center'});
      return;
    }
  }
  document.getElementById('back').addEventListener('click', () => go(-1));
  document.getElementById('on').addEventListener('click', () => go(1));
  document.getElementById('close').addEventListener('click', () => { pinned = false; show([]); });
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape') { pinned = false; show([]); }
    if (pinned && event.key === 'ArrowRight') go(1);
    if (pinned && event.key === 'ArrowLeft') go(-1);
  });
  if (/^#d\d+[ab]\d+$/.test(location.hash)) { pinned = true; show([location.hash.slice(1)]); }
})();
"""
