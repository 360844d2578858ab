// @ts-check
// Pan and zoom of a graph: drag it, hold Ctrl and turn the wheel, or use the buttons.

const STEP = 1.2;

/**
 * @param {SVGElement} drawing
 * @param {number} by
 */
function zoom(drawing, by) {
  const box = drawing.parentElement;
  const now = Number(drawing.dataset.jsZoom ?? "1");
  const next = Math.min(Math.max(now * by, 0.2), 4);
  const [, , width, height] = (drawing.getAttribute("viewBox") ?? "0 0 1 1").split(" ").map(Number);
  drawing.dataset.jsZoom = String(next);
  drawing.style.width = `${width * next}px`;
  drawing.style.height = `${height * next}px`;
  if (box !== null) {
    box.scrollLeft *= next / now;
    box.scrollTop *= next / now;
  }
}

function graph() {
  const found = document.querySelector("svg[data-pan]");
  return found instanceof SVGElement ? found : null;
}

export function startGraph() {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-zoom]") : null;
    const drawing = graph();
    if (button === null || drawing === null) return;
    const how = button.getAttribute("data-zoom");
    if (how === "fit") {
      const [, , width] = (drawing.getAttribute("viewBox") ?? "0 0 1 1").split(" ").map(Number);
      const room = (drawing.parentElement?.clientWidth ?? width) - 16;
      zoom(drawing, room / width / Number(drawing.dataset.jsZoom ?? "1"));
    } else zoom(drawing, how === "in" ? STEP : 1 / STEP);
  });
  document.addEventListener("wheel", (event) => {
    const drawing = graph();
    if (!event.ctrlKey || drawing === null || !(event.target instanceof Node) || !drawing.contains(event.target)) return;
    event.preventDefault();
    zoom(drawing, event.deltaY < 0 ? STEP : 1 / STEP);
  }, { passive: false });
  /** @type {{ x: number, y: number, left: number, top: number } | null} */
  let from = null;
  document.addEventListener("pointerdown", (event) => {
    const box = event.target instanceof Element ? event.target.closest(".graph-box") : null;
    if (box === null || event.pointerType !== "mouse" || event.button !== 0) return;
    from = { x: event.clientX, y: event.clientY, left: box.scrollLeft, top: box.scrollTop };
  });
  document.addEventListener("pointermove", (event) => {
    const box = document.querySelector(".graph-box");
    if (from === null || box === null || event.buttons !== 1) return;
    box.scrollLeft = from.left - (event.clientX - from.x);
    box.scrollTop = from.top - (event.clientY - from.y);
  });
  document.addEventListener("pointerup", () => { from = null; });
}
