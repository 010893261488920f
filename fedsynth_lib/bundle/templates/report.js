"use strict";
// Search over all pages, sorting, the filter of cards, claims on a phone, everything unfolded on paper.

const root = document.documentElement.dataset.root;
const form = document.getElementById("search");
const box = form.elements.q;
const hits = document.getElementById("hits");
const SHOWN = 40;

const escaped = (text) => text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);

const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+(?:\.\p{N}+)*/gu) ?? [];
let index = null; // of SEARCH, made by the first search

function indexed() {
  index ??= SEARCH.map(([title, kind, address, text]) => {
    const head = wordsOf(`${title} ${kind}`);
    const body = wordsOf(`${address} ${text}`);
    return { title, kind, address, text, head, body: new Set(body), both: [head.join(" "), body.join(" ")] };
  });
  return index;
}

// How well an entry has a word: whole words count more than beginnings and other parts, and the title more than the text.
// A number is found whole alone: 2 is neither in 2024 nor in 2.1.
function score(entry, word) {
  if (entry.head[0] === word) return 25;
  if (entry.head.includes(word)) return 20;
  const [head, body] = entry.both;
  const number = /^[\p{N}.]+$/u.test(word);
  if (!number && entry.head.some((each) => each.startsWith(word))) return 10;
  if (!number && head.includes(word)) return 5;
  if (entry.body.has(word)) return 3;
  return !number && body.includes(word) ? 1 : NaN;
}

// Entries that have all words, the best first; of two as good, the one with the shorter title.
function find(query) {
  const words = wordsOf(query);
  if (!words.length) return [];
  return indexed()
    .map((entry) => ({ ...entry, score: words.reduce((sum, word) => sum + score(entry, word), 0) }))
    .filter((entry) => !Number.isNaN(entry.score))
    .sort((a, b) => b.score - a.score || a.head.length - b.head.length);
}

function excerpt(text, query) {
  const word = wordsOf(query)[0] ?? "";
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
  return (at ? "…" : "") + text.slice(at, at + 160) + (text.length > at + 160 ? "…" : "");
}

function search() {
  const query = box.value.trim();
  const found = find(query);
  hits.hidden = !query;
  const lines = found.slice(0, SHOWN).map(
    (each) => `<li><a href="${root}${escaped(each.address)}">${escaped(each.title)} <span class="badge">${escaped(each.kind)}</span><span class="note">${escaped(excerpt(each.text, query))}</span></a></li>`,
  );
  const more = found.length > SHOWN ? `, the best ${SHOWN} are shown` : "";
  hits.innerHTML = query ? `<p class="note">${found.length} found${more}</p><ul>${lines.join("")}</ul>` : "";
}

box.addEventListener("input", search);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  history.replaceState(null, "", `${location.pathname}?q=${encodeURIComponent(box.value.trim())}`);
  hits.querySelector("a")?.focus();
});
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    box.focus();
  } else if (event.key === "Escape" && !hits.hidden) {
    box.value = "";
    search();
    box.focus();
  } else if (/^Arrow(Down|Up)$/.test(event.key) && !hits.hidden && (event.target === box || hits.contains(event.target))) {
    event.preventDefault();
    const stops = [box, ...hits.querySelectorAll("a")];
    const next = stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    stops[Math.max(0, Math.min(next, stops.length - 1))].focus();
  }
});
const asked = new URLSearchParams(location.search).get("q");
if (asked) {
  box.value = asked;
  search();
}

const natural = new Intl.Collator("en", { numeric: true });
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, place) =>
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((each) => each.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[place].textContent;
      body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * natural.compare(key(a), key(b))));
    }),
  );
}

const filter = document.getElementById("filter");
if (filter) {
  const cards = [...filter.parentElement.querySelectorAll(".cards > li")];
  const show = () => {
    const state = filter.elements.state.value;
    for (const card of cards) card.hidden = Boolean(state) && card.querySelector(".badge")?.textContent !== state;
    filter.querySelector("output").textContent = `${cards.filter((card) => !card.hidden).length} of ${cards.length} shown`;
  };
  filter.addEventListener("change", show);
  show();
}

// On a phone the style lays the claims out as blocks; they stay a table to those who listen.
for (const table of document.querySelectorAll(".claims")) {
  table.role = "table";
  for (const row of table.rows) {
    row.role = "row";
    for (const cell of row.cells) cell.role = cell.scope ? cell.scope.replace("col", "column") + "header" : "cell";
  }
}

// A link to something that is folded opens it.
function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let each = target; each; each = each.parentElement) if (each.matches("details")) each.open = true;
  target?.scrollIntoView();
}
addEventListener("hashchange", unfold);
if (location.hash) unfold();

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((each) => (each.open = true));
});
addEventListener("afterprint", () => opened.forEach((each) => (each.open = false)));
