// @ts-check
// Keeps the page current: a visible tab asks for its own address as a fragment, with the tag of what it has.
import { morph } from "./morph.js";
import { noteServerClock, onServerClock, showTimes, textOf } from "./times.js";

const EVERY_MS = 2000;
const IDLE_EVERY_MS = 30_000; // after an hour without input
const IDLE_AFTER_MS = 3_600_000;
const TIMEOUT_MS = 8000;

/** @type {string | null} */
let tag = null;
let held = false;
let asking = false;
let lastInput = Date.now();
let lastAnswer = Date.now();
let visibleSince = Date.now();
/** @type {number | undefined} */
let timer;

/** A form or a preview: what it shows must not change below the reader. */
function isFrozen() {
  return document.querySelector("main[data-live='off']") !== null;
}

function isPaused() {
  return held || isFrozen();
}

function isIdle() {
  return Date.now() - lastInput > IDLE_AFTER_MS;
}

function interval() {
  return isIdle() ? IDLE_EVERY_MS : EVERY_MS;
}

/**
 * @param {string} state
 * @param {string} text
 */
function show(state, text) {
  const place = document.getElementById("live");
  if (place === null) return;
  place.dataset.state = state;
  const label = place.querySelector(".text");
  if (label !== null && label.textContent !== text) label.textContent = text;
  document.body.classList.toggle("stale", state === "stale");
}

function showAge() {
  if (isFrozen()) show("frozen", "not live");
  else if (held) show("held", "held");
  else if (Date.now() - Math.max(lastAnswer, visibleSince) > 2.5 * interval() && !document.hidden) {
    const at = textOf(onServerClock(lastAnswer), "moment");
    show("stale", `as of ${at}, ${Math.round((Date.now() - lastAnswer) / 1000)} s ago; retrying`);
  }
}

/** @param {string} html */
export function apply(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  for (const id of ["pulse", "nav", "main", "phone-nav"]) {
    const old = document.getElementById(id);
    const now = fresh.getElementById(id);
    if (old !== null && now !== null) {
      morph(old, now);
    }
  }
  const title = fresh.querySelector("title")?.textContent;
  if (title && document.title !== title) document.title = title;
  const icon = fresh.querySelector("link[rel=icon]")?.getAttribute("href");
  const shown = document.querySelector("link[rel=icon]");
  if (icon && shown !== null && shown.getAttribute("href") !== icon) shown.setAttribute("href", icon);
  showTimes(document.body);
  document.dispatchEvent(new CustomEvent("stepwell:updated"));
}

export async function ask() {
  if (asking) return;
  asking = true;
  const stop = new AbortController();
  const limit = setTimeout(() => stop.abort(), TIMEOUT_MS);
  try {
    /** @type {Record<string, string>} */
    const headers = { "X-Stepwell-Fragment": "1" };
    if (tag !== null) headers["If-None-Match"] = tag;
    const answer = await fetch(location.href, { headers, cache: "no-store", signal: stop.signal });
    if (answer.status === 200 || answer.status === 304) {
      noteServerClock(answer.headers.get("X-Stepwell-Now"));
      if (answer.status === 200) {
        const html = await answer.text();
        if (!isPaused()) {
          tag = answer.headers.get("ETag");
          apply(html);
        }
      }
      lastAnswer = Date.now();
      show(held ? "held" : "live", held ? "held" : "live");
    } else if (answer.status === 401) {
      show("error", "signed out; reload to sign in");
    } else if (answer.status === 404) {
      show("error", "this no longer exists");
    } else {
      showAge();
    }
  } catch {
    showAge(); // no answer: the page stays as it was
  } finally {
    clearTimeout(limit);
    asking = false;
  }
}

function schedule() {
  clearTimeout(timer);
  timer = setTimeout(round, interval());
}

async function round() {
  if (!document.hidden && !isPaused()) await ask();
  else showAge();
  schedule();
}

export function toggleHold() {
  if (isFrozen()) return;
  held = !held;
  show(held ? "held" : "live", held ? "held" : "live");
  if (!held) void ask();
}

/** What was added to the page by hand must stay: updates go on when the reader asks for them. */
export function hold() {
  if (!held) toggleHold();
}

/** A reader who returns to an idle tab sees what is new at once. */
function onInput() {
  const wasIdle = isIdle();
  lastInput = Date.now();
  if (wasIdle) void round();
}

export function startLive() {
  for (const kind of ["pointerdown", "keydown", "scroll"]) addEventListener(kind, onInput, { passive: true });
  document.addEventListener("visibilitychange", () => {
    visibleSince = Date.now();
    if (!document.hidden) void round();
  });
  document.getElementById("live")?.addEventListener("click", toggleHold);
  setInterval(showAge, 1000);
  showAge();
  schedule();
}

// For tests: one refresh on demand.
Object.assign(window, { stepwellRefresh: ask });
