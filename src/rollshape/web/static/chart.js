// Charts as SVG: lines with bands, intervals, grids. Hover or use the arrow keys for values; drag or use + and − to zoom.

import { compact, h, integer, number, replace, s } from "./dom.js";

export const COLORS = ["var(--c0)", "var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)", "var(--c5)", "var(--c6)", "var(--c7)"];
const MARGIN = { left: 58, right: 20, top: 10, bottom: 40 };

export function ticks(low, high, count = 5) {
  if (!(high > low)) return [low];
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * (raw / power > 7 ? 10 : raw / power > 3.2 ? 5 : raw / power > 1.4 ? 2 : 1);
  const list = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) list.push(Number(value.toPrecision(12)));
  return list;
}

function logTicks(low, high) {
  const list = [];
  for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= Math.log10(high) + 1e-9; power += 1) list.push(10 ** power);
  return list.length > 1 ? list : [low, high];
}

const isNumber = (value) => value !== null && value !== undefined && Number.isFinite(value);

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (isNumber(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  return low <= high ? [low, high] : null;
}

export function smooth(values, weight) {
  if (!weight) return values;
  let mean = 0, norm = 0;
  return values.map((value) => {
    if (!isNumber(value)) return value;
    mean = weight * mean + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    return mean / norm;
  });
}

// options: label, xLabel, yLabel, height, xLog, yLog, yZero, xTicks, points.
// series: [{name, color, x, y, raw?, low?, high?, hasBand?}]; without a band, low and high are only under the pointer.
export function lineChart(options) {
  const tip = h("div", { class: "tip", hidden: true });
  const live = h("p", { class: "hidden", role: "status", "aria-live": "polite" });
  const svg = s("svg", { role: "img", tabindex: 0, class: "chart" });
  const legend = h("div", { class: "legend" });
  const reset = h("button", { type: "button", class: "small zoom-reset", hidden: true, onclick: () => { zoom = null; draw(); } }, "Reset zoom");
  const box = h("div", { class: "chart-box" }, svg, tip, reset, legend, live);
  let series = null, zoom = null, width = 600, scales = null, cursor = null, dragged = null;
  const height = options.height ?? 280;

  function visible() {
    return series.map((line) => {
      if (!zoom) return line;
      const keep = line.x.map((x) => x >= zoom[0] && x <= zoom[1]);
      const pick = (values) => values?.filter((_, i) => keep[i]);
      return { ...line, x: pick(line.x), y: pick(line.y), raw: pick(line.raw), low: pick(line.low), high: pick(line.high) };
    });
  }

  function draw() {
    if (!series) return; // nothing was given yet
    width = Math.max(280, box.clientWidth || 600);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    const lines = visible();
    const positive = (value) => !isNumber(value) || value > 0;
    const xs = extent(lines.flatMap((line) => line.x).filter((x) => !options.xLog || positive(x)));
    const ys = yRange(lines, (y) => !options.yLog || positive(y));
    replace(legend, series.length > 1 && series.map((line) => h("span", {}, h("i", { style: `background:${line.color}` }), line.name)));
    reset.hidden = !zoom;
    tip.hidden = true;
    if (!xs || !ys) {
      scales = null;
      svg.setAttribute("aria-label", `${options.label}: no values yet`);
      replace(svg, s("text", { x: width / 2, y: height / 2, class: "axis", "text-anchor": "middle" }, "No values yet"));
      return;
    }
    if (options.yZero) ys[0] = Math.min(0, ys[0]);
    const pad = options.yLog ? 0 : (ys[1] - ys[0] || Math.abs(ys[0]) || 1) * 0.06;
    scales = {
      x: scale(xs, [MARGIN.left, width - MARGIN.right], options.xLog, tickPositions(xs)),
      y: scale([ys[0] - (options.yZero && ys[0] === 0 ? 0 : pad), ys[1] + pad], [height - MARGIN.bottom, MARGIN.top], options.yLog),
    };
    svg.setAttribute("aria-label", describe(lines));
    replace(svg, axes(), lines.map(path), s("g", { class: "cursor" }));
  }

  // The range of the lines, and of the bands as far as they do not flatten the lines.
  function yRange(lines, isUsable) {
    const inner = extent(lines.flatMap((line) => [...line.y, ...(line.raw ?? [])]).filter(isUsable));
    if (!inner) return null;
    const banded = lines.filter((line) => line.hasBand !== false);
    const outer = extent([...inner, ...banded.flatMap((line) => [...(line.low ?? []), ...(line.high ?? [])]).filter(isUsable)]);
    const map = options.yLog ? Math.log10 : (value) => value, back = options.yLog ? (value) => 10 ** value : (value) => value;
    const [a, b] = inner.map(map), [low, high] = outer.map(map);
    const room = b > a ? 0.5 * (b - a) : Infinity; // one level: the band is all there is to show
    return [back(Math.max(low, a - room)), back(Math.min(high, b + room))];
  }

  function scale([low, high], [from, to], isLog, positions) {
    const map = isLog ? Math.log10 : (value) => value;
    const [a, b] = [map(low), map(high)];
    const place = (value) => (b === a ? (from + to) / 2 : from + ((map(value) - a) / (b - a)) * (to - from));
    place.invert = (pixel) => { const value = a + ((pixel - from) / (to - from)) * (b - a); return isLog ? 10 ** value : value; };
    place.limit = (value) => Math.min(high, Math.max(low, value));
    place.ticks = positions ?? (isLog ? logTicks(low, high) : ticks(low, high, to > from ? Math.max(2, Math.floor((to - from) / 75)) : 5));
    return place;
  }

  // Given positions, as many as there is room for: each, every second, every fourth …
  function tickPositions([low, high]) {
    const given = options.xTicks?.filter((x) => x >= low && x <= high);
    if (!given?.length) return null;
    const every = 2 ** Math.max(0, Math.ceil(Math.log2(given.length / ((width - MARGIN.left) / 52))));
    return given.filter((_, i) => i % every === 0);
  }

  function axes() {
    const bottom = height - MARGIN.bottom;
    return s("g", { class: "axes" },
      scales.y.ticks.map((value) => [s("line", { class: "gridline", x1: MARGIN.left, x2: width - MARGIN.right, y1: scales.y(value), y2: scales.y(value) }),
        s("text", { class: "axis", x: MARGIN.left - 8, y: scales.y(value) + 4, "text-anchor": "end" }, compact(value))]),
      scales.x.ticks.map((value) => s("text", { class: "axis", x: scales.x(value), y: bottom + 17, "text-anchor": "middle" }, (options.xTicks ? integer : compact)(value))),
      s("line", { class: "baseline", x1: MARGIN.left, x2: width - MARGIN.right, y1: bottom, y2: bottom }),
      s("text", { class: "axis name", x: (MARGIN.left + width - MARGIN.right) / 2, y: height - 6, "text-anchor": "middle" }, options.xLabel),
      options.yLabel && s("text", { class: "axis name", x: 12, y: (bottom + MARGIN.top) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(bottom + MARGIN.top) / 2})` }, options.yLabel));
  }

  const at = (line, i, values) => `${scales.x(line.x[i]).toFixed(1)} ${scales.y(values[i]).toFixed(1)}`;

  function usable(line, values) {
    return line.x.map((_, i) => i).filter((i) => isNumber(line.x[i]) && isNumber(values[i]) && (!options.yLog || values[i] > 0) && (!options.xLog || line.x[i] > 0));
  }

  function path(line) {
    const drawn = [];
    if (line.low && line.high && line.hasBand !== false) {
      const edge = (i, values) => `${scales.x(line.x[i]).toFixed(1)} ${scales.y(scales.y.limit(values[i])).toFixed(1)}`;
      const inside = line.x.map((_, i) => i).filter((i) => isNumber(line.low[i]) && isNumber(line.high[i]) && (!options.yLog || line.low[i] > 0));
      if (inside.length > 1) drawn.push(s("path", { class: "band", fill: line.color, opacity: Math.min(0.16, 0.4 / series.length), d: `M${inside.map((i) => edge(i, line.high)).join("L")}L${inside.toReversed().map((i) => edge(i, line.low)).join("L")}Z` }));
    }
    if (line.raw) { const raw = usable(line, line.raw); if (raw.length > 1) drawn.push(s("path", { class: "line raw", stroke: line.color, d: `M${raw.map((i) => at(line, i, line.raw)).join("L")}` })); }
    const points = usable(line, line.y);
    if (points.length > 1) drawn.push(s("path", { class: "line", stroke: line.color, "stroke-dasharray": line.dash, d: `M${points.map((i) => at(line, i, line.y)).join("L")}` }));
    if (points.length === 1 || options.points) for (const i of points) drawn.push(s("circle", { fill: line.color, r: 3.2, cx: scales.x(line.x[i]), cy: scales.y(line.y[i]) }));
    return drawn;
  }

  function describe(lines) {
    const ends = lines.slice(0, 6).map((line) => { const last = line.y.findLast(isNumber); return `${line.name} ends at ${number(last)}`; });
    return `${options.label}. ${ends.join("; ")}. Arrow keys read values.`;
  }

  function nearest(line, x) {
    let best = -1;
    line.x.forEach((value, i) => { if (isNumber(line.y[i]) && (best < 0 || Math.abs(value - x) < Math.abs(line.x[best] - x))) best = i; });
    return best;
  }

  function point(x) {
    if (!scales) return;
    const lines = visible();
    const rows = lines.map((line) => [line, nearest(line, x)]).filter(([, i]) => i >= 0);
    if (!rows.length) return;
    const closest = rows.reduce((best, row) => (Math.abs(row[0].x[row[1]] - x) < Math.abs(best[0].x[best[1]] - x) ? row : best));
    const place = closest[0].x[closest[1]];
    cursor = place;
    const group = svg.querySelector(".cursor");
    replace(group, s("line", { class: "crosshair", x1: scales.x(place), x2: scales.x(place), y1: MARGIN.top, y2: height - MARGIN.bottom }),
      rows.map(([line, i]) => (!options.yLog || line.y[i] > 0) && s("circle", { fill: line.color, r: 4, cx: scales.x(line.x[i]), cy: scales.y(line.y[i]) })));
    const texts = rows.slice(0, 12).map(([line, i]) => [line, `${number(line.y[i])}${line.low && isNumber(line.low[i]) ? ` [${number(line.low[i])}, ${number(line.high[i])}]` : ""}`]);
    replace(tip, h("strong", {}, `${options.xLabel} ${number(place)}`), texts.map(([line, text]) => h("div", {}, h("i", { style: `background:${line.color}` }), `${line.name}: ${text}`)));
    tip.hidden = false;
    const left = scales.x(place) + 14 + tip.offsetWidth > width ? scales.x(place) - tip.offsetWidth - 14 : scales.x(place) + 14;
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${MARGIN.top}px`;
    return `${options.xLabel} ${number(place)}: ${texts.map(([line, text]) => `${line.name} ${text}`).join(", ")}`;
  }

  const xAt = (event) => { const frame = svg.getBoundingClientRect(); return scales.x.invert(((event.clientX - frame.left) / frame.width) * width); };
  const hide = () => { tip.hidden = true; svg.querySelector(".cursor")?.replaceChildren(); };
  svg.addEventListener("pointermove", (event) => {
    if (!scales) return;
    const x = xAt(event);
    if (dragged !== null && Math.abs(scales.x(x) - scales.x(dragged)) > 4) {
      const [a, b] = [scales.x(dragged), scales.x(x)].sort((p, q) => p - q);
      replace(svg.querySelector(".cursor"), s("rect", { class: "brush", x: a, y: MARGIN.top, width: b - a, height: height - MARGIN.bottom - MARGIN.top }));
      tip.hidden = true;
    } else point(x);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointerdown", (event) => { if (scales && event.pointerType === "mouse") { dragged = xAt(event); svg.setPointerCapture(event.pointerId); } });
  svg.addEventListener("pointerup", (event) => {
    if (!scales || dragged === null) return;
    const ends = [dragged, xAt(event)].sort((a, b) => a - b);
    const isWide = scales.x(ends[1]) - scales.x(ends[0]) > 8;
    dragged = null;
    if (isWide) { zoom = ends; draw(); }
  });
  svg.addEventListener("dblclick", () => { zoom = null; draw(); });
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    if (!scales) return;
    const all = [...new Set(visible().flatMap((line) => line.x.filter((_, i) => isNumber(line.y[i]))))].sort((a, b) => a - b);
    const index = cursor === null ? -1 : all.findIndex((x) => x >= cursor);
    const to = { ArrowRight: index + 1, ArrowLeft: Math.max(0, index - 1), Home: 0, End: all.length - 1 }[event.key];
    if (to !== undefined && all.length) { event.preventDefault(); live.textContent = point(all[Math.min(to, all.length - 1)]) ?? ""; }
    else if (event.key === "+" || event.key === "=") { const [a, b] = zoom ?? [all[0], all.at(-1)]; const middle = cursor ?? (a + b) / 2; zoom = [Math.max(a, middle - (b - a) / 4), Math.min(b, middle + (b - a) / 4)]; draw(); }
    else if (event.key === "-" || event.key === "0" || event.key === "Escape") { zoom = null; draw(); }
  });
  const observer = new ResizeObserver(() => { if (box.clientWidth && Math.abs(box.clientWidth - width) > 2) draw(); });
  observer.observe(box);
  box.update = (next) => { series = next; draw(); };
  box.setOptions = (next) => { Object.assign(options, next); zoom = null; draw(); };
  return box;
}

// rows: [{label, value, low, high, note, color}]: a point and its interval each.
export function intervalPlot({ label, xLabel, rows, xLog = false }) {
  const values = rows.flatMap(({ value, low, high }) => [value, low, high]).filter((value) => isNumber(value) && (!xLog || value > 0));
  const range = extent(values);
  if (!range) return h("p", { class: "muted" }, "No values yet.");
  const map = xLog ? Math.log10 : (value) => value;
  let [a, b] = range.map(map);
  if (a === b) [a, b] = [a - 1, b + 1];
  const pad = (b - a) * 0.04;
  const place = (value) => 100 * (map(value) - a + pad) / (b - a + 2 * pad);
  return h("div", { class: "intervals", role: "img", "aria-label": `${label}. ${rows.map((row) => `${row.label}: ${number(row.value)}${isNumber(row.low) ? `, 95 % interval ${number(row.low)} to ${number(row.high)}` : ""}`).join("; ")}` },
    rows.map((row) => h("div", { class: "interval" }, h("span", { class: "name", title: row.label }, row.label),
      h("span", { class: "track" }, isNumber(row.value) && [
        isNumber(row.low) && isNumber(row.high) && h("span", { class: "range", style: `left:${place(row.low)}%;width:${Math.max(0.3, place(row.high) - place(row.low))}%;background:${row.color ?? "var(--accent)"}` }),
        h("span", { class: "dot", style: `left:${place(row.value)}%;background:${row.color ?? "var(--accent)"}` })]),
      h("span", { class: "value" }, isNumber(row.value) ? number(row.value) : "–", isNumber(row.low) && h("small", { class: "muted" }, ` [${number(row.low)}, ${number(row.high)}]`), row.note && h("small", { class: "muted" }, ` ${row.note}`)))),
    h("div", { class: "muted axis-name" }, xLabel));
}

// A grid of N × T, colored by score. cells: [{num_envs, num_steps, value, text, note}].
export function shapeGrid({ label, cells }) {
  const unique = (name) => [...new Set(cells.map((cell) => cell[name]))].sort((p, q) => p - q);
  const [rows, columns] = [unique("num_envs"), unique("num_steps")];
  const range = extent(cells.map((cell) => cell.value)) ?? [0, 1];
  const share = (value) => (range[1] > range[0] ? (value - range[0]) / (range[1] - range[0]) : 1);
  const find = (n, t) => cells.find((cell) => cell.num_envs === n && cell.num_steps === t);
  const isBest = (cell) => isNumber(cell.value) && cell.value === range[1] && cells.length > 1;
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label }, h("table", { class: "shape-grid" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "N ↓ T →"), columns.map((t) => h("th", { scope: "col" }, number(t))))),
    h("tbody", {}, rows.map((n) => h("tr", {}, h("th", { scope: "row" }, number(n)), columns.map((t) => {
      const cell = find(n, t);
      if (!cell) return h("td", { class: "none" }, "");
      const level = isNumber(cell.value) ? Math.round(5 + 37 * share(cell.value)) : 0; // text stays readable on all of them
      return h("td", { class: isBest(cell) ? "best" : "", style: isNumber(cell.value) ? `background:color-mix(in srgb,var(--accent) ${level}%,var(--panel))` : "", title: cell.note },
        cell.text, cell.progress < 1 && h("progress", { max: 1, value: cell.progress, "aria-label": `${number(100 * cell.progress)} % done` }));
    }))))));
}
