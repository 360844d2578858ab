// @ts-check
// Menus close when the reader clicks elsewhere; a notice with an end disappears; a form submits once.

export function startMenus() {
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!(event.target instanceof Node) || !menu.contains(event.target)) menu.removeAttribute("open");
    }
  });
  document.addEventListener("toggle", (event) => {
    const opened = event.target;
    if (!(opened instanceof HTMLDetailsElement) || !opened.open || !opened.classList.contains("menu")) return;
    for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== opened) menu.removeAttribute("open");
  }, true);
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || form.method === "get") return;
    if (form.hasAttribute("data-js-sent")) event.preventDefault();
    form.setAttribute("data-js-sent", "");
  });
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-js-sent]")) form.removeAttribute("data-js-sent");
  });
}
