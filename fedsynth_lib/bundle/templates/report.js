"use strict";
// Search over all pages, sorting, the filter of cards, claims on a phone, everything unfolded on paper.

const root = document.documentElement.dataset.root;
const form = document.getElementById("search");
const box = form.elements.q;
const hits = document.getElementById("hits");
const SHOWN = 40;

const escaped = (text) => text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);

// Entries that have all words, the best first: a word in the title counts ten times one in the text.
function find(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = [];
  for (const [title, kind, address, text] of SEARCH) {
    const head = `${title} ${kind}`.toLowerCase();
    const body = `${address} ${text}`.toLowerCase();
    let score = 0;
    for (const word of words) {
      const inside = head.includes(word) ? 10 + (head.startsWith(word) ? 5 : 0) : body.includes(word) ? 1 : NaN;
      score += inside;
    }
    if (!Number.isNaN(score)) found.push({ title, kind, address, text, score });
  }
  return found.sort((a, b) => b.score - a.score);
}

function excerpt(text, query) {
  const word = query.toLowerCase().split(/\s+/).filter(Boolean)[0] ?? "";
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
