// @ts-check
// Lists: the cursor (j and k), ticked rows and their number, all rows at once, and new rows that wait.
import { morphChildren } from "./morph.js";
import { showTimes } from "./times.js";

/** @type {string | null} */
let cursor = null;

function rows() {
  return [...document.querySelectorAll("main [data-list] > [data-key]")];
}

function mark() {
  for (const row of rows()) row.classList.toggle("cursor", row.getAttribute("data-key") === cursor);
}

function current() {
  return rows().find((row) => row.getAttribute("data-key") === cursor) ?? null;
}

/** @param {number} by */
export function moveCursor(by) {
  const all = rows();
  if (all.length === 0) return false;
  const at = all.findIndex((row) => row.getAttribute("data-key") === cursor);
  const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
  cursor = next.getAttribute("data-key");
  mark();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

export function tickCursor() {
  const box = current()?.querySelector("input[type=checkbox]");
  if (!(box instanceof HTMLInputElement)) return false;
  box.checked = !box.checked;
  count();
  return true;
}

export function openCursor() {
  const link = current()?.querySelector("a[href]");
  if (!(link instanceof HTMLAnchorElement)) return false;
  location.href = link.href;
  return true;
}

function boxes() {
  return /** @type {HTMLInputElement[]} */ ([...document.querySelectorAll("main [data-list] input[type=checkbox][name=id]")]);
}

function count() {
  const ticked = boxes().filter((box) => box.checked).length;
  for (const place of document.querySelectorAll("[data-ticked]")) place.textContent = String(ticked);
  document.querySelector(".bulk")?.toggleAttribute("data-js-ticked", ticked > 0);
  for (const button of document.querySelectorAll("[data-needs-ticked]")) {
    if (button instanceof HTMLButtonElement) button.disabled = ticked === 0;
  }
}

/** @param {CustomEvent} event */
function onHeld(event) {
  const { list, fresh, waiting } = event.detail;
  const place = document.querySelector("[data-new]");
  if (!(place instanceof HTMLButtonElement)) return;
  place.hidden = waiting === 0;
  place.textContent = `${waiting} new`;
  place.onclick = () => {
    morphChildren(list, fresh);
    showTimes(list);
    place.hidden = true;
    mark();
  };
}

export function startSelection() {
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (!(box instanceof HTMLInputElement) || box.type !== "checkbox") return;
    if (box.hasAttribute("data-tick-all")) for (const each of boxes()) each.checked = box.checked;
    count();
  });
  document.addEventListener("stepwell:updated", () => { mark(); count(); });
  document.addEventListener("stepwell:held", /** @type {EventListener} */ (onHeld));
  count();
}
