/* On a phone a row of a wide table is a card: each cell carries its column's name. */
for (const table of document.querySelectorAll(".wide table:not(.matrix)")) {
  const names = [...table.querySelectorAll("tr:first-child th")].flatMap((one) => Array(one.colSpan).fill(one.textContent));
  if (names.length < 4) { continue; }
  table.classList.add("cards");
  for (const row of table.rows) { [...row.cells].forEach((cell, place) => { cell.dataset.name = names[place]; }); }
}
