/**
 * A window on a long list: only the rows that are seen are in the page.
 * In: a box that scrolls, a function that makes an empty row, one that fills a row with an item, and the items.
 * Out: rows in the box. A row keeps its element while it is seen, so it keeps the focus too.
 */
import { make } from "./dom.js";

const SPARE = 6;

/** Makes a window on a list. Gives a function that shows other items. */
export function makeWindow(box, height, makeRow, fillRow) {
  const ground = make("div", { class: "ground", role: "rowgroup" });
  const rows = [];
  let items = [];
  let drawn = "";

  function size() {
    const needed = Math.min(items.length, Math.ceil(box.clientHeight / height) + 2 * SPARE);
    while (rows.length < needed) ground.append(rows[rows.push(makeRow()) - 1]);
    while (rows.length > needed) rows.pop().remove();
  }

  function drawRows() {
    const first = Math.max(0, Math.min(items.length - rows.length, Math.floor(box.scrollTop / height) - SPARE));
    const key = `${first} ${rows.length}`;
    if (key === drawn) return;
    drawn = key;
    for (let i = first; i < first + rows.length; i++) placeRow(rows[i % rows.length], i);
  }

  function placeRow(row, i) {
    if (row.shownItem === items[i]) return;
    row.shownItem = items[i];
    row.style.transform = `translateY(${i * height}px)`;
    row.setAttribute("aria-rowindex", i + 2);
    fillRow(row, items[i], i);
  }

  function show(next) {
    items = next;
    drawn = "";
    ground.style.height = `${items.length * height}px`;
    size();
    for (const row of rows) row.shownItem = null;
    drawRows();
  }

  box.append(ground);
  box.addEventListener("scroll", drawRows, { passive: true });
  new ResizeObserver(() => show(items)).observe(box);
  return show;
}
