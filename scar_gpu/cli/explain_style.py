"""The style of the page of `explain`, in the colours of the reader's choice, light or dark."""

STYLE = """
:root {
  --ground: #f6f7f9; --card: #ffffff; --ink: #1b1f24; --quiet: #5c6570; --line: #d9dee4;
  --in: #1a7f4b; --in-ground: #e5f5ec; --out: #b3372f; --out-ground: #fbeceb;
  --hit: #2459c4; --hit-ground: #e9f0fd; --shared: #fff0b8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171b; --card: #1d2127; --ink: #e7eaee; --quiet: #9aa5b1; --line: #343b44;
    --in: #5fd397; --in-ground: #17301f; --out: #f08a80; --out-ground: #361d1c;
    --hit: #8db4ff; --hit-ground: #1a2740; --shared: #54491b;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 3rem; background: var(--ground);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
}
h1, h2, h3, p, dl, dd, ul, pre { margin: 0; padding: 0; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .1rem 0 .6rem; }
header { margin-bottom: 1.5rem; }
.kind, .source, .range, .path, dt, .rule { color: var(--quiet); font-size: .875rem; }
.counts { margin-bottom: .5rem; }
.rule b { color: var(--ink); font-weight: 600; }
article {
  background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: 1rem 1.1rem; margin-bottom: 1.25rem;
}
h2 { font-size: 1.1rem; line-height: 1.35; }
.rank {
  display: inline-block; min-width: 1.6em; text-align: center; border-radius: 1em;
  background: var(--hit-ground); color: var(--hit);
}
.range { font-weight: 400; margin-left: .4rem; }
.path { margin: .25rem 0 .6rem; }
.sep { opacity: .6; }
dl { display: flex; gap: 1.5rem; margin-bottom: .6rem; }
dl div { display: flex; gap: .45rem; align-items: baseline; }
dd, .sum { font-variant-numeric: tabular-nums; }
dd { font-weight: 600; }
.verdicts { list-style: none; border-top: 1px solid var(--line); margin-bottom: .9rem; }
.verdicts li {
  display: grid; grid-template-columns: 5.5rem minmax(5rem, 1fr) auto 7rem; gap: .2rem .8rem;
  align-items: center; padding: .4rem 0; border-bottom: 1px solid var(--line);
}
.who { font-weight: 600; font-size: .9rem; }
.sum { font-size: .875rem; }
.bar { position: relative; height: .6rem; border-radius: .3rem; background: var(--line); }
.bar i { display: block; height: 100%; border-radius: .3rem; background: var(--quiet); }
.in .bar i { background: var(--in); }
.out .bar i { background: var(--out); }
.both .bar i { background: var(--hit); }
.bar b { position: absolute; top: -.25rem; bottom: -.25rem; width: 2px; background: var(--ink); }
.mark {
  display: inline-block; padding: .05rem .55rem; border-radius: 1em; font-size: .8125rem;
  font-weight: 600; text-align: center; white-space: nowrap;
}
.mark.in { color: var(--in); background: var(--in-ground); }
.mark.out { color: var(--out); background: var(--out-ground); }
.mark.both { color: var(--hit); background: var(--hit-ground); }
.run section { border-left: .25rem solid var(--line); padding: .45rem .8rem; }
.run section.in { border-color: var(--in); background: var(--in-ground); }
.run section.out { border-color: var(--out); border-left-style: dashed; color: var(--quiet); }
.run section.hit { border-color: var(--hit); background: var(--hit-ground); }
.run section.both { border-color: var(--hit); }
h3 { font-size: .75rem; font-weight: 600; color: var(--quiet); }
.in h3 { color: var(--in); }
.out h3 { color: var(--out); }
.hit h3, .both h3 { color: var(--hit); }
pre {
  font: .8125rem/1.45 ui-monospace, "DejaVu Sans Mono", monospace; white-space: pre-wrap;
  overflow-wrap: anywhere;
}
.narrow { display: none; }
mark { background: var(--shared); color: inherit; }
@media (max-width: 40rem) {
  body { padding: 1rem .6rem 2rem; }
  article { padding: .8rem .7rem; }
  .range { display: block; margin-left: 0; }
  .verdicts li { grid-template-columns: 1fr auto; }
  .bar, .sum { grid-column: 1 / -1; grid-row: auto; }
  .mark { grid-row: 1; grid-column: 2; }
  .counts .mark { grid-row: auto; }
  .wide { display: none; }
  .narrow { display: inline; }
  pre { font-size: .75rem; }
}
"""
