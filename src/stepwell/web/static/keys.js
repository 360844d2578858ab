// @ts-check
// The keyboard: `/` search, g and a letter for a screen, j k x Enter in lists, r c e on a step, `.` holds, `?` helps.
import { toggleHold } from "./live.js";
import { moveCursor, openCursor, tickCursor } from "./selection.js";

let afterG = false;

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement
    && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.nodeName));
}

/** @param {string} key */
function go(key) {
  const link = document.querySelector(`nav.main a[data-go="${CSS.escape(key)}"], [data-go-list] a[data-go="${CSS.escape(key)}"]`);
  if (link instanceof HTMLAnchorElement) location.href = link.href;
}

/** @param {string} key */
function act(key) {
  const found = document.querySelector(`main [data-press="${CSS.escape(key)}"]`);
  if (!(found instanceof HTMLElement)) return false;
  if (found instanceof HTMLDetailsElement) {
    found.open = true;
    const first = found.querySelector("input:not([type=hidden]), button");
    if (first instanceof HTMLElement) first.focus();
  } else {
    found.click();
  }
  return true;
}

function help() {
  const dialog = document.getElementById("keys");
  if (dialog instanceof HTMLDialogElement) {
    if (dialog.open) dialog.close();
    else dialog.showModal();
  }
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    for (const menu of document.querySelectorAll("details.menu[open]")) menu.removeAttribute("open");
    if (isTyping(event.target)) /** @type {HTMLElement} */ (event.target).blur();
    return;
  }
  if (isTyping(event.target)) return;
  const { key } = event;
  if (afterG) {
    afterG = false;
    go(key);
    event.preventDefault();
    return;
  }
  let handled = true;
  if (key === "/") document.getElementById("search")?.focus();
  else if (key === "g") afterG = true;
  else if (key === "?") help();
  else if (key === ".") toggleHold();
  else if (key === "j") handled = moveCursor(1);
  else if (key === "k") handled = moveCursor(-1);
  else if (key === "x") handled = tickCursor();
  else if (key === "Enter") handled = event.target === document.body && openCursor();
  else if (["r", "c", "e"].includes(key)) handled = act(key);
  else handled = false;
  if (handled) event.preventDefault();
}

export function startKeys() {
  document.addEventListener("keydown", onKey);
  document.getElementById("help")?.addEventListener("click", help);
}
