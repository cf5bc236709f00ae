// Runs: a list to filter, sort and select from; curves of the selection, live while a run writes; details beside them.

import { remember } from "./app.js";
import { get } from "./backend.js";
import { COLORS, lineChart, smooth } from "./chart.js";
import { compact, empty, errorBox, folderOf, h, integer, nameOf, number, replace, seconds, severity } from "./dom.js";

const COLUMNS = [
  ["name", "Run", (run) => run.path],
  ["shape", "N × T", (run) => (run.num_envs ? `${integer(run.num_envs)} × ${integer(run.num_steps)}` : "")],
  ["return", "Return", (run) => number(run.final_return ?? run.return)], ["status", "Status", (run) => run.status],
  ["env", "Task", (run) => (run.env ? `${run.env} ${run.algo} ${run.trainer}` : "")],
  ["timesteps", "Steps", (run) => (run.timesteps ? compact(run.timesteps) : "–")], ["sps", "Steps/s", (run) => (run.sps ? compact(run.sps) : "–")],
];
const NUMERIC = new Set(["timesteps", "return", "sps"]);
const X = { timesteps: "timesteps", seconds: "seconds", gradient_steps: "gradient steps" };
const MOST_ROWS = 200, MOST_SELECTED = 24;
let root, runs, state, view, curves, sources, timer, detail;

export function show(main, query) {
  root = main;
  state = {
    selected: query.getAll("run"), metric: query.get("metric") ?? "", x: query.get("x") in X ? query.get("x") : "timesteps",
    smoothing: Number(query.get("smoothing")) || 0, filter: query.get("filter") ?? "", sort: query.get("sort") ?? "name",
    descending: query.get("order") === "down", all: false, focus: query.get("detail") ?? query.getAll("run")[0] ?? null,
  };
  runs = [];
  curves = new Map();
  sources = new Map();
  detail = null;
  view = {
    table: h("div", { class: "run-table", tabindex: 0, role: "group", "aria-label": "Runs" }), count: h("p", { class: "muted", role: "status" }, "Reading the folder…"),
    chart: lineChart({ label: "Learning curves", xLabel: "timesteps", yLabel: "", height: 320 }),
    tools: h("div", { class: "toolbar" }), chartNote: h("p", { class: "muted note" }), detail: h("div", { class: "results" }),
  };
  const list = h("section", { class: "panel", "aria-label": "List of runs" },
    h("div", { class: "toolbar" }, h("input", { type: "search", "aria-label": "Filter runs", placeholder: "Filter, for example CartPole 64 done", value: state.filter, oninput: (event) => { state.filter = event.target.value; state.all = false; save(); drawTable(); } }),
      h("button", { type: "button", class: "small", onclick: () => { state.selected = shown().slice(0, 8).map((run) => run.path); selectionChanged(); } }, "Overlay the first 8"),
      h("button", { type: "button", class: "small quiet", onclick: () => { state.selected = []; selectionChanged(); } }, "Clear")),
    view.count, view.table);
  replace(main, list, h("div", { class: "results" }, h("section", { class: "panel", "aria-label": "Curves" }, view.tools, view.chart, view.chartNote), view.detail));
  load().then(() => { if (!state.selected.length && runs.length) { state.selected = [newest().path]; state.focus = state.selected[0]; } selectionChanged(); reveal(); });
  return () => { clearTimeout(timer); for (const source of sources.values()) source.close(); };
}

// A link may select a run far down the list.
function reveal() {
  const line = view.table.querySelector("tr.on");
  if (line) view.table.scrollTop = line.offsetTop - view.table.clientHeight / 2;
}

const newest = () => runs.reduce((best, run) => ((run.written ?? 0) > (best.written ?? 0) ? run : best));

function save() {
  const query = new URLSearchParams();
  for (const path of state.selected) query.append("run", path);
  if (state.focus && state.focus !== state.selected[0]) query.set("detail", state.focus);
  if (state.metric) query.set("metric", state.metric);
  if (state.x !== "timesteps") query.set("x", state.x);
  if (state.smoothing) query.set("smoothing", state.smoothing);
  if (state.filter) query.set("filter", state.filter);
  if (state.sort !== "name") query.set("sort", state.sort);
  if (state.descending) query.set("order", "down");
  remember("runs", query);
}

