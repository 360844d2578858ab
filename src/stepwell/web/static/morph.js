// @ts-check
// Changes a part of the page into a newer one without replacing what stays: focus, selection, scroll positions, typed
// text and opened details survive. Children are matched by `data-key` or `id`, the others by their order.

/** @param {Node} node */
function keyOf(node) {
  // Not `node.id`: of a form with a field named `id`, that is the field.
  return node instanceof Element ? node.getAttribute("data-key") || node.getAttribute("id") || null : null;
}

/**
 * @param {Node} one
 * @param {Node} other
 */
function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
}

/**
 * Attributes that belong to the reader: what was opened, typed, ticked or selected.
 * @param {Element} element
 * @param {string} name
 */
function isKept(element, name) {
  if (name === "open") return element.nodeName === "DETAILS" || element.nodeName === "DIALOG";
  return element.hasAttribute("data-own") && (element.getAttribute("data-own") || "").split(" ").includes(name);
}

/**
 * @param {Element} old
 * @param {Element} fresh
 */
function morphAttributes(old, fresh) {
  for (const { name, value } of [...fresh.attributes]) {
    if (!isKept(old, name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !isKept(old, name) && !name.startsWith("data-js-")) old.removeAttribute(name);
  }
}

/**
 * @param {Node} old
 * @param {Node} fresh
 */
export function morph(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE || old.nodeType === Node.COMMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (!(old instanceof Element) || !(fresh instanceof Element)) return;
  if (old.hasAttribute("data-js-keep")) return;
  if (old.isEqualNode(fresh)) return;
  const text = old.getAttribute("data-js-text");
  morphAttributes(old, fresh);
  if (text !== null && fresh.textContent === text) return; // a script shows this text in another form
  if (text !== null) old.removeAttribute("data-js-text");
  if (old instanceof HTMLTextAreaElement || old instanceof HTMLSelectElement) return;
  if (old.hasAttribute("data-hold-new")) morphHeldRows(old, fresh);
  else morphChildren(old, fresh);
}

/**
 * @param {Element} old
 * @param {Element} fresh
 */
export function morphChildren(old, fresh) {
  /** @type {Map<string, Node>} */
  const keyed = new Map();
  for (const child of old.childNodes) {
    const key = keyOf(child);
    if (key !== null) keyed.set(key, child);
  }
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const key = keyOf(wanted);
    let match = key === null ? null : (keyed.get(key) ?? null);
    if (match !== null && !alike(match, wanted)) match = null;
    if (match === null && key === null) {
      let candidate = at;
      while (candidate !== null && keyOf(candidate) !== null) candidate = candidate.nextSibling;
      if (candidate !== null && alike(candidate, wanted)) match = candidate;
    }
    if (match === null) {
      old.insertBefore(document.importNode(wanted, true), at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else old.insertBefore(match, at);
    morph(match, wanted);
  }
  while (at !== null) {
    const next = at.nextSibling;
    old.removeChild(at);
    at = next;
  }
}

/**
 * Rows of a list in which people work: known rows change in place, new ones wait behind a button.
 * @param {Element} old
 * @param {Element} fresh
 */
function morphHeldRows(old, fresh) {
  const known = new Map([...old.children].map((row) => [keyOf(row), row]));
  const arrived = [...fresh.children].filter((row) => !known.has(keyOf(row)));
  const present = new Set([...fresh.children].map(keyOf));
  for (const row of fresh.children) {
    const before = known.get(keyOf(row));
    if (before !== undefined) morph(before, row);
  }
  for (const row of old.children) row.classList.toggle("gone", !present.has(keyOf(row)));
  if (known.size === 0) morphChildren(old, fresh);
  const waiting = known.size === 0 ? 0 : arrived.length;
  document.dispatchEvent(new CustomEvent("stepwell:held", { detail: { list: old, fresh, waiting } }));
}
