// @ts-check
// Every time on the page: in the reader's zone or in UTC, and ages by the clock of the server.

let offsetMs = 0; // server minus browser

/** @param {string | null} value Seconds since 1970 by the server's clock. */
export function noteServerClock(value) {
  if (value !== null && value !== "") offsetMs = Number(value) * 1000 - Date.now();
}

export function serverNow() {
  return Date.now() + offsetMs;
}

/**
 * @param {number} milliseconds A moment of the browser's clock.
 * @returns {Date} The same by the server's clock.
 */
export function onServerClock(milliseconds) {
  return new Date(milliseconds + offsetMs);
}

/** @returns {string | undefined} The zone to show; undefined is the browser's own. */
export function zone() {
  const asked = new URLSearchParams(location.search).get("tz");
  const chosen = asked ?? readChoice();
  if (!chosen || chosen.toLowerCase() === "local") return undefined;
  try {
    new Intl.DateTimeFormat(undefined, { timeZone: chosen });
    return chosen;
  } catch {
    return "UTC";
  }
}

function readChoice() {
  try {
    return localStorage.getItem("stepwell.tz");
  } catch {
    return null;
  }
}

/** @param {number} seconds */
export function span(seconds) {
  if (seconds < 10) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7500) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/**
 * @param {Date} moment
 * @param {string} kind
 */
export function textOf(moment, kind) {
  const seconds = (serverNow() - moment.getTime()) / 1000;
  if (kind === "age") {
    if (Math.abs(seconds) < 1) return "now";
    return seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
  }
  if (kind === "since") return span(Math.max(0, seconds));
  const sameDay = Math.abs(seconds) < 43_200;
  /** @type {Intl.DateTimeFormatOptions} */
  const options = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false, timeZone: zone() };
  if (!sameDay || kind === "full") Object.assign(options, { year: "numeric", month: "2-digit", day: "2-digit" });
  return new Intl.DateTimeFormat("sv-SE", options).format(moment);
}

/**
 * @param {string | undefined} name
 * @returns {string} Like UTC+1.
 */
function offsetOf(name) {
  const parts = new Intl.DateTimeFormat("en", { timeZone: name, timeZoneName: "shortOffset" }).formatToParts(serverNow());
  const text = parts.find((part) => part.type === "timeZoneName")?.value ?? "local";
  return text.replace("GMT", "UTC");
}

/** @param {ParentNode} where */
export function showTimes(where) {
  for (const element of where.querySelectorAll("time[datetime]")) {
    const moment = new Date(element.getAttribute("datetime") ?? "");
    if (Number.isNaN(moment.getTime())) continue;
    if (!element.hasAttribute("data-js-text")) element.setAttribute("data-js-text", element.textContent ?? "");
    const text = textOf(moment, element.getAttribute("data-kind") ?? "moment");
    if (element.textContent !== text) element.textContent = text;
  }
  const button = document.getElementById("zone");
  if (button !== null) {
    const text = zone() === "UTC" ? "UTC" : offsetOf(zone());
    if (button.textContent !== text) button.textContent = text;
    button.title = `${zone() ?? Intl.DateTimeFormat().resolvedOptions().timeZone}: local time or UTC`;
  }
}

export function startTimes() {
  noteServerClock(document.documentElement.getAttribute("data-now"));
  document.getElementById("zone")?.addEventListener("click", () => {
    try {
      localStorage.setItem("stepwell.tz", zone() === undefined ? "UTC" : "local");
    } catch {
      return; // the choice cannot be kept
    }
    showTimes(document.body);
  });
  showTimes(document.body);
  setInterval(() => {
    if (!document.hidden && !hasSelection()) showTimes(document.body);
  }, 1000);
}

/** Text that someone is selecting does not change below the pointer. */
function hasSelection() {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed;
}