async function load() {
  const answer = await get("runs");
  if (!view.table.isConnected) return;
  if (answer.error) { replace(view.table, errorBox(answer.error)); return; }
  runs = answer.runs;
  if (!runs.length) {
    replace(root, empty("No runs yet", `There is no run directory under ${answer.root}. This page updates when there is one.`, "rollshape train --env CartPole-v1 --total-timesteps 200k"));
    timer = setTimeout(() => show(root, new URLSearchParams()), 5000);
    return;
  }
  view.isComplete = answer.is_complete;
  drawTable();
  clearTimeout(timer);
  timer = setTimeout(load, runs.some((run) => run.status === "running") ? 3000 : 10000);
}

function shown() {
  const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (run) => COLUMNS.map(([, , format]) => format(run)).join(" ").toLowerCase();
  const value = (run) => ({ shape: (run.num_envs ?? 0) * 1e7 + (run.num_steps ?? 0), return: run.final_return ?? run.return ?? -Infinity, name: run.path }[state.sort] ?? run[state.sort] ?? -Infinity);
  const list = runs.filter((run) => { const all = text(run); return words.every((word) => all.includes(word)); });
  list.sort((a, b) => { const [p, q] = [value(a), value(b)]; return (p < q ? -1 : p > q ? 1 : 0) * (state.descending ? -1 : 1); });
  return list;
}

function drawTable() {
  const list = shown();
  const page = state.all ? list : list.slice(0, MOST_ROWS);
  const top = view.table.scrollTop;
  const focused = document.activeElement?.dataset?.key;
  view.count.textContent = `${list.length === runs.length ? integer(runs.length) : `${integer(list.length)} of ${integer(runs.length)}`} runs${view.isComplete ? "" : " (the folder is too large to search completely)"}, ${state.selected.length} selected`;
  replace(view.table, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, h("span", { class: "hidden" }, "Selected")), COLUMNS.map(([name, title]) =>
    h("th", { scope: "col", class: NUMERIC.has(name) ? "n" : "", "aria-sort": state.sort === name ? (state.descending ? "descending" : "ascending") : null },
      h("button", { type: "button", "data-key": `sort-${name}`, onclick: () => sortBy(name) }, title, state.sort === name ? (state.descending ? " ↓" : " ↑") : ""))))),
  h("tbody", {}, page.map(row))),
  list.length > page.length && h("button", { type: "button", class: "small", onclick: () => { state.all = true; drawTable(); } }, `Show all ${integer(list.length)}`));
  view.table.scrollTop = top;
  if (focused) view.table.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

function row(run) {
  const index = state.selected.indexOf(run.path);
  return h("tr", { class: index >= 0 ? "on" : "" },
    h("td", {}, h("input", { type: "checkbox", "aria-label": `Overlay ${run.path}`, "data-key": `check-${run.path}`, checked: index >= 0, onchange: () => toggle(run.path) })),
    COLUMNS.map(([name, , format]) => {
      if (name === "name") return h("td", { class: "name" }, h("button", { type: "button", "data-key": `open-${run.path}`, title: run.path, onclick: () => open(run.path) },
        index >= 0 && h("span", { class: "swatch", style: `background:${COLORS[index % COLORS.length]}` }), nameOf(run.path), folderOf(run.path) && h("small", { class: "muted" }, folderOf(run.path))));
      if (name === "status") return h("td", {}, status(run));
      if (name === "env") return h("td", { class: "task" }, run.env, run.env && h("small", { class: "muted" }, run.algo, run.trainer !== "Rollshape" && ` · ${run.trainer}`));
      return h("td", { class: NUMERIC.has(name) ? "n" : "" }, format(run));
    }));
}

function status(run) {
  const kind = { done: "good", running: "live", diverged: "error", unreadable: "error", interrupted: "warn" }[run.status] ?? "";
  const share = run.status === "running" && run.total_timesteps ? ` ${Math.floor(100 * (run.timesteps ?? 0) / run.total_timesteps)} %` : "";
  return h("span", { class: `badge ${kind}`, title: run.reason }, `${run.status}${share}`);
}

