// @ts-check
// Copies the command line that does the same as the page.

/** @param {string} text */
async function copy(text) {
  if (navigator.clipboard !== undefined) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement("textarea"); // a page that is served without TLS has no clipboard
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export function startCopying() {
  document.addEventListener("click", async (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
    if (!(button instanceof HTMLElement)) return;
    await copy(button.dataset.copy ?? "");
    const before = button.textContent;
    button.textContent = "Copied";
    button.setAttribute("data-js-keep", "");
    setTimeout(() => {
      button.textContent = before;
      button.removeAttribute("data-js-keep");
    }, 1200);
  });
}
