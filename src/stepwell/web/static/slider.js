// @ts-check
// The time slider of a workflow: moves to `at=`, so that the address is what is shown.
import { textOf } from "./times.js";

/** While the page shows what is now, the slider stands at its end, which moves; not under the reader's hand. */
function follow() {
  const slider = document.getElementById("slider");
  if (!(slider instanceof HTMLInputElement) || slider === document.activeElement) return;
  if (!new URLSearchParams(location.search).has("at")) slider.value = slider.max;
}

export function startSlider() {
  document.addEventListener("stepwell:updated", follow);
  document.addEventListener("input", (event) => {
    const slider = event.target;
    if (!(slider instanceof HTMLInputElement) || slider.dataset.slider === undefined) return;
    const label = document.getElementById("slider-label");
    if (label !== null) label.textContent = textOf(new Date(Number(slider.value)), "full");
  });
  document.addEventListener("change", (event) => {
    const slider = event.target;
    if (!(slider instanceof HTMLInputElement) || slider.dataset.slider === undefined) return;
    const address = new URL(location.href);
    address.searchParams.set("at", new Date(Number(slider.value)).toISOString());
    location.href = address.href;
  });
}