function sortBy(name) {
  state.descending = state.sort === name ? !state.descending : NUMERIC.has(name);
  state.sort = name;
  save();
  drawTable();
}

function toggle(path) {
  if (state.selected.includes(path)) state.selected = state.selected.filter((other) => other !== path);
  else state.selected = [...state.selected, path].slice(-MOST_SELECTED);
  if (!state.focus) state.focus = path;
  selectionChanged();
}

function open(path) {
  state.focus = path;
  if (!state.selected.includes(path)) state.selected = [path];
  selectionChanged();
}

async function selectionChanged() {
  if (!view.table.isConnected) return;
  save();
  drawTable();
  drawDetail();
  const missing = state.selected.filter((path) => !curves.has(path));
  if (missing.length) {
    const query = new URLSearchParams(missing.map((path) => ["path", path]));
    const answer = await get("curves", query);
    for (const path of missing) curves.set(path, answer.runs?.[path]?.columns ?? {});
  }
  if (!view.table.isConnected) return;
  follow();
  drawTools();
  drawChart();
}

function follow() {
  for (const [path, source] of sources) if (!state.selected.includes(path)) { source.close(); sources.delete(path); }
  for (const path of state.selected.slice(0, 5)) {
    const run = runs.find((other) => other.path === path);
    if (run?.status !== "running" || sources.has(path)) continue;
    const source = new EventSource(`api/events?${new URLSearchParams({ path })}`);
    source.addEventListener("rows", (event) => { addRows(path, JSON.parse(event.data)); drawChart(); });
    source.addEventListener("reset", () => { curves.delete(path); selectionChanged(); });
    source.addEventListener("ended", () => { source.close(); sources.delete(path); curves.delete(path); load().then(selectionChanged); });
    sources.set(path, source);
  }
}

function addRows(path, columns) {
  const known = curves.get(path) ?? {};
  const before = known.update?.length ?? 0, count = columns.update.length;
  for (const name of new Set([...Object.keys(known), ...Object.keys(columns)])) {
    known[name] = [...(known[name] ?? Array(before).fill(null)), ...(columns[name] ?? Array(count).fill(null))];
  }
  curves.set(path, known);
}

function metricNames() {
  const names = new Set();
  for (const path of state.selected) for (const [name, values] of Object.entries(curves.get(path) ?? {})) if (values.some((value) => value !== null)) names.add(name);
  for (const name of ["update", "timesteps", "wall_time"]) names.delete(name);
  return [...names].sort((a, b) => (a.includes("return") ? 0 : 1) - (b.includes("return") ? 0 : 1) || a.localeCompare(b));
}

function drawTools() {
  const names = metricNames();
  if (!names.includes(state.metric)) state.metric = names.includes("eval_return") ? "eval_return" : names.includes("episodic_return") ? "episodic_return" : names[0] ?? "";
  replace(view.tools,
    h("label", {}, "Metric", h("select", { id: "metric", onchange: (event) => { state.metric = event.target.value; save(); drawChart(); } }, names.map((name) => h("option", { value: name, selected: name === state.metric }, name)))),
    h("label", {}, "Against", h("select", { id: "x-axis", onchange: (event) => { state.x = event.target.value; save(); drawChart(); } }, Object.entries(X).map(([name, label]) => h("option", { value: name, selected: name === state.x }, label)))),
    h("label", {}, "Smoothing", h("input", { id: "smoothing", type: "range", min: 0, max: 0.95, step: 0.05, value: state.smoothing, oninput: (event) => { state.smoothing = Number(event.target.value); save(); drawChart(); } })));
}

function xValues(path, columns) {
  if (state.x === "timesteps") return columns.timesteps ?? [];
  if (state.x === "seconds") return columns.wall_time ?? [];
  const per = runs.find((run) => run.path === path)?.gradient_steps_per_update ?? 1;
  return (columns.update ?? []).map((update) => update * per);
}

function drawChart() {
  const names = state.selected.map(nameOf);
  const series = state.selected.map((path, i) => {
    const columns = curves.get(path) ?? {};
    const y = columns[state.metric] ?? [];
    return { name: names[i], color: COLORS[i % COLORS.length], x: xValues(path, columns), y: smooth(y, state.smoothing), raw: state.smoothing ? y : null };
  });
  view.chart.setOptions({ label: `${state.metric} of ${state.selected.length} runs`, xLabel: X[state.x], yLabel: state.metric });
  view.chart.update(series);
  view.chartNote.textContent = state.selected.length ? "Drag to zoom, double-click to reset. Long runs are drawn from 1,000 evenly spaced rows." : "Select runs in the list to draw their curves.";
}

