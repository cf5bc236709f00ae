// The planner: controls on the left; flow, numbers, memory, findings and configs on the right.

import { remember } from "./app.js";
import { call } from "./backend.js";
import { bytes, compact, copyButton, errorBox, h, integer, number, parseSize, replace, severity } from "./dom.js";

const ALGORITHMS = { ppo: "PPO", "ppo-ewma": "PPO-EWMA", a2c: "A2C", reinforce: "REINFORCE", rrd: "RRD", sac: "SAC" };
const REPLAY = new Set(["rrd", "sac"]);
const FULL_BATCH = new Set(["a2c", "reinforce"]);
const NICE = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144,
  8192, 12288, 16384, 24576, 32768, 49152, 65536];
const BUDGETS = [1, 2, 5].flatMap((digit) => [1e4, 1e5, 1e6, 1e7, 1e8, 1e9].map((power) => digit * power)).sort((a, b) => a - b);
const COMMON = ["sb3", "cleanrl", "rl_games", "isaaclab:rl_games", "rsl_rl", "isaaclab:rsl_rl", "skrl", "rllib", "brax", "purejaxrl", "rollshape"]; // tabs; the others are in a list
const MEMORY = [["RAM", [8, 16, 32, 64, 128, 256]], ["VRAM", [8, 12, 16, 24, 48, 80]]];

// name, label, help, slider positions, when it applies. Positions may depend on the state and the last answer.
const onPolicy = (state) => !REPLAY.has(state.algo);
const CONTROLS = [
  ["num_envs", "Environments N", "that run in parallel", (state) => NICE.map((n) => n * (state.world_size ?? 1)), () => true],
  ["num_steps", "Steps T", "per environment and rollout", (state) => NICE.map((n) => n * (state.seq_length ?? 1)).filter((n) => n <= 16384), onPolicy],
  ["num_minibatches", "Minibatches", "per epoch: gradient steps of one pass", (_, answer) => answer?.legal_minibatches ?? [1], (state) => onPolicy(state) && !FULL_BATCH.has(state.algo)],
  ["num_epochs", "Epochs", "passes over each rollout", () => [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30], (state) => onPolicy(state) && !FULL_BATCH.has(state.algo)],
  ["steps_per_iteration", "Steps per iteration", "collected before each round of training", (state) => NICE.map((n) => n * (state.num_envs ?? 1)), (state) => !onPolicy(state)],
  ["train_batches", "Train batches", "gradient steps per iteration", () => NICE, (state) => !onPolicy(state)],
  ["transition_batch_size", "Transition batch", "transitions per gradient step of policy and critics", () => NICE.slice(6), (state) => !onPolicy(state)],
  ["rrd_batch_size", "Reward batch", "timesteps per gradient step of the reward network", (state) => NICE.map((n) => n * (state.rrd_sample_size ?? 64)).slice(0, 16), (state) => state.algo === "rrd"],
  ["rrd_sample_size", "Subsequence", "timesteps sampled from each episode", (_, answer) => divisors(answer?.plan?.rrd_batch_size ?? 256), (state) => state.algo === "rrd"],
  ["total_timesteps", "Budget", "environment steps of the whole run", () => BUDGETS, () => true],
];
const SHARED = [
  ["world_size", "GPUs", "data-parallel processes", () => [1, 2, 4, 8, 16, 32, 64]],
  ["num_agents", "Agents", "per environment, with one policy", () => [1, 2, 3, 4, 5, 6, 8, 10, 12, 16]],
];
const NUMBERS = {
  buffer_size: "Replay buffer", learning_starts: "Learning starts at step",
  seq_length: "Sequence length", episode_length: "Episode length", action_dim: "Action dimensions",
  gamma: "Discount γ", gae_lambda: "GAE λ", learning_rate: "Learning rate", tuned_minibatch_size: "…tuned for minibatches of",
};
const TEXT_FIELDS = ["algo", "obs_dtype", "action_kind", "obs_shape"];
const FLAGS = ["recurrent", "host_envs"];
const FIELDS = [...CONTROLS, ...SHARED].map(([name]) => name).concat(Object.keys(NUMBERS), TEXT_FIELDS, FLAGS);

let root, controls, output, state, answer, target, machine;
let isBusy = false, isStale = false, later = 0, drawn = "";

