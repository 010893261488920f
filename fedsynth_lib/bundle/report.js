"use strict";
// Sorting and filtering of the map, claims on a phone, everything unfolded on paper.

const natural = new Intl.Collator("en", { numeric: true });

for (const table of document.querySelectorAll("table:has(th button)")) {
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

// On a phone the style lays the claims out as blocks; they stay a table to those who listen.
for (const table of document.querySelectorAll(".claims")) {
  table.role = "table";
  for (const row of table.rows) {
    row.role = "row";
    for (const cell of row.cells) cell.role = cell.scope ? cell.scope.replace("col", "column") + "header" : "cell";
  }
}

const form = document.getElementById("filter");
const rows = [...document.getElementById("exhibits").tBodies[0].rows];

function filter() {
  const words = form.elements.words.value.toLowerCase().split(/\s+/);
  const work = form.elements.work.value;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !(words.every((word) => text.includes(word)) && (!work || row.cells[1].textContent === work));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  form.querySelector("output").textContent = `${shown} of ${rows.length} shown`;
}

for (const event of ["input", "change"]) form.addEventListener(event, filter);
form.addEventListener("submit", (event) => event.preventDefault());
filter();

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((each) => (each.open = true));
});
addEventListener("afterprint", () => opened.forEach((each) => (each.open = false)));