async function drawDetail() {
  const key = JSON.stringify([state.focus, state.selected.length === 2 ? state.selected : null]);
  if (!state.focus || key === detail) { if (!state.focus) replace(view.detail); return; }
  detail = key;
  const path = state.focus;
  const [run, compared] = await Promise.all([get("run", { path }), state.selected.length === 2 ? get("difference", new URLSearchParams(state.selected.map((name) => ["path", name]))) : null]);
  if (path !== state.focus || !view.table.isConnected) return;
  const verdict = h("section", { class: "panel", "aria-label": "Diagnosis" }, h("h2", {}, "Diagnosis"), h("p", { class: "muted", role: "status" }, "Reading…"));
  replace(view.detail, compared && comparison(compared), run.error ? h("section", { class: "panel" }, h("h2", {}, path), errorBox(run.error)) : [facts(run), verdict, settings(run)]);
  if (!run.error) diagnose(path, verdict);
}

function facts(run) {
  const rows = [["Environment", run.env], ["Algorithm", run.algo], ["N × T", `${integer(run.num_envs)} × ${integer(run.num_steps)}`], ["Minibatch", integer(run.minibatch_size)], ["Epochs", integer(run.num_epochs)],
    ["Timesteps", `${integer(run.timesteps)}${run.total_timesteps ? ` of ${integer(run.total_timesteps)}` : ""}`], ["Final return", run.final_return === null ? "–" : `${number(run.final_return)}${run.summary.final_return_ci ? ` ± ${number(run.summary.final_return_ci)}` : ""}`], ["Steps/s", integer(run.sps)], ["Trained by", run.trainer],
    ["Last written", run.written ? `${seconds(Math.max(0, Date.now() / 1000 - run.written))} ago` : "–"]];
  return h("section", { class: "panel", "aria-label": "Run" }, h("h2", {}, run.path, " ", status(run)), h("dl", { class: "facts" }, rows.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value)))),
    run.findings.filter((finding) => finding.severity !== "info").map(finding));
}

const finding = (item) => h("div", { class: `finding ${item.severity}` }, severity(item.severity), h("div", {}, h("p", {}, item.message), h("p", { class: "muted" }, item.fix)));

async function diagnose(path, panel) {
  const answer = await get("diagnosis", { path });
  if (path !== state.focus || !panel.isConnected) return;
  if (answer.error) { replace(panel, h("h2", {}, "Diagnosis"), h("p", { class: "muted" }, answer.error.message, " ", answer.error.fix)); return; }
  replace(panel, h("h2", {}, `Diagnosis: ${answer.verdict}`), h("p", { class: "sentence" }, answer.reason), answer.suspects.map(finding),
    answer.suspects.length === 0 && answer.verdict !== "learned" && h("p", { class: "muted" }, "No measured cause stands out; a probe may show more."));
}

function settings(run) {
  const rows = Object.entries(run.spec).filter(([, value]) => value !== null);
  return h("section", { class: "panel" }, h("details", {}, h("summary", {}, "Settings and versions"), h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Settings" }, h("table", {}, h("tbody", {}, [...rows, ...Object.entries(run.versions)].map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, typeof value === "string" ? value : JSON.stringify(value)))))))));
}

function comparison(answer) {
  if (answer.error) return h("section", { class: "panel" }, h("h2", {}, "Difference"), errorBox(answer.error));
  const rows = Object.entries(answer.differences);
  return h("section", { class: "panel", "aria-label": "Difference" }, h("h2", {}, "Difference of the two runs"), rows.length === 0 ? h("p", {}, "The same settings, sizes and versions.") : h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Difference" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Setting"), state.selected.map((path) => h("th", { scope: "col" }, nameOf(path))))),
    h("tbody", {}, rows.map(([name, values]) => h("tr", {}, h("th", { scope: "row" }, name), values.map((value) => h("td", {}, value === null || value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value)))))))));
}