function divisors(n) {
  return n > 1e6 ? [1, n] : Array.from({ length: n }, (_, i) => i + 1).filter((d) => n % d === 0);
}

export function show(main, query) {
  root = main;
  drawn = "";
  answer = null;
  isBusy = false;
  state = readQuery(query);
  target = query.get("to") ?? "sb3";
  machine = { kind: query.get("memory_kind") === "VRAM" ? "VRAM" : "RAM", gigabytes: Number(query.get("memory")) || 16 };
  controls = h("form", { class: "controls panel", "aria-label": "Sizes", onsubmit: (event) => event.preventDefault() });
  output = parts();
  replace(main, controls, h("div", { class: "results" }, Object.values(output)));
  drawControls();
  drawTargets();
  update(performance.now());
  const narrow = matchMedia("(max-width: 700px)");
  const redraw = () => update(performance.now());
  narrow.addEventListener("change", redraw);
  return () => { narrow.removeEventListener("change", redraw); clearTimeout(later); };
}

function parts() {
  const flow = h("div", { class: "flow", tabindex: "0", role: "group", "aria-label": "Data flow of the plan" });
  flow.attachShadow({ mode: "open" });
  return {
    notice: h("div", { class: "notices", role: "status", "aria-live": "polite" }),
    flow: h("section", { class: "panel", "aria-labelledby": "flow-title" }, h("h2", { id: "flow-title" }, "One update"), flow),
    stats: h("section", { class: "stats", "aria-label": "Numbers" }),
    memory: h("section", { class: "panel", "aria-labelledby": "memory-title" }),
    findings: h("section", { class: "panel", "aria-labelledby": "findings-title" }),
    configs: h("section", { class: "panel", "aria-labelledby": "configs-title" }),
  };
}

function readQuery(query) {
  const values = {};
  for (const name of FIELDS) {
    const text = query.get(name);
    if (text === null || text === "") continue;
    if (FLAGS.includes(name)) { if (text === "true") values[name] = true; }
    else if (name === "obs_shape") values[name] = parseShape(text);
    else if (TEXT_FIELDS.includes(name)) values[name] = text;
    else if (Number.isFinite(Number(text))) values[name] = Number(text);
  }
  if (!(values.algo in ALGORITHMS)) values.algo = "ppo";
  if (!query.has("algo") && !query.size) Object.assign(values, { num_envs: 64, num_steps: 32, total_timesteps: 1e6 });
  return values;
}

function writeQuery() {
  const query = new URLSearchParams();
  for (const name of FIELDS) {
    const value = state[name];
    if (value !== undefined && value !== null && value !== false) query.set(name, Array.isArray(value) ? value.join("x") : String(value));
  }
  if (target !== "sb3" && target !== "rrd") query.set("to", target);
  if (machine.kind !== "RAM") query.set("memory_kind", machine.kind);
  if (machine.gigabytes !== 16) query.set("memory", machine.gigabytes);
  remember("plan", query);
}

function parseShape(text) {
  const sizes = text.split(/[x×, ]+/i).filter(Boolean).map(Number);
  return sizes.length && sizes.every((size) => Number.isInteger(size) && size > 0) ? sizes : undefined;
}

// Controls --------------------------------------------------------------------------------------------------------

