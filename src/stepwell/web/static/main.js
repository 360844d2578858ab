// @ts-check
// The entry: starts every module once.
import { startTimes } from "./times.js";
import { startLive } from "./live.js";
import { startKeys } from "./keys.js";
import { startSelection } from "./selection.js";
import { startCopying } from "./copy.js";
import { startTheme } from "./theme.js";
import { startGraph } from "./graph.js";
import { startMenus } from "./menus.js";
import { startSlider } from "./slider.js";
import { startScan } from "./scan.js";

startTimes();
startTheme();
startCopying();
startMenus();
startSelection();
startKeys();
startGraph();
startSlider();
startScan();
startLive();

// On a phone the navigation scrolls: the current screen is in view.
document.querySelector('nav.main [aria-current="page"]')?.scrollIntoView({ inline: "center", block: "nearest" });
