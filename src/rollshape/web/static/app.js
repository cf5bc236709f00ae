import { hasRuns, start } from "./backend.js";
import { h, replace } from "./dom.js";

const VIEWS = {
  plan: ["Plan", () => import("./planner.js")],
  config: ["Your config", () => import("./config.js")],
  ...(hasRuns && {
    runs: ["Runs", () => import("./runs.js")],
    studies: ["Studies", () => import("./studies.js")],
    probes: ["Probes", () => import("./probes.js")],
  }),
};
const main = document.getElementById("main");
const THEMES = ["auto", "light", "dark"];
let shown = null;
let leave = null;

export function route() {
  const [name, query = ""] = location.hash.slice(1).split("?");
  return { name: name in VIEWS ? name : "plan", query: new URLSearchParams(query) };
}

// Keeps the state of a view in the address, without a new entry in the history.
export function remember(name, query) {
  const text = query.toString();
  history.replaceState(null, "", `#${name}${text ? `?${text}` : ""}`);
}

async function show() {
  const { name, query } = route();
  const nav = document.getElementById("views");
  replace(nav, Object.entries(VIEWS).map(([key, [title]]) =>
    h("a", { href: `#${key}`, "aria-current": key === name ? "page" : null }, title)));
  document.title = `${VIEWS[name][0]} · Rollshape`;
  leave?.();
  const isSame = shown === name;
  shown = name;
  const view = await VIEWS[name][1]();
  if (shown !== name) return;
  main.className = `view-${name}`;
  leave = view.show(main, query) ?? null;
  if (!isSame && document.activeElement?.closest("nav")) main.focus({ preventScroll: true });
}

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = `Theme: ${theme}`;
  button.setAttribute("aria-label", `Color theme: ${theme}. Change it.`);
}

function store(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(name);
    localStorage.setItem(name, value);
  } catch { /* storage is not allowed: the choice lasts until the page is closed */ }
  return null;
}

let theme = THEMES.includes(store("theme")) ? store("theme") : "auto";
setTheme(theme);
document.getElementById("theme").addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  setTheme(theme);
  store("theme", theme);
});

const status = main.querySelector(".loading");
start((text) => { if (status.isConnected) status.textContent = text; }).then(() => {
  window.addEventListener("hashchange", show);
  return show();
}).catch((error) => {
  replace(main, h("p", { class: "loading", role: "alert" }, `The planner could not be started: ${error.message}`));
});