function drawControls() {
  const more = controls.querySelector("details")?.open ?? false;
  const focused = document.activeElement?.id;
  replace(controls,
    h("div", { class: "field" }, h("label", { for: "algo" }, "Algorithm"),
      h("select", { id: "algo", onchange: (event) => chooseAlgorithm(event.target.value) },
        Object.entries(ALGORITHMS).map(([name, label]) => h("option", { value: name, selected: name === state.algo }, label)))),
    CONTROLS.filter(([, , , , applies]) => applies(state)).map(slider),
    onPolicy(state) && [
      SHARED.map(slider),
      h("div", { class: "field inline" }, flag("recurrent", "Recurrent policy", drawControls), state.recurrent && numberField("seq_length")),
    ],
    h("details", { open: more }, h("summary", {}, "Environment and machine"),
      h("div", { class: "field" }, h("label", { for: "obs_shape" }, "Observation shape"),
        h("input", { id: "obs_shape", placeholder: "for example 84x84x4", value: (state.obs_shape ?? []).join("x"),
          onchange: (event) => change("obs_shape", parseShape(event.target.value)) })),
      h("div", { class: "field" }, h("label", { for: "obs_dtype" }, "Observation type"),
        select("obs_dtype", ["float32", "uint8", "float16", "float64"], "float32")),
      h("div", { class: "field" }, h("label", { for: "action_kind" }, "Actions"), select("action_kind", ["discrete", "continuous"], "")),
      ["action_dim", "episode_length", "gamma", ...(onPolicy(state) ? ["gae_lambda", "learning_rate", "tuned_minibatch_size"] : ["buffer_size", "learning_starts"])].map(numberField),
      onPolicy(state) && h("div", { class: "field" }, flag("host_envs", "Environments run on CPU cores")),
      h("div", { class: "field" }, h("label", { for: "machine" }, "Memory of the machine"), machineSelect())),
    h("div", { class: "field buttons" },
      h("button", { type: "button", class: "quiet", onclick: () => { state = { algo: state.algo, num_envs: 64, num_steps: 32, total_timesteps: 1e6 }; if (!onPolicy(state)) { delete state.num_envs; delete state.num_steps; } drawControls(); update(performance.now()); } }, "Reset"),
      copyButton(() => location.href, "Copy link")),
    h("p", { class: "now", "aria-hidden": "true" }));
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

function slider([name, label, help, positions]) {
  const id = `slide-${name}`;
  return h("div", { class: "field slider", "data-name": name },
    h("label", { for: name }, label, h("span", { class: "muted help" }, ` ${help}`)),
    h("div", { class: "pair" },
      h("input", { id, type: "range", min: 0, max: 1, step: 1, "aria-label": label, oninput: (event) => {
        const list = positions(state, answer);
        change(name, list[Number(event.target.value)], performance.now());
      } }),
      h("input", { id: name, class: "size", inputmode: "numeric", autocomplete: "off", "aria-label": `${label}, exact value`,
        onchange: (event) => typed(name, event.target), onkeydown: (event) => step(event, name) }),
      h("button", { type: "button", class: "auto small", "data-auto": name, "aria-pressed": "false",
        onclick: () => { delete state[name]; update(performance.now()); } }, "auto")));
}

function step(event, name) {
  const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  if (!direction) return;
  event.preventDefault();
  const unit = name === "num_envs" ? state.world_size ?? 1 : name === "num_steps" ? state.seq_length ?? 1 : 1;
  const value = Number(effective(name) ?? 1);
  if (name === "num_minibatches") {
    const legal = answer?.legal_minibatches ?? [value];
    const next = direction > 0 ? legal.find((n) => n > value) : legal.findLast((n) => n < value);
    if (next) change(name, next, performance.now());
  } else if (value + direction * unit >= unit) change(name, value + direction * unit, performance.now());
}

function typed(name, input) {
  const value = parseSize(input.value);
  if (Number.isNaN(value) || value < 1) {
    input.setAttribute("aria-invalid", "true");
    replace(output.notice, h("p", { class: "notice warn" }, input.value.trim() === "" ? "Use the button “auto” to let the planner choose." : `“${input.value}” is not a whole number of at least 1. Write 64, 500_000, 1e6 or 100M.`));
    if (input.value.trim() === "") { delete state[name]; update(performance.now()); }
    return;
  }
  change(name, value, performance.now());
}

function numberField(name) {
  return h("div", { class: "field" }, h("label", { for: name }, NUMBERS[name]),
    h("input", { id: name, inputmode: "decimal", autocomplete: "off", value: state[name] ?? "", placeholder: { gamma: "0.99", gae_lambda: "0.95" }[name] ?? "",
      onchange: (event) => {
        const value = Number(event.target.value);
        change(name, event.target.value.trim() === "" || !Number.isFinite(value) ? undefined : value);
      } }));
}

function flag(name, label, then = () => {}) {
  return h("label", { class: "check" }, h("input", { id: name, type: "checkbox", checked: Boolean(state[name]), onchange: (event) => {
    if (name === "recurrent" && !event.target.checked) delete state.seq_length;
    change(name, event.target.checked || undefined);
    then();
  } }), label);
}

function select(name, values, blank) {
  return h("select", { id: name, onchange: (event) => change(name, event.target.value === blank ? undefined : event.target.value) },
    blank === "" && h("option", { value: "" }, "not given"),
    values.map((value) => h("option", { value, selected: (state[name] ?? blank) === value }, value)));
}

function machineSelect() {
  return h("select", { id: "machine", onchange: (event) => {
    const [kind, size] = event.target.value.split(" ");
    machine = { kind, gigabytes: Number(size) };
    update(performance.now());
  } }, MEMORY.map(([kind, sizes]) => h("optgroup", { label: kind === "RAM" ? "Main memory" : "GPU memory" }, sizes.map((size) =>
    h("option", { value: `${kind} ${size}`, selected: machine.kind === kind && machine.gigabytes === size }, `${size} GB ${kind}`)))));
}

function chooseAlgorithm(algo) {
  const kept = { algo };
  const isReplay = REPLAY.has(algo);
  for (const name of ["total_timesteps", "obs_shape", "obs_dtype", "action_dim", "action_kind", "episode_length", "gamma"]) {
    if (state[name] !== undefined) kept[name] = state[name];
  }
  if (!isReplay) {
    const names = ["num_envs", "num_steps", "world_size", "num_agents", "recurrent", "seq_length", "gae_lambda", "host_envs", "learning_rate", "tuned_minibatch_size"];
    if (!FULL_BATCH.has(algo)) names.push("num_minibatches", "num_epochs");
    for (const name of names) if (state[name] !== undefined) kept[name] = state[name];
  }
  state = kept;
  answer = null;
  drawControls();
  drawTargets();
  update(performance.now());
}

function change(name, value, started = performance.now()) {
  if (value === undefined) delete state[name];
  else state[name] = value;
  update(started);
}

const isNarrow = () => matchMedia("(max-width: 700px)").matches;
const effective = (name) => state[name] ?? answer?.plan?.[name] ?? null;

function showValues() {
  for (const [name, , , positions] of [...CONTROLS, ...SHARED]) {
    const input = document.getElementById(name);
    const range = document.getElementById(`slide-${name}`);
    if (!input || !range) continue;
    const value = effective(name);
    input.removeAttribute("aria-invalid");
    if (document.activeElement !== input || Number(parseSize(input.value)) !== value) input.value = value === null ? "" : integer(value);
    const list = positions(state, answer);
    range.max = Math.max(1, list.length - 1);
    range.value = nearest(list, value ?? list[0]);
    range.setAttribute("aria-valuetext", value === null ? "none" : integer(value));
    const auto = controls.querySelector(`[data-auto="${name}"]`);
    const isAuto = state[name] === undefined;
    auto.setAttribute("aria-pressed", String(isAuto));
    auto.title = isAuto ? "Chosen by the planner" : "Let the planner choose";
    auto.textContent = name === "total_timesteps" ? "none" : name in { world_size: 1, num_agents: 1 } ? "one" : "auto";
  }
}

// Fields without a slider show what a fix or a link set.
function showNumbers() {
  for (const name of Object.keys(NUMBERS)) {
    const input = document.getElementById(name);
    if (input && document.activeElement !== input) input.value = state[name] ?? "";
  }
}

function nearest(list, value) {
  let best = 0;
  list.forEach((item, i) => { if (Math.abs(Math.log(item / value)) < Math.abs(Math.log(list[best] / value))) best = i; });
  return best;
}

// Answers ---------------------------------------------------------------------------------------------------------

const request = () => ({ ...state, machine: { cores: navigator.hardwareConcurrency || 1, memory_bytes: machine.gigabytes * 1e9 } });

async function update(started) {
  if (isBusy) { isStale = true; return; }
  isBusy = true;
  isStale = false;
  clearTimeout(later);
  const asked = { ...state };
  const vertical = isNarrow();
  const result = await call("planner", { ...request(), vertical });
  isBusy = false;
  if (!root.contains(controls)) return;
  if (isStale) { update(started); return; }
  draw(result, asked);
  root.dataset.latency = (performance.now() - started).toFixed(1);
  writeQuery();
  later = setTimeout(complete, 150);
}

function draw(result, asked) {
  if (result.error) { replace(output.notice, errorBox(result.error)); return; }
  const key = JSON.stringify([asked, machine]);
  if (result.plan && key === drawn) { drawFlow(result.svg); return; } // the same plan for another width
  answer = result;
  if (result.plan) {
    const { machine: _, ...sizes } = result.request;
    state = sizes;
    for (const name of Object.keys(state)) if (state[name] === null) delete state[name];
  }
  drawNotices(result, asked);
  if (!result.plan) return;
  showValues();
  showNumbers();
  drawFlow(result.svg);
  drawStats(result.plan);
  controls.querySelector(".now").textContent = shortPlan(result.plan);
  drawMemory(result);
  drawFindings(result.plan.findings, null);
  drawn = JSON.stringify([state, machine]);
}

const NAMES = { ...NUMBERS, ...Object.fromEntries([...CONTROLS, ...SHARED].map(([name, label]) => [name, label])) };

function drawNotices(result, asked) {
  replace(output.notice, result.snapped.map((entry) => {
    const changes = Object.entries(entry.changes).filter(([name]) => name in asked || name in NAMES);
    const text = changes.map(([name, value]) => `${NAMES[name] ?? name}: ${integer(asked[name])} → ${integer(value)}`).join(", ");
    return h("p", { class: `notice ${result.plan ? "info" : "warn"}` },
      text && h("strong", {}, `${text}. `), entry.message, !text && ` ${entry.fix}`);
  }));
}

function drawFlow(svg) {
  const host = output.flow.querySelector(".flow");
  const least = isNarrow() ? 0 : 600; // a row of boxes stays readable, and scrolls where it must
  host.shadowRoot.innerHTML = `${svg}<style>
    :host{display:block} svg{max-width:100%;min-width:${least}px;height:auto;display:block;margin:0 auto}
    text{fill:var(--text)!important} .title{fill:var(--accent)!important}
    .box{fill:var(--tint)!important;stroke:var(--accent)!important} .arrow{stroke:var(--accent)!important} marker path{fill:var(--accent)!important}
  </style>`;
}

function drawStats(plan) {
  const rows = plan.transition_batch_size ? [
    ["Per iteration", `${integer(plan.rollout_size)} steps`, `${number(plan.updates_per_step)} gradient steps per step`],
    ["Transition batch", integer(plan.transition_batch_size), `each transition is used ${number(plan.sample_reuse)}× on average`],
    plan.num_subsequences && ["Reward batch", integer(plan.rrd_batch_size), `${integer(plan.num_subsequences)} subsequences of ${integer(plan.rrd_sample_size)}`],
  ] : [
    ["Rollout", integer(plan.rollout_size), "samples per update"],
    ["Minibatch", integer(plan.minibatch_size), plan.minibatch_source === "auto" ? plan.minibatch_reason : `${integer(plan.num_minibatches)} per epoch`],
    ["Per update", integer(plan.gradient_steps_per_update), `gradient steps; each sample is used ${number(plan.sample_reuse)}×`],
  ];
  rows.push(plan.num_updates === null
    ? ["Updates", "–", "set a budget to see how many it buys"]
    : ["Updates", integer(plan.num_updates), `with ${integer(plan.actual_timesteps)} of ${compact(plan.total_timesteps)} timesteps`],
  ["Gradient steps", plan.gradient_steps === null ? "–" : integer(plan.gradient_steps), "in the whole run"]);
  replace(output.stats, rows.filter(Boolean).map(([label, value, note]) =>
    h("div", { class: "stat" }, h("span", { class: "muted" }, label), h("strong", {}, value), h("span", { class: "muted" }, note))));
}

// The plan in a line, which stays in view above the sliders of a phone.
function shortPlan(plan) {
  const sizes = plan.transition_batch_size ? `${integer(plan.rollout_size)} steps, ${integer(plan.gradient_steps_per_update)} gradient steps`
    : `${integer(plan.num_envs)} × ${integer(plan.num_steps)} = ${integer(plan.rollout_size)} · ${integer(plan.num_minibatches)} × ${integer(plan.minibatch_size)}`;
  const updates = plan.num_updates === null ? "" : ` · ${compact(plan.num_updates)} updates`;
  const warnings = plan.findings.filter(({ severity: level }) => level !== "info").length;
  return `${sizes}${updates}${warnings ? ` · ${warnings} ⚠` : ""}`;
}

const PARTS = [["rollout_bytes", "rollout"], ["replay_bytes", "replay buffer"], ["copy_bytes", "copies"], ["minibatch_bytes", "minibatch"],
  ["activation_bytes", "activations"], ["gradient_bytes", "gradient"], ["parameter_bytes", "parameters"], ["optimizer_bytes", "optimizer"],
  ["env_bytes", "environments"], ["library_bytes", "library"], ["program_bytes", "Python and JAX"], ["compiler_bytes", "compiler"]];

function drawMemory({ plan, memory_error: problem }) {
  const memory = plan.memory;
  const total = machine.gigabytes * 1e9;
  const scale = Math.max(total, memory.peak_bytes);
  const share = memory.peak_bytes / total;
  const data = memory.rollout_bytes + memory.replay_bytes;
  const label = `Peak ${bytes(memory.peak_bytes)} of ${machine.gigabytes} GB ${machine.kind}`;
  const largest = PARTS.map(([name, text]) => [text, memory[name]]).filter(([, size]) => size > 0).sort((a, b) => b[1] - a[1]).slice(0, 5);
  replace(output.memory, h("h2", { id: "memory-title" }, "Memory"),
    h("div", { class: "meter", role: "img", "aria-label": label },
      h("span", { class: "data", style: `width:${100 * data / scale}%` }),
      h("span", { class: share > 1 ? "over" : "rest", style: `width:${100 * (memory.peak_bytes - data) / scale}%` }),
      share > 1 && h("span", { class: "limit", style: `left:${100 * total / scale}%` })),
    h("p", {}, h("strong", { class: share > 1 ? "bad" : "" }, label), ` (${number(100 * share)} %). `,
      `${plan.transition_batch_size ? "Replay buffer and iteration" : "Rollout"}: ${bytes(data)}${memory.observation_known ? "" : ", without observations: give their shape"}.`),
    h("p", { class: "muted" }, "Largest parts: ", largest.map(([text, size]) => `${text} ${bytes(size)}`).join(" · "), ". Estimated for training with Rollshape."),
    problem && h("div", { class: "finding error" }, severity("error"), h("div", {}, h("p", {}, problem.message), h("p", { class: "muted" }, problem.fix)),
      problem.alternatives.length > 0 && applyButton(pageSizes(problem.alternatives[0]))));
}

// The page asks for a number of minibatches; a size in an alternative becomes the planner's choice.
function pageSizes(changes) {
  const { minibatch_size: size, ...others } = changes;
  return size === undefined ? others : { ...others, num_minibatches: null };
}

function applyButton(changes) {
  const text = Object.entries(changes).filter(([name, value]) => name in NAMES && value !== null && value !== state[name])
    .map(([name, value]) => `${NAMES[name]} ${integer(value)}`).join(", ") || Object.entries(changes).filter(([, value]) => value !== null).map(([name, value]) => `${name} ${value}`).join(", ");
  return h("button", { type: "button", class: "small apply", onclick: () => {
    for (const [name, value] of Object.entries(changes)) {
      if (value === null) delete state[name];
      else state[name] = value;
    }
    update(performance.now());
  } }, `Apply: ${text}`);
}

function drawFindings(findings, fixes) {
  const count = findings.filter(({ severity: level }) => level !== "info").length;
  const focused = document.activeElement?.closest("[data-rule]")?.dataset.rule;
  replace(output.findings, h("h2", { id: "findings-title" }, "Findings", h("span", { class: "muted" }, findings.length ? ` ${count ? `${count} to look at` : "only notes"}` : "")),
    findings.length === 0 && h("p", { class: "good" }, "✓ No rule of thumb objects to this plan."),
    findings.map((finding, i) => h("div", { class: `finding ${finding.severity}`, "data-rule": finding.rule }, severity(finding.severity),
      h("div", {}, h("p", {}, finding.message), h("p", { class: "muted" }, finding.fix, " ", why(finding))),
      fixes?.[i] && applyButton(fixes[i]))));
  if (focused) output.findings.querySelector(`[data-rule="${focused}"] summary`)?.focus({ preventScroll: true });
}

function why(finding) {
  const body = h("div", { class: "why" });
  return h("details", { class: "inline", ontoggle: async (event) => {
    if (!event.target.open || body.childNodes.length) return;
    const page = await call("explain", { rule: finding.rule });
    replace(body, page.text?.split("\n\n").map((text) => h("p", {}, text.replace(/\n/g, " "))), h("p", {}, `Source: ${page.source}.`));
  } }, h("summary", { "aria-label": `Why: ${finding.rule}` }, "why?"), body);
}

// What takes longer than a frame comes after the picture: fixes, and the config of a library.
async function complete() {
  const asked = JSON.stringify(state);
  const result = await call("planner", { ...request(), fixes: true });
  if (JSON.stringify(state) !== asked || !root.contains(controls) || !result.plan) return;
  drawFindings(result.plan.findings, result.fixes);
  await drawConfig();
  root.dataset.settled = asked;
}

async function drawTargets() {
  const names = await call("targets", { algo: state.algo });
  if (!root.contains(controls)) return;
  if (!names.some(({ name }) => name === target) || (target === "sb3" && state.algo === "a2c")) target = names[0]?.name ?? "";
  const tabs = [...(state.algo === "a2c" ? ["sb3:a2c", "torchrl:a2c"] : []), ...COMMON].map((name) => names.find((item) => item.name === name)).filter(Boolean);
  if (!tabs.length) tabs.push(...names);
  const others = names.filter((item) => !tabs.includes(item)).sort((a, b) => a.library.localeCompare(b.library));
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": "Libraries" }, tabs.map(({ name, library }) =>
    h("button", { type: "button", role: "tab", id: `tab-${name}`, title: library, "aria-controls": "config-text",
      onclick: () => chooseTarget(name), onkeydown: (event) => moveTab(event, tabs) }, name)));
  const select = others.length > 0 && h("select", { id: "other-libraries", "aria-label": "Other libraries", onchange: (event) => event.target.value && chooseTarget(event.target.value) },
    h("option", { value: "" }, `${others.length} more libraries…`), others.map(({ name, library }) => h("option", { value: name }, `${library} (${name})`)));
  replace(output.configs, h("h2", { id: "configs-title" }, "Config for your library"),
    names.length ? h("div", { class: "targets" }, list, select) : h("p", { class: "muted" }, "SAC has no other library to write this plan for. On the command line: rollshape plan --algo sac."),
    names.length && h("div", { id: "config-text", role: "tabpanel" }));
  markTarget();
  if (answer) drawConfig();
}

