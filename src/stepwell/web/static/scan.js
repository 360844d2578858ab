// @ts-check
// A search by what no index knows looks at a limited number of rows per answer; this goes on until it is stopped.

import { hold } from "./live.js";

const MOST_ANSWERS = 500;

export function startScan() {
  const button = document.querySelector("[data-scan]");
  const list = document.querySelector("main [data-list]");
  if (!(button instanceof HTMLAnchorElement) || list === null) return;
  let stopped = false;
  button.addEventListener("click", async (event) => {
    event.preventDefault();
    if (button.dataset.jsScanning !== undefined) {
      stopped = true;
      return;
    }
    hold();
    button.dataset.jsScanning = "";
    let next = button.href;
    for (let answers = 0; answers < MOST_ANSWERS && !stopped; answers += 1) {
      button.textContent = "Stop";
      const answer = await fetch(next, { headers: { "X-Stepwell-Fragment": "1" }, cache: "no-store" });
      if (!answer.ok) break;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const row of page.querySelectorAll("main [data-list] > [data-key]")) list.append(document.importNode(row, true));
      if (list.firstElementChild !== null) {
        list.closest("table")?.removeAttribute("hidden");
        list.closest("section")?.querySelector(".empty")?.remove();
      }
      const told = page.querySelector("[data-scanned]")?.textContent;
      const place = document.querySelector("[data-scanned]");
      if (told && place !== null) place.textContent = told;
      const further = page.querySelector("[data-scan]");
      if (!(further instanceof HTMLAnchorElement)) {
        button.remove();
        return;
      }
      next = new URL(further.getAttribute("href") ?? "", location.href).href;
      button.href = next;
    }
    delete button.dataset.jsScanning;
    button.textContent = "Look further";
    stopped = false;
  });
}