function moveTab(event, names) {
  const index = names.findIndex(({ name }) => `tab-${name}` === event.target.id);
  const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: names.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const { name } = names[(to + names.length) % names.length];
  chooseTarget(name);
  document.getElementById(`tab-${name}`).focus();
}

// Selects the tab of the library, or its entry in the list; the first tab is in the order of the keyboard then.
function markTarget() {
  const tabs = [...output.configs.querySelectorAll("[role=tab]")];
  const current = tabs.find((tab) => tab.id === `tab-${target}`);
  for (const tab of tabs) {
    tab.setAttribute("aria-selected", String(tab === current));
    tab.tabIndex = tab === (current ?? tabs[0]) ? 0 : -1;
  }
  const select = output.configs.querySelector("#other-libraries");
  if (select) { select.value = current ? "" : target; select.classList.toggle("on", !current); }
  output.configs.querySelector("#config-text")?.setAttribute("aria-labelledby", current?.id ?? "other-libraries");
}

function chooseTarget(name) {
  target = name;
  markTarget();
  writeQuery();
  drawConfig();
}

async function drawConfig() {
  const box = output.configs.querySelector("#config-text");
  if (!box || !target) return;
  const wanted = target;
  const document_ = await call("written", { ...state, to: wanted });
  if (wanted !== target || !box.isConnected) return;
  if (document_.error) { replace(box, errorBox(document_.error)); return; }
  replace(box,
    h("div", { class: "code-box" }, copyButton(document_.text), h("pre", { class: "code", tabindex: "0", "aria-label": `Config for ${wanted}` }, document_.text)),
    h("details", { open: document_.not_preserved.length < 5 }, h("summary", {}, document_.not_preserved.length ? `${document_.not_preserved.length} differences: what is not preserved` : "Everything is preserved"),
      h("ul", {}, document_.not_preserved.map((line) => h("li", {}, line)))),
    document_.notes.length > 0 && h("ul", { class: "muted" }, document_.notes.map((line) => h("li", {}, line))));
}
